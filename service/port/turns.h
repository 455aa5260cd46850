/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's time that consumers of one user take by their requests: so much at once, then a part
 * of it. Whose requests cost more waits, so that others are served meanwhile. Pure; time is an
 * argument.
 */
#ifndef PFL_SERVICE_TURNS_H
#define PFL_SERVICE_TURNS_H

#include <stdint.h>

#define PFL_TURNS_USERS   64u        /* that are remembered; the one that owes least gives way */
#define PFL_TURNS_AT_ONCE 100000000u /* ns */
#define PFL_TURNS_PART    5u         /* then one of so many */

/* Zeroed memory is one in which nobody owes anything. */
struct pfl_turns {
    struct {
        uint64_t who;     /* as in base/shares.h */
        uint64_t paid_ns; /* when all that he took is paid */
    } users[PFL_TURNS_USERS];
};

/* He took so much. */
void pfl_turns_take(struct pfl_turns *self, uint64_t who, uint64_t cost_ns, uint64_t now_ns);
/* In how many ms his next request may be read; 0: now. */
uint64_t pfl_turns_get_wait_ms(const struct pfl_turns *self, uint64_t who, uint64_t now_ns);

#endif
