/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service and a copier say to each other, and the memory that they have in common. A
 * copier is a process that maps the shared memory of one user's producers, and copies chunks out of
 * it: who has the descriptor of shared memory can have the kernel let all others wait that read,
 * map or unmap it (docs/adr/0065), and then only that user's copier waits.
 *
 * The service sends a message and gets one back; messages go by a SOCK_SEQPACKET pair, a datagram
 * each. One COMMIT or SCRAPE is in flight at a time.
 *
 *     ATTACH   map, page_bytes; the memory's descriptor
 *     DETACH   map
 *     COMMIT   map; area: the page and the chunk of each entry
 *     SCRAPE   map, page to begin at
 *
 * Each answer has an error. The area has the same entries then (COMMIT), or those that were found,
 * and next_page (SCRAPE).
 */
#ifndef PFL_SERVICE_COPY_AREA_H
#define PFL_SERVICE_COPY_AREA_H

#include <stdint.h>

#include "abi/chunk.h"

#define PFL_COPY_ENTRIES    512u
#define PFL_COPY_DATA_BYTES (512u << 10) /* as many whole pages as fit are copied at a time */

enum pfl_copy_kind {
    PFL_COPY_ATTACH = 1,
    PFL_COPY_DETACH,
    PFL_COPY_COMMIT,
    PFL_COPY_SCRAPE,
};

struct pfl_copy_message {
    uint32_t kind;       /* enum pfl_copy_kind; of an answer: that of the request */
    uint32_t map;        /* a number that the service chose: below PFL_COPY_MAPS */
    uint32_t page_bytes; /* ATTACH */
    uint32_t page;       /* SCRAPE */
    /* Of an answer: 0 or base/err.h. ATTACH: as pfl_smb_map_adopt; PFL_EEXIST: the number is in
     * use; PFL_ELIMIT: the copier may have no more descriptors. COMMIT, SCRAPE: PFL_ENOENT: no such
     * map */
    int32_t error;
};

#define PFL_COPY_MAPS 65536u

enum pfl_copy_result {
    PFL_COPY_NONE,  /* no such page or chunk, or not complete, or unreadable, or no room */
    PFL_COPY_WHOLE, /* a complete chunk; of COMMIT: free again */
    PFL_COPY_STUCK, /* of COMMIT: copied, but the producer kept changing the page: not free */
    PFL_COPY_OPEN,  /* of SCRAPE: it is being written */
};

/* A chunk. */
struct pfl_copy_entry {
    uint32_t page;
    uint32_t chunk;
    uint32_t result; /* enum pfl_copy_result */
    uint32_t at;     /* its payload in `data` */
    uint32_t bytes;
    uint32_t chunk_id;
    uint16_t writer_id;
    uint16_t count; /* of fragments */
    uint32_t flags;
};

static inline struct pfl_chunk_view pfl_copy_entry_view(const struct pfl_copy_entry *self)
{
    return (struct pfl_chunk_view){.chunk_id = self->chunk_id,
                                   .writer_id = self->writer_id,
                                   .count = self->count,
                                   .flags = (uint8_t)self->flags};
}

struct pfl_copy_area {
    uint32_t entries_len;
    uint32_t next_page; /* of SCRAPE: where to continue; the number of pages: it is done */
    struct pfl_copy_entry entries[PFL_COPY_ENTRIES];
    uint8_t data[PFL_COPY_DATA_BYTES];
};

#endif
