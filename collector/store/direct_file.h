/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a file in whole blocks that go to the disk without a copy in the kernel's page cache
 * (O_DIRECT): what a store keeps is rarely read soon, and new pages of the cache cost more CPU than
 * all else that a store does with a byte. What is no whole block, and everything on a file system
 * that refuses such writes, takes the ordinary way.
 *
 * The file's descriptor is the caller's. Not thread-safe: one writer at a time.
 */
#ifndef PFL_COLLECTOR_STORE_DIRECT_FILE_H
#define PFL_COLLECTOR_STORE_DIRECT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define PFL_DIRECT_FILE_BLOCK_BYTES (256u << 10)

struct pfl_direct_file {
    int fd;          /* borrowed */
    uint8_t *memory; /* owned: the block and its alignment; NULL until it is needed */
    uint8_t *block;  /* in `memory` */
    size_t len;      /* of the block, not yet written */
    bool is_direct;
};

/* Begins with a new file, open for writing and empty. `bytes`: its length, as far as known; files
 * below one block, and all if memory ends, take the ordinary way. */
void pfl_direct_file_begin(struct pfl_direct_file *self, int fd, uint64_t bytes);

/* 0, or -1 with errno. */
int pfl_direct_file_write(struct pfl_direct_file *self, struct pfl_span bytes);

/* Writes what is left; 0, or -1 with errno. */
int pfl_direct_file_end(struct pfl_direct_file *self);

/* Frees the block. Zeroed memory is an object without one. */
void pfl_direct_file_clear(struct pfl_direct_file *self);

#endif
