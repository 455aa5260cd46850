/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential waits with full jitter: see backoff.h. Cannot fail. */
#include "tunnel/backoff.h"

#define DOUBLINGS_MAX 10u

uint64_t pfl_backoff_next(struct pfl_backoff *self, uint64_t random)
{
    unsigned doublings = self->failures < DOUBLINGS_MAX ? self->failures : DOUBLINGS_MAX;
    uint64_t most = (uint64_t)PFL_BACKOFF_FIRST_MS << doublings;
    uint64_t max_ms = self->max_ms != 0 ? self->max_ms : PFL_BACKOFF_MAX_MS;

    if (most > max_ms)
        most = max_ms;
    if (most <= PFL_BACKOFF_MIN_MS)
        most = PFL_BACKOFF_MIN_MS;
    if (self->failures < DOUBLINGS_MAX)
        self->failures++;
    return PFL_BACKOFF_MIN_MS + random % (most - PFL_BACKOFF_MIN_MS + 1);
}

void pfl_backoff_lived(struct pfl_backoff *self, uint64_t up_ms)
{
    if (up_ms >= PFL_BACKOFF_PROVED_MS)
        self->failures = 0;
    else if (self->failures > PFL_BACKOFF_LIVED_FAILURES)
        self->failures = PFL_BACKOFF_LIVED_FAILURES;
}
