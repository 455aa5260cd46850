/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libperfleet costs the program that writes: nanoseconds for each packet, flat out.
 *
 * Usage: bench_write [--packets N] [--threads T] [--bytes B] [--track-events] [--stall]
 *                    [--smb-kb K] [--rate R] [--warm-up N] [--kernel-clock]
 *
 * Waits until a session wants the data source `perfleet.bench`; each thread writes N TracePacket
 * {timestamp, for_testing {seq_value, str of B bytes}}, or slices of a track event's size, and it
 * prints one line of key=value on stdout, then stays connected until its stdin ends. The service
 * is found by PERFETTO_PRODUCER_SOCK_NAME. Without --stall a packet that finds no memory is
 * dropped. With --rate the packets are spread evenly, the thread never sleeps. N packets of
 * warm-up come first and count for nothing: a service's buffer costs page faults in its first turn.
 * With --kernel-clock time stamps are clock_gettime's and not the library's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet.h"

#define LATE_NS 50000.0

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
    uint64_t warm_up;
    uint32_t bytes;
    uint32_t threads;
    uint32_t smb_kb;
    uint32_t rate; /* packets a second, evenly; 0: flat out */
    bool is_track_events;
    bool is_stalling;
    bool is_kernel_clock;
};

#define THREADS_MAX 1024u

struct thread {
    const struct options *options;
    struct perfleet_source *source;
    pthread_t id;
    uint64_t ns;
    uint64_t cpu_ns;
    struct perfleet_writer_stats stats;
};

static atomic_bool is_started;
static struct thread threads[THREADS_MAX];
static char padding[65536];

static void on_start(void *user, uint32_t instance)
{
    (void)user;
    (void)instance;
    atomic_store(&is_started, true);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_test_packet(struct perfleet_writer *w, uint64_t number, const struct options *o)
{
    perfleet_packet_begin(w);
    perfleet_uint(w, PACKET_TIMESTAMP,
                  o->is_kernel_clock ? read_clock(CLOCK_BOOTTIME) : perfleet_time_ns());
    perfleet_begin(w, PACKET_FOR_TESTING);
    perfleet_uint(w, TEST_SEQ_VALUE, (uint32_t)number);
    perfleet_bytes(w, TEST_STR, padding, o->bytes);
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

/* What was late by more than LATE_NS is not made up for: that would be a burst. */
static void wait_until_due(double *due_ns, double period_ns)
{
    double now_ns;

    do {
        now_ns = (double)(int64_t)perfleet_time_ns();
    } while (now_ns < *due_ns);
    *due_ns = now_ns > *due_ns + LATE_NS ? now_ns : *due_ns + period_ns;
}

static void write_packets(struct perfleet_source *source, const struct options *o, uint64_t packets)
{
    struct perfleet_writer *w;

    double due_ns = (double)perfleet_time_ns();

    for (uint64_t n = 0; n < packets; n++) {
        if (o->rate != 0)
            wait_until_due(&due_ns, 1e9 / o->rate);
        PERFLEET_TRACE(source, w)
        {
            if (o->is_track_events)
                write_track_event(w, n);
            else
                write_test_packet(w, n, o);
        }
    }
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--track-events") == 0)
            o->is_track_events = true;
        else if (strcmp(argv[i], "--stall") == 0)
            o->is_stalling = true;
        else if (strcmp(argv[i], "--kernel-clock") == 0)
            o->is_kernel_clock = true;
        else if (strcmp(argv[i], "--packets") == 0 && i + 1 < argc)
            o->packets = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--warm-up") == 0 && i + 1 < argc)
            o->warm_up = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
            o->bytes = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o->threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--rate") == 0 && i + 1 < argc)
            o->rate = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--smb-kb") == 0 && i + 1 < argc)
            o->smb_kb = (uint32_t)strtoul(argv[++i], NULL, 10);
        else
            return false;
    }
    return o->bytes <= sizeof(padding) && o->packets != 0 && o->threads > 0 &&
           o->threads <= THREADS_MAX;
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct perfleet_writer_stats before = {0};
    uint64_t begin_ns, begin_cpu_ns;
    struct perfleet_writer *w;

    write_packets(t->source, t->options, t->options->warm_up);
    PERFLEET_TRACE(t->source, w)
    perfleet_writer_stats_get(w, &before);
    begin_ns = read_clock(CLOCK_MONOTONIC);
    begin_cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    write_packets(t->source, t->options, t->options->packets);
    t->ns = read_clock(CLOCK_MONOTONIC) - begin_ns;
    t->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
    PERFLEET_TRACE(t->source, w)
    {
        perfleet_writer_flush(w);
        perfleet_writer_stats_get(w, &t->stats);
    }
    t->stats.dropped -= before.dropped;
    t->stats.stalls -= before.stalls;
    return NULL;
}

static void run(struct perfleet *tracing, struct perfleet_source *source, const struct options *o)
{
    struct thread sum = {0};
    struct timespec nap = {.tv_nsec = 1000000};
    uint64_t all = o->packets * o->threads;
    char byte;

    while (!atomic_load(&is_started))
        nanosleep(&nap, NULL);
    for (uint32_t i = 0; i < o->threads; i++) {
        threads[i] = (struct thread){.options = o, .source = source};
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < o->threads; i++) {
        pthread_join(threads[i].id, NULL);
        sum.ns = threads[i].ns > sum.ns ? threads[i].ns : sum.ns;
        sum.cpu_ns += threads[i].cpu_ns;
        sum.stats.dropped += threads[i].stats.dropped;
        sum.stats.stalls += threads[i].stats.stalls;
    }
    (void)perfleet_sync(tracing, 10000);
    printf("done packets=%llu dropped=%llu stalls=%llu ns_per_packet=%.2f cpu_ns_per_packet=%.2f\n",
           (unsigned long long)all, (unsigned long long)sum.stats.dropped,
           (unsigned long long)sum.stats.stalls, (double)sum.ns / (double)o->packets,
           (double)sum.cpu_ns / (double)all);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

int main(int argc, char **argv)
{
    struct options o = {.packets = 1000000, .bytes = 512, .threads = 1};
    struct perfleet_conf conf = {.producer_name = "perfleet.bench"};
    struct perfleet_source_conf source_conf = {.name = "perfleet.bench", .on_start = on_start};
    struct perfleet_source *source;
    struct perfleet *tracing;

    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_write [--packets N] [--threads T] [--bytes B] "
                        "[--track-events] [--stall] [--smb-kb K] [--rate R] [--warm-up N] "
                        "[--kernel-clock]\n");
        return 2;
    }
    memset(padding, 'x', sizeof(padding));
    conf.smb_kb = o.smb_kb;
    source_conf.policy = o.is_stalling ? PERFLEET_STALL : PERFLEET_DROP;
    if (perfleet_open(&conf, &tracing) != 0 ||
        perfleet_register(tracing, &source_conf, &source) != 0 ||
        perfleet_wait_connected(tracing, 10000) != 0) {
        fprintf(stderr, "bench_write: no service\n");
        return 1;
    }
    printf("registered\n");
    fflush(stdout);
    run(tracing, source, &o);
    perfleet_close(tracing);
    return 0;
}
