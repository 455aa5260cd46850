/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing that only grows: a session's writers are never forgotten,
 * because their packets may still lie in a buffer. Failures: PFL_ELIMIT, PFL_ENOMEM; the table is
 * then as it was.
 */
#include "service/core/sequence_ids.h"

#include "base/mem.h"

#define FIRST_SLOTS 32u

void pfl_sequence_ids_fini(struct pfl_sequence_ids *self)
{
    pfl_mem_free(self->slots);
    *self = (struct pfl_sequence_ids){0};
}

/* The slot that holds `key`, or the empty one where it belongs. */
static uint64_t *find_slot(const struct pfl_sequence_ids *self, uint64_t *slots, size_t slots_len,
                           uint32_t key)
{
    size_t at = pfl_hash_keyed_u32(&self->hash_key, key) & (slots_len - 1);

    while (slots[at] != 0 && (uint32_t)(slots[at] >> 32) != key)
        at = (at + 1) & (slots_len - 1);
    return &slots[at];
}

static int grow(struct pfl_sequence_ids *self)
{
    size_t slots_len = self->slots_len != 0 ? self->slots_len * 2 : FIRST_SLOTS;
    uint64_t *slots = pfl_mem_calloc(slots_len, sizeof(slots[0]));

    if (slots == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->slots_len; i++) {
        if (self->slots[i] != 0)
            *find_slot(self, slots, slots_len, (uint32_t)(self->slots[i] >> 32)) = self->slots[i];
    }
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->slots_len = slots_len;
    return 0;
}

int pfl_sequence_ids_get(struct pfl_sequence_ids *self, uint16_t producer_id, uint16_t writer_id,
                         uint32_t *ret_id)
{
    uint32_t key = (uint32_t)producer_id << 16 | writer_id;
    uint64_t *slot;
    int rc;

    if (self->used * 2 >= self->slots_len) {
        rc = grow(self);
        if (rc != 0)
            return rc;
    }
    slot = find_slot(self, self->slots, self->slots_len, key);
    if (*slot == 0) {
        if (self->used >= PFL_SEQUENCE_IDS_MAX)
            return PFL_ELIMIT;
        *slot = (uint64_t)key << 32 | (PFL_SEQUENCE_ID_FIRST + self->used);
        self->used++;
    }
    *ret_id = (uint32_t)*slot;
    return 0;
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
    self->hash_key = from->hash_key;
    return 0;
}
