/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers a long packet: one of so many chunks or bytes that others should not wait until it is
 * read. Each step finds some of its fragments, and later copies some of them to the packet's own
 * memory. The ring may change between two steps.
 */
#ifndef PFL_SERVICE_GATHER_H
#define PFL_SERVICE_GATHER_H

#include "proto/packet.h"
#include "service/buffer/fragments.h"
#include "service/buffer/sequence.h"

/* A shorter packet, with fewer fragments, is read at once, in place. */
#define PFL_LONG_PACKET_FRAGMENTS 256u
#define PFL_LONG_PACKET_BYTES     ((size_t)1 << 20)
/* A longer packet is lost: a length in a trace has 28 bits, and the trusted fields follow. */
#define PFL_LONG_PACKET_MAX_BYTES ((size_t)0x0fffff7f)
/* Limits of one step. */
#define PFL_GATHER_STEP_RECORDS 1024u
#define PFL_GATHER_STEP_BYTES   ((size_t)256 * 1024)
/* Free bytes after the packet, for its trusted fields. */
#define PFL_LONG_PACKET_TAIL 128u

/* The bytes of a long packet, in a mapping. */
struct pfl_long_packet {
    uint8_t *base; /* owned; NULL: there is none */
    size_t bytes;
    size_t mapped_bytes;
};
/* Frees the memory, in turns of the loop. Legal on zeroed memory. */
void pfl_long_packet_fini(struct pfl_long_packet *self);
/* The mappings of all long packets. */
uint64_t pfl_long_packets_get_bytes(void);
/* Frees the memory of [begin, end), except its last page. */
void pfl_long_packet_release(struct pfl_long_packet *self, size_t begin, size_t end);

enum pfl_gather_phase {
    PFL_GATHER_IDLE = 0,
    PFL_GATHER_LOOKING, /* for the packet's end */
    PFL_GATHER_COPYING,
    PFL_GATHER_READY, /* the packet is complete */
};

struct pfl_gather {
    enum pfl_gather_phase phase;
    const struct pfl_sequence *seq; /* borrowed until pfl_gather_forget; NULL: none */
    pfl_place first;                /* the record that the packet begins in */
    pfl_place prev;                 /* the record before `place`; 0: none */
    pfl_place place;                /* the last record that was visited */
    uint32_t last_chunk_id;         /* of the last fragment that was found */
    size_t bytes;                   /* of the fragments that were found, or copied */
    bool is_valid;                  /* the result of pfl_packet_is_valid for the copied part */
    struct pfl_packet_walk walk;
    struct pfl_long_packet packet; /* owned */
};

enum pfl_gather_result {
    PFL_GATHER_MORE,  /* call again */
    PFL_GATHER_DONE,  /* the phase is READY */
    PFL_GATHER_WAITS, /* fragments or patches are missing and may still come */
    PFL_GATHER_LOST,  /* for `ret_reason`; `last_chunk_id` is its last fragment's */
};

/* One step for the packet that begins with `first` in the first record of `seq`. After WAITS and
 * LOST the phase is IDLE. */
enum pfl_gather_result pfl_gather_step(struct pfl_gather *self, const struct pfl_trace_ring *ring,
                                       const struct pfl_sequence *seq,
                                       const struct pfl_fragment *first, uint32_t *ret_reason);
/* Does the packet in progress begin in the first record of `seq`? */
static inline bool pfl_gather_is_at(const struct pfl_gather *self, const struct pfl_sequence *seq)
{
    return self->seq == seq && self->first == seq->first;
}
/* Call before the first record of `seq` is erased. */
static inline void pfl_gather_forget(struct pfl_gather *self, const struct pfl_sequence *seq)
{
    if (__builtin_expect(self->seq == seq, false))
        self->seq = NULL;
}
/* Aborts, and frees the memory; legal on zeroed memory. */
__attribute__((cold)) void pfl_gather_drop(struct pfl_gather *self);

#endif
