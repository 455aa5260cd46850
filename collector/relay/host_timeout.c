/* SPDX-License-Identifier: Apache-2.0 */
/* How long a host may be waited for: see host_timeout.h. */
#include "collector/relay/host_timeout.h"

#define MS_PER_S 1000u

static uint64_t get_waited_ms(const struct pfl_host_timeout *p, uint64_t now_ms)
{
    return p->waited_ms + (p->is_waiting ? now_ms - p->since_ms : 0);
}

void pfl_host_timeout_begin(struct pfl_host_timeout *self, uint64_t now_ms)
{
    self->waited_ms = get_waited_ms(self, now_ms);
    self->since_ms = now_ms;
    self->is_waiting = true;
}

void pfl_host_timeout_end(struct pfl_host_timeout *self, uint64_t now_ms, uint64_t bytes)
{
    self->waited_ms = get_waited_ms(self, now_ms);
    self->bytes += bytes;
    self->is_waiting = false;
}

void pfl_host_timeout_restart(struct pfl_host_timeout *self, uint64_t now_ms)
{
    *self = (struct pfl_host_timeout){.since_ms = now_ms, .is_waiting = self->is_waiting};
}

static uint64_t get_allowed_ms(const struct pfl_host_timeout *p, uint64_t free_ms)
{
    return free_ms + p->bytes / PFL_HOST_TIMEOUT_BYTES_PER_S * MS_PER_S +
           p->answers * PFL_HOST_TIMEOUT_ANSWER_MS;
}

uint64_t pfl_host_timeout_get_left_ms(const struct pfl_host_timeout *self, uint64_t now_ms)
{
    uint64_t allowed_ms = get_allowed_ms(self, PFL_HOST_TIMEOUT_FREE_MS);
    uint64_t waited_ms = get_waited_ms(self, now_ms);

    return allowed_ms > waited_ms ? allowed_ms - waited_ms : 0;
}

bool pfl_host_timeout_was_slow(const struct pfl_host_timeout *self, uint64_t now_ms)
{
    return get_waited_ms(self, now_ms) > get_allowed_ms(self, PFL_HOST_TIMEOUT_SLOW_MS);
}
