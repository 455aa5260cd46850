/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequences of one trace buffer, by (producer, writer) and by slot. Those without records are
 * kept for a while, because their last chunk id reveals a gap. The oldest of them are forgotten,
 * except what they committed.
 *
 * A writer costs memory whatever the size of its chunks. What the table grows by is charged to the
 * user whose writer needs it, until the table is freed; who has no share left gets no sequence.
 */
#ifndef PFL_SERVICE_SEQUENCE_TABLE_H
#define PFL_SERVICE_SEQUENCE_TABLE_H

#include "base/shares.h"
#include "service/buffer/retired_writer_stats.h"
#include "service/buffer/sequence.h"

#define PFL_SEQUENCES_KEPT_EMPTY 1024u
/* Forgetting starts past this and goes down to PFL_SEQUENCES_KEPT_EMPTY. */
#define PFL_SEQUENCES_MAX_EMPTY 1152u
#define PFL_SEQUENCES_MAX       (PFL_RECORD_OWNER_MASK - 1u)

#define PFL_SEQUENCES_PER_BLOCK 32u
/* Of a block, with its part of the lists and of the index. */
#define PFL_SEQUENCES_BLOCK_BYTES                                                                  \
    (PFL_SEQUENCES_PER_BLOCK *                                                                     \
         (sizeof(struct pfl_sequence) + PFL_SEQUENCE_RECENT * sizeof(struct pfl_sequence_recent) + \
          4 * sizeof(uint32_t)) +                                                                  \
     2 * sizeof(void *))

struct pfl_sequence_table {
    struct pfl_sequence **blocks; /* owned, and each block: its recent chunks lie behind it */
    uint64_t *payers;             /* owned; of each block, while something is charged */
    struct pfl_shares *charged;   /* borrowed; NULL: nobody is charged */
    bool is_copy;                 /* and so without recent chunks */
    uint32_t blocks_len;
    uint32_t blocks_capacity;
    uint32_t slots_used; /* slots ever given */
    uint32_t count;
    uint32_t *free_slots; /* owned stack; room for every slot, so that giving back cannot fail */
    uint32_t free_len;
    uint32_t *index; /* owned; open addressing, slot + 1; power of two */
    uint32_t index_capacity;
    struct pfl_list empties; /* least recently emptied first */
    uint32_t empties_len;
    struct pfl_retired_writer_stats forgotten; /* usage of forgotten sequences */
    struct pfl_sequence *recent;               /* the one found last */
    struct pfl_hash_key
        hash_key; /* secret: with it, a producer could make keys collide in the index */
};

/* `charged` is borrowed until fini; NULL: nobody is charged. */
void pfl_sequence_table_init(struct pfl_sequence_table *self, const struct pfl_hash_key *hash_key,
                             struct pfl_shares *charged);
void pfl_sequence_table_fini(struct pfl_sequence_table *self);
/* Makes `self`, which is empty, equal to `from`, slot by slot, but without recent chunks:
 * sequences are read and forgotten there, and none is added. PFL_ENOMEM: `self` stays empty. */
PFL_MUST_USE int pfl_sequence_table_copy(struct pfl_sequence_table *self,
                                         const struct pfl_sequence_table *from);
/* Call after the table was moved in memory as bytes: repairs pointers to itself. */
void pfl_sequence_table_settle(struct pfl_sequence_table *self);

/* Ids of producers that are gone are used again; a producer's id and serial number together never
 * are. */
static inline uint64_t pfl_sequence_key(uint32_t producer_serial, uint16_t producer_id,
                                        uint16_t writer_id)
{
    return (uint64_t)producer_serial << 32 | (uint32_t)producer_id << 16 | writer_id;
}

/* NULL when there is none. */
struct pfl_sequence *pfl_sequence_table_find(struct pfl_sequence_table *self, uint64_t key);
/* Finds it or adds it, without records and so among the empty ones. PFL_ENOMEM, PFL_ELIMIT (also
 * of the share of source->who, and in a copy). */
PFL_MUST_USE int pfl_sequence_table_add(struct pfl_sequence_table *self,
                                        const struct pfl_trace_buffer_source *source,
                                        struct pfl_sequence **ret_sequence);
/* The sequence got its first record, or lost its last one. */
void pfl_sequence_table_mark_filled(struct pfl_sequence_table *self, struct pfl_sequence *seq);
void pfl_sequence_table_mark_empty(struct pfl_sequence_table *self, struct pfl_sequence *seq);
/* What it takes of memory, nearly; it never becomes less. */
uint64_t pfl_sequence_table_get_bytes(const struct pfl_sequence_table *self);
/* Forgets the oldest empty sequences when there are too many; pointers to them end here. */
void pfl_sequence_table_trim(struct pfl_sequence_table *self);
/* As pfl_trace_buffer_each_source says. */
void pfl_sequence_table_each(const struct pfl_sequence_table *self,
                             void (*each)(void *user, const struct pfl_trace_buffer_source *s),
                             void *user);

static inline struct pfl_sequence *pfl_sequence_table_at(const struct pfl_sequence_table *self,
                                                         uint32_t slot)
{
    return &self->blocks[slot / PFL_SEQUENCES_PER_BLOCK][slot % PFL_SEQUENCES_PER_BLOCK];
}

/* The sequence of a record that is no padding. */
static inline struct pfl_sequence *pfl_sequence_table_of(const struct pfl_sequence_table *self,
                                                         const struct pfl_record *rec)
{
    return pfl_sequence_table_at(self, (rec->owner & PFL_RECORD_OWNER_MASK) - 1u);
}

#endif
