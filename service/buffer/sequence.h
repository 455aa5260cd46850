/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence: the data of one writer of one producer in a trace buffer. Its records form a list in
 * the ring in the order of chunk ids; only the first is ever removed.
 */
#ifndef PFL_SERVICE_SEQUENCE_H
#define PFL_SERVICE_SEQUENCE_H

#include "base/list.h"
#include "service/buffer/trace_buffer.h"
#include "service/buffer/trace_ring.h"

/* DataLossReason (docs/abi/tracebuffer.md 6). */
enum pfl_loss_reason {
    PFL_LOSS_PRESENT = 1,
    PFL_LOSS_READ_GAP = 2,
    PFL_LOSS_CHUNK_CORRUPTED = 4,
    PFL_LOSS_ORPHAN_CONTINUATION = 8,
    PFL_LOSS_REASSEMBLY_GAP = 16,
    PFL_LOSS_REASSEMBLY_BROKEN_CHAIN = 32,
    PFL_LOSS_OVERWRITE = 64,
    PFL_LOSS_WRITER_ABORT = 128,
};

/* The chunk that left the list last. */
struct pfl_sequence_consumed {
    uint32_t chunk_id;
    uint16_t payload_bytes;
    bool is_known; /* false: none has left yet */
    bool was_incomplete;
};

#define PFL_SEQUENCE_RECENT 64u /* chunks of one page each in the default shared memory */

/* A recently stored record: patches follow their chunk soon, and find it here without a search. */
struct pfl_sequence_recent {
    pfl_place place;        /* 0 when it left */
    uint32_t last_fragment; /* where the data of its last fragment begins; UINT32_MAX unknown */
};

struct pfl_sequence {
    pfl_place first; /* oldest chunk id; 0 when the sequence has no record */
    pfl_place last;
    uint32_t loss_reasons; /* since the last packet that was returned */
    uint32_t slot;
    uint64_t stalled_in_pass; /* the reader's pass in which nothing more can be read */
    struct pfl_sequence_consumed consumed;
    /* Continuations up to this chunk belong to a long packet that was read or lost as a whole:
     * they are skipped without a loss. */
    uint32_t passed_chunk_id;
    bool has_passed;
    /* By chunk id modulo PFL_SEQUENCE_RECENT; a hint: compare the chunk id. Borrowed from the
     * table; all zero, and never written to, in a clone. */
    struct pfl_sequence_recent *recent;
    struct pfl_list empties; /* in the table's list of sequences without records */
    struct pfl_trace_buffer_source source;
};

static inline struct pfl_sequence_recent *pfl_sequence_recent_of(struct pfl_sequence *self,
                                                                 uint32_t chunk_id)
{
    return &self->recent[chunk_id % PFL_SEQUENCE_RECENT];
}

/* The position of a chunk id: between `before` and `after` (0: an end of the list). */
struct pfl_sequence_spot {
    pfl_place before; /* the chunk itself when is_match */
    pfl_place after;
    bool is_match;
    bool is_lost;   /* the search gave up */
    uint32_t steps; /* in: how many records it may pass; out: how many it passed */
};

static inline void pfl_sequence_add_loss(struct pfl_sequence *self, uint32_t reason)
{
    self->loss_reasons |= PFL_LOSS_PRESENT | reason;
}

/* Searches from the newest on, because chunks come nearly in order. `spot->steps` is set. */
void pfl_sequence_find(const struct pfl_sequence *self, const struct pfl_trace_ring *ring,
                       uint32_t chunk_id, struct pfl_sequence_spot *spot);
/* Inserts the record at `place`, which belongs to this sequence, into the list. */
void pfl_sequence_insert(struct pfl_sequence *self, const struct pfl_trace_ring *ring,
                         const struct pfl_sequence_spot *spot, pfl_place place);
/* Removes the first record, remembers it as consumed and makes it padding. The caller has called
 * pfl_trace_ring_keep for it. */
void pfl_sequence_erase_first(struct pfl_sequence *self, const struct pfl_trace_ring *ring);

/* The record after `place` when `prev` is the one before it; 0 at the end. */
static inline pfl_place pfl_sequence_after(const struct pfl_trace_ring *ring, pfl_place prev,
                                           pfl_place place)
{
    return (pfl_trace_ring_get(ring, place)->link & PFL_RECORD_LINK_MASK) ^ prev;
}

#endif
