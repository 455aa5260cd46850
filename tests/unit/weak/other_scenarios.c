/* SPDX-License-Identifier: Apache-2.0 */
/* Notes to the loop (base/io/wakeup.c) and the line of time stamps
 * (producer/platform/tick_clock.c). */
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "base/io/wakeup.h"
#include "producer/platform/tick_clock.h"
#include "tests/unit/weak/scenarios.h"

/* --- notes to the loop ------------------------------------------------------------------------ */

struct job {
    struct pfl_wakeup_note note; /* first: it is cast back */
    uint32_t result;             /* the thread's, then the loop's */
};

static struct pfl_wakeup wakeup;
static struct job jobs[2];
static uint32_t done;                /* jobs whose note came; the loop's */
static _Atomic(uint64_t) in_eventfd; /* the kernel's, which orders nothing here */

/* wakeup.c is compiled with these in the place of read and write. */
ssize_t pfl_weak_fd_read(int fd, void *to, size_t bytes);
ssize_t pfl_weak_fd_write(int fd, const void *from, size_t bytes);

ssize_t pfl_weak_fd_read(int fd, void *to, size_t bytes)
{
    uint64_t count = atomic_exchange_explicit(&in_eventfd, 0, memory_order_relaxed);

    (void)fd;
    memcpy(to, &count, sizeof(count));
    return count == 0 ? -1 : (ssize_t)bytes;
}

ssize_t pfl_weak_fd_write(int fd, const void *from, size_t bytes)
{
    uint64_t one;

    (void)fd;
    memcpy(&one, from, sizeof(one));
    atomic_fetch_add_explicit(&in_eventfd, one, memory_order_relaxed);
    return (ssize_t)bytes;
}

static void on_note(struct pfl_wakeup_note *note)
{
    struct job *job = (struct job *)(void *)note;

    pfl_weak_claim(job->result == 1, "a note comes once, with what its thread did before");
    job->result = 2;
    done++;
}

static void begin_wakeup(void)
{
    memset(&wakeup, 0, sizeof(wakeup));
    memset(jobs, 0, sizeof(jobs));
    jobs[0].note.on_note = on_note;
    jobs[1].note.on_note = on_note;
    done = 0;
    atomic_init(&in_eventfd, 0);
    pfl_weak_watch(jobs, sizeof(jobs));
}

static void do_job(struct job *job)
{
    job->result = 1;
    pfl_wakeup_post(&wakeup, &job->note);
}

static void post_first(void)
{
    do_job(&jobs[0]);
}

static void post_second(void)
{
    do_job(&jobs[1]);
}

/* As the loop does when the descriptor is readable. */
static void poll_once(void)
{
    uint64_t count;

    if (pfl_weak_fd_read(-1, &count, sizeof(count)) >= 0)
        pfl_wakeup_hand_out(&wakeup);
}

static void poll_twice(void)
{
    poll_once();
    poll_once();
}

/* What has not come yet is there, and a wake-up for it. */
static void all_notes_come(void)
{
    bool is_left = atomic_load_explicit(&wakeup.notes, memory_order_relaxed) != NULL;

    pfl_weak_claim(!is_left || atomic_load_explicit(&in_eventfd, memory_order_relaxed) != 0,
                   "a note waits and nobody wakes the loop");
    pfl_weak_claim(is_left || done == 2, "a note was lost");
}

/* --- the line of time stamps ------------------------------------------------------------------ */

enum { OFFSET = 5000000, LATER = 500, BEGIN = 10000000 };

static struct pfl_tick_clock tick_clock;

/* One tick a nanosecond; boot time `offset_ns` more than ticks. */
static struct pfl_tick_reading reading_at(uint64_t ticks, uint64_t offset_ns)
{
    return (struct pfl_tick_reading){
        .ticks = ticks - 10, .ns = ticks + offset_ns, .ticks_after = ticks + 10, .took_max = 512};
}

static void renew(uint64_t ticks, uint64_t offset_ns)
{
    struct pfl_tick_reading reading = reading_at(ticks, offset_ns);

    if (!pfl_tick_clock_try_take(&tick_clock))
        return;
    (void)pfl_tick_clock_renew(&tick_clock, &reading);
    pfl_tick_clock_give_back(&tick_clock);
}

static void begin_clock(void)
{
    memset(&tick_clock, 0, sizeof(tick_clock));
    for (uint64_t i = 0; i < 3; i++)
        renew(BEGIN + i * 2000000, OFFSET);
    pfl_weak_watch(&tick_clock.ref_ticks,
                   sizeof(tick_clock) - offsetof(struct pfl_tick_clock, ref_ticks));
}

static void renew_soon(void)
{
    renew(BEGIN + 4050000, OFFSET + LATER);
}

/* Measures the rate, so it writes what the one with the turn keeps for itself. */
static void renew_late(void)
{
    renew(BEGIN + 6000000, OFFSET + LATER);
}

static void tell_time(void)
{
    uint64_t ticks = BEGIN + 4060000;
    uint64_t ns;

    if (pfl_tick_clock_read(&tick_clock, ticks, &ns))
        pfl_weak_claim(ns == ticks + OFFSET || ns == ticks + OFFSET + LATER,
                       "a time is of no line: half of it is another's");
}

const struct pfl_weak_scenario pfl_other_scenarios[] = {
    {"two threads and the loop",
     begin_wakeup,
     {post_first, post_second, poll_twice},
     all_notes_come},
    {"a line is renewed while it is read", begin_clock, {renew_soon, tell_time}, NULL},
    {"a rate is measured while a line is read", begin_clock, {renew_late, tell_time}, NULL},
    {"two renew a line", begin_clock, {renew_soon, renew_late}, NULL},
};
const size_t pfl_other_scenarios_len = sizeof(pfl_other_scenarios) / sizeof(pfl_other_scenarios[0]);
