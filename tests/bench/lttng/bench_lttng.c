/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tracepoint of LTTng-UST costs the program that hits it: nanoseconds for each call.
 *
 * Usage: bench_lttng [--events N] [--threads T] [--rate R]
 *
 * Waits until the tracepoint perfleet_bench:instant is enabled, then every thread hits it N times,
 * flat out, or R times a second, prints one line of key=value and stays until its stdin ends. Built
 * only where LTTng-UST is installed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng/bench_lttng_tp.inc"

#define THREADS_MAX 64u
#define NS_PER_S    1000000000u
#define TURN        50u

struct thread {
    pthread_t id;
    uint64_t events;
    uint64_t rate; /* 0: flat out */
    uint64_t ns;
    uint64_t cpu_ns;
};

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Events come in turns of TURN, RATE of them a second. */
static void pace(uint64_t begin_ns, uint64_t n, uint64_t rate)
{
    uint64_t due_ns = begin_ns + n * (NS_PER_S / rate);
    struct timespec ts = {(time_t)(due_ns / NS_PER_S), (long)(due_ns % NS_PER_S)};

    if (n % TURN == 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    uint64_t begin_ns = read_clock(CLOCK_MONOTONIC);
    uint64_t begin_cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);

    for (uint64_t n = 0; n < t->events; n++) {
        if (t->rate != 0)
            pace(begin_ns, n, t->rate);
        lttng_ust_tracepoint(perfleet_bench, instant, n);
    }
    t->ns = read_clock(CLOCK_MONOTONIC) - begin_ns;
    t->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
    return NULL;
}

static void run(uint64_t events, uint64_t rate, uint32_t threads_len)
{
    static struct thread threads[THREADS_MAX];
    struct timespec nap = {.tv_nsec = 1000000};
    uint64_t slowest_ns = 0;
    uint64_t cpu_ns = 0;
    char byte;

    while (!lttng_ust_tracepoint_enabled(perfleet_bench, instant))
        nanosleep(&nap, NULL);
    for (uint32_t i = 0; i < threads_len; i++) {
        threads[i].events = events;
        threads[i].rate = rate;
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < threads_len; i++) {
        pthread_join(threads[i].id, NULL);
        slowest_ns = threads[i].ns > slowest_ns ? threads[i].ns : slowest_ns;
        cpu_ns += threads[i].cpu_ns;
    }
    printf("done events=%llu threads=%u ns_per_packet=%.2f cpu_ns_per_packet=%.2f\n",
           (unsigned long long)events, threads_len, (double)slowest_ns / (double)events,
           (double)cpu_ns / (double)(events * threads_len));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

int main(int argc, char **argv)
{
    uint64_t events = 1000000;
    uint64_t rate = 0;
    uint32_t threads = 1;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--events") == 0)
            events = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rate") == 0)
            rate = strtoull(argv[i + 1], NULL, 10);
    }
    if (events == 0 || threads == 0 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: bench_lttng [--events N] [--threads T] [--rate R]\n");
        return 2;
    }
    printf("registered\n");
    fflush(stdout);
    run(events, rate, threads);
    return 0;
}
