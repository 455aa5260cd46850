/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace writer of the bench producer: whole packets into chunks of one page each, split over
 * chunks where they do not fit, committed when half of the shared memory is full; where no chunk
 * is free it waits, so nothing is lost.
 */
#ifndef PFL_TESTS_BENCH_FILL_WRITER_H
#define PFL_TESTS_BENCH_FILL_WRITER_H

#include "tests/bench/fill_connection.h"

#define PFL_FILL_COMMIT_BYTES 32768u

struct pfl_fill_writer {
    struct pfl_fill_connection *connection; /* borrowed for the writer's life */
    uint16_t writer_id;
    bool is_watching;          /* when the memory is full, it does not sleep at once */
    uint16_t writers;          /* 0 or 1: one; else ids from 1 take turns, a chunk each */
    uint32_t chunk_ids[32768]; /* of the writers that are not at it */
    uint32_t chunk_id;         /* of the chunk in hand, or of the next one */
    uint32_t page;             /* of the chunk in hand, or where to look next */
    uint8_t *pos;              /* NULL: no chunk in hand */
    uint8_t *end;
    uint32_t count;
    uint32_t flags;
    uint32_t pending; /* chunks completed and not yet committed */
    struct pfl_writer commit;
    uint64_t stalls;
    uint64_t chunks;
    uint8_t commit_room[PFL_FILL_COMMIT_BYTES];
    uint8_t stamp[PFL_PAGE_MAX_BYTES];
    uint32_t stamp_bytes;
    uint32_t stamp_packets;
};

void pfl_fill_writer_init(struct pfl_fill_writer *self, struct pfl_fill_connection *connection,
                          uint16_t writer_id);
void pfl_fill_writer_put(struct pfl_fill_writer *self, const uint8_t *packet, size_t bytes);
/* As much of a chunk as it holds of these packets, one after the other: a chunk to stamp. */
void pfl_fill_writer_prepare(struct pfl_fill_writer *self, const uint8_t *packet, size_t bytes);
/* Writes the prepared chunk as a whole; returns its packets. */
uint32_t pfl_fill_writer_stamp(struct pfl_fill_writer *self);
/* Hands over the chunk in hand and everything that is pending; acknowledges a flush. */
void pfl_fill_writer_flush(struct pfl_fill_writer *self);

#endif
