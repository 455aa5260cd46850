/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that are logged and those that are counted: see refusal_limit.h. A bucket for each slot
 * of a table by the operator's name, so that a new connection gains nothing. No allocation; cannot
 * fail.
 */
#include "relay/policy/refusal_limit.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static struct pfl_refusal_limit_slot *slot_of(struct pfl_refusal_limit *self, const char *who)
{
    return &self->slots[pfl_hash_str(who) % PFL_REFUSAL_LIMIT_SLOTS];
}

static void count(struct pfl_refusal_limit *self, struct pfl_refusal_limit_slot *slot,
                  uint64_t now_ms)
{
    if (self->waiting == 0)
        self->since_ms = now_ms;
    self->waiting += slot->counted == 0;
    slot->counted++;
}

static struct pfl_refusal_limit_slot take_over(struct pfl_refusal_limit *self,
                                               struct pfl_refusal_limit_slot *slot)
{
    struct pfl_refusal_limit_slot taken = *slot;

    self->waiting -= slot->counted != 0;
    slot->counted = 0;
    return taken;
}

bool pfl_refusal_limit_take(struct pfl_refusal_limit *self, const char *who, uint64_t now_ms,
                            struct pfl_refusal_limit_slot *ret_other)
{
    struct pfl_refusal_limit_slot *slot = slot_of(self, who);

    ret_other->counted = 0;
    if (strcmp(slot->who, who) != 0) {
        *ret_other = take_over(self, slot);
        (void)snprintf(slot->who, sizeof(slot->who), "%s", who);
    }
    if (slot->rate.per_s == 0)
        pfl_token_bucket_set(&slot->rate, PFL_REFUSAL_LIMIT_PER_S, PFL_REFUSAL_LIMIT_AT_ONCE,
                             now_ms);
    if (pfl_token_bucket_get(&slot->rate, now_ms) == 0) {
        count(self, slot, now_ms);
        return false;
    }
    pfl_token_bucket_take(&slot->rate, 1);
    return true;
}

bool pfl_refusal_limit_is_due(const struct pfl_refusal_limit *self, uint64_t now_ms)
{
    return self->waiting != 0 && now_ms - self->since_ms >= PFL_REFUSAL_LIMIT_TELL_MS;
}

bool pfl_refusal_limit_next(struct pfl_refusal_limit *self, struct pfl_refusal_limit_slot *ret_slot)
{
    if (self->waiting == 0)
        return false;
    for (size_t i = 0; i < PFL_REFUSAL_LIMIT_SLOTS; i++) {
        if (self->slots[i].counted == 0)
            continue;
        *ret_slot = take_over(self, &self->slots[i]);
        return true;
    }
    return false;
}
