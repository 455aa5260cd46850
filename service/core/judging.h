/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budget for matching a session's filters against producers: 0.1 s of loop time in 10 s, shared by
 * the producers' users. All sessions together have as much, shared by their users and by the
 * producers'; what a match costs without patterns is not counted there. Consumers choose patterns,
 * producers choose names: neither may delay others, and no user's names may use up another user's
 * share.
 */
#ifndef PFL_SERVICE_JUDGING_H
#define PFL_SERVICE_JUDGING_H

#include "base/log.h"
#include "base/shares.h"
#include "service/core/loop_budget.h"

#define PFL_JUDGING_UNITS     2000000u /* of service/output/pattern.h; and of all sessions */
#define PFL_JUDGING_WINDOW_MS 10000u

struct pfl_producer;

/* Zero-initialized. */
struct pfl_judging {
    struct pfl_shares shares;
    uint64_t since_ms;
    uint64_t credit;   /* of the current match */
    bool was_reported; /* in this window */
};

/* What is matched. */
struct pfl_judging_match {
    struct pfl_loop_budget *all; /* the service's, of all sessions; its owner is not bound */
    uint64_t session_id;
    uint64_t session_who;
    const struct pfl_producer *producer;
    uint64_t plain_units; /* what it costs without patterns */
};

/* The credit for it. */
uint64_t pfl_judging_begin(struct pfl_judging *self, const struct pfl_judging_match *match,
                           uint64_t now_ms);
/* `credit`: what is left; 0 is logged. */
void pfl_judging_end(struct pfl_judging *self, const struct pfl_judging_match *match,
                     uint64_t credit);

#endif
