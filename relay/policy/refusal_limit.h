/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many of an operator's refusals are told one by one: who is refused all day long fills no log.
 * The others are counted, by his name. Pure; time is an argument.
 */
#ifndef PFL_RELAY_POLICY_REFUSAL_LIMIT_H
#define PFL_RELAY_POLICY_REFUSAL_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/token_bucket.h"
#include "proto/tunnel/identity.h"

/* Of one operator: at once, and from then on. */
#define PFL_REFUSAL_LIMIT_AT_ONCE 1000u
#define PFL_REFUSAL_LIMIT_PER_S   10u
/* Operators whose names hash to the same share a rate. */
#define PFL_REFUSAL_LIMIT_SLOTS 256u
/* What was counted is told after this time at the latest, if anything is told at all. */
#define PFL_REFUSAL_LIMIT_TELL_MS 10000u

struct pfl_refusal_limit_slot {
    struct pfl_token_bucket rate;
    char who[PFL_IDENTITY_NAME_BYTES]; /* whose `counted` is */
    uint64_t counted;
};

/* Zeroed: empty. */
struct pfl_refusal_limit {
    struct pfl_refusal_limit_slot slots[PFL_REFUSAL_LIMIT_SLOTS];
    uint64_t since_ms; /* the first that is counted and not told */
    unsigned waiting;  /* slots that have counted some */
};

/* One more. False: it is counted and not told. *ret_other: those of another operator who has the
 * same slot have to be told first, counted 0: none. */
bool pfl_refusal_limit_take(struct pfl_refusal_limit *self, const char *who, uint64_t now_ms,
                            struct pfl_refusal_limit_slot *ret_other);
/* Is it time to tell what was counted? */
bool pfl_refusal_limit_is_due(const struct pfl_refusal_limit *self, uint64_t now_ms);
/* What was counted of someone, which is told by that. False: nothing is left. */
bool pfl_refusal_limit_next(struct pfl_refusal_limit *self,
                            struct pfl_refusal_limit_slot *ret_told);

#endif
