/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A total that users share: each may have as much as he leaves free for all others together. So
 * one alone can have half of it, and somebody who comes later still finds something. Root may have
 * all that is left.
 */
#ifndef PFL_SERVICE_SHARES_H
#define PFL_SERVICE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_SHARES_USERS   256u /* with something at a time; further ones count as one */
#define PFL_SHARES_NETWORK (UINT32_MAX - 1) /* peers whose uid is their own word count as one */

struct pfl_shares_user {
    uint32_t uid;
    uint64_t used;
};

struct pfl_shares {
    uint64_t max;
    uint64_t used;   /* by all */
    uint64_t others; /* by users who found no place in the table */
    struct pfl_shares_user users[PFL_SHARES_USERS];
    size_t users_len;
};

/* A zeroed struct with `max` set is one that nobody uses. */
bool pfl_shares_take(struct pfl_shares *self, uint32_t uid, uint64_t amount);
/* What was taken, or a part of it. */
void pfl_shares_give(struct pfl_shares *self, uint32_t uid, uint64_t amount);

#endif
