/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop time by user: see turns.h. A leaky bucket per user: each ns of loop time moves the user's
 * due time forward by PFL_TURNS_PART ns. A user waits if the due time is more than
 * PFL_TURNS_AT_ONCE * PFL_TURNS_PART ahead. Subjects have buckets, too, that leak more slowly: one
 * whose due time is not far ahead may use the user's reserve. No failures.
 */
#include "service/core/turns.h"

#include <stddef.h>

#define NS_PER_MS 1000000u
/* A subject owes no more, so it is forgiven after this time. */
#define SUBJECT_OWES_MAX_NS (20000000000ull)

static const struct pfl_turns_due *find(const struct pfl_turns_due *dues, uint64_t who)
{
    for (size_t i = 0; i < PFL_TURNS_USERS; i++) {
        if (dues[i].who == who)
            return &dues[i];
    }
    return NULL;
}

static uint64_t get_owed_ns(const struct pfl_turns_due *dues, uint64_t who, uint64_t now_ns)
{
    const struct pfl_turns_due *due = find(dues, who);

    return due != NULL && due->paid_ns > now_ns ? due->paid_ns - now_ns : 0;
}

static struct pfl_turns_due *take(struct pfl_turns_due *dues, uint64_t who, uint64_t cost_ns,
                                  uint64_t now_ns)
{
    size_t at = 0;

    for (size_t i = 0; i < PFL_TURNS_USERS && dues[at].who != who; i++) {
        if (dues[i].who == who || dues[i].paid_ns < dues[at].paid_ns)
            at = i;
    }
    if (dues[at].who != who || dues[at].paid_ns < now_ns)
        dues[at].paid_ns = now_ns;
    dues[at].who = who;
    dues[at].paid_ns += cost_ns;
    return &dues[at];
}

void pfl_turns_take(struct pfl_turns *self, struct pfl_turns_who who, uint64_t cost_ns,
                    uint64_t now_ns)
{
    struct pfl_turns_due *subject;

    (void)take(self->users, who.user, cost_ns * PFL_TURNS_PART, now_ns);
    if (who.subject == who.user)
        return;
    subject = take(self->subjects, who.subject, cost_ns * PFL_TURNS_SUBJECT_PART, now_ns);
    if (subject->paid_ns > now_ns + SUBJECT_OWES_MAX_NS)
        subject->paid_ns = now_ns + SUBJECT_OWES_MAX_NS;
}

uint64_t pfl_turns_get_owed_ns(const struct pfl_turns *self, struct pfl_turns_who who,
                               uint64_t now_ns)
{
    return who.subject != who.user ? get_owed_ns(self->subjects, who.subject, now_ns) : 0;
}

uint64_t pfl_turns_get_wait_ms(const struct pfl_turns *self, struct pfl_turns_who who,
                               uint64_t now_ns)
{
    uint64_t owed_ns = get_owed_ns(self->users, who.user, now_ns);
    uint64_t free_ns = (uint64_t)PFL_TURNS_AT_ONCE * PFL_TURNS_PART;

    if (who.subject != who.user && pfl_turns_get_owed_ns(self, who, now_ns) <=
                                       (uint64_t)PFL_TURNS_SUBJECT_AT_ONCE * PFL_TURNS_SUBJECT_PART)
        free_ns += (uint64_t)PFL_TURNS_RESERVE * PFL_TURNS_PART;
    return owed_ns > free_ns ? (owed_ns - free_ns) / NS_PER_MS + 1 : 0;
}
