/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks by hand, and packets as strings: what the tests of the data path share. */
#ifndef PFL_TESTS_SERVICE_BUFFER_KIT_H
#define PFL_TESTS_SERVICE_BUFFER_KIT_H

#include "service/buffer/trace_buffer.h"

#define KIT_PAYLOAD_MAX 66000u
#define KIT_PACKET_MAX  70000u

/* A chunk under construction; complete unless said otherwise. */
struct kit_chunk {
    struct pfl_trace_buffer_chunk chunk;
    uint8_t payload[KIT_PAYLOAD_MAX];
};

void kit_chunk_begin(struct kit_chunk *self, uint16_t producer, uint16_t writer, uint32_t chunk_id);
/* A fragment of `len` bytes, all `fill`; the size takes one byte when it can. */
void kit_chunk_add(struct kit_chunk *self, char fill, size_t len);
void kit_chunk_add_bytes(struct kit_chunk *self, const void *data, size_t len);
/* Raw payload bytes and a count for them: for what a sane writer does not write. */
void kit_chunk_add_raw(struct kit_chunk *self, const void *data, size_t len, unsigned count);
/* Unused bytes at the end of the chunk. */
void kit_chunk_pad(struct kit_chunk *self, size_t payload_bytes);

/* A chunk of one fragment: `len` bytes of `fill`. */
struct kit_one {
    uint16_t writer;
    uint32_t chunk_id;
    uint8_t flags;
    char fill;
    size_t len;
};
void kit_commit_one(struct pfl_trace_buffer *buffer, const struct kit_one *one);
#define kit_commit(buffer, ...) kit_commit_one((buffer), &(struct kit_one){__VA_ARGS__})

/* A packet that was read, copied out. */
struct kit_packet {
    uint16_t producer_id;
    uint16_t writer_id;
    uint32_t loss_reasons;
    size_t slices;
    size_t bytes;
    uint8_t data[KIT_PACKET_MAX];
};
bool kit_read(struct pfl_trace_buffer *buffer, struct kit_packet *ret_packet);

/* The next packet is `len` bytes of `fill` with these loss reasons. */
void kit_expect(struct pfl_trace_buffer *buffer, char fill, size_t len, uint32_t loss_reasons);
void kit_expect_end(struct pfl_trace_buffer *buffer);
struct pfl_trace_buffer *kit_buffer(uint64_t size_bytes, enum pfl_fill_policy policy);
/* A clone that is whole. */
struct pfl_trace_buffer *kit_clone(struct pfl_trace_buffer *source);
struct pfl_trace_buffer_stats kit_stats(const struct pfl_trace_buffer *buffer);

/* A small generator, so that a printed seed repeats a run anywhere. */
struct kit_random {
    uint64_t state;
};
uint32_t kit_random(struct kit_random *self, uint32_t below);

#endif
