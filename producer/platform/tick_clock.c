/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boot time as a line over a CPU counter, which is cheaper to read than the kernel's clock.
 *
 * Happy path: a reading of both clocks begins a line, the rate measured since an earlier reading is
 * its slope, and it is valid for PFL_TICK_CLOCK_WINDOW_NS. Then the next caller takes the next
 * reading. The rate is measured again every RATE_NS. Errors do not add up: each line begins at boot
 * time, with an error of at most half a reading (took_max / 2).
 *
 *   boot time |            . /     the line before must have come close to the new reading;
 *             |         . x        if not, the counter or the kernel's clock has jumped, or one
 *             |      . /           of them goes at another rate
 *             |   . x
 *             +---------- ticks    x: readings, WINDOW apart or more
 *
 * Failures: after a line that missed, its data is discarded, and the kernel's clock is used for a
 * while, twice as long if it happens again within FAILURES_NS; then two rates are measured before a
 * line is used. So after a suspend, a migration of the process, or a faulty counter the time is
 * wrong for one window at most, and only while the counter continues undisturbed. Limits: a pause
 * of PAUSE_NS without a reading restarts it, too. Ownership: none. Members without _Atomic belong
 * to the thread that has the turn.
 */
#include "producer/platform/tick_clock.h"

#define RATE_NS                                                                                    \
    2000000u                     /* a rate over less than this is not measured: half a reading of  \
                                    error at both ends is 50 to 250 millionths */
#define RATES_TO_USE 2u          /* the second shows that the first was right */
#define PAUSE_NS     1000000000u /* shifted by 32 it still is 64 bits */
#define MISS_NS      1000u       /* by which a line may miss ... */
#define MISS_SHARE   1024u       /* ... and this part of the time since */
#define REST_NS      4000000u
#define REST_SHIFT   14u /* at most a minute */
#define FAILURES_NS  60000000000u

/* Acquire: pairs with the release of give_back, for what has no _Atomic. */
bool pfl_tick_clock_try_take(struct pfl_tick_clock *self)
{
    uint32_t turn = atomic_load_explicit(&self->turn, memory_order_relaxed);

    return (turn & 1) == 0 &&
           atomic_compare_exchange_strong_explicit(&self->turn, &turn, turn + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Release: a reader of the even turn reads the line that it was released with, or a newer one. */
void pfl_tick_clock_give_back(struct pfl_tick_clock *self)
{
    uint32_t turn = atomic_load_explicit(&self->turn, memory_order_relaxed);

    atomic_store_explicit(&self->turn, turn + 1, memory_order_release);
}

static void set(_Atomic(uint64_t) *to, uint64_t value)
{
    /* Release: a reader that sees it sees the odd turn, too. */
    atomic_store_explicit(to, value, memory_order_release);
}

static uint64_t get(const _Atomic(uint64_t) *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static void begin_again(struct pfl_tick_clock *self, uint64_t ticks, uint64_t ns)
{
    self->ref_ticks = ticks;
    self->ref_ns = ns;
    self->rates = 0;
    set(&self->window, 0);
}

void pfl_tick_clock_rest(struct pfl_tick_clock *self, uint64_t now_ns)
{
    if (now_ns > get(&self->rest_until_ns) + FAILURES_NS)
        self->failures = 0;
    set(&self->rest_until_ns, now_ns + ((uint64_t)REST_NS << self->failures));
    self->failures += self->failures < REST_SHIFT;
    begin_again(self, 0, 0);
}

void pfl_tick_clock_forget(struct pfl_tick_clock *self)
{
    begin_again(self, 0, 0);
    self->failures = 0;
    set(&self->rest_until_ns, 0);
    atomic_store_explicit(&self->turn, 0, memory_order_release);
}

/* Did the line come where boot time is now? */
static bool has_met(const struct pfl_tick_clock *self, uint64_t ticks, uint64_t ns)
{
    uint64_t since_ns = ns - get(&self->ns);
    uint64_t delta = ticks - get(&self->ticks);
    uint64_t line_ns;

    if (since_ns > PAUSE_NS || delta > UINT64_MAX / get(&self->ns_per_tick))
        return false;
    line_ns = delta * get(&self->ns_per_tick) >> 32;
    return (line_ns > since_ns ? line_ns - since_ns : since_ns - line_ns) <=
           MISS_NS + since_ns / MISS_SHARE;
}

/* Since the reference, which moves here. False: no counter that is of use has this rate. */
static bool measure_rate(struct pfl_tick_clock *self, uint64_t ticks, uint64_t ns)
{
    uint64_t delta = ticks - self->ref_ticks;
    uint64_t since_ns = ns - self->ref_ns;

    /* 10 GHz to 10 MHz. */
    if (delta < since_ns / 100 || delta / 10 > since_ns)
        return false;
    set(&self->ns_per_tick, (since_ns << 32) / delta);
    set(&self->window, 0);
    self->ref_ticks = ticks;
    self->ref_ns = ns;
    self->rates++;
    return true;
}

bool pfl_tick_clock_renew(struct pfl_tick_clock *self, const struct pfl_tick_reading *reading)
{
    uint64_t took = reading->ticks_after - reading->ticks;
    uint64_t ticks = reading->ticks + took / 2;
    uint64_t ns = reading->ns;

    if (took > reading->took_max)
        return false;
    if (self->ref_ns == 0 || ns - self->ref_ns > PAUSE_NS) {
        begin_again(self, ticks, ns);
        return true;
    }
    if ((self->rates > 0 && !has_met(self, ticks, ns)) ||
        (ns - self->ref_ns >= RATE_NS && !measure_rate(self, ticks, ns))) {
        pfl_tick_clock_rest(self, ns);
        return true;
    }
    set(&self->ticks, ticks);
    set(&self->ns, ns);
    if (self->rates >= RATES_TO_USE)
        set(&self->window, ((uint64_t)PFL_TICK_CLOCK_WINDOW_NS << 32) / get(&self->ns_per_tick));
    return true;
}
