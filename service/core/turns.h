/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the loop time that the requests of one user's consumers take: a burst, then a part of the
 * time. A user above it waits, so that others are served meanwhile. A user may connect for many
 * subjects (base/io/subject.h), as an agent does for operators: a subject that takes little is
 * served from a reserve of the user, so subjects that take much do not delay it. Pure; time is an
 * argument.
 */
#ifndef PFL_SERVICE_TURNS_H
#define PFL_SERVICE_TURNS_H

#include <stdint.h>

/* Users, and subjects, that are remembered; a new one replaces the one with the earliest due time.
 */
#define PFL_TURNS_USERS   64u
#define PFL_TURNS_AT_ONCE 100000000u /* ns */
#define PFL_TURNS_PART    5u         /* after that one of so many */

#define PFL_TURNS_RESERVE         100000000u /* ns of a user, for subjects that take little */
#define PFL_TURNS_SUBJECT_AT_ONCE 50000000u  /* ns */
#define PFL_TURNS_SUBJECT_PART    40u

struct pfl_turns_due {
    uint64_t who;     /* as in base/shares.h, or a subject */
    uint64_t paid_ns; /* the due time: when all that was taken is paid off */
};

/* Zero-initialized. */
struct pfl_turns {
    struct pfl_turns_due users[PFL_TURNS_USERS];
    struct pfl_turns_due subjects[PFL_TURNS_USERS];
};

struct pfl_turns_who {
    uint64_t user;
    uint64_t subject; /* the same as `user`: none */
};

/* It took this much time. */
void pfl_turns_take(struct pfl_turns *self, struct pfl_turns_who who, uint64_t cost_ns,
                    uint64_t now_ns);
/* In how many ms its next request may be read; 0: now. */
uint64_t pfl_turns_get_wait_ms(const struct pfl_turns *self, struct pfl_turns_who who,
                               uint64_t now_ns);
/* How long the subject needs to pay off what it took; 0 without a subject. Of those who wait, the
 * one that owes least is next. */
uint64_t pfl_turns_get_owed_ns(const struct pfl_turns *self, struct pfl_turns_who who,
                               uint64_t now_ns);

#endif
