/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life: see watchdog.h. An alarm, because a loop that hangs hears none. Without a
 * descriptor for it there are no signs, and the manager will restart the program.
 */
#include "base/io/watchdog.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"

static void on_alarm(void *user)
{
    struct pfl_watchdog *self = user;
    uint64_t now_ms = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;

    pfl_notify_send("WATCHDOG=1");
    pfl_alarm_set(&self->alarm, now_ms + self->interval_ms);
}

void pfl_watchdog_open(struct pfl_watchdog *self, uv_loop_t *loop)
{
    self->interval_ms = pfl_notify_get_watchdog_ms();
    if (self->interval_ms == 0)
        return;
    if (pfl_alarm_open(&self->alarm, loop, on_alarm, self) != 0) {
        pfl_log_error("watchdog-not-started", "reason=\"no descriptor\"");
        return;
    }
    uv_unref((uv_handle_t *)&self->alarm.poll);
    pfl_alarm_set(&self->alarm, 0);
    self->is_open = true;
}

void pfl_watchdog_close(struct pfl_watchdog *self)
{
    if (self->is_open)
        pfl_alarm_close(&self->alarm);
    self->is_open = false;
}
