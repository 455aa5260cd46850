/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates by user: see user_rates.h. A token bucket per user, kept as the time at which it is full
 * again: each one taken moves that by 1/per_s, and none is given if it would then be further away
 * than a burst takes. No failures; no allocation. Cost: a walk over PFL_USER_RATES entries.
 */
#include "base/user_rates.h"

#include <stddef.h>

#define NS_PER_S 1000000000u

static struct pfl_user_rate *get_rate(struct pfl_user_rates *self, uint64_t who)
{
    size_t at = 0;

    for (size_t i = 0; i < PFL_USER_RATES; i++) {
        if (self->users[i].who == who)
            return &self->users[i];
        if (self->users[i].due_ns < self->users[at].due_ns)
            at = i;
    }
    self->users[at] = (struct pfl_user_rate){.who = who};
    return &self->users[at];
}

bool pfl_user_rates_take(struct pfl_user_rates *self, uint64_t who, uint64_t now_ns)
{
    const uint64_t one_ns = NS_PER_S / self->per_s;
    uint64_t *due;

    if (who == 0)
        return true;
    due = &get_rate(self, who)->due_ns;
    if (*due < now_ns)
        *due = now_ns;
    if (*due - now_ns + one_ns > one_ns * self->at_once)
        return false;
    *due += one_ns;
    return true;
}
