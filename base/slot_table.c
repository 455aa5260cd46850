/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing: see slot_table.h. Happy path: a key is hashed to a slot; it
 * is there, or in one of the next, before the first empty one. Nothing is removed: its user makes
 * another table of what stays. Failures: out of memory, which changes nothing. Owns the slots.
 * Limits: its user's.
 */
#include "base/slot_table.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 32u

void pfl_slot_table_init(struct pfl_slot_table *self, size_t slot_bytes, size_t key_bytes,
                         const struct pfl_hash_key *hash_key)
{
    static const struct pfl_hash_key none;

    assert(key_bytes == sizeof(uint32_t) || key_bytes == sizeof(uint64_t));
    *self = (struct pfl_slot_table){.slot_bytes = slot_bytes,
                                    .key_bytes = key_bytes,
                                    .hash_key = hash_key != NULL ? *hash_key : none};
}

void pfl_slot_table_fini(struct pfl_slot_table *self)
{
    pfl_mem_free(self->slots);
    *self = (struct pfl_slot_table){.slots = NULL};
}

static uint64_t key_of(const struct pfl_slot_table *self, const uint8_t *slot)
{
    uint64_t key;
    uint32_t small;

    if (self->key_bytes == sizeof(key)) {
        memcpy(&key, slot, sizeof(key));
        return key;
    }
    memcpy(&small, slot, sizeof(small));
    return small;
}

/* The slot that has `key`, or the empty one where it belongs. */
static uint8_t *find_slot(const struct pfl_slot_table *self, uint64_t key)
{
    size_t at = pfl_hash_keyed_number(&self->hash_key, key) & (self->slots_len - 1);

    for (;;) {
        uint8_t *slot = self->slots + at * self->slot_bytes;
        uint64_t found = key_of(self, slot);

        if (found == key || found == 0)
            return slot;
        at = (at + 1) & (self->slots_len - 1);
    }
}

void *pfl_slot_table_find(const struct pfl_slot_table *self, uint64_t key)
{
    uint8_t *slot = self->slots_len != 0 ? find_slot(self, key) : NULL;

    return slot != NULL && key_of(self, slot) != 0 ? slot : NULL;
}

static int allocate(struct pfl_slot_table *self, size_t slots_len)
{
    self->slots = pfl_mem_calloc(slots_len, self->slot_bytes);
    self->slots_len = self->slots != NULL ? slots_len : 0;
    return self->slots != NULL ? 0 : PFL_ENOMEM;
}

int pfl_slot_table_reserve(struct pfl_slot_table *self)
{
    struct pfl_slot_table larger = *self;
    const uint8_t *slot;
    size_t at = 0;

    if ((self->used + 1) * 2 <= self->slots_len)
        return 0;
    if (allocate(&larger, self->slots_len != 0 ? self->slots_len * 2 : FIRST_SLOTS) != 0)
        return PFL_ENOMEM;
    while ((slot = pfl_slot_table_next(self, &at)) != NULL)
        memcpy(find_slot(&larger, key_of(self, slot)), slot, self->slot_bytes);
    pfl_mem_free(self->slots);
    *self = larger;
    return 0;
}

void *pfl_slot_table_put(struct pfl_slot_table *self, uint64_t key)
{
    uint32_t small = (uint32_t)key;
    uint8_t *slot = find_slot(self, key);

    assert(key != 0 && key_of(self, slot) == 0 && (self->used + 1) * 2 <= self->slots_len);
    if (self->key_bytes == sizeof(key))
        memcpy(slot, &key, sizeof(key));
    else
        memcpy(slot, &small, sizeof(small));
    self->used++;
    return slot;
}

void *pfl_slot_table_next(const struct pfl_slot_table *self, size_t *at)
{
    while (*at < self->slots_len) {
        uint8_t *slot = self->slots + (*at)++ * self->slot_bytes;

        if (key_of(self, slot) != 0)
            return slot;
    }
    return NULL;
}

int pfl_slot_table_init_like(struct pfl_slot_table *self, const struct pfl_slot_table *from,
                             size_t count)
{
    size_t slots_len = FIRST_SLOTS;

    while (slots_len < count * 2)
        slots_len *= 2;
    pfl_slot_table_init(self, from->slot_bytes, from->key_bytes, &from->hash_key);
    return allocate(self, slots_len);
}

int pfl_slot_table_init_copy(struct pfl_slot_table *self, const struct pfl_slot_table *from)
{
    struct pfl_slot_table copy = *from;

    if (from->slots_len != 0)
        copy.slots = pfl_mem_memdup(from->slots, from->slots_len * from->slot_bytes);
    if (from->slots_len != 0 && copy.slots == NULL)
        return PFL_ENOMEM;
    *self = copy;
    return 0;
}
