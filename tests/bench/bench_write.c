/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer that writes flat out and loses nothing (stall policy): the load of the benchmarks, on
 * any compatible service.
 *
 * Usage: bench_fill [--packets N] [--bytes B] [--track-events] [--smb-kb K]
 *
 * Waits until a session wants the data source `perfleet.bench`, writes N packets (0: until the
 * session stops) of B bytes each on the wire, or small track events, and prints one line of
 * key=value on stdout. It then stays connected until its stdin ends. The service is found by
 * PERFETTO_PRODUCER_SOCK_NAME.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet.h"

/* Fields of TracePacket, TestEvent and TrackEvent. */
enum {
    PACKET_TIMESTAMP = 8,
    PACKET_TRACK_EVENT = 11,
    PACKET_FOR_TESTING = 900,
    TEST_STR = 1,
    TEST_SEQ_VALUE = 2,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
};

struct options {
    uint64_t packets;
    uint32_t bytes;
    uint32_t smb_kb;
    bool is_track_events;
};

static atomic_bool is_started;
static char padding[65536];

static void on_start(void *user, uint32_t instance)
{
    (void)user;
    (void)instance;
    atomic_store(&is_started, true);
}

static void write_test_packet(struct perfleet_writer *w, uint64_t number, uint32_t bytes)
{
    /* What surrounds the string: timestamp 9 or so, two nested headers, seq_value. */
    uint32_t str_bytes = bytes > 24 ? bytes - 24 : 1;

    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_FOR_TESTING);
    perfleet_bytes(w, TEST_STR, padding, str_bytes);
    perfleet_uint(w, TEST_SEQ_VALUE, (uint32_t)number);
    perfleet_end(w);
    perfleet_packet_end(w);
}

static void write_track_event(struct perfleet_writer *w, uint64_t number)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP, perfleet_time_ns());
    perfleet_begin(w, PACKET_TRACK_EVENT);
    perfleet_uint(w, EVENT_TYPE, 1 + (number & 1)); /* slice begin, slice end */
    perfleet_uint(w, EVENT_TRACK_UUID, 7);
    if ((number & 1) == 0)
        perfleet_uint(w, EVENT_NAME_IID, 1 + (number / 2 & 15));
    perfleet_end(w);
    perfleet_packet_end(w);
}

/* Returns how many were written; ends early when the session does. */
static uint64_t write_packets(struct perfleet_source *source, const struct options *o)
{
    struct perfleet_writer *w = NULL;
    uint64_t n = 0;

    while (o->packets == 0 || n < o->packets) {
        uint32_t mask = perfleet_active(source);

        if (mask == 0 || (w = perfleet_next_writer(source, &mask)) == NULL)
            break;
        if (o->is_track_events)
            write_track_event(w, n);
        else
            write_test_packet(w, n, o->bytes);
        n++;
    }
    if (w != NULL)
        perfleet_writer_flush(w);
    return n;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--track-events") == 0)
            o->is_track_events = true;
        else if (strcmp(argv[i], "--packets") == 0 && i + 1 < argc)
            o->packets = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
            o->bytes = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--smb-kb") == 0 && i + 1 < argc)
            o->smb_kb = (uint32_t)strtoul(argv[++i], NULL, 10);
        else
            return false;
    }
    return o->bytes < sizeof(padding);
}

static void run(struct perfleet *tracing, struct perfleet_source *source, const struct options *o)
{
    struct timespec nap = {.tv_nsec = 1000000};
    uint64_t begin_ns, packets;
    char byte;

    while (!atomic_load(&is_started))
        nanosleep(&nap, NULL);
    begin_ns = perfleet_time_ns();
    packets = write_packets(source, o);
    (void)perfleet_sync(tracing, 10000);
    printf("packets=%llu fill_seconds=%.3f\n", (unsigned long long)packets,
           (double)(perfleet_time_ns() - begin_ns) / 1e9);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

int main(int argc, char **argv)
{
    struct options o = {.bytes = 512};
    struct perfleet_conf conf = {.producer_name = "perfleet.bench"};
    struct perfleet_source_conf source_conf = {
        .name = "perfleet.bench", .policy = PERFLEET_STALL, .on_start = on_start};
    struct perfleet_source *source;
    struct perfleet *tracing;

    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_fill [--packets N] [--bytes B] [--track-events] "
                        "[--smb-kb K]\n");
        return 2;
    }
    memset(padding, 'x', sizeof(padding));
    conf.smb_kb = o.smb_kb;
    if (perfleet_open(&conf, &tracing) != 0 ||
        perfleet_register(tracing, &source_conf, &source) != 0 ||
        perfleet_wait_connected(tracing, 10000) != 0) {
        fprintf(stderr, "bench_fill: no service\n");
        return 1;
    }
    fprintf(stderr, "connected\n");
    run(tracing, source, &o);
    perfleet_close(tracing);
    return 0;
}
