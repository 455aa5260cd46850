/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a shared memory buffer and how they are cut into chunks (docs/abi/smb.md 1).
 *
 *   SMB:   | page 0 | page 1 | ... |          page i starts at i * page_bytes; no global header
 *
 *   page:  0               4          8           8 + c        8 + 2c             page_bytes
 *          +---------------+----------+-----------+-----------+--- ... ---+----------+
 *          | header bitmap | reserved | chunk 0   | chunk 1   |           | (unused) |
 *          +---------------+----------+-----------+-----------+--- ... ---+----------+
 *
 *   header bitmap:   31 30 29 28 27 26        5 4 3 2 1 0
 *                   | 0| layout | chunk 13 ... | c2| c1| c0|     two bits of state for each chunk
 *
 * All-zero memory is a valid SMB in which everything is free. The bitmap changes only by the steps
 * of state.h. All functions here take a *copy* of the bitmap, so that the checked value is the used
 * one, whatever a peer writes meanwhile.
 */
#ifndef PFL_ABI_PAGE_H
#define PFL_ABI_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/chunk.h"
#include "abi/limits.h"

#define PFL_PAGE_HEADER_BYTES 8u
#define PFL_PAGE_CHUNKS_MAX   14u
#define PFL_PAGE_LAYOUT_SHIFT 28u
#define PFL_PAGE_LAYOUT_MASK  0x70000000u
#define PFL_PAGE_STATES_MASK  0x0fffffffu
#define PFL_CHUNK_STATE_BITS  2u
#define PFL_CHUNK_STATE_MASK  3u

struct pfl_page_header {
    _Atomic(uint32_t) bitmap;
    uint32_t reserved; /* never read or written */
};

_Static_assert(sizeof(struct pfl_page_header) == PFL_PAGE_HEADER_BYTES, "page header");
_Static_assert(offsetof(struct pfl_page_header, bitmap) == 0, "bitmap");
_Static_assert(PFL_PAGE_CHUNKS_MAX *PFL_CHUNK_STATE_BITS == PFL_PAGE_LAYOUT_SHIFT, "bitmap bits");

enum pfl_page_layout {
    PFL_PAGE_NOT_PARTITIONED = 0,
    PFL_PAGE_DIV1 = 1,
    PFL_PAGE_DIV2 = 2,
    PFL_PAGE_DIV4 = 3,
    PFL_PAGE_DIV7 = 4,
    PFL_PAGE_DIV14 = 5,
    /* 6 and 7 are reserved and hold no chunk */
};

enum pfl_chunk_state {
    PFL_CHUNK_FREE = 0,          /* a producer may take it */
    PFL_CHUNK_BEING_WRITTEN = 1, /* belongs to its writer */
    PFL_CHUNK_BEING_READ = 2,    /* belongs to the service */
    PFL_CHUNK_COMPLETE = 3,      /* the service may take it */
};

static inline uint32_t pfl_page_layout(uint32_t bitmap)
{
    return (bitmap & PFL_PAGE_LAYOUT_MASK) >> PFL_PAGE_LAYOUT_SHIFT;
}

/* Chunks of a layout (0 for "not partitioned" and the reserved values). */
static inline uint32_t pfl_page_layout_chunks(uint32_t layout)
{
    static const uint8_t chunks[8] = {0, 1, 2, 4, 7, 14, 0, 0};

    return chunks[layout & 7u];
}

static inline uint32_t pfl_page_chunks(uint32_t bitmap)
{
    return pfl_page_layout_chunks(pfl_page_layout(bitmap));
}

/* Size of a chunk with its header; 0 when the layout has none. Always a multiple of 4. */
static inline uint32_t pfl_page_chunk_bytes(uint32_t page_bytes, uint32_t layout)
{
    uint32_t chunks = pfl_page_layout_chunks(layout);

    return chunks == 0 ? 0 : ((page_bytes - PFL_PAGE_HEADER_BYTES) / chunks) & ~3u;
}

static inline uint32_t pfl_page_chunk_offset(uint32_t page_bytes, uint32_t layout, uint32_t index)
{
    return PFL_PAGE_HEADER_BYTES + index * pfl_page_chunk_bytes(page_bytes, layout);
}

static inline enum pfl_chunk_state pfl_page_chunk_state(uint32_t bitmap, uint32_t index)
{
    return (enum pfl_chunk_state)((bitmap >> (index * PFL_CHUNK_STATE_BITS)) &
                                  PFL_CHUNK_STATE_MASK);
}

static inline uint32_t pfl_page_with_chunk_state(uint32_t bitmap, uint32_t index,
                                                 enum pfl_chunk_state state)
{
    uint32_t shift = index * PFL_CHUNK_STATE_BITS;

    return (bitmap & ~(PFL_CHUNK_STATE_MASK << shift)) | ((uint32_t)state << shift);
}

/* The bitmap, with acquire order. */
static inline uint32_t pfl_page_bitmap(struct pfl_page_header *page)
{
    return atomic_load_explicit(&page->bitmap, memory_order_acquire);
}

/* One mapped SMB. Both sides have one; the sizes were checked (pfl_limits_is_layout). */
struct pfl_smb {
    uint8_t *base; /* borrowed from the mapping's owner; aligned to 4096 */
    uint32_t page_bytes;
    uint32_t pages;
};

/* NULL when the page does not exist. */
static inline struct pfl_page_header *pfl_smb_page(const struct pfl_smb *smb,
                                                   uint32_t page_untrusted)
{
    if (page_untrusted >= smb->pages)
        return NULL;
    return (struct pfl_page_header *)(void *)(smb->base + (size_t)page_untrusted * smb->page_bytes);
}

/* The chunk `index` of a page whose bitmap was seen as `bitmap`; NULL when there is none. */
static inline struct pfl_chunk_header *pfl_smb_chunk(const struct pfl_smb *smb,
                                                     uint32_t page_untrusted, uint32_t bitmap,
                                                     uint32_t index_untrusted)
{
    uint32_t offset;

    if (page_untrusted >= smb->pages || index_untrusted >= pfl_page_chunks(bitmap))
        return NULL;
    offset = pfl_page_chunk_offset(smb->page_bytes, pfl_page_layout(bitmap), index_untrusted);
    return (struct pfl_chunk_header *)(void *)(smb->base +
                                               (size_t)page_untrusted * smb->page_bytes + offset);
}

/* First payload byte and payload size of a chunk. */
static inline uint8_t *pfl_chunk_payload(struct pfl_chunk_header *chunk)
{
    return (uint8_t *)(void *)chunk + PFL_CHUNK_HEADER_BYTES;
}

static inline uint32_t pfl_page_payload_bytes(uint32_t page_bytes, uint32_t bitmap)
{
    uint32_t bytes = pfl_page_chunk_bytes(page_bytes, pfl_page_layout(bitmap));

    return bytes == 0 ? 0 : bytes - PFL_CHUNK_HEADER_BYTES;
}

#endif
