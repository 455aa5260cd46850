/* SPDX-License-Identifier: Apache-2.0 */
/* A producer's shared memory, and its writers, for tests of copiers. Each failure is an
 * assertion's. */
#ifndef PFL_TESTS_COPY_KIT_H
#define PFL_TESTS_COPY_KIT_H

#include "abi/page.h"
#include "service/buffer/copy_area.h"

#define KIT_WRITER 3u

struct kit_memory {
    int fd;             /* owned */
    struct pfl_smb smb; /* the producer's mapping, owned */
    size_t bytes;
};

/* Sealed against shrinking and growing. */
void kit_memory_init(struct kit_memory *self, size_t bytes, uint32_t page_bytes);
void kit_memory_fini(struct kit_memory *self);
struct pfl_page_header *kit_page(const struct kit_memory *self, uint32_t page);

/* Takes a chunk, writes `packets` packets of 9 bytes into it ('a', 'b', ...), and leaves it being
 * written. `index` is below the layout's chunks. */
struct pfl_chunk_header *kit_write(const struct kit_memory *self, enum pfl_page_layout layout,
                                   uint32_t page, uint32_t index, uint16_t packets);
/* The same, with two packets, and complete. Its chunk_id is page * 100 + index. */
void kit_write_whole(const struct kit_memory *self, enum pfl_page_layout layout, uint32_t page,
                     uint32_t index);

/* The entry is of that chunk of kit_write, and its payload is in the area. */
void kit_expect_chunk(const struct pfl_copy_area *area, uint32_t entry, uint32_t page,
                      uint32_t index);

/* The memory of an area, sealed; the descriptor is the caller's. */
int kit_area_make(struct pfl_copy_area **ret_area);
void kit_area_free(struct pfl_copy_area *area, int fd);

#endif
