/* SPDX-License-Identifier: Apache-2.0 */
/* See loop_budget.h. No failures. */
#include "service/core/loop_budget.h"

static uint64_t join(uint64_t session, uint64_t producer)
{
    const uint64_t both[] = {session, producer};

    return pfl_shares_hash(both, sizeof(both));
}

uint64_t pfl_loop_budget_begin(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                               uint64_t now_ms)
{
    uint64_t window_ms = self->window_ms != 0 ? self->window_ms : PFL_LOOP_BUDGET_WINDOW_MS;
    uint64_t credit = UINT64_MAX;
    uint64_t of_producer;

    if (self->sessions.max == 0 || now_ms - self->since_ms >= window_ms) {
        *self = (struct pfl_loop_budget){.owner = self->owner,
                                         .units = self->units,
                                         .window_ms = self->window_ms,
                                         .leaves_half = self->leaves_half,
                                         .since_ms = now_ms};
        self->sessions.max = self->producers.max = self->units;
        self->sessions.owner = self->owner;
    }
    if (pfl_shares_is_bound(&self->sessions, session))
        credit = pfl_shares_get_room(&self->sessions, session);
    if (!pfl_shares_is_bound(&self->sessions, producer))
        return credit;
    if (self->leaves_half && credit != UINT64_MAX) {
        of_producer = pfl_shares_get(&self->producers, join(session, producer));
        credit = credit > of_producer ? (credit - of_producer) / 2 : 0;
    }
    of_producer = pfl_shares_get_room(&self->producers, join(session, producer));
    return of_producer < credit ? of_producer : credit;
}

void pfl_loop_budget_end(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                         uint64_t units)
{
    if (pfl_shares_is_bound(&self->sessions, session))
        (void)pfl_shares_take(&self->sessions, session, units);
    if (pfl_shares_is_bound(&self->sessions, producer))
        (void)pfl_shares_take(&self->producers, join(session, producer), units);
}
