/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is committed is read twice, by a consumer that takes runs of packets and by one that does
 * not: both must get the same packets.
 */
#ifndef PFL_TESTS_SERVICE_RUNS_KIT_H
#define PFL_TESTS_SERVICE_RUNS_KIT_H

#include "tests/unit/service/buffer/buffer_kit.h"
#include "tests/unit/service/buffer/frame_kit.h"

#define RUNS_REQUEST_ID 7u
/* Of runs_fx.sides. */
#define SLICES 0u /* the consumer without runs */
#define RUNS   1u

struct runs_side {
    struct pfl_trace_buffer *buffers[2];
    struct pfl_readback *readback;
    struct kit_trace trace;
    uint32_t sources;
};

extern struct runs_fx {
    struct runs_side sides[2];
    struct kit_chunk chunk; /* under construction */
} runs_fx;

/* For cmocka; two buffers a side, and a packet of the service's own at the end. */
int runs_setup(void **state);
int runs_teardown(void **state);
#define ROW(name) cmocka_unit_test_setup_teardown(name, runs_setup, runs_teardown)

/* Gives the source an id and trusted fields; `user` is the side. */
void runs_on_new_source(void *user, struct pfl_trace_buffer_source *source);

/* How a time is spelled: `bytes` in all, of 1 to 10. */
struct runs_time {
    uint8_t bytes;
    bool is_padded; /* 0, and bytes that say nothing */
};

/* A valid packet of exactly `len` bytes, at least 2: varints of two bytes, three, and a payload. */
void runs_make_packet(uint8_t *dst, char fill, size_t len);
/* A valid packet that begins with a time, and has `rest` bytes behind it: 0 or at least 2. */
size_t runs_make_timed(uint8_t *dst, struct runs_time time, char fill, size_t rest);

void runs_begin_chunk(uint16_t writer, uint32_t chunk_id);
void runs_add_packet(char fill, size_t len);
void runs_add_timed(struct runs_time time, char fill, size_t rest);
/* The chunk, into this buffer of both. */
void runs_commit(size_t buffer);
/* A chunk of `count` packets of `len` bytes. */
void runs_commit_packets(uint16_t writer, uint32_t chunk_id, size_t len, unsigned count);

/* Reads both to their ends. */
void runs_drain(void);
/* And: the same packets, byte for byte, in the same order, and the same count of those left out.
 * Returns how many came in runs. */
size_t runs_expect_same(void);

#endif
