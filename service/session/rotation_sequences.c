/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table by sequence id. The service assigns the ids in ascending order, so that nobody can choose
 * ids that collide. Limit: PFL_ROTATION_SEQUENCES, in 16 MiB.
 */
#include "service/session/rotation_sequences.h"

void pfl_rotation_sequences_fini(struct pfl_rotation_sequences *self)
{
    pfl_slot_table_fini(&self->table);
}

uint8_t pfl_rotation_sequences_get(const struct pfl_rotation_sequences *self, uint32_t id)
{
    const struct pfl_rotation_sequence *slot = pfl_slot_table_find(&self->table, id);

    return slot != NULL ? slot->state : 0;
}

int pfl_rotation_sequences_set(struct pfl_rotation_sequences *self, uint32_t id, uint8_t state)
{
    struct pfl_rotation_sequence *slot = pfl_slot_table_find(&self->table, id);
    int rc;

    if (slot == NULL) {
        if (self->table.used >= PFL_ROTATION_SEQUENCES)
            return PFL_ELIMIT;
        if (self->table.slots == NULL)
            pfl_slot_table_init(&self->table, sizeof(*slot), sizeof(slot->id), NULL);
        rc = pfl_slot_table_reserve(&self->table);
        if (rc != 0)
            return rc;
        slot = pfl_slot_table_put(&self->table, id);
    }
    slot->state = state;
    return 0;
}

static void clear_states(struct pfl_rotation_sequences *self, uint8_t from, uint8_t to)
{
    struct pfl_rotation_sequence *slot;
    size_t at = 0;

    while ((slot = pfl_slot_table_next(&self->table, &at)) != NULL)
        slot->state = slot->state == from ? to : 0;
}

void pfl_rotation_sequences_turn(struct pfl_rotation_sequences *self, uint8_t from, uint8_t to)
{
    struct pfl_rotation_sequences next = {.table = {.slots = NULL}};
    const struct pfl_rotation_sequence *slot;
    size_t at = 0;

    while ((slot = pfl_slot_table_next(&self->table, &at)) != NULL) {
        if (slot->state == from && pfl_rotation_sequences_set(&next, slot->id, to) != 0) {
            pfl_rotation_sequences_fini(&next);
            clear_states(self, from, to);
            return;
        }
    }
    pfl_rotation_sequences_fini(self);
    *self = next;
}
