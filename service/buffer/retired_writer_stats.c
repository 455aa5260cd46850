/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What forgotten writers committed.
 *
 * Happy path: entries lie side by side and a hash index finds them; the last entry fills the place
 * of one that is removed. Failures: an entry without memory, or
 * without a share of its user, is left out. Limits:
 * PFL_RETIRED_WRITER_STATS_MAX entries, 5 MB with the index.
 */
#include "service/buffer/retired_writer_stats.h"

#include "base/mem.h"

/* An entry, and its part of the index. */
#define ENTRY_BYTES (sizeof(struct pfl_usage_entry) + 2 * sizeof(uint32_t))

_Static_assert(PFL_RETIRED_WRITER_STATS_FIRST << (PFL_RETIRED_WRITER_STATS_STEPS - 1) ==
                   PFL_RETIRED_WRITER_STATS_MAX,
               "a payer for each step");

/* Step 0 is the first room, each other one as much as all before it. */
static uint64_t bytes_of_step(unsigned step)
{
    return ((uint64_t)PFL_RETIRED_WRITER_STATS_FIRST << (step == 0 ? 0 : step - 1)) * ENTRY_BYTES;
}

uint64_t pfl_retired_writer_stats_get_bytes(const struct pfl_retired_writer_stats *self)
{
    return self->capacity * ENTRY_BYTES;
}

static void give_all(struct pfl_retired_writer_stats *self)
{
    uint32_t capacity = PFL_RETIRED_WRITER_STATS_FIRST;

    for (unsigned i = 0; self->charged != NULL && capacity <= self->capacity; i++, capacity *= 2)
        pfl_shares_give(self->charged, self->payers[i], bytes_of_step(i));
}

void pfl_retired_writer_stats_fini(struct pfl_retired_writer_stats *self)
{
    give_all(self);
    pfl_mem_free(self->entries);
    pfl_mem_free(self->index);
    *self = (struct pfl_retired_writer_stats){0};
}

int pfl_retired_writer_stats_copy(struct pfl_retired_writer_stats *self,
                                  const struct pfl_retired_writer_stats *from)
{
    if (from->len == 0)
        return 0;
    self->entries = pfl_mem_memdup(from->entries, from->capacity * sizeof(*from->entries));
    self->index = pfl_mem_memdup(from->index, 2u * from->capacity * sizeof(*from->index));
    if (self->entries == NULL || self->index == NULL) {
        pfl_retired_writer_stats_fini(self);
        return PFL_ENOMEM;
    }
    self->len = from->len;
    self->capacity = from->capacity;
    self->hash_key = from->hash_key;
    return 0;
}

/* The index position that holds the key, or the free one where it belongs. */
static uint32_t probe(const struct pfl_retired_writer_stats *self, uint64_t key)
{
    uint32_t mask = 2u * self->capacity - 1u;
    uint32_t at = pfl_hash_keyed_number(&self->hash_key, key) & mask;

    while (self->index[at] != 0 && self->entries[self->index[at] - 1u].key != key)
        at = (at + 1u) & mask;
    return at;
}

static bool grow(struct pfl_retired_writer_stats *self, uint32_t capacity)
{
    struct pfl_usage_entry *entries;
    uint32_t *index;

    index = pfl_mem_calloc(2u * capacity, sizeof(*index));
    if (index == NULL)
        return false;
    entries = pfl_mem_realloc(self->entries, capacity * sizeof(*entries));
    if (entries == NULL) {
        pfl_mem_free(index);
        return false;
    }
    pfl_mem_free(self->index);
    self->index = index;
    self->entries = entries;
    self->capacity = capacity;
    for (uint32_t i = 0; i < self->len; i++)
        index[probe(self, entries[i].key)] = i + 1u;
    return true;
}

static bool make_room(struct pfl_retired_writer_stats *self, uint64_t who)
{
    uint32_t capacity = self->capacity == 0 ? PFL_RETIRED_WRITER_STATS_FIRST : 2u * self->capacity;
    unsigned step = 0;

    if (self->len < self->capacity)
        return true;
    if (capacity > PFL_RETIRED_WRITER_STATS_MAX)
        return false;
    while (PFL_RETIRED_WRITER_STATS_FIRST << step < capacity)
        step++;
    if (self->charged != NULL && !pfl_shares_take(self->charged, who, bytes_of_step(step)))
        return false;
    self->payers[step] = who;
    if (grow(self, capacity))
        return true;
    if (self->charged != NULL)
        pfl_shares_give(self->charged, who, bytes_of_step(step));
    return false;
}

void pfl_retired_writer_stats_put(struct pfl_retired_writer_stats *self, uint64_t key,
                                  const struct pfl_trace_buffer_source *source)
{
    if (!make_room(self, source->who))
        return;
    self->index[probe(self, key)] = self->len + 1u;
    self->entries[self->len++] =
        (struct pfl_usage_entry){.key = key, .who = source->who, .usage = source->usage};
}

/* Frees position `at` of the index and closes the gap, so that probing never meets a hole. */
static void remove_from_index(struct pfl_retired_writer_stats *self, uint32_t at)
{
    uint32_t mask = 2u * self->capacity - 1u;

    self->index[at] = 0;
    for (uint32_t i = (at + 1u) & mask; self->index[i] != 0; i = (i + 1u) & mask) {
        uint32_t place = self->index[i];

        self->index[i] = 0;
        self->index[probe(self, self->entries[place - 1u].key)] = place;
    }
}

bool pfl_retired_writer_stats_take(struct pfl_retired_writer_stats *self, uint64_t key,
                                   struct pfl_trace_buffer_usage *ret_usage)
{
    uint32_t at, place;

    if (self->len == 0)
        return false;
    at = probe(self, key);
    place = self->index[at];
    if (place == 0)
        return false;
    *ret_usage = self->entries[place - 1u].usage;
    remove_from_index(self, at);
    if (place != self->len) {
        self->index[probe(self, self->entries[self->len - 1u].key)] = place;
        self->entries[place - 1u] = self->entries[self->len - 1u];
    }
    self->len--;
    return true;
}
