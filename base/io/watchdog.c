/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: see watchdog.h. A timer, because a loop that hangs runs none. Failures: none. */
#include "base/io/watchdog.h"

#include "base/notify.h"

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    pfl_notify_send("WATCHDOG=1");
}

void pfl_watchdog_open(struct pfl_watchdog *self, uv_loop_t *loop)
{
    uint64_t interval_ms = pfl_notify_get_watchdog_ms();

    if (interval_ms == 0)
        return;
    (void)uv_timer_init(loop, &self->timer);
    (void)uv_timer_start(&self->timer, on_timer, 0, interval_ms);
    uv_unref((uv_handle_t *)&self->timer);
    self->is_open = true;
}

void pfl_watchdog_close(struct pfl_watchdog *self)
{
    if (self->is_open)
        uv_close((uv_handle_t *)&self->timer, NULL);
    self->is_open = false;
}
