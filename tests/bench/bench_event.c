/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libperfleet's track events cost the program that writes them: nanoseconds for each call.
 *
 * Usage: bench_event [--events N] [--threads T] [--rate R] [--kind slice|instant|counter]
 *                    [--smb-kb K]
 *        bench_event --disabled
 *
 * Waits until a session wants category "load", then every thread writes N times: a slice (begin
 * with an integer argument, and end: two events), an instant with an integer argument, or a
 * counter's value; flat out, or R events a second; what finds no memory is dropped. Prints one line
 * of key=value and stays connected until its stdin ends. --disabled needs no service: it compares a
 * loop with an event that nobody wants to the same loop without.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet_track_event.h"

#define THREADS_MAX 64u
#define NS_PER_S    1000000000u
#define TURN        50u

PERFLEET_CATEGORY_DEFINE(load, "load", "Load events", NULL)
static struct perfleet_track counter = PERFLEET_COUNTER_TRACK("Counter", NULL, NULL);

enum kind { SLICE, INSTANT, COUNTER };

struct options {
    uint64_t events;
    uint64_t rate; /* of a thread; 0: flat out */
    uint32_t threads;
    uint32_t smb_kb;
    enum kind kind;
    bool is_disabled;
};

struct thread {
    const struct options *options;
    pthread_t id;
    uint64_t ns;
    uint64_t cpu_ns;
};

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_event(enum kind kind, uint64_t n)
{
    switch (kind) {
    case SLICE:
        PERFLEET_EVENT (ev, &load, PERFLEET_SLICE_BEGIN, "Slice")
            perfleet_arg(ev, "seq", n);
        PERFLEET_TRACE_EVENT_END(&load);
        break;
    case INSTANT:
        PERFLEET_EVENT (ev, &load, PERFLEET_INSTANT, "Instant")
            perfleet_arg(ev, "seq", n);
        break;
    case COUNTER:
    default:
        PERFLEET_TRACE_COUNTER(&load, &counter, (int64_t)n);
        break;
    }
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

    for (uint64_t n = 0; n < t->options->events; n++) {
        if (t->options->rate != 0)
            pace(begin_ns, n, t->options->rate);
        write_event(t->options->kind, n);
    }
    t->ns = read_clock(CLOCK_MONOTONIC) - begin_ns;
    t->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
    return NULL;
}

static void run(const struct options *o)
{
    static struct thread threads[THREADS_MAX];
    struct timespec nap = {.tv_nsec = 1000000};
    uint64_t slowest_ns = 0;
    uint64_t cpu_ns = 0;
    char byte;

    while (!perfleet_category_is_enabled(&load))
        nanosleep(&nap, NULL);
    for (uint32_t i = 0; i < o->threads; i++) {
        threads[i].options = o;
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < o->threads; i++) {
        pthread_join(threads[i].id, NULL);
        slowest_ns = threads[i].ns > slowest_ns ? threads[i].ns : slowest_ns;
        cpu_ns += threads[i].cpu_ns;
    }
    printf("done events=%llu threads=%u ns_per_packet=%.2f cpu_ns_per_packet=%.2f\n",
           (unsigned long long)o->events, o->threads, (double)slowest_ns / (double)o->events,
           (double)cpu_ns / (double)(o->events * o->threads));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

/* --- nobody listens ---------------------------------------------------------------------- */

/* Something that the compiler cannot leave out, so that both loops do the same beside the event. */
#define WORK(x) __asm__ volatile("" : "+r"(x))

static double time_loop(uint64_t rounds, bool has_event)
{
    uint64_t x = 0;
    uint64_t begin_ns = read_clock(CLOCK_MONOTONIC);

    if (has_event) {
        for (uint64_t n = 0; n < rounds; n++) {
            x += n;
            WORK(x);
            PERFLEET_EVENT (ev, &load, PERFLEET_INSTANT, "Instant")
                perfleet_arg(ev, "seq", n);
        }
    } else {
        for (uint64_t n = 0; n < rounds; n++) {
            x += n;
            WORK(x);
        }
    }
    return (double)(read_clock(CLOCK_MONOTONIC) - begin_ns) / (double)rounds;
}

static void run_disabled(uint64_t rounds)
{
    double with = 1e9;
    double without = 1e9;

    for (int i = 0; i < 5; i++) {
        double ns = time_loop(rounds, true);

        with = ns < with ? ns : with;
        ns = time_loop(rounds, false);
        without = ns < without ? ns : without;
    }
    printf("done with_ns=%.3f without_ns=%.3f disabled_ns=%.3f\n", with, without, with - without);
}

static bool parse_kind(const char *text, enum kind *ret_kind)
{
    static const char *const names[] = {"slice", "instant", "counter"};

    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_kind = (enum kind)i;
            return true;
        }
    }
    return false;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--disabled") == 0)
            o->is_disabled = true;
        else if (strcmp(argv[i], "--events") == 0 && i + 1 < argc)
            o->events = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o->threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--rate") == 0 && i + 1 < argc)
            o->rate = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--smb-kb") == 0 && i + 1 < argc)
            o->smb_kb = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--kind") != 0 || i + 1 == argc ||
                 !parse_kind(argv[++i], &o->kind))
            return false;
    }
    return o->events != 0 && o->threads > 0 && o->threads <= THREADS_MAX;
}

int main(int argc, char **argv)
{
    struct options o = {.events = 1000000, .threads = 1};
    struct perfleet_conf conf = {.producer_name = "perfleet.bench"};
    struct perfleet *tracing;

    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_event [--events N] [--threads T] [--rate R] "
                        "[--kind slice|instant|counter] [--smb-kb K] | --disabled\n");
        return 2;
    }
    if (o.is_disabled) {
        run_disabled(o.events * 100);
        return 0;
    }
    conf.smb_kb = o.smb_kb;
    if (perfleet_open(&conf, &tracing) != 0 || perfleet_track_event_register(tracing) != 0 ||
        perfleet_wait_connected(tracing, 10000) != 0) {
        fprintf(stderr, "bench_event: no service\n");
        return 1;
    }
    printf("registered\n");
    fflush(stdout);
    run(&o);
    perfleet_close(tracing);
    return 0;
}
