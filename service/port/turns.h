/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the loop time that the requests of one user's consumers take: a burst, then a part of the
 * time. A user above it waits, so that others are served meanwhile. Pure; time is an argument.
 */
#ifndef PFL_SERVICE_TURNS_H
#define PFL_SERVICE_TURNS_H

#include <stdint.h>

/* Users that are remembered; a new one replaces the one with the earliest due time. */
#define PFL_TURNS_USERS   64u
#define PFL_TURNS_AT_ONCE 100000000u /* ns */
#define PFL_TURNS_PART    5u         /* after that one of so many */

/* Zero-initialized. */
struct pfl_turns {
    struct {
        uint64_t who;     /* as in base/shares.h */
        uint64_t paid_ns; /* the due time: when all that the user took is paid off */
    } users[PFL_TURNS_USERS];
};

/* The user took this much time. */
void pfl_turns_take(struct pfl_turns *self, uint64_t who, uint64_t cost_ns, uint64_t now_ns);
/* In how many ms the user's next request may be read; 0: now. */
uint64_t pfl_turns_get_wait_ms(const struct pfl_turns *self, uint64_t who, uint64_t now_ns);

#endif
