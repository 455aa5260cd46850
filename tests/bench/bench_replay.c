/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_replay SOCKET FILE TIMES: a producer that writes recorded packets again.
 *
 * FILE has packets, each after its length (32 bits, little endian), without the fields that only a
 * service may write; readout.py makes it of a trace. When a session starts, all of them are written
 * TIMES times, on one sequence, none dropped. Says "registered", then "written PACKETS BYTES", and
 * waits for a signal. Failures: in words, exit 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "producer/perfleet.h"

static int started[2]; /* a pipe: one byte is an instance */

static void on_start(void *user, uint32_t instance)
{
    uint8_t number = (uint8_t)instance;

    (void)user;
    if (write(started[1], &number, 1) != 1)
        abort();
}

static void write_all(struct perfleet_writer *w, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint32_t len;

        memcpy(&len, at, sizeof(len));
        at += sizeof(len);
        perfleet_packet_begin(w);
        perfleet_raw(w, at, len);
        perfleet_packet_end(w);
        at += len;
    }
}

static void serve(struct perfleet_source *source, const char *path, long times)
{
    FILE *file = fopen(path, "rbe");
    struct stat st;
    const uint8_t *data;
    uint8_t instance;

    if (file == NULL || fstat(fileno(file), &st) != 0)
        abort();
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (data == MAP_FAILED)
        abort();
    while (read(started[0], &instance, 1) == 1) {
        struct perfleet_writer_stats stats;
        struct perfleet_writer *w;

        if (perfleet_writer_open(source, instance, &w) != 0)
            continue;
        for (long i = 0; i < times; i++)
            write_all(w, data, data + st.st_size);
        perfleet_writer_stats_get(w, &stats);
        perfleet_writer_close(w);
        printf("written %llu %lld\n", (unsigned long long)stats.packets,
               (long long)st.st_size * times);
    }
}

int main(int argc, char **argv)
{
    struct perfleet_conf conf = {.producer_name = "bench_replay", .smb_kb = 4096};
    struct perfleet_source_conf source_conf = {
        .name = "com.example.replay", .policy = PERFLEET_STALL, .on_start = on_start};
    struct perfleet_source *source;
    struct perfleet *tracing;

    if (argc != 4 || pipe(started) != 0) {
        fprintf(stderr, "usage: bench_replay SOCKET FILE TIMES\n");
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    conf.socket = argv[1];
    if (perfleet_open(&conf, &tracing) != 0 ||
        perfleet_register(tracing, &source_conf, &source) != 0 ||
        perfleet_wait_connected(tracing, 20000) != 0) {
        fprintf(stderr, "bench_replay: no service at %s\n", argv[1]);
        return 1;
    }
    printf("registered\n");
    serve(source, argv[2], strtol(argv[3], NULL, 10));
    return 0;
}
