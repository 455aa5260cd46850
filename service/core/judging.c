/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of patterns: see judging.h. The session's budget is refilled every
 * PFL_JUDGING_WINDOW_MS, and so is that of all sessions. A match gets what both have left. No
 * failures; a producer that cannot be matched within it is left out, which is logged once per
 * window and session.
 */
#include "service/core/judging.h"

#include "service/core/producer.h"

uint64_t pfl_judging_begin(struct pfl_judging *self, const struct pfl_judging_match *match,
                           uint64_t now_ms)
{
    uint64_t in_all =
        pfl_loop_budget_begin(match->all, match->session_who, match->producer->who, now_ms);
    uint64_t room;

    if (self->shares.max == 0 || now_ms - self->since_ms >= PFL_JUDGING_WINDOW_MS) {
        *self = (struct pfl_judging){.since_ms = now_ms};
        self->shares.max = PFL_JUDGING_UNITS;
        self->shares.owner = match->all->owner;
    }
    room = pfl_shares_get_room(&self->shares, match->producer->who);
    if (in_all < UINT64_MAX - match->plain_units && in_all + match->plain_units < room)
        room = in_all + match->plain_units;
    self->credit = room + 1; /* 0: it did not suffice */
    return self->credit;
}

void pfl_judging_end(struct pfl_judging *self, const struct pfl_judging_match *match,
                     uint64_t credit)
{
    const struct pfl_producer *producer = match->producer;
    uint64_t room = self->credit - 1;
    uint64_t cost = self->credit - credit < room ? self->credit - credit : room;

    if (cost != 0)
        (void)pfl_shares_take(&self->shares, producer->who, cost);
    if (cost > match->plain_units)
        pfl_loop_budget_end(match->all, match->session_who, producer->who,
                            cost - match->plain_units);
    if (credit != 0 || self->was_reported)
        return;
    self->was_reported = true;
    pfl_log_warn("producer-not-judged",
                 "session=%llu producer=%s uid=%u reason=\"the filters of this session, or of all, "
                 "cost too much; it is left out\" remedy=\"fewer filters, or "
                 "producer_name_filter for patterns\"",
                 (unsigned long long)match->session_id, pfl_log_quote_str(producer->name),
                 producer->uid);
}
