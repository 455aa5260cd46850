/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop time by user: see turns.h. A leaky bucket per user: each ns of loop time moves the user's
 * due time forward by PFL_TURNS_PART ns. A user waits if the due time is more than
 * PFL_TURNS_AT_ONCE * PFL_TURNS_PART ahead. No failures.
 */
#include "service/port/turns.h"

#include <stddef.h>

#define NS_PER_MS 1000000u

void pfl_turns_take(struct pfl_turns *self, uint64_t who, uint64_t cost_ns, uint64_t now_ns)
{
    size_t at = 0;

    for (size_t i = 0; i < PFL_TURNS_USERS && self->users[at].who != who; i++) {
        if (self->users[i].who == who || self->users[i].paid_ns < self->users[at].paid_ns)
            at = i;
    }
    if (self->users[at].who != who || self->users[at].paid_ns < now_ns)
        self->users[at].paid_ns = now_ns;
    self->users[at].who = who;
    self->users[at].paid_ns += cost_ns * PFL_TURNS_PART;
}

uint64_t pfl_turns_get_wait_ms(const struct pfl_turns *self, uint64_t who, uint64_t now_ns)
{
    const uint64_t at_once_ns = (uint64_t)PFL_TURNS_AT_ONCE * PFL_TURNS_PART;

    for (size_t i = 0; i < PFL_TURNS_USERS; i++) {
        uint64_t paid_ns = self->users[i].paid_ns;

        if (self->users[i].who == who && paid_ns > now_ns + at_once_ns)
            return (paid_ns - now_ns - at_once_ns) / NS_PER_MS + 1;
    }
    return 0;
}
