/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One deadline on CLOCK_MONOTONIC, by timerfd. libuv passes its timers to the kernel with every
 * wait; this one costs nothing until it is set to another time.
 */
#ifndef PFL_BASE_IO_DEADLINE_TIMER_H
#define PFL_BASE_IO_DEADLINE_TIMER_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define PFL_DEADLINE_NEVER UINT64_MAX

struct pfl_deadline_timer {
    uv_poll_t poll;
    int fd; /* owned */
    uint64_t at_ms;
    void (*on_deadline)(void *user);
    void *user; /* borrowed */
};

/* Not set yet. `self` must stay where it is until the loop has run after the close. PFL_EIO. */
PFL_MUST_USE int pfl_deadline_timer_open(struct pfl_deadline_timer *self, uv_loop_t *loop,
                                         void (*on_deadline)(void *user), void *user);
/* Expires once, at `at_ms` or soon after; at once if that is past; PFL_DEADLINE_NEVER: never. */
void pfl_deadline_timer_set(struct pfl_deadline_timer *self, uint64_t at_ms);
void pfl_deadline_timer_close(struct pfl_deadline_timer *self);

#endif
