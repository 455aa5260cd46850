/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What writers committed whose sequence was forgotten (sequence_table.h). TraceStats reports all
 * writers of a session, long after the last of their packets was read.
 */
#ifndef PFL_SERVICE_RETIRED_WRITER_STATS_H
#define PFL_SERVICE_RETIRED_WRITER_STATS_H

#include "base/shares.h"
#include "service/buffer/trace_buffer.h"

/* As many as one producer can have. */
#define PFL_RETIRED_WRITER_STATS_MAX   32768u
#define PFL_RETIRED_WRITER_STATS_FIRST 256u /* room is made for, and doubled each time */
#define PFL_RETIRED_WRITER_STATS_STEPS 8u

struct pfl_usage_entry {
    uint64_t key; /* pfl_sequence_key */
    uint64_t who;
    struct pfl_trace_buffer_usage usage;
};

struct pfl_retired_writer_stats {
    struct pfl_usage_entry *entries; /* owned; in no order */
    uint32_t len;
    uint32_t capacity; /* a power of two */
    uint32_t *index;   /* owned; open addressing, place in entries + 1; twice the capacity */
    struct pfl_hash_key hash_key;
    struct pfl_shares *charged;                      /* borrowed; NULL: nobody is charged */
    uint64_t payers[PFL_RETIRED_WRITER_STATS_STEPS]; /* of each step of growth */
};

/* A zeroed one (but for `hash_key` and `charged`) is empty. */
void pfl_retired_writer_stats_fini(struct pfl_retired_writer_stats *self);
/* Makes `self`, which is empty, equal to `from`. PFL_ENOMEM: `self` stays empty. */
PFL_MUST_USE int pfl_retired_writer_stats_copy(struct pfl_retired_writer_stats *self,
                                               const struct pfl_retired_writer_stats *from);
/* Adds a key that is not there, with the usage of `source`. Without memory, past the limit, or
 * without a share of source->who, it is not remembered. */
void pfl_retired_writer_stats_put(struct pfl_retired_writer_stats *self, uint64_t key,
                                  const struct pfl_trace_buffer_source *source);
uint64_t pfl_retired_writer_stats_get_bytes(const struct pfl_retired_writer_stats *self);
/* Removes it; false: it is not there. */
bool pfl_retired_writer_stats_take(struct pfl_retired_writer_stats *self, uint64_t key,
                                   struct pfl_trace_buffer_usage *ret_usage);

#endif
