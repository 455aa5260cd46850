/* SPDX-License-Identifier: Apache-2.0 */
/* When to restart a program: see restarts.h; the waits are tunnel/backoff's. Cannot fail. */
#include "agent/supervisor/restarts.h"

#include <sys/wait.h>

#define SIGNALLED 128

bool pfl_restarts_is_due(int wait_status, bool is_stopping)
{
    if (is_stopping)
        return false;
    if (!WIFEXITED(wait_status))
        return true;
    return WEXITSTATUS(wait_status) != 0 && WEXITSTATUS(wait_status) != PFL_RESTARTS_WRONG_USAGE;
}

int pfl_restarts_exit_status(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : SIGNALLED + WTERMSIG(wait_status);
}

uint64_t pfl_restarts_wait_ms(struct pfl_restarts *self, const struct pfl_life *life,
                              uint64_t random)
{
    if (life->up_ms >= PFL_BACKOFF_PROVED_MS) {
        *self = (struct pfl_restarts){.backoff.max_ms = self->backoff.max_ms};
        return 0;
    }
    if (self->short_lives < UINT32_MAX)
        self->short_lives++;
    if (self->short_lives == 1)
        return 0;
    if (life->was_ready)
        pfl_backoff_lived(&self->backoff, life->up_ms);
    return pfl_backoff_next(&self->backoff, random);
}
