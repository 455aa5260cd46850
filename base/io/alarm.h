/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One deadline on CLOCK_MONOTONIC, by timerfd. Unlike a timer of libuv, which is handed to the
 * kernel anew with every wait, it costs nothing until it is set to another time.
 */
#ifndef PFL_BASE_IO_ALARM_H
#define PFL_BASE_IO_ALARM_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define PFL_ALARM_NEVER UINT64_MAX

struct pfl_alarm {
    uv_poll_t poll;
    int fd; /* owned */
    uint64_t at_ms;
    void (*on_alarm)(void *user);
    void *user; /* borrowed */
};

/* Not set yet. `self` must stay where it is until the loop has run after the close. PFL_EIO. */
PFL_MUST_USE int pfl_alarm_open(struct pfl_alarm *self, uv_loop_t *loop,
                                void (*on_alarm)(void *user), void *user);
/* Rings once, at `at_ms` or soon after; at once when that is over; PFL_ALARM_NEVER: not at all. */
void pfl_alarm_set(struct pfl_alarm *self, uint64_t at_ms);
void pfl_alarm_close(struct pfl_alarm *self);

#endif
