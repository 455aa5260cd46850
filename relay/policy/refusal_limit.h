/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how many refusals of one operator are logged one by one. Further refusals are counted per
 * operator and logged as a sum. Pure; time is an argument.
 */
#ifndef PFL_RELAY_POLICY_REFUSAL_LIMIT_H
#define PFL_RELAY_POLICY_REFUSAL_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/token_bucket.h"
#include "proto/tunnel/identity.h"

/* Of one operator: a burst, and a rate. */
#define PFL_REFUSAL_LIMIT_AT_ONCE 1000u
#define PFL_REFUSAL_LIMIT_PER_S   10u
/* Operators whose names hash to the same share a rate. */
#define PFL_REFUSAL_LIMIT_SLOTS 256u
/* Maximal delay of a sum, if anything is logged at all. */
#define PFL_REFUSAL_LIMIT_TELL_MS 10000u

struct pfl_refusal_limit_slot {
    struct pfl_token_bucket rate;
    char who[PFL_IDENTITY_NAME_BYTES]; /* the operator of `counted` */
    uint64_t counted;
};

/* Zeroed: empty. */
struct pfl_refusal_limit {
    struct pfl_refusal_limit_slot slots[PFL_REFUSAL_LIMIT_SLOTS];
    uint64_t since_ms; /* the first one that is counted and not logged */
    unsigned waiting;  /* slots with a count */
};

/* Takes one refusal. False: it is counted, not logged. *ret_other: another operator's count in the
 * same slot, which must be logged first; counted 0: none. */
bool pfl_refusal_limit_take(struct pfl_refusal_limit *self, const char *who, uint64_t now_ms,
                            struct pfl_refusal_limit_slot *ret_other);
/* Is it time to log the counts? */
bool pfl_refusal_limit_is_due(const struct pfl_refusal_limit *self, uint64_t now_ms);
/* Takes the next operator's count, which the caller logs. False: none is left. */
bool pfl_refusal_limit_next(struct pfl_refusal_limit *self,
                            struct pfl_refusal_limit_slot *ret_slot);

#endif
