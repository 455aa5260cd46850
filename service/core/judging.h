/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budget for matching a session's filters against producers: 0.1 s of loop time in 10 s, shared by
 * the producers' users. Consumers choose patterns, producers choose names: neither
 * may delay others, and no user's names may use up another user's share.
 */
#ifndef PFL_SERVICE_JUDGING_H
#define PFL_SERVICE_JUDGING_H

#include "base/log.h"
#include "base/shares.h"

#define PFL_JUDGING_UNITS     2000000u /* of service/output/pattern.h */
#define PFL_JUDGING_WINDOW_MS 10000u

struct pfl_producer;

/* Zero-initialized. */
struct pfl_judging {
    struct pfl_shares shares;
    uint64_t since_ms;
    uint64_t credit;   /* of the current match */
    bool was_reported; /* in this window */
};

/* The credit for matching a producer of user `who`. */
uint64_t pfl_judging_begin(struct pfl_judging *self, uint32_t owner, uint64_t who, uint64_t now_ms);
/* `credit`: what is left; 0 is logged. */
void pfl_judging_end(struct pfl_judging *self, uint64_t session,
                     const struct pfl_producer *producer, uint64_t credit);

#endif
