/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session may cost the service's loop by patterns that are matched with producers' names: so
 * much in a while, shared by the producers' users. Patterns are the consumer's, names the
 * producers': neither may hold others up, and no user's names use up what other users' need.
 */
#ifndef PFL_SERVICE_JUDGING_H
#define PFL_SERVICE_JUDGING_H

#include "base/log.h"
#include "base/shares.h"

#define PFL_JUDGING_UNITS     2000000u /* of service/output/pattern.h */
#define PFL_JUDGING_WINDOW_MS 10000u

struct pfl_producer;

/* Zeroed memory is a fresh one. */
struct pfl_judging {
    struct pfl_shares shares;
    uint64_t since_ms;
    uint64_t credit; /* of the judgement under way */
    bool was_told;   /* in this while */
};

/* The credit for judging a producer of the user `who`. */
uint64_t pfl_judging_begin(struct pfl_judging *self, uint32_t owner, uint64_t who, uint64_t now_ms);
/* What is left of it; 0 is logged. */
void pfl_judging_end(struct pfl_judging *self, uint64_t session,
                     const struct pfl_producer *producer, uint64_t credit);

#endif
