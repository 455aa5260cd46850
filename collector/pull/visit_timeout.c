/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of a visit: see visit_timeout.h. */
#include "collector/pull/visit_timeout.h"

#define MS_PER_S 1000u

static uint64_t get_waited_ms(const struct pfl_visit_timeout *p, uint64_t now_ms)
{
    return p->waited_ms + (p->is_waiting ? now_ms - p->since_ms : 0);
}

void pfl_visit_timeout_begin(struct pfl_visit_timeout *self, uint64_t now_ms)
{
    self->waited_ms = get_waited_ms(self, now_ms);
    self->since_ms = now_ms;
    self->is_waiting = true;
}

void pfl_visit_timeout_end(struct pfl_visit_timeout *self, uint64_t now_ms, uint64_t bytes)
{
    self->waited_ms = get_waited_ms(self, now_ms);
    self->bytes += bytes;
    self->is_waiting = false;
}

uint64_t pfl_visit_timeout_get_left_ms(const struct pfl_visit_timeout *self, uint64_t now_ms)
{
    uint64_t allowed_ms =
        PFL_VISIT_TIMEOUT_FREE_MS + self->bytes / PFL_VISIT_TIMEOUT_BYTES_PER_S * MS_PER_S;
    uint64_t waited_ms = get_waited_ms(self, now_ms);

    return allowed_ms > waited_ms ? allowed_ms - waited_ms : 0;
}
