/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A total that users share: each may have as much as he leaves free for all others together. So
 * one alone can have half of it, and somebody who comes later still finds something. Root and the
 * owner may have all that is left.
 *
 * Who shares is a number: a user's id; above PFL_SHARES_UIDS what else tells peers apart, a hash of
 * an address or of the name in a certificate.
 */
#ifndef PFL_BASE_SHARES_H
#define PFL_BASE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_SHARES_USERS 256u         /* with something at a time; further ones count as one */
#define PFL_SHARES_UIDS  (1ull << 32) /* what is not a user's id has this bit */

struct pfl_shares_user {
    uint64_t who;
    uint64_t used;
};

struct pfl_shares {
    uint64_t max;
    uint64_t owner;  /* is not bound by his share; 0: root alone is not */
    uint64_t used;   /* by all */
    uint64_t others; /* by users who found no place in the table */
    struct pfl_shares_user users[PFL_SHARES_USERS];
    size_t users_len;
};

/* Who has `used` of `max` already may have `amount` more, when all together have `all`. */
static inline bool pfl_shares_allow(uint64_t max, uint64_t all, uint64_t used, uint64_t amount)
{
    return all <= max && amount <= max - all && used + amount <= max - all - amount;
}

/* A zeroed struct with `max` set is one that nobody uses. */
bool pfl_shares_take(struct pfl_shares *self, uint64_t who, uint64_t amount);
/* Whether that would be true. */
bool pfl_shares_has_room(const struct pfl_shares *self, uint64_t who, uint64_t amount);
/* The most that he may have more. */
uint64_t pfl_shares_get_room(const struct pfl_shares *self, uint64_t who);
/* What was taken, or a part of it. */
void pfl_shares_give(struct pfl_shares *self, uint64_t who, uint64_t amount);
/* One thing's part of it, `*held` so far, becomes `wanted`; or, false, stays. */
bool pfl_shares_set(struct pfl_shares *self, uint64_t who, uint64_t *held, uint64_t wanted);
/* Neither root nor the owner. */
bool pfl_shares_is_bound(const struct pfl_shares *self, uint64_t who);
/* What he has. */
uint64_t pfl_shares_get(const struct pfl_shares *self, uint64_t who);
/* The number of a peer that is known by these bytes. */
uint64_t pfl_shares_hash(const void *bytes, size_t len);

#endif
