/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What writers committed whose sequence was forgotten (sequence_table.h). TraceStats reports all
 * writers of a session, long after the last of their packets was read.
 */
#ifndef PFL_SERVICE_RETIRED_WRITER_STATS_H
#define PFL_SERVICE_RETIRED_WRITER_STATS_H

#include "service/buffer/trace_buffer.h"

/* As many as one producer can have. */
#define PFL_RETIRED_WRITER_STATS_MAX 32768u

struct pfl_usage_entry {
    uint32_t key; /* pfl_sequence_key */
    struct pfl_trace_buffer_usage usage;
};

struct pfl_retired_writer_stats {
    struct pfl_usage_entry *entries; /* owned; in no order */
    uint32_t len;
    uint32_t capacity; /* a power of two */
    uint32_t *index;   /* owned; open addressing, place in entries + 1; twice the capacity */
    struct pfl_hash_key hash_key;
};

/* A zeroed one (but for the key) is empty. */
void pfl_retired_writer_stats_fini(struct pfl_retired_writer_stats *self);
/* Makes `self`, which is empty, equal to `from`. PFL_ENOMEM: `self` stays empty. */
PFL_MUST_USE int pfl_retired_writer_stats_copy(struct pfl_retired_writer_stats *self,
                                               const struct pfl_retired_writer_stats *from);
/* Adds a key that is not there. Without memory, or past the limit, it is not remembered. */
void pfl_retired_writer_stats_put(struct pfl_retired_writer_stats *self, uint32_t key,
                                  const struct pfl_trace_buffer_usage *usage);
/* Removes it; false: it is not there. */
bool pfl_retired_writer_stats_take(struct pfl_retired_writer_stats *self, uint32_t key,
                                   struct pfl_trace_buffer_usage *ret_usage);

#endif
