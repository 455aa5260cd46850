/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_writer SOCKET BLOCK-FILE HOST COUNT [RATE]: a producer whose every byte can be foretold.
 *
 * Each session gets COUNT packets on one sequence, none dropped: for_testing.seq_value counts from
 * 0, for_testing.str is HOST and that number (little endian, 32 bits each) and a piece of the block
 * file whose place and length follow from both (piece_of; tests/chaos/run computes the same). With
 * RATE it writes at most so many packets a second. Says "registered", and for each session
 * "started" and "written N". Ends with a signal. Failures: in words, exit 1. Limits: BLOCK_MAX.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet.h"

#define BLOCK_MAX   (8u << 20)
#define PIECE_MIN   100u
#define PIECE_RANGE 3900u
#define HEAD_BYTES  8u
#define TURN        64u /* packets between two looks at the clock */

enum { PACKET_TIMESTAMP = 8, PACKET_FOR_TESTING = 900 };
enum { TEST_EVENT_STR = 1, TEST_EVENT_SEQ_VALUE = 2 };

static uint8_t block[BLOCK_MAX];
static size_t block_len;
static int started[2]; /* a pipe: one byte is an instance */

static void on_start(void *user, uint32_t instance)
{
    uint8_t number = (uint8_t)instance;

    (void)user;
    if (write(started[1], &number, 1) != 1)
        abort();
}

static size_t piece_of(uint32_t host, uint32_t n, size_t *ret_len)
{
    uint64_t mix = ((uint64_t)host << 32 | n) * 0x9e3779b97f4a7c15u;

    *ret_len = PIECE_MIN + (size_t)(mix >> 40) % PIECE_RANGE;
    return (size_t)(mix >> 20) % (block_len - PIECE_MIN - PIECE_RANGE);
}

static void write_packet(struct perfleet_writer *w, uint32_t host, uint32_t n)
{
    static uint8_t text[HEAD_BYTES + PIECE_MIN + PIECE_RANGE];
    size_t len;
    size_t at = piece_of(host, n, &len);

    memcpy(text, &host, sizeof(host));
    memcpy(text + sizeof(host), &n, sizeof(n));
    memcpy(text + HEAD_BYTES, block + at, len);
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_FOR_TESTING);
    perfleet_uint(w, TEST_EVENT_SEQ_VALUE, n);
    perfleet_bytes(w, TEST_EVENT_STR, text, HEAD_BYTES + len);
    perfleet_end(w);
    perfleet_packet_end(w);
}

/* Until packet n of `rate` a second is due. */
static void wait_for_turn(uint64_t begin_ns, uint64_t n, uint64_t rate)
{
    uint64_t due_ns = begin_ns + n * 1000000000u / rate;
    struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                           .tv_nsec = (long)(due_ns % 1000000000u)};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void write_packets(struct perfleet_writer *w, uint32_t host, uint32_t count, uint64_t rate)
{
    struct timespec begin;
    uint64_t begin_ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    begin_ns = (uint64_t)begin.tv_sec * 1000000000u + (uint64_t)begin.tv_nsec;
    for (uint32_t n = 0; n < count; n++) {
        if (rate != 0 && n % TURN == 0)
            wait_for_turn(begin_ns, n, rate);
        write_packet(w, host, n);
    }
}

static void serve(struct perfleet_source *source, uint32_t host, uint32_t count, uint64_t rate)
{
    uint8_t instance;

    while (read(started[0], &instance, 1) == 1) {
        struct perfleet_writer_stats stats;
        struct perfleet_writer *w;

        printf("started\n");
        if (perfleet_writer_open(source, instance, &w) != 0) {
            printf("written 0\n");
            continue;
        }
        write_packets(w, host, count, rate);
        perfleet_writer_stats_get(w, &stats);
        perfleet_writer_close(w);
        printf("written %llu\n", (unsigned long long)stats.packets);
    }
}

static bool load_block(const char *path)
{
    FILE *file = fopen(path, "rbe");

    if (file == NULL)
        return false;
    block_len = fread(block, 1, sizeof(block), file);
    (void)fclose(file);
    return block_len > 2 * (PIECE_MIN + PIECE_RANGE);
}

int main(int argc, char **argv)
{
    struct perfleet_conf conf = {.producer_name = "chaos_writer"};
    struct perfleet_source_conf source_conf = {
        .name = "com.example.chaos", .policy = PERFLEET_STALL, .on_start = on_start};
    struct perfleet_source *source;
    struct perfleet *tracing;
    int rc;

    if ((argc != 5 && argc != 6) || !load_block(argv[2]) || pipe(started) != 0) {
        fprintf(stderr, "usage: chaos_writer SOCKET BLOCK-FILE HOST COUNT [RATE]\n");
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    conf.socket = argv[1];
    rc = perfleet_open(&conf, &tracing);
    if (rc == 0)
        rc = perfleet_register(tracing, &source_conf, &source);
    if (rc == 0)
        rc = perfleet_wait_connected(tracing, 20000);
    if (rc != 0) {
        fprintf(stderr, "chaos_writer: %s\n", perfleet_err_str(rc));
        return 1;
    }
    printf("registered\n");
    serve(source, (uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10),
          argc == 6 ? strtoull(argv[5], NULL, 10) : 0);
    return 0;
}
