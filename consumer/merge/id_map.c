/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing, grown at three quarters full.
 *
 * Happy path: the same id as last time costs one compare; a known one a probe or two; a new one is
 * given the next fresh id. Failures: out of memory, more ids than allowed (a host must not make the
 * operator's memory grow without limit); both leave the map unchanged. The host chooses ids: slots
 * depend on a random key, so that it cannot make them collide.
 */
#include "consumer/merge/id_map.h"

#include "base/mem.h"

#define FIRST_CAPACITY 64u

void pfl_id_map_init(struct pfl_id_map *self, size_t max_len, const struct pfl_hash_key *hash_key)
{
    *self = (struct pfl_id_map){.max_len = max_len, .hash_key = *hash_key};
}

void pfl_id_map_fini(struct pfl_id_map *self)
{
    pfl_mem_free(self->slots);
    *self = (struct pfl_id_map){.max_len = self->max_len, .hash_key = self->hash_key};
}

static struct pfl_id_map_slot *find_slot(const struct pfl_id_map *self,
                                         struct pfl_id_map_slot *slots, size_t capacity,
                                         uint32_t from)
{
    size_t i = pfl_hash_keyed_number(&self->hash_key, from) & (capacity - 1);

    while (slots[i].to != 0 && slots[i].from != from)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static int grow(struct pfl_id_map *self)
{
    size_t capacity = self->capacity != 0 ? self->capacity * 2 : FIRST_CAPACITY;
    struct pfl_id_map_slot *slots = pfl_mem_calloc(capacity, sizeof(*slots));

    if (slots == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->capacity; i++)
        if (self->slots[i].to != 0)
            *find_slot(self, slots, capacity, self->slots[i].from) = self->slots[i];
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->capacity = capacity;
    return 0;
}

bool pfl_id_map_find(struct pfl_id_map *self, uint32_t from, uint32_t *ret_to)
{
    const struct pfl_id_map_slot *slot;

    if (self->last.to == 0 || self->last.from != from) {
        slot = self->capacity != 0 ? find_slot(self, self->slots, self->capacity, from) : NULL;
        if (slot == NULL || slot->to == 0)
            return false;
        self->last = *slot;
    }
    *ret_to = self->last.to;
    return true;
}

int pfl_id_map_add(struct pfl_id_map *self, uint32_t from, uint32_t *next_id, uint32_t *ret_to)
{
    if (self->len >= self->max_len || *next_id == 0)
        return PFL_ELIMIT;
    if ((self->len + 1) * 4 > self->capacity * 3) {
        int rc = grow(self);

        if (rc != 0)
            return rc;
    }
    self->last = (struct pfl_id_map_slot){from, (*next_id)++};
    *find_slot(self, self->slots, self->capacity, from) = self->last;
    self->len++;
    *ret_to = self->last.to;
    return 0;
}

int pfl_id_map_get(struct pfl_id_map *self, uint32_t from, uint32_t *next_id, uint32_t *ret_to,
                   bool *ret_is_new)
{
    bool is_new = !pfl_id_map_find(self, from, ret_to);
    int rc = is_new ? pfl_id_map_add(self, from, next_id, ret_to) : 0;

    if (rc == 0 && ret_is_new != NULL)
        *ret_is_new = is_new;
    return rc;
}
