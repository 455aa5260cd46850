/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boot time from a CPU counter: a line through the last reading of both, valid for a short time.
 * Any number of threads read it, one at a time renews it; none waits. See tick_clock.c.
 */
#ifndef PFL_PRODUCER_TICK_CLOCK_H
#define PFL_PRODUCER_TICK_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PFL_TICK_CLOCK_WINDOW_NS 100000u /* how long a line is good */

/* Of both clocks at once: boot time was `ns` at a moment between `ticks` and `ticks_after`. */
struct pfl_tick_reading {
    uint64_t ticks;
    uint64_t ns;
    uint64_t ticks_after;
    uint64_t took_max; /* ticks: a reading that took longer is not used */
};

struct pfl_tick_clock {
    _Alignas(64) _Atomic(uint32_t) turn; /* odd: a thread renews what follows */
    _Atomic(uint64_t) ticks; /* the line: `ns` at `ticks`, for `window` ticks from there */
    _Atomic(uint64_t) ns;
    _Atomic(uint64_t) ns_per_tick; /* 32.32 */
    _Atomic(uint64_t) window;      /* 0: do not use the line */
    _Atomic(uint64_t) rest_until_ns;

    uint64_t ref_ticks; /* for the thread with the turn: start of the rate's measurement; ref_ns 0:
                           none */
    uint64_t ref_ns;
    uint64_t rates;    /* measured since the last failure */
    uint32_t failures; /* close to each other */
};

/* False: the line is too old, or being renewed, or there is none. Order: the turn's acquire pairs
 * with give_back: no value is older than the turn. Those of the values pair with set in
 * tick_clock.c: a thread that reads a newer one reads the odd turn afterwards. */
static inline bool pfl_tick_clock_read(const struct pfl_tick_clock *self, uint64_t ticks,
                                       uint64_t *ret_ns)
{
    uint32_t turn = atomic_load_explicit(&self->turn, memory_order_acquire);
    uint64_t delta = ticks - atomic_load_explicit(&self->ticks, memory_order_acquire);
    uint64_t ns = atomic_load_explicit(&self->ns, memory_order_acquire);
    uint64_t rate = atomic_load_explicit(&self->ns_per_tick, memory_order_acquire);
    uint64_t window = atomic_load_explicit(&self->window, memory_order_acquire);

    *ret_ns = ns + (delta * rate >> 32);
    return __builtin_expect(delta < window && (turn & 1) == 0 &&
                                turn == atomic_load_explicit(&self->turn, memory_order_relaxed),
                            1);
}

/* Is it suspended after a failure? */
static inline bool pfl_tick_clock_is_resting(const struct pfl_tick_clock *self, uint64_t now_ns)
{
    return now_ns < atomic_load_explicit(&self->rest_until_ns, memory_order_relaxed);
}

/* Takes the right to renew the line, until it is released. False: another thread has it. */
bool pfl_tick_clock_try_take(struct pfl_tick_clock *self);
void pfl_tick_clock_give_back(struct pfl_tick_clock *self);
/* With that right. False: the reading took too long; another may be better. */
bool pfl_tick_clock_renew(struct pfl_tick_clock *self, const struct pfl_tick_reading *reading);
/* With that right: no reading was usable, or the line is known to be wrong. */
void pfl_tick_clock_rest(struct pfl_tick_clock *self, uint64_t now_ns);
/* In the child of a fork, which has one thread: starts again. */
void pfl_tick_clock_forget(struct pfl_tick_clock *self);

#endif
