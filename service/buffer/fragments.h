/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterates over the fragments of a chunk's payload (docs/abi/smb.md 2). The bytes are untrusted. In
 * shared memory they may change under the iterator: it promises only that a fragment is inside
 * [begin, end).
 */
#ifndef PFL_SERVICE_FRAGMENTS_H
#define PFL_SERVICE_FRAGMENTS_H

#include <endian.h>
#include <stdbool.h>

#include "abi/chunk.h"
#include "abi/fragment.h"
#include "service/buffer/trace_ring.h"

/* Which part of a packet a fragment is. */
enum pfl_fragment_kind {
    PFL_FRAGMENT_WHOLE,
    PFL_FRAGMENT_BEGIN,    /* continues in the next chunk */
    PFL_FRAGMENT_CONTINUE, /* continues the chunk before, and continues in the next */
    PFL_FRAGMENT_END,      /* continues the chunk before */
};

enum pfl_fragments_state {
    PFL_FRAGMENTS_OK = 0,
    PFL_FRAGMENTS_AT_END,
    PFL_FRAGMENTS_CORRUPT, /* an invalid size, or one that runs past the end */
    PFL_FRAGMENTS_DROPPED, /* the writer's marker: it lost the rest of this packet */
};

struct pfl_fragment {
    const uint8_t *data;
    uint32_t bytes;
    uint32_t bytes_with_size;
    enum pfl_fragment_kind kind;
};

struct pfl_fragments {
    const uint8_t *begin; /* borrowed; of the whole payload */
    const uint8_t *pos;
    const uint8_t *end;
    uint8_t flags; /* enum pfl_chunk_flags */
};

static inline struct pfl_fragments pfl_fragments_of(const uint8_t *payload, size_t bytes,
                                                    uint8_t flags)
{
    return (struct pfl_fragments){
        .begin = payload, .pos = payload, .end = payload + bytes, .flags = flags};
}

/* The fragments of a record that are not consumed. */
static inline struct pfl_fragments pfl_fragments_of_record(struct pfl_record *rec)
{
    uint8_t *payload = pfl_record_payload(rec);
    struct pfl_fragments it =
        pfl_fragments_of(payload, pfl_record_payload_bytes(rec), pfl_record_flags(rec));

    it.pos = payload + rec->consumed_bytes;
    return it;
}

/* The next fragment. A state other than OK is final. */
enum pfl_fragments_state pfl_fragments_next(struct pfl_fragments *self,
                                            struct pfl_fragment *ret_fragment);

/* The size before a fragment's data, and how many bytes it takes itself. */
struct pfl_fragment_head {
    uint32_t size_bytes; /* 0: an encoding that no writer uses */
    uint32_t bytes;
};

/* Four bytes as a little-endian number, loaded once at any alignment. */
static inline uint32_t pfl_fragment_load_word(const uint8_t *pos)
{
    struct word {
        uint32_t value;
    } __attribute__((packed, may_alias));

    return le32toh(((const volatile struct word *)pos)->value);
}

/* One byte, or four redundant ones, without a loop and from one load. `pos` must have four
 * bytes. */
static inline struct pfl_fragment_head pfl_fragment_head_of(const uint8_t *pos)
{
    uint32_t word = pfl_fragment_load_word(pos);

    if ((word & 0x80u) == 0)
        return (struct pfl_fragment_head){1, word & 0x7fu};
    if ((word & 0x80808080u) != 0x00808080u)
        return (struct pfl_fragment_head){0, 0};
    return (struct pfl_fragment_head){sizeof(word), (word & 0x7fu) | (word >> 1 & 0x3f80u) |
                                                        (word >> 2 & 0x1fc000u) |
                                                        (word >> 3 & 0xfe00000u)};
}

struct pfl_fragments_sum {
    size_t valid_bytes;   /* sizes and data of the fragments up to the first bad one */
    size_t last_fragment; /* where the data of the last valid one begins */
    bool is_short;        /* fewer valid fragments than the header's count: a violation */
    bool is_dropped;      /* ended by the writer's marker: not a violation */
};
/* Walks `count` fragments. */
struct pfl_fragments_sum pfl_fragments_measure(const uint8_t *payload, size_t bytes,
                                               uint32_t count);

#endif
