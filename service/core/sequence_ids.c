/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing. A writer stays in it while its producer is connected, or
 * while a buffer knows it: its next packet must have the same id. Others are forgotten when their
 * number has grown, and the table is made again.
 * Failures: PFL_ELIMIT, PFL_ENOMEM; the table is then as it was. Limits: PFL_SEQUENCE_IDS_MAX
 * numbers; memory as `charged` says.
 */
#include "service/core/sequence_ids.h"

#include "base/mem.h"
#include "service/buffer/sequence_table.h"

#define FIRST_SLOTS 32u
#define STEPS_MIN   1024u

void pfl_sequence_ids_init(struct pfl_sequence_ids *self, const struct pfl_hash_key *hash_key,
                           struct pfl_shares *charged)
{
    *self = (struct pfl_sequence_ids){
        .last_id = PFL_SEQUENCE_ID_FIRST - 1,
        .steps_left = STEPS_MIN,
        .numbers = {.max = PFL_SEQUENCE_IDS_MAX},
        .charged = charged,
        .hash_key = *hash_key,
    };
}

static void give_back(struct pfl_sequence_ids *self, const struct pfl_sequence_id *slot)
{
    if (self->charged != NULL)
        pfl_shares_give(self->charged, slot->who, PFL_SEQUENCE_ID_BYTES);
}

void pfl_sequence_ids_fini(struct pfl_sequence_ids *self)
{
    for (size_t i = 0; self->slots != NULL && i < self->slots_len; i++) {
        if (self->slots[i].id != 0)
            give_back(self, &self->slots[i]);
    }
    pfl_mem_free(self->slots);
    *self = (struct pfl_sequence_ids){0};
}

static uint64_t key_of(const struct pfl_trace_buffer_source *source)
{
    return pfl_sequence_key(source->producer_serial, source->producer_id, source->writer_id);
}

/* The slot that holds `key`, or the empty one where it belongs. */
static struct pfl_sequence_id *find_slot(const struct pfl_sequence_ids *self,
                                         struct pfl_sequence_id *slots, size_t slots_len,
                                         uint64_t key)
{
    size_t at = pfl_hash_keyed_number(&self->hash_key, key) & (slots_len - 1);

    while (slots[at].id != 0 && slots[at].key != key)
        at = (at + 1) & (slots_len - 1);
    return &slots[at];
}

static int resize(struct pfl_sequence_ids *self, size_t slots_len)
{
    struct pfl_sequence_id *slots = pfl_mem_calloc(slots_len, sizeof(slots[0]));

    if (slots == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->slots_len; i++) {
        if (self->slots[i].id != 0)
            *find_slot(self, slots, slots_len, self->slots[i].key) = self->slots[i];
    }
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->slots_len = slots_len;
    return 0;
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
    struct pfl_sequence_id *slot;
    int rc;

    if (self->used * 2 >= self->slots_len) {
        rc = resize(self, self->slots_len != 0 ? self->slots_len * 2 : FIRST_SLOTS);
        if (rc != 0)
            return rc;
    }
    slot = find_slot(self, self->slots, self->slots_len, key);
    if (slot->id == 0) {
        if (self->steps_left != 0)
            self->steps_left--;
        rc = take_number(self, source->who);
        if (rc != 0)
            return rc;
        *slot = (struct pfl_sequence_id){.key = key, .who = source->who, .id = ++self->last_id};
        self->used++;
    }
    *ret_id = slot->id;
    return 0;
}

uint64_t pfl_sequence_ids_get_bytes(const struct pfl_sequence_ids *self)
{
    return self->used * PFL_SEQUENCE_ID_BYTES;
}

bool pfl_sequence_ids_is_due(const struct pfl_sequence_ids *self)
{
    return self->steps_left == 0 && self->used != 0;
}

void pfl_sequence_ids_keep(struct pfl_sequence_ids *self,
                           const struct pfl_trace_buffer_source *source)
{
    find_slot(self, self->slots, self->slots_len, key_of(source))->is_kept = true;
}

static bool is_connected(const struct pfl_sequence_id *slot, const uint32_t *serials)
{
    uint32_t serial = serials[(uint16_t)(slot->key >> 16)];

    return serial != 0 && serial == slot->key >> 32;
}

/* How many stay. */
static size_t count_kept(struct pfl_sequence_ids *self, const uint32_t *serials)
{
    size_t count = 0;

    for (size_t i = 0; i < self->slots_len; i++) {
        struct pfl_sequence_id *slot = &self->slots[i];

        slot->is_kept = slot->id != 0 && (slot->is_kept || is_connected(slot, serials));
        count += slot->is_kept;
    }
    return count;
}

static void move_kept(struct pfl_sequence_ids *self, struct pfl_sequence_id *slots,
                      size_t slots_len)
{
    for (size_t i = 0; i < self->slots_len; i++) {
        struct pfl_sequence_id *slot = &self->slots[i];

        if (slot->is_kept)
            *find_slot(self, slots, slots_len, slot->key) =
                (struct pfl_sequence_id){.key = slot->key, .who = slot->who, .id = slot->id};
        else if (slot->id != 0)
            give_back(self, slot);
    }
}

void pfl_sequence_ids_forget(struct pfl_sequence_ids *self, const uint32_t *serials, size_t kept)
{
    size_t count = serials != NULL ? count_kept(self, serials) : self->used;
    size_t slots_len = FIRST_SLOTS;
    struct pfl_sequence_id *slots = NULL;

    self->steps_left = count + kept > STEPS_MIN ? count + kept : STEPS_MIN;
    while (slots_len <= count * 2)
        slots_len *= 2;
    if (count != self->used)
        slots = pfl_mem_calloc(slots_len, sizeof(slots[0]));
    if (slots == NULL)
        return;
    move_kept(self, slots, slots_len);
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->slots_len = slots_len;
    self->used = count;
}

int pfl_sequence_ids_copy(struct pfl_sequence_ids *self, const struct pfl_sequence_ids *from)
{
    if (from->slots_len == 0)
        return 0;
    self->slots = pfl_mem_memdup(from->slots, from->slots_len * sizeof(from->slots[0]));
    if (self->slots == NULL)
        return PFL_ENOMEM;
    self->slots_len = from->slots_len;
    self->used = from->used;
    self->last_id = from->last_id;
    self->charged = NULL;
    self->hash_key = from->hash_key;
    return 0;
}
