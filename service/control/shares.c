/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals that users share: see shares.h.
 *
 * take: allowed when the user has, with it, no more than what is then left of the total. A user's
 * place in the table is free again when he has nothing. While somebody is counted with the others
 * nobody gets a new place, so that what is given back is found where it was counted.
 * No failure but the refusal; no allocation. Cost: a walk of PFL_SHARES_USERS at most.
 */
#include "service/control/shares.h"

#include <assert.h>

static struct pfl_shares_user *find_user(struct pfl_shares *self, uint32_t uid)
{
    for (size_t i = 0; i < self->users_len; i++) {
        if (self->users[i].uid == uid)
            return &self->users[i];
    }
    return NULL;
}

/* Where the user's part is counted. */
static uint64_t *find_used(struct pfl_shares *self, uint32_t uid)
{
    struct pfl_shares_user *u = find_user(self, uid);

    if (u == NULL && self->others == 0 && self->users_len < PFL_SHARES_USERS) {
        u = &self->users[self->users_len++];
        *u = (struct pfl_shares_user){.uid = uid};
    }
    return u != NULL ? &u->used : &self->others;
}

bool pfl_shares_take(struct pfl_shares *self, uint32_t uid, uint64_t amount)
{
    uint64_t *used = find_used(self, uid);
    uint64_t left = self->max - self->used;

    if (amount > left || (uid != 0 && *used + amount > left - amount)) {
        pfl_shares_give(self, uid, 0);
        return false;
    }
    *used += amount;
    self->used += amount;
    return true;
}

void pfl_shares_give(struct pfl_shares *self, uint32_t uid, uint64_t amount)
{
    struct pfl_shares_user *u = find_user(self, uid);
    uint64_t *used = u != NULL ? &u->used : &self->others;

    assert(amount <= *used && amount <= self->used);
    *used -= amount;
    self->used -= amount;
    if (u != NULL && u->used == 0)
        *u = self->users[--self->users_len];
}
