/* SPDX-License-Identifier: Apache-2.0 */
/* The two signals on a loop: see log_signals.h. Failure: a signal that cannot be watched keeps its
 * default, which ends the process; that is logged. */
#include "base/io/log_signals.h"

#include <signal.h>

#include "base/log.h"

static void on_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    pfl_log_on_signal(number);
}

void pfl_log_signals_open(struct pfl_log_signals *self, uv_loop_t *loop)
{
    static const int numbers[2] = {SIGUSR1, SIGUSR2};

    for (unsigned i = 0; i < 2; i++) {
        if (uv_signal_init(loop, &self->signals[i]) != 0)
            break;
        self->signals_len++;
        if (uv_signal_start(&self->signals[i], on_signal, numbers[i]) != 0)
            pfl_log_warn("signal-not-watched", "signal=%d", numbers[i]);
        uv_unref((uv_handle_t *)&self->signals[i]);
    }
}

void pfl_log_signals_close(struct pfl_log_signals *self)
{
    for (unsigned i = 0; i < self->signals_len; i++)
        uv_close((uv_handle_t *)&self->signals[i], NULL);
    self->signals_len = 0;
}
