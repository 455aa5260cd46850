/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the service manager signs of life (base/notify.h) as long as the loop turns. */
#ifndef PFL_BASE_IO_WATCHDOG_H
#define PFL_BASE_IO_WATCHDOG_H

#include <stdbool.h>

#include "base/io/deadline_timer.h"

struct pfl_watchdog {
    struct pfl_deadline_timer timer;
    uint64_t interval_ms;
    bool is_open;
};

/* Does nothing when the manager expects none. Keeps no loop alive. */
void pfl_watchdog_open(struct pfl_watchdog *self, uv_loop_t *loop);
/* Before the loop ends; legal when zeroed, idempotent. */
void pfl_watchdog_close(struct pfl_watchdog *self);

#endif
