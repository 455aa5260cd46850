/* SPDX-License-Identifier: Apache-2.0 */
/* Slots at the signer: see join_slots.h. Owns nothing; cannot fail. Limits: `max` slots; each
 * search compares every pair of connections, of which the listener has few. */
#include "relay/accept/join_slots.h"

#include <assert.h>
#include <string.h>

void pfl_join_slots_init(struct pfl_join_slots *self, unsigned max)
{
    *self = (struct pfl_join_slots){.max = max};
    pfl_list_init(&self->all);
}

void pfl_join_slots_add(struct pfl_join_slots *self, struct pfl_join_slot *slot)
{
    pfl_list_append(&self->all, &slot->node);
}

void pfl_join_slots_release(struct pfl_join_slots *self, struct pfl_join_slot *slot)
{
    if (slot->is_taken)
        self->taken--;
    slot->is_taken = false;
}

void pfl_join_slots_remove(struct pfl_join_slots *self, struct pfl_join_slot *slot)
{
    pfl_join_slots_release(self, slot);
    pfl_list_remove(&slot->node);
}

static unsigned count_of_address(const struct pfl_join_slots *self,
                                 const struct pfl_join_slot *slot)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &self->all) {
        const struct pfl_join_slot *other = PFL_CONTAINER_OF(it, struct pfl_join_slot, node);

        count +=
            other->is_taken && memcmp(other->address, slot->address, sizeof(slot->address)) == 0;
    }
    return count;
}

static struct pfl_join_slot *find_oldest_of_most(const struct pfl_join_slots *self)
{
    struct pfl_join_slot *found = NULL;
    struct pfl_list *it;
    unsigned most = 0;

    PFL_LIST_EACH (it, &self->all) {
        struct pfl_join_slot *slot = PFL_CONTAINER_OF(it, struct pfl_join_slot, node);
        unsigned count = slot->is_taken ? count_of_address(self, slot) : 0;

        if (count > most) {
            most = count;
            found = slot;
        }
    }
    return found;
}

struct pfl_join_slot *pfl_join_slots_take(struct pfl_join_slots *self, struct pfl_join_slot *slot)
{
    struct pfl_join_slot *closed = NULL;

    assert(!slot->is_taken);
    if (self->taken >= self->max)
        closed = find_oldest_of_most(self);
    if (closed != NULL)
        pfl_join_slots_release(self, closed);
    slot->is_taken = true;
    self->taken++;
    return closed;
}
