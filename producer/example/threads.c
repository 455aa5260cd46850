/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example's threads: one step, then sleep until the next is due.
 *
 * A thread without a session only checks the data source's active bits. Steps are due at multiples
 * of the period since the thread's start; late steps are made up for, at most a second's worth.
 * With --count the last thread to end ends the program.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer/example/example.h"

/* Far from the heap: the example is built like any program outside, without the library's. */
static char text[EXAMPLE_SIZE_MAX];

static uint64_t monotonic_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_ending(const struct example *ex)
{
    return __atomic_load_n(&ex->is_ending, __ATOMIC_RELAXED) != 0;
}

static void add_stats(struct perfleet_writer_stats *sum, const struct perfleet_writer_stats *more)
{
    sum->packets += more->packets;
    sum->dropped += more->dropped;
    sum->stalls += more->stalls;
    sum->chunks += more->chunks;
}

/* Counts what this step added to the writer's numbers, whichever writer it was. */
static void step(struct example_thread *t)
{
    struct example *ex = t->example;
    struct perfleet_writer_stats before;
    struct perfleet_writer_stats after;
    struct perfleet_writer *w;

    if (ex->has_track_events) {
        t->stats.packets += example_write_track_events(t);
        t->steps++;
        return;
    }
    PERFLEET_TRACE(ex->source, w)
    {
        perfleet_writer_stats_get(w, &before);
        /* every packet so far has its number, those that were dropped too */
        example_write_load(t, w, (uint32_t)(before.packets + before.dropped));
        perfleet_writer_stats_get(w, &after);
        after.packets -= before.packets;
        after.dropped -= before.dropped;
        after.stalls -= before.stalls;
        after.chunks -= before.chunks;
        add_stats(&t->stats, &after);
    }
    t->steps++;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

/* Without a session it only waits. */
static void wait_for_session(const struct example *ex)
{
    while (!is_ending(ex) && !example_has_listeners(ex))
        sleep_until(monotonic_ns() + 1000000);
}

static void run_paced(struct example_thread *t)
{
    struct example *ex = t->example;
    uint64_t period_ns = 1000000000u / ex->rate;
    uint64_t next_ns = monotonic_ns();

    for (uint64_t n = 0; !is_ending(ex) && (ex->count == 0 || n < ex->count); n++) {
        uint64_t now_ns;

        if (!example_has_listeners(ex)) {
            wait_for_session(ex);
            next_ns = monotonic_ns();
        }
        step(t);
        next_ns += period_ns;
        now_ns = monotonic_ns();
        if (now_ns > next_ns + 1000000000u)
            next_ns = now_ns;
        if (now_ns + 50000 < next_ns)
            sleep_until(next_ns);
    }
}

static void run_flat_out(struct example_thread *t)
{
    struct example *ex = t->example;
    uint64_t n = 0;

    while (!is_ending(ex) && (ex->count == 0 || n < ex->count)) {
        uint64_t start_ns;

        wait_for_session(ex);
        start_ns = monotonic_ns();
        while (example_has_listeners(ex) && !is_ending(ex) && (ex->count == 0 || n < ex->count)) {
            step(t);
            n++;
        }
        t->busy_ns += monotonic_ns() - start_ns;
    }
}

static void *run(void *arg)
{
    struct example_thread *t = arg;
    struct example *ex = t->example;

    snprintf(t->queue_name, sizeof(t->queue_name), "load-%u", t->index);
    pthread_setname_np(pthread_self(), t->queue_name);
    snprintf(t->queue_name, sizeof(t->queue_name), "queue of load-%u", t->index);
    t->queue = (struct perfleet_track)PERFLEET_COUNTER_TRACK(t->queue_name, "requests", NULL);
    if (ex->rate == 0)
        run_flat_out(t);
    else
        run_paced(t);
    perfleet_track_event_flush();
    if (__atomic_sub_fetch(&ex->running, 1, __ATOMIC_ACQ_REL) == 0)
        kill(getpid(), SIGTERM);
    return NULL;
}

int example_start(struct example *ex)
{
    for (uint64_t i = 0; i < ex->size_bytes; i++)
        text[i] = (char)('a' + i % 26);
    ex->text = text;
    ex->running = ex->threads_len;
    for (uint32_t i = 0; i < ex->threads_len; i++) {
        struct example_thread *t = &ex->threads[i];

        t->example = ex;
        t->index = i;
        if (pthread_create(&t->id, NULL, run, t) != 0) {
            ex->threads_len = i;
            example_join(ex);
            return PERFLEET_ESYSTEM;
        }
    }
    return 0;
}

void example_join(struct example *ex)
{
    __atomic_store_n(&ex->is_ending, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < ex->threads_len; i++)
        pthread_join(ex->threads[i].id, NULL);
}
