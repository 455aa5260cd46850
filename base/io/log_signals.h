/* SPDX-License-Identifier: Apache-2.0 */
/* Log levels changed at run time: SIGUSR1 one level more, SIGUSR2 back to the configured one. */
#ifndef PFL_BASE_IO_LOG_SIGNALS_H
#define PFL_BASE_IO_LOG_SIGNALS_H

#include <uv.h>

struct pfl_log_signals {
    uv_signal_t signals[2];
    unsigned signals_len; /* open */
};

/* Keeps no loop alive. If no signal handle is available, the level stays. `self` is zeroed, and
 * stays where it is until the loop has run after the close. */
void pfl_log_signals_open(struct pfl_log_signals *self, uv_loop_t *loop);
void pfl_log_signals_close(struct pfl_log_signals *self); /* legal when zeroed, idempotent */

#endif
