/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of patterns: see judging.h. The budget is refilled every PFL_JUDGING_WINDOW_MS. No
 * failures; a producer that cannot be matched within it is left out, which is logged once per
 * window.
 */
#include "service/core/judging.h"

#include "service/core/producer.h"

uint64_t pfl_judging_begin(struct pfl_judging *self, uint32_t owner, uint64_t who, uint64_t now_ms)
{
    if (self->shares.max == 0 || now_ms - self->since_ms >= PFL_JUDGING_WINDOW_MS) {
        *self = (struct pfl_judging){.since_ms = now_ms};
        self->shares.max = PFL_JUDGING_UNITS;
        self->shares.owner = owner;
    }
    self->credit = pfl_shares_get_room(&self->shares, who) + 1; /* 0: it did not suffice */
    return self->credit;
}

void pfl_judging_end(struct pfl_judging *self, uint64_t session,
                     const struct pfl_producer *producer, uint64_t credit)
{
    uint64_t room = self->credit - 1;
    uint64_t cost = self->credit - credit;

    if (cost != 0)
        (void)pfl_shares_take(&self->shares, producer->who, cost < room ? cost : room);
    if (credit != 0 || self->was_reported)
        return;
    self->was_reported = true;
    pfl_log_warn(
        "producer-not-judged",
        "session=%llu producer=%s uid=%u reason=\"the filters of this session cost too much; "
        "it is left out\" remedy=\"fewer filters, or producer_name_filter for patterns\"",
        (unsigned long long)session, pfl_log_quote_str(producer->name), producer->uid);
}
