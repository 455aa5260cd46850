/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies to ReadBuffers in, bytes of a trace file out, and since when the copy of a ring has
 * something: the earliest time stamp of a producer's packet on the boot clock. I/O-free.
 */
#ifndef PFL_AGENT_COPY_READER_H
#define PFL_AGENT_COPY_READER_H

#include "proto/compressed.h"
#include "proto/packet_scan.h"

#define PFL_COPY_PACKET_BYTES (16u << 20) /* the copy is without a larger packet */

struct pfl_copy_reader {
    struct pfl_packet_scan scan;
    struct pfl_buf out;                     /* owned; what the caller has not taken yet */
    struct pfl_compressed_decoder *decoder; /* owned; NULL: nothing was compressed so far */
    struct pfl_buf decoded;                 /* owned */
    uint64_t bytes;                         /* so far, taken ones too */
    uint64_t max_bytes;
    uint64_t ring_ns;  /* the boot clock when the ring began, and now: a time stamp outside is */
    uint64_t now_ns;   /* another clock's */
    uint64_t begin_ns; /* the earliest; 0: none */
    bool is_obscure;   /* some packets cannot be decompressed: their times are not known */
};

struct pfl_copy_reader_conf {
    uint64_t max_bytes; /* of the copy */
    uint64_t ring_ns;
    uint64_t now_ns;
};

void pfl_copy_reader_init(struct pfl_copy_reader *self, const struct pfl_copy_reader_conf *conf);
void pfl_copy_reader_fini(struct pfl_copy_reader *self); /* legal on zeroed memory */
/* PFL_EPROTO; PFL_ELIMIT: the copy is too large; PFL_ENOMEM. Then: only fini. Packets that the
 * service compressed stay so. */
PFL_MUST_USE int pfl_copy_reader_feed(struct pfl_copy_reader *self, struct pfl_span reply);
/* Packets that are too long for the copy. */
uint64_t pfl_copy_reader_get_skipped(const struct pfl_copy_reader *self);
/* Since when it has something: of its packets, else of the ring. */
uint64_t pfl_copy_reader_get_begin_ns(const struct pfl_copy_reader *self);

#endif
