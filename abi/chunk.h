/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: what one writer fills and commits (docs/abi/smb.md 1, 3).
 *
 *   0            4          6         8                                    chunk_bytes
 *   +------------+----------+---------+-----------------------------------------+
 *   | chunk_id   | writer_id| packets | payload: fragments, see fragment.h      |
 *   +------------+----------+---------+-----------------------------------------+
 *                            15   10 9        0
 *                           | flags |  count  |
 *
 * One writer writes a chunk; the service may look at any time (scraping), so the words are atomic.
 * A Free chunk's header is zero. Ids are valid once a count >= 1 was seen with acquire order.
 */
#ifndef PFL_ABI_CHUNK_H
#define PFL_ABI_CHUNK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_CHUNK_HEADER_BYTES 8u
#define PFL_CHUNK_COUNT_BITS   10u
#define PFL_CHUNK_COUNT_MAX    1023u /* capacity of the field */
/* The maximum that a writer uses: one is left for the slot it adds after a finished packet. */
#define PFL_CHUNK_PACKETS_MAX 1022u

/* Values in service code and commits; the header shifts them by the count. */
enum pfl_chunk_flags {
    PFL_CHUNK_CONTINUES_PREV = 1, /* the first fragment continues chunk_id - 1 */
    PFL_CHUNK_CONTINUES_NEXT = 2, /* the last fragment continues in chunk_id + 1 */
    PFL_CHUNK_NEEDS_PATCH = 4,    /* sizes of nested messages come later, by patches */
};
#define PFL_CHUNK_FLAGS_MASK 7u

struct pfl_chunk_header {
    _Atomic(uint32_t) chunk_id;
    _Atomic(uint16_t) writer_id;
    _Atomic(uint16_t) packets;
};

_Static_assert(sizeof(struct pfl_chunk_header) == PFL_CHUNK_HEADER_BYTES, "chunk header");
_Static_assert(offsetof(struct pfl_chunk_header, chunk_id) == 0, "chunk_id");
_Static_assert(offsetof(struct pfl_chunk_header, writer_id) == 4, "writer_id");
_Static_assert(offsetof(struct pfl_chunk_header, packets) == 6, "packets");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_SHORT_LOCK_FREE == 2, "lock-free words");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the layout is little-endian");

/* A header as loaded once. */
struct pfl_chunk_view {
    uint32_t chunk_id;
    uint16_t writer_id;
    uint16_t count;
    uint8_t flags; /* enum pfl_chunk_flags; reserved bits dropped */
};

static inline uint16_t pfl_chunk_packets_of(uint32_t count, uint32_t flags)
{
    return (uint16_t)((count & PFL_CHUNK_COUNT_MAX) |
                      ((flags & PFL_CHUNK_FLAGS_MASK) << PFL_CHUNK_COUNT_BITS));
}

static inline uint16_t pfl_chunk_count(uint16_t packets)
{
    return packets & PFL_CHUNK_COUNT_MAX;
}

static inline uint8_t pfl_chunk_flags(uint16_t packets)
{
    return (uint8_t)((packets >> PFL_CHUNK_COUNT_BITS) & PFL_CHUNK_FLAGS_MASK);
}

/* Reader: loads packets with acquire order first, then the ids. Pairs with the stores of `packets`
 * below: a reader that sees a count sees the ids, and all counted packets but the last. */
static inline struct pfl_chunk_view pfl_chunk_look(struct pfl_chunk_header *chunk)
{
    uint16_t packets = atomic_load_explicit(&chunk->packets, memory_order_acquire);

    return (struct pfl_chunk_view){
        .chunk_id = atomic_load_explicit(&chunk->chunk_id, memory_order_relaxed),
        .writer_id = atomic_load_explicit(&chunk->writer_id, memory_order_relaxed),
        .count = pfl_chunk_count(packets),
        .flags = pfl_chunk_flags(packets),
    };
}

/* Writer, after Free -> BeingWritten: ids relaxed, then packets with release order. */
static inline void pfl_chunk_set_header(struct pfl_chunk_header *chunk, uint16_t writer_id,
                                        uint32_t chunk_id, uint16_t packets)
{
    atomic_store_explicit(&chunk->writer_id, writer_id, memory_order_relaxed);
    atomic_store_explicit(&chunk->chunk_id, chunk_id, memory_order_relaxed);
    atomic_store_explicit(&chunk->packets, packets, memory_order_release);
}

/* The side that frees the chunk, before it becomes Free: the same order, all zero. */
static inline void pfl_chunk_clear_header(struct pfl_chunk_header *chunk)
{
    pfl_chunk_set_header(chunk, 0, 0, 0);
}

/*
 * Writer, before the first byte of a packet: count + 1, release order. No read-modify-write: a
 * chunk has one writer. Returns the new count; at PFL_CHUNK_COUNT_MAX it does nothing.
 */
static inline uint16_t pfl_chunk_add_packet(struct pfl_chunk_header *chunk)
{
    uint16_t packets = atomic_load_explicit(&chunk->packets, memory_order_relaxed);

    if (pfl_chunk_count(packets) == PFL_CHUNK_COUNT_MAX)
        return PFL_CHUNK_COUNT_MAX;
    packets = (uint16_t)(packets + 1u);
    atomic_store_explicit(&chunk->packets, packets, memory_order_release);
    return pfl_chunk_count(packets);
}

/* Writer, while BeingWritten: load relaxed, store release. The release is not for the flag, but for
 * the count that is stored with it: a reader that sees it here sees the same packets as at its
 * first store. */
static inline void pfl_chunk_set_flag(struct pfl_chunk_header *chunk, enum pfl_chunk_flags flag)
{
    uint16_t packets = atomic_load_explicit(&chunk->packets, memory_order_relaxed);

    packets = (uint16_t)(packets | ((unsigned)flag << PFL_CHUNK_COUNT_BITS));
    atomic_store_explicit(&chunk->packets, packets, memory_order_release);
}

static inline void pfl_chunk_clear_flag(struct pfl_chunk_header *chunk, enum pfl_chunk_flags flag)
{
    uint16_t packets = atomic_load_explicit(&chunk->packets, memory_order_relaxed);

    packets = (uint16_t)(packets & ~((unsigned)flag << PFL_CHUNK_COUNT_BITS));
    atomic_store_explicit(&chunk->packets, packets, memory_order_release);
}

#endif
