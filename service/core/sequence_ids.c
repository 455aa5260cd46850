/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table by writer. A writer stays in it while its producer is connected, or
 * while a buffer knows it: its next packet must have the same id. Others are forgotten when their
 * number has grown, and the table is made again.
 * Failures: PFL_ELIMIT, PFL_ENOMEM; the table is then as it was. Limits: PFL_SEQUENCE_IDS_MAX
 * numbers; memory as `charged` says.
 */
#include "service/core/sequence_ids.h"

#include "service/buffer/sequence_table.h"

#define STEPS_MIN 1024u

void pfl_sequence_ids_init(struct pfl_sequence_ids *self, const struct pfl_hash_key *hash_key,
                           struct pfl_shares *charged)
{
    *self = (struct pfl_sequence_ids){
        .last_id = PFL_SEQUENCE_ID_FIRST - 1,
        .steps_left = STEPS_MIN,
        .numbers = {.max = PFL_SEQUENCE_IDS_MAX},
        .charged = charged,
    };
    pfl_slot_table_init(&self->table, sizeof(struct pfl_sequence_id), sizeof(uint64_t), hash_key);
}

static void give_back(struct pfl_sequence_ids *self, const struct pfl_sequence_id *slot)
{
    if (self->charged != NULL)
        pfl_shares_give(self->charged, slot->who, PFL_SEQUENCE_ID_BYTES);
}

void pfl_sequence_ids_fini(struct pfl_sequence_ids *self)
{
    const struct pfl_sequence_id *slot;
    size_t at = 0;

    while ((slot = pfl_slot_table_next(&self->table, &at)) != NULL)
        give_back(self, slot);
    pfl_slot_table_fini(&self->table);
    *self = (struct pfl_sequence_ids){0};
}

static uint64_t key_of(const struct pfl_trace_buffer_source *source)
{
    return pfl_sequence_key(source->producer_serial, source->producer_id, source->writer_id);
}

/* Nothing to give back if it fails: a number is not assigned twice. */
static int take_number(struct pfl_sequence_ids *self, uint64_t who)
{
    if (!pfl_shares_has_room(&self->numbers, who, 1) ||
        (self->charged != NULL && !pfl_shares_take(self->charged, who, PFL_SEQUENCE_ID_BYTES)))
        return PFL_ELIMIT;
    (void)pfl_shares_take(&self->numbers, who, 1);
    return 0;
}

int pfl_sequence_ids_get(struct pfl_sequence_ids *self,
                         const struct pfl_trace_buffer_source *source, uint32_t *ret_id)
{
    uint64_t key = key_of(source);
    struct pfl_sequence_id *slot = pfl_slot_table_find(&self->table, key);
    int rc;

    if (slot == NULL) {
        rc = pfl_slot_table_reserve(&self->table);
        if (rc != 0)
            return rc;
        if (self->steps_left != 0)
            self->steps_left--;
        rc = take_number(self, source->who);
        if (rc != 0)
            return rc;
        slot = pfl_slot_table_put(&self->table, key);
        slot->who = source->who;
        slot->id = ++self->last_id;
    }
    *ret_id = slot->id;
    return 0;
}

uint64_t pfl_sequence_ids_get_bytes(const struct pfl_sequence_ids *self)
{
    return self->table.used * PFL_SEQUENCE_ID_BYTES;
}

bool pfl_sequence_ids_is_due(const struct pfl_sequence_ids *self)
{
    return self->steps_left == 0 && self->table.used != 0;
}

void pfl_sequence_ids_keep(struct pfl_sequence_ids *self,
                           const struct pfl_trace_buffer_source *source)
{
    struct pfl_sequence_id *slot = pfl_slot_table_find(&self->table, key_of(source));

    if (slot != NULL)
        slot->is_kept = true;
}

static bool is_connected(const struct pfl_sequence_id *slot, const uint32_t *serials)
{
    uint32_t serial = serials[(uint16_t)(slot->key >> 16)];

    return serial != 0 && serial == slot->key >> 32;
}

/* How many stay. */
static size_t count_kept(struct pfl_sequence_ids *self, const uint32_t *serials)
{
    struct pfl_sequence_id *slot;
    size_t count = 0;
    size_t at = 0;

    while ((slot = pfl_slot_table_next(&self->table, &at)) != NULL) {
        slot->is_kept = slot->is_kept || is_connected(slot, serials);
        count += slot->is_kept;
    }
    return count;
}

static void move_kept(struct pfl_sequence_ids *self, struct pfl_slot_table *kept)
{
    const struct pfl_sequence_id *slot;
    size_t at = 0;

    while ((slot = pfl_slot_table_next(&self->table, &at)) != NULL) {
        struct pfl_sequence_id *moved;

        if (!slot->is_kept) {
            give_back(self, slot);
            continue;
        }
        moved = pfl_slot_table_put(kept, slot->key);
        moved->who = slot->who;
        moved->id = slot->id;
    }
}

void pfl_sequence_ids_forget(struct pfl_sequence_ids *self, const uint32_t *serials, size_t kept)
{
    size_t count = serials != NULL ? count_kept(self, serials) : self->table.used;
    struct pfl_slot_table table;

    self->steps_left = count + kept > STEPS_MIN ? count + kept : STEPS_MIN;
    if (count == self->table.used || pfl_slot_table_init_like(&table, &self->table, count) != 0)
        return;
    move_kept(self, &table);
    pfl_slot_table_fini(&self->table);
    self->table = table;
}

int pfl_sequence_ids_copy(struct pfl_sequence_ids *self, const struct pfl_sequence_ids *from)
{
    int rc = pfl_slot_table_init_copy(&self->table, &from->table);

    if (rc != 0)
        return rc;
    self->last_id = from->last_id;
    self->charged = NULL;
    return 0;
}
