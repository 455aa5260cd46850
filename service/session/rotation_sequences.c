/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing, at most half full. The service assigns the ids in ascending
 * order, so that nobody can choose ids that collide. Limit: PFL_ROTATION_SEQUENCES, in 16 MiB.
 */
#include "service/session/rotation_sequences.h"

#include "base/mem.h"

#define FIRST_SLOTS 64u

void pfl_rotation_sequences_fini(struct pfl_rotation_sequences *self)
{
    pfl_mem_free(self->slots);
    *self = (struct pfl_rotation_sequences){0};
}

/* The slot that holds `id`, or the empty one where it belongs. */
static struct pfl_rotation_sequence *find_slot(struct pfl_rotation_sequence *slots,
                                               size_t slots_len, uint32_t id)
{
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & (slots_len - 1);

    while (slots[at].id != 0 && slots[at].id != id)
        at = (at + 1) & (slots_len - 1);
    return &slots[at];
}

uint8_t pfl_rotation_sequences_get(const struct pfl_rotation_sequences *self, uint32_t id)
{
    return self->slots_len == 0 ? 0 : find_slot(self->slots, self->slots_len, id)->state;
}

static int grow(struct pfl_rotation_sequences *self)
{
    size_t slots_len = self->slots_len != 0 ? self->slots_len * 2 : FIRST_SLOTS;
    struct pfl_rotation_sequence *slots = pfl_mem_calloc(slots_len, sizeof(slots[0]));

    if (slots == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->slots_len; i++) {
        if (self->slots[i].id != 0)
            *find_slot(slots, slots_len, self->slots[i].id) = self->slots[i];
    }
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->slots_len = slots_len;
    return 0;
}

int pfl_rotation_sequences_set(struct pfl_rotation_sequences *self, uint32_t id, uint8_t state)
{
    struct pfl_rotation_sequence *slot = NULL;
    int rc;

    if (self->slots_len != 0) {
        slot = find_slot(self->slots, self->slots_len, id);
        if (slot->id == id) {
            slot->state = state;
            return 0;
        }
    }
    if (self->used >= PFL_ROTATION_SEQUENCES)
        return PFL_ELIMIT;
    if (slot == NULL || (self->used + 1) * 2 > self->slots_len) {
        rc = grow(self);
        if (rc != 0)
            return rc;
        slot = find_slot(self->slots, self->slots_len, id);
    }
    *slot = (struct pfl_rotation_sequence){.id = id, .state = state};
    self->used++;
    return 0;
}

static void clear_states(struct pfl_rotation_sequences *self, uint8_t from, uint8_t to)
{
    for (size_t i = 0; i < self->slots_len; i++)
        self->slots[i].state = self->slots[i].state == from ? to : 0;
}

void pfl_rotation_sequences_turn(struct pfl_rotation_sequences *self, uint8_t from, uint8_t to)
{
    struct pfl_rotation_sequences next = {0};

    for (size_t i = 0; i < self->slots_len; i++) {
        if (self->slots[i].id == 0 || self->slots[i].state != from)
            continue;
        if (pfl_rotation_sequences_set(&next, self->slots[i].id, to) != 0) {
            pfl_rotation_sequences_fini(&next);
            clear_states(self, from, to);
            return;
        }
    }
    pfl_rotation_sequences_fini(self);
    *self = next;
}
