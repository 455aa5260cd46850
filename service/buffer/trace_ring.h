/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a trace buffer: records of 16 bytes of header and a payload, back to back, each
 * rounded up to 16, written at a cursor that goes round. It maps memory and places records.
 * sequence.h knows what a record means to its sequence; trace_buffer.c decides when one is
 * overwritten.
 *
 *   0                                        write                       used          size
 *   +--------+--------+---------+-----+------+--------+-----------+------+-------------+
 *   | record | record | padding | ... | newest| oldest | record   | ...  | never filled|
 *   +--------+--------+---------+-----+------+--------+-----------+------+-------------+
 *
 * A record's header lies in memory that no peer can write. `link` joins the records of a sequence
 * into a list that can be walked from both ends with one word per record: the XOR of the places of
 * both neighbours (docs/adr).
 */
#ifndef PFL_SERVICE_TRACE_RING_H
#define PFL_SERVICE_TRACE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

#define PFL_RECORD_ALIGN         16u
#define PFL_RECORD_PAYLOAD_MAX   65535u
#define PFL_TRACE_RING_MAX_BYTES 0xfffff000u

/* A record's place: offset / 16 + 1; 0 is none. */
typedef uint32_t pfl_place;

/* Bits of pfl_record.link above the 28 of the places, the lower three as enum pfl_chunk_flags. */
#define PFL_RECORD_LINK_MASK   0x0fffffffu
#define PFL_RECORD_FLAGS_SHIFT 28u
enum pfl_record_flags {
    PFL_RECORD_INCOMPLETE = 8, /* scraped while its writer was writing */
};

#define PFL_RECORD_OWNER_MASK  0x00ffffffu
#define PFL_RECORD_SLACK_SHIFT 24u
#define PFL_RECORD_SLACK_MASK  3u
#define PFL_RECORD_SLACK_FAR   2u
#define PFL_RECORD_RESIZED     0x04000000u /* a patch may have hit a fragment's size */

struct pfl_record {
    uint32_t chunk_id;
    uint16_t size_bytes;     /* reserved for the payload; never changes */
    uint16_t consumed_bytes; /* of the payload, from its beginning */
    uint32_t link;           /* neighbours and flags */
    /* Sequence slot + 1, 0 for padding. The bits above say how much of size_bytes holds no payload
     * (0, 1, or FAR: then the last two bytes of the record hold the payload's size), and whether
     * patches came, which may have changed the sizes of fragments. */
    uint32_t owner;
};

_Static_assert(sizeof(struct pfl_record) == PFL_RECORD_ALIGN, "the accounting counts 16 bytes");

struct pfl_ring_copy;

struct pfl_trace_ring {
    uint8_t *base; /* owned mapping */
    uint32_t size_bytes;
    uint32_t used_bytes;        /* high-water mark: records lie in [0, used) */
    uint32_t write;             /* where the next record goes */
    struct pfl_ring_copy *copy; /* borrowed: the copy in progress; or NULL */
};

/* PFL_ELIMIT, PFL_ENOMEM. The size is rounded up to 4096. */
PFL_MUST_USE int pfl_trace_ring_init(struct pfl_trace_ring *self, uint64_t size_bytes);
void pfl_trace_ring_fini(struct pfl_trace_ring *self); /* legal on zeroed memory */

__attribute__((cold)) void pfl_trace_ring_keep_for_copy(const struct pfl_trace_ring *self,
                                                        uint32_t offset, uint32_t bytes);
/* Call before these bytes change: a copy in progress saves them. */
static inline void pfl_trace_ring_keep(const struct pfl_trace_ring *self, uint32_t offset,
                                       uint32_t bytes)
{
    if (__builtin_expect(self->copy != NULL, false))
        pfl_trace_ring_keep_for_copy(self, offset, bytes);
}

/* Starts a record at `offset` as padding; the caller has cleared that range and called keep. */
struct pfl_record *pfl_trace_ring_place(struct pfl_trace_ring *self, uint32_t offset,
                                        uint32_t size_bytes);

static inline struct pfl_record *pfl_trace_ring_at(const struct pfl_trace_ring *self,
                                                   uint32_t offset)
{
    return (struct pfl_record *)(void *)(self->base + offset);
}

static inline uint32_t pfl_place_offset(pfl_place place)
{
    return (place - 1u) * PFL_RECORD_ALIGN;
}

static inline pfl_place pfl_place_of(uint32_t offset)
{
    return offset / PFL_RECORD_ALIGN + 1u;
}

static inline struct pfl_record *pfl_trace_ring_get(const struct pfl_trace_ring *self,
                                                    pfl_place place)
{
    return pfl_trace_ring_at(self, pfl_place_offset(place));
}

/* Call before the record's header changes. */
static inline void pfl_trace_ring_keep_header(const struct pfl_trace_ring *self,
                                              const struct pfl_record *rec)
{
    pfl_trace_ring_keep(self, (uint32_t)((const uint8_t *)rec - self->base), PFL_RECORD_ALIGN);
}

/* The whole record with its header, rounded up. */
static inline uint32_t pfl_record_outer_bytes(uint32_t size_bytes)
{
    return (size_bytes + 2u * PFL_RECORD_ALIGN - 1u) & ~(PFL_RECORD_ALIGN - 1u);
}

/* The same for header and payload. */
static inline void pfl_trace_ring_keep_record(const struct pfl_trace_ring *self,
                                              const struct pfl_record *rec)
{
    pfl_trace_ring_keep(self, (uint32_t)((const uint8_t *)rec - self->base),
                        pfl_record_outer_bytes(rec->size_bytes));
}

static inline bool pfl_record_is_padding(const struct pfl_record *rec)
{
    return (rec->owner & PFL_RECORD_OWNER_MASK) == 0;
}

static inline uint8_t *pfl_record_payload(struct pfl_record *rec)
{
    return (uint8_t *)(void *)rec + PFL_RECORD_ALIGN;
}

static inline uint8_t pfl_record_flags(const struct pfl_record *rec)
{
    return (uint8_t)(rec->link >> PFL_RECORD_FLAGS_SHIFT);
}

static inline void pfl_record_set_flags(struct pfl_record *rec, uint8_t flags)
{
    rec->link = (rec->link & PFL_RECORD_LINK_MASK) | ((uint32_t)flags << PFL_RECORD_FLAGS_SHIFT);
}

static inline uint8_t *pfl_record_trailer(struct pfl_record *rec)
{
    return (uint8_t *)(void *)rec + pfl_record_outer_bytes(rec->size_bytes) - sizeof(uint16_t);
}

/* Bytes of payload that hold fragments; at most size_bytes. */
static inline uint32_t pfl_record_payload_bytes(struct pfl_record *rec)
{
    uint32_t slack = (rec->owner >> PFL_RECORD_SLACK_SHIFT) & PFL_RECORD_SLACK_MASK;
    uint16_t bytes;

    if (slack != PFL_RECORD_SLACK_FAR)
        return rec->size_bytes - slack;
    memcpy(&bytes, pfl_record_trailer(rec), sizeof(bytes));
    return bytes;
}

static inline void pfl_record_set_payload_bytes(struct pfl_record *rec, uint32_t payload_bytes)
{
    uint32_t slack = rec->size_bytes - payload_bytes;
    uint16_t bytes = (uint16_t)payload_bytes;

    if (slack >= PFL_RECORD_SLACK_FAR) {
        slack = PFL_RECORD_SLACK_FAR;
        memcpy(pfl_record_trailer(rec), &bytes, sizeof(bytes));
    }
    rec->owner &= ~(PFL_RECORD_SLACK_MASK << PFL_RECORD_SLACK_SHIFT);
    rec->owner |= slack << PFL_RECORD_SLACK_SHIFT;
}

static inline void pfl_record_set_resized(struct pfl_record *rec)
{
    rec->owner |= PFL_RECORD_RESIZED;
}

static inline bool pfl_record_is_resized(const struct pfl_record *rec)
{
    return (rec->owner & PFL_RECORD_RESIZED) != 0;
}

/* Copies into the ring. Large copies into a ring larger than the caches bypass them. */
void pfl_trace_ring_copy(const struct pfl_trace_ring *self, uint8_t *dst, const uint8_t *src,
                         size_t bytes);

/*
 * Prefetches the headers of the records that a next record of this size will overwrite, and of the
 * one after them: they were written a whole ring ago.
 */
static inline void pfl_trace_ring_prefetch(const struct pfl_trace_ring *self, uint32_t bytes)
{
    if (self->used_bytes - self->write <= bytes)
        return;
    __builtin_prefetch(self->base + self->write, 1);
    __builtin_prefetch(self->base + self->write + bytes, 1);
}

#endif
