/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life: see watchdog.h. A timer of the loop: a loop that hangs does not call it. If no
 * timer is available no signs are sent, and the manager will restart the program.
 */
#include "base/io/watchdog.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"

static void on_deadline(void *user)
{
    struct pfl_watchdog *self = user;
    uint64_t now_ms = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;

    pfl_notify_send("WATCHDOG=1");
    pfl_deadline_timer_set(&self->timer, now_ms + self->interval_ms);
}

void pfl_watchdog_open(struct pfl_watchdog *self, uv_loop_t *loop)
{
    self->interval_ms = pfl_notify_get_watchdog_ms();
    if (self->interval_ms == 0)
        return;
    if (pfl_deadline_timer_open(&self->timer, loop, on_deadline, self) != 0) {
        pfl_log_error("watchdog-not-started", "reason=\"no descriptor\"");
        return;
    }
    uv_unref((uv_handle_t *)&self->timer.poll);
    pfl_deadline_timer_set(&self->timer, 0);
    self->is_open = true;
}

void pfl_watchdog_close(struct pfl_watchdog *self)
{
    if (self->is_open)
        pfl_deadline_timer_close(&self->timer);
    self->is_open = false;
}
