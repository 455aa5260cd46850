/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals that users share: see shares.h.
 *
 * take: allowed if the user then has no more than what is left of the total. A user's entry in the
 * table is freed when it holds nothing. While an amount is counted for users without an entry, no
 * new entry is made, so that amounts are released where they were counted.
 * No failure but the refusal; no allocation. Cost: a walk over at most PFL_SHARES_USERS.
 */
#include "base/shares.h"

#include <assert.h>

#include "base/hash.h"

static const struct pfl_shares_user *find_user(const struct pfl_shares *self, uint64_t who)
{
    for (size_t i = 0; i < self->users_len; i++) {
        if (self->users[i].who == who)
            return &self->users[i];
    }
    return NULL;
}

/* The entry of the user; NULL: it is counted with the others. */
static struct pfl_shares_user *place_user(struct pfl_shares *self, uint64_t who)
{
    const struct pfl_shares_user *u = find_user(self, who);

    if (u != NULL)
        return &self->users[u - self->users];
    if (self->others != 0 || self->users_len == PFL_SHARES_USERS)
        return NULL;
    self->users[self->users_len] = (struct pfl_shares_user){.who = who};
    return &self->users[self->users_len++];
}

static void free_place(struct pfl_shares *self, struct pfl_shares_user *u)
{
    if (u != NULL && u->used == 0)
        *u = self->users[--self->users_len];
}

bool pfl_shares_is_bound(const struct pfl_shares *self, uint64_t who)
{
    return who != 0 && who != self->owner;
}

/* What is counted for the user; without an entry, that of all users without one. */
static uint64_t get_counted(const struct pfl_shares *self, uint64_t who)
{
    const struct pfl_shares_user *u = find_user(self, who);

    if (u != NULL)
        return u->used;
    return self->users_len == PFL_SHARES_USERS || self->others != 0 ? self->others : 0;
}

bool pfl_shares_has_room(const struct pfl_shares *self, uint64_t who, uint64_t amount)
{
    return pfl_shares_is_bound(self, who)
               ? pfl_shares_allow(self->max, self->used, get_counted(self, who), amount)
               : amount <= self->max - self->used;
}

uint64_t pfl_shares_get_room(const struct pfl_shares *self, uint64_t who)
{
    uint64_t left = self->max - self->used;
    uint64_t counted = get_counted(self, who);

    if (!pfl_shares_is_bound(self, who))
        return left;
    return left > counted ? (left - counted) / 2 : 0;
}

bool pfl_shares_take(struct pfl_shares *self, uint64_t who, uint64_t amount)
{
    struct pfl_shares_user *u;

    if (!pfl_shares_has_room(self, who, amount))
        return false;
    u = place_user(self, who);
    *(u != NULL ? &u->used : &self->others) += amount;
    self->used += amount;
    free_place(self, u);
    return true;
}

void pfl_shares_give(struct pfl_shares *self, uint64_t who, uint64_t amount)
{
    struct pfl_shares_user *u = place_user(self, who);
    uint64_t *used = u != NULL ? &u->used : &self->others;

    assert(amount <= *used && amount <= self->used);
    *used -= amount;
    self->used -= amount;
    free_place(self, u);
}

bool pfl_shares_set(struct pfl_shares *self, uint64_t who, uint64_t *held, uint64_t wanted)
{
    if (wanted > *held && !pfl_shares_take(self, who, wanted - *held))
        return false;
    if (wanted < *held)
        pfl_shares_give(self, who, *held - wanted);
    *held = wanted;
    return true;
}

uint64_t pfl_shares_get(const struct pfl_shares *self, uint64_t who)
{
    const struct pfl_shares_user *u = find_user(self, who);

    return u != NULL ? u->used : 0;
}

uint64_t pfl_shares_hash(const void *bytes, size_t len)
{
    return pfl_hash(pfl_span_of(bytes, len)) | PFL_SHARES_UIDS;
}
