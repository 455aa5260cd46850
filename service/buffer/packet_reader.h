/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and consumes a sequence's packets in the order of chunk ids, from its first record to a
 * target record. It runs for a reader of the buffer, or because the ring needs the target's space
 * ("erasing"). Erasing never stalls, and returns packets only if slices are given.
 */
#ifndef PFL_SERVICE_PACKET_READER_H
#define PFL_SERVICE_PACKET_READER_H

#include <sys/uio.h>

#include "service/buffer/fragments.h"
#include "service/buffer/gather.h"
#include "service/buffer/sequence_table.h"

#define PFL_SLICES_INLINE 16u

/* The pieces of one packet. */
struct pfl_slices {
    struct iovec *iov; /* `few`, or owned when capacity > PFL_SLICES_INLINE */
    size_t len;
    size_t capacity;
    size_t bytes;
    struct iovec few[PFL_SLICES_INLINE];
};

void pfl_slices_init(struct pfl_slices *self);
void pfl_slices_fini(struct pfl_slices *self); /* frees a large array; usable again */

/* At each packet that is overwritten, and at records that come before it in its sequence; more only
 * from the credit of who overwrites it. */
#define PFL_ERASER_FREE_LOOKS 16u

struct pfl_packet_reader {
    const struct pfl_trace_ring *ring;    /* borrowed */
    struct pfl_sequence_table *table;     /* borrowed */
    struct pfl_trace_buffer_stats *stats; /* borrowed */
    struct pfl_slices *slices; /* borrowed; NULL: erasing, and the packets are not needed */
    struct pfl_gather *gather; /* borrowed: the reader's; an eraser reports erased records to it */
    struct pfl_trace_buffer_credit *credit; /* borrowed: who has it erased; NULL: none */
    bool is_erasing;
    bool is_paused;  /* next returned false in the middle of a long packet */
    bool is_behind;  /* erasing ended before the target: too many records come before it */
    uint32_t passed; /* records left before the target */
    uint64_t pass;   /* 0 when erasing */
    struct pfl_sequence *seq;
    struct pfl_record *rec; /* the sequence's first, being read */
    struct pfl_record *target;
    struct pfl_fragments it; /* over rec's payload */
};

/* `target` is not padding. The fields from ring to pass are set, except is_paused. */
void pfl_packet_reader_start(struct pfl_packet_reader *self, struct pfl_record *target);
/*
 * Reads the next packet into `slices`. False: no packet is left up to the target, or is_paused:
 * call again later, from start on. After erasing, the target is padding then, or is_behind. Without
 * slices, true only means that data was lost.
 */
bool pfl_packet_reader_next(struct pfl_packet_reader *self);

/*
 * The common case of pfl_packet_reader_next when reading: a packet that is one fragment, and
 * neither the first nor the last of its record. False: nothing was consumed; use
 * pfl_packet_reader_next.
 */
static inline bool pfl_packet_reader_take_inner(struct pfl_packet_reader *self)
{
    struct pfl_fragments *it = &self->it;
    size_t left = (size_t)(it->end - it->pos);
    struct pfl_fragment_head head;

    if (left < PFL_FRAGMENT_SIZE_BYTES || it->pos == it->begin)
        return false;
    head = pfl_fragment_head_of(it->pos);
    if (head.bytes == 0 || head.size_bytes + head.bytes >= left)
        return false;
    self->slices->iov[0] =
        (struct iovec){(void *)(uintptr_t)(it->pos + head.size_bytes), head.bytes};
    self->slices->len = 1;
    self->slices->bytes = head.bytes;
    it->pos += head.size_bytes + head.bytes;
    self->rec->consumed_bytes =
        (uint16_t)(self->rec->consumed_bytes + head.size_bytes + head.bytes);
    return true;
}

#endif
