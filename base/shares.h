/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A total that users share: each may hold at most as much as remains free for all others together:
 * alone 1/2, the next 1/4, then 1/8 ... Root and the owner may take all that is left.
 *
 * A sharer is a number: a user id, or, above PFL_SHARES_UIDS, a hash of an address or of the name
 * in a certificate.
 */
#ifndef PFL_BASE_SHARES_H
#define PFL_BASE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_SHARES_USERS 256u         /* with an entry at a time; further ones share one */
#define PFL_SHARES_UIDS  (1ull << 32) /* sharers that are not user ids have this bit */

struct pfl_shares_user {
    uint64_t who;
    uint64_t used;
};

struct pfl_shares {
    uint64_t max;
    uint64_t owner;  /* not bound by a share; 0: only root is not */
    uint64_t used;   /* by all users */
    uint64_t others; /* by users without an entry */
    struct pfl_shares_user users[PFL_SHARES_USERS];
    size_t users_len;
};

/* May a user that holds `used` of `max` take `amount` more, if all together hold `all`? */
static inline bool pfl_shares_allow(uint64_t max, uint64_t all, uint64_t used, uint64_t amount)
{
    return all <= max && amount <= max - all && used + amount <= max - all - amount;
}

/* A zeroed struct with `max` set is unused. */
bool pfl_shares_take(struct pfl_shares *self, uint64_t who, uint64_t amount);
/* Whether take would succeed. */
bool pfl_shares_has_room(const struct pfl_shares *self, uint64_t who, uint64_t amount);
/* The most that take would allow. */
uint64_t pfl_shares_get_room(const struct pfl_shares *self, uint64_t who);
/* Releases what was taken, or a part of it. */
void pfl_shares_give(struct pfl_shares *self, uint64_t who, uint64_t amount);
/* Changes one object's amount from `*held` to `wanted`; false: unchanged. */
bool pfl_shares_set(struct pfl_shares *self, uint64_t who, uint64_t *held, uint64_t wanted);
/* Neither root nor the owner. */
bool pfl_shares_is_bound(const struct pfl_shares *self, uint64_t who);
/* What the user holds. */
uint64_t pfl_shares_get(const struct pfl_shares *self, uint64_t who);
/* The number of a peer that is identified by these bytes. */
uint64_t pfl_shares_hash(const void *bytes, size_t len);

#endif
