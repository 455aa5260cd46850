/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequences of one trace buffer.
 *
 * Happy path: a chunk's (producer, writer) is the one found last, or is looked up in a hash index
 * of slots; a record names its sequence by slot. Sequences live in blocks that never move, so that
 * pointers stay valid; slots of forgotten ones are reused.
 * Failures: an addition fails without effect when memory, slots or a share run out. All else cannot
 * fail, because room is made when a sequence is added.
 * Limits: 2^24 - 2 sequences with records; 1024 to 1152 without records; the usage of
 * PFL_RETIRED_WRITER_STATS_MAX forgotten ones.
 */
#include "service/buffer/sequence_table.h"

#include <assert.h>

#include "base/mem.h"

#define INDEX_MIN 64u

#define BLOCK_BYTES (PFL_SEQUENCES_PER_BLOCK * sizeof(struct pfl_sequence))
#define RECENT_BYTES                                                                               \
    (PFL_SEQUENCES_PER_BLOCK * PFL_SEQUENCE_RECENT * sizeof(struct pfl_sequence_recent))

/* Of a clone's sequences. */
static const struct pfl_sequence_recent no_recent[PFL_SEQUENCE_RECENT];

void pfl_sequence_table_init(struct pfl_sequence_table *self, const struct pfl_hash_key *hash_key,
                             struct pfl_shares *charged)
{
    *self = (struct pfl_sequence_table){.hash_key = *hash_key,
                                        .charged = charged,
                                        .forgotten = {.hash_key = *hash_key, .charged = charged}};
    pfl_list_init(&self->empties);
}

void pfl_sequence_table_fini(struct pfl_sequence_table *self)
{
    for (uint32_t i = 0; self->blocks != NULL && i < self->blocks_len; i++) {
        pfl_mem_free(self->blocks[i]);
        if (self->charged != NULL)
            pfl_shares_give(self->charged, self->payers[i], PFL_SEQUENCES_BLOCK_BYTES);
    }
    pfl_mem_free(self->blocks);
    pfl_mem_free(self->payers);
    pfl_mem_free(self->free_slots);
    pfl_mem_free(self->index);
    pfl_retired_writer_stats_fini(&self->forgotten);
    pfl_sequence_table_init(self, &(struct pfl_hash_key){{0}}, NULL);
}

uint64_t pfl_sequence_table_get_bytes(const struct pfl_sequence_table *self)
{
    return self->blocks_len * PFL_SEQUENCES_BLOCK_BYTES +
           pfl_retired_writer_stats_get_bytes(&self->forgotten);
}

static int copy_blocks(struct pfl_sequence_table *self, const struct pfl_sequence_table *from)
{
    while (self->blocks_len < from->blocks_len) {
        struct pfl_sequence *block = pfl_mem_memdup(from->blocks[self->blocks_len], BLOCK_BYTES);

        if (block == NULL)
            return PFL_ENOMEM;
        for (uint32_t i = 0; i < PFL_SEQUENCES_PER_BLOCK; i++)
            block[i].recent = (struct pfl_sequence_recent *)(uintptr_t)no_recent;
        self->blocks[self->blocks_len] = block;
        self->blocks_len++;
    }
    return 0;
}

static void copy_numbers(struct pfl_sequence_table *self, const struct pfl_sequence_table *from)
{
    const struct pfl_list *it;

    self->hash_key = from->hash_key;
    self->is_copy = true;
    self->blocks_capacity = from->blocks_capacity;
    self->slots_used = from->slots_used;
    self->count = from->count;
    self->free_len = from->free_len;
    self->index_capacity = from->index_capacity;
    self->empties_len = from->empties_len;
    PFL_LIST_EACH (it, &from->empties) {
        uint32_t slot = PFL_CONTAINER_OF(it, struct pfl_sequence, empties)->slot;

        pfl_list_append(&self->empties, &pfl_sequence_table_at(self, slot)->empties);
    }
}

int pfl_sequence_table_copy(struct pfl_sequence_table *self, const struct pfl_sequence_table *from)
{
    size_t slots = (size_t)from->blocks_capacity * PFL_SEQUENCES_PER_BLOCK;

    if (from->index_capacity == 0)
        return 0;
    self->index = pfl_mem_memdup(from->index, from->index_capacity * sizeof(*from->index));
    self->blocks = pfl_mem_calloc(from->blocks_capacity, sizeof(struct pfl_sequence *));
    self->free_slots = pfl_mem_calloc(slots, sizeof(*self->free_slots));
    if (self->index == NULL || self->blocks == NULL || self->free_slots == NULL ||
        copy_blocks(self, from) != 0 ||
        pfl_retired_writer_stats_copy(&self->forgotten, &from->forgotten) != 0) {
        pfl_sequence_table_fini(self);
        return PFL_ENOMEM;
    }
    if (from->free_len != 0)
        memcpy(self->free_slots, from->free_slots, from->free_len * sizeof(*from->free_slots));
    copy_numbers(self, from);
    return 0;
}

void pfl_sequence_table_settle(struct pfl_sequence_table *self)
{
    if (self->empties_len == 0) {
        pfl_list_init(&self->empties);
        return;
    }
    self->empties.next->prev = &self->empties;
    self->empties.prev->next = &self->empties;
}

static uint64_t key_of(const struct pfl_sequence *seq)
{
    return pfl_sequence_key(seq->source.producer_serial, seq->source.producer_id,
                            seq->source.writer_id);
}

/* Home of a key in the index. */
static uint32_t home_of(const struct pfl_sequence_table *self, uint64_t key)
{
    return pfl_hash_keyed_number(&self->hash_key, key) & (self->index_capacity - 1u);
}

/* The index position that holds the key, or the free one where it belongs. */
static uint32_t probe(const struct pfl_sequence_table *self, uint64_t key)
{
    uint32_t at = home_of(self, key);

    while (self->index[at] != 0 && key_of(pfl_sequence_table_at(self, self->index[at] - 1u)) != key)
        at = (at + 1u) & (self->index_capacity - 1u);
    return at;
}

struct pfl_sequence *pfl_sequence_table_find(struct pfl_sequence_table *self, uint64_t key)
{
    uint32_t at;

    if (self->recent != NULL && key_of(self->recent) == key)
        return self->recent;
    if (self->index_capacity == 0)
        return NULL;
    at = probe(self, key);
    if (self->index[at] == 0)
        return NULL;
    self->recent = pfl_sequence_table_at(self, self->index[at] - 1u);
    return self->recent;
}

/* Room for one more key at a load of at most one half. */
static int grow_index(struct pfl_sequence_table *self)
{
    uint32_t old_capacity = self->index_capacity;
    uint32_t *old = self->index;
    uint32_t capacity = old_capacity == 0 ? INDEX_MIN : old_capacity * 2u;
    uint32_t *index;

    if ((self->count + 1u) * 2u <= old_capacity)
        return 0;
    index = pfl_mem_calloc(capacity, sizeof(*index));
    if (index == NULL)
        return PFL_ENOMEM;
    self->index = index;
    self->index_capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i] != 0)
            index[probe(self, key_of(pfl_sequence_table_at(self, old[i] - 1u)))] = old[i];
    }
    pfl_mem_free(old);
    return 0;
}

static int grow_block_list(struct pfl_sequence_table *self)
{
    uint32_t capacity = self->blocks_capacity == 0 ? 4u : self->blocks_capacity * 2u;
    struct pfl_sequence **blocks;
    uint64_t *payers;
    uint32_t *free_slots;

    if (self->blocks_len < self->blocks_capacity)
        return 0;
    free_slots = pfl_mem_realloc(self->free_slots,
                                 (size_t)capacity * PFL_SEQUENCES_PER_BLOCK * sizeof(*free_slots));
    if (free_slots == NULL)
        return PFL_ENOMEM;
    self->free_slots = free_slots;
    payers = pfl_mem_realloc(self->payers, capacity * sizeof(*payers));
    if (payers == NULL)
        return PFL_ENOMEM;
    self->payers = payers;
    blocks = pfl_mem_realloc(self->blocks, capacity * sizeof(struct pfl_sequence *));
    if (blocks == NULL)
        return PFL_ENOMEM;
    self->blocks = blocks;
    self->blocks_capacity = capacity;
    return 0;
}

static int add_block(struct pfl_sequence_table *self, uint64_t who)
{
    struct pfl_sequence *block;
    int rc = grow_block_list(self);

    if (rc != 0)
        return rc;
    if (self->charged != NULL && !pfl_shares_take(self->charged, who, PFL_SEQUENCES_BLOCK_BYTES))
        return PFL_ELIMIT;
    block = pfl_mem_zalloc(BLOCK_BYTES + RECENT_BYTES);
    if (block == NULL) {
        if (self->charged != NULL)
            pfl_shares_give(self->charged, who, PFL_SEQUENCES_BLOCK_BYTES);
        return PFL_ENOMEM;
    }
    self->payers[self->blocks_len] = who;
    self->blocks[self->blocks_len++] = block;
    return 0;
}

static int take_slot(struct pfl_sequence_table *self, uint64_t who, uint32_t *ret_slot)
{
    int rc;

    if (self->free_len != 0) {
        *ret_slot = self->free_slots[--self->free_len];
        return 0;
    }
    if (self->slots_used >= PFL_SEQUENCES_MAX)
        return PFL_ELIMIT;
    if (self->slots_used == self->blocks_len * PFL_SEQUENCES_PER_BLOCK) {
        rc = add_block(self, who);
        if (rc != 0)
            return rc;
    }
    *ret_slot = self->slots_used++;
    return 0;
}

static struct pfl_sequence_recent *recent_of(const struct pfl_sequence_table *self, uint32_t slot)
{
    uint8_t *behind = (uint8_t *)self->blocks[slot / PFL_SEQUENCES_PER_BLOCK] + BLOCK_BYTES;

    return (struct pfl_sequence_recent *)(void *)behind +
           (size_t)(slot % PFL_SEQUENCES_PER_BLOCK) * PFL_SEQUENCE_RECENT;
}

int pfl_sequence_table_add(struct pfl_sequence_table *self,
                           const struct pfl_trace_buffer_source *source,
                           struct pfl_sequence **ret_sequence)
{
    uint64_t key =
        pfl_sequence_key(source->producer_serial, source->producer_id, source->writer_id);
    struct pfl_sequence *seq = pfl_sequence_table_find(self, key);
    uint32_t slot = 0;
    int rc;

    if (seq != NULL) {
        *ret_sequence = seq;
        return 0;
    }
    rc = self->is_copy ? PFL_ELIMIT : grow_index(self);
    if (rc == 0)
        rc = take_slot(self, source->who, &slot);
    if (rc != 0)
        return rc;

    seq = pfl_sequence_table_at(self, slot);
    *seq = (struct pfl_sequence){.slot = slot, .source = *source, .recent = recent_of(self, slot)};
    memset(seq->recent, 0, PFL_SEQUENCE_RECENT * sizeof(*seq->recent));
    (void)pfl_retired_writer_stats_take(&self->forgotten, key, &seq->source.usage);
    self->index[probe(self, key)] = slot + 1u;
    self->count++;
    self->recent = seq;
    pfl_sequence_table_mark_empty(self, seq);
    *ret_sequence = seq;
    return 0;
}

void pfl_sequence_table_mark_filled(struct pfl_sequence_table *self, struct pfl_sequence *seq)
{
    pfl_list_remove(&seq->empties);
    self->empties_len--;
}

void pfl_sequence_table_mark_empty(struct pfl_sequence_table *self, struct pfl_sequence *seq)
{
    pfl_list_append(&self->empties, &seq->empties);
    self->empties_len++;
}

/* Takes position `at` out of the index and closes the gap, so that probing never meets a hole. */
static void remove_from_index(struct pfl_sequence_table *self, uint32_t at)
{
    uint32_t mask = self->index_capacity - 1u;

    self->index[at] = 0;
    for (uint32_t i = (at + 1u) & mask; self->index[i] != 0; i = (i + 1u) & mask) {
        uint32_t entry = self->index[i];

        self->index[i] = 0;
        self->index[probe(self, key_of(pfl_sequence_table_at(self, entry - 1u)))] = entry;
    }
}

static void forget(struct pfl_sequence_table *self, struct pfl_sequence *seq)
{
    assert(seq->first == 0);
    pfl_sequence_table_mark_filled(self, seq);
    remove_from_index(self, probe(self, key_of(seq)));
    pfl_retired_writer_stats_put(&self->forgotten, key_of(seq), &seq->source);
    self->free_slots[self->free_len++] = seq->slot;
    self->count--;
    if (self->recent == seq)
        self->recent = NULL;
}

void pfl_sequence_table_each(const struct pfl_sequence_table *self,
                             void (*each)(void *user, const struct pfl_trace_buffer_source *s),
                             void *user)
{
    for (uint32_t i = 0; i < self->index_capacity; i++) {
        if (self->index[i] != 0)
            each(user, &pfl_sequence_table_at(self, self->index[i] - 1u)->source);
    }
    for (uint32_t i = 0; i < self->forgotten.len; i++) {
        const struct pfl_usage_entry *entry = &self->forgotten.entries[i];
        const struct pfl_trace_buffer_source source = {
            .producer_id = (uint16_t)(entry->key >> 16),
            .writer_id = (uint16_t)entry->key,
            .producer_serial = (uint32_t)(entry->key >> 32),
            .who = entry->who,
            .usage = entry->usage,
        };

        each(user, &source);
    }
}

void pfl_sequence_table_trim(struct pfl_sequence_table *self)
{
    if (self->empties_len <= PFL_SEQUENCES_MAX_EMPTY)
        return;
    while (self->empties_len > PFL_SEQUENCES_KEPT_EMPTY)
        forget(self, PFL_CONTAINER_OF(self->empties.next, struct pfl_sequence, empties));
}
