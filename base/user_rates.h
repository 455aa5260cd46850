/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often each user may do something: a burst, then a rate. A refused attempt costs nothing
 * further. Root is not limited. Pure; time is an argument.
 */
#ifndef PFL_BASE_USER_RATES_H
#define PFL_BASE_USER_RATES_H

#include <stdbool.h>
#include <stdint.h>

/* Users that are remembered; a new one replaces the one with the earliest due time. */
#define PFL_USER_RATES 256u

struct pfl_user_rate {
    uint64_t who;    /* as in base/shares.h; 0: free */
    uint64_t due_ns; /* when the bucket is full again */
};

/* Zero-initialized, except `at_once` and `per_s`, which are > 0. */
struct pfl_user_rates {
    uint64_t at_once; /* burst of one user */
    uint64_t per_s;   /* rate after the burst */
    struct pfl_user_rate users[PFL_USER_RATES];
};

/* Takes one from the user's bucket. False: it is empty. */
bool pfl_user_rates_take(struct pfl_user_rates *self, uint64_t who, uint64_t now_ns);

#endif
