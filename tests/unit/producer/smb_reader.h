/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of a producer's shared memory, for tests: takes what was committed the way a
 * service does and puts packets together, by its own code.
 */
#ifndef PFL_TESTS_SMB_READER_H
#define PFL_TESTS_SMB_READER_H

#include "producer/shared_memory/arbiter.h"

struct smb_packet {
    uint16_t writer_id;
    uint8_t *data;
    size_t len;
};

struct smb_chunk {
    uint16_t writer_id;
    uint32_t chunk_id;
    uint32_t buffer;
    uint8_t flags;
    uint16_t count;
    uint32_t patches_open; /* 1: more are to come */
    uint32_t payload_bytes;
    uint8_t *payload;
};

struct smb_reader {
    struct pfl_arbiter *arbiter;
    struct pfl_arbiter_batch batch;
    struct smb_chunk *chunks; /* in commit order */
    size_t chunks_len;
    struct smb_packet *packets; /* after smb_reader_assemble, by writer and in order */
    size_t packets_len;
    uint32_t drop_markers;
    uint32_t opened;
    uint32_t closed;
    uint64_t flush_id;
};

/* A private SMB of `pages` pages; the arbiter is reader->arbiter. */
void smb_reader_init(struct smb_reader *self, uint32_t page_bytes, uint32_t pages);
void smb_reader_fini(struct smb_reader *self);
/* One commit: frees the chunks it takes. Any one thread. */
void smb_reader_take(struct smb_reader *self);
/* Takes a last time and puts all packets together; asserts that every chunk is in order, whole
 * and fully patched. */
void smb_reader_assemble(struct smb_reader *self);
/* Forgets chunks and packets. */
void smb_reader_clear(struct smb_reader *self);

#endif
