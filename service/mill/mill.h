/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a batch of packets between the buffers and the reader: filtered, then compressed
 * (docs/abi/service.md section 8). A core: whoever has threads runs the costly step in one.
 *
 *     pfl_mill_add(mill, slices, n, tail, mark)...    main thread, as long as !pfl_mill_is_full
 *     pfl_mill_seal(mill)                             main thread: takes all memory that is needed
 *     pfl_mill_run(mill)                              any thread; no allocation, no callback
 *     while (pfl_mill_next(mill, &packet)) ...        main thread, then the mill is empty again
 *
 * One batch at a time. pfl_mill_cancel may be called from elsewhere while it runs.
 */
#ifndef PFL_SERVICE_MILL_H
#define PFL_SERVICE_MILL_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "service/mill/compressor.h"
#include "service/mill/trace_filter.h"

/* A batch is full from here on; larger ones compress better and are less often handed over. */
#define PFL_MILL_BATCH_BYTES (256u * 1024)
#define PFL_MILL_BUFFERS     128u

/* Where a packet is from: the index of its buffer, or one of these. */
enum pfl_mill_mark {
    PFL_MILL_SERVICE = 254, /* the service's own */
    PFL_MILL_RAW = 255,     /* not to be filtered, counted as if it had been: the statistics */
};

struct pfl_mill_stats {
    uint64_t input_packets;
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint64_t errors;
    uint64_t time_ns;
    uint64_t discarded_bytes[PFL_MILL_BUFFERS];
    uint32_t discarded_len; /* buffers that had a packet filtered, up to the last one */
};

struct pfl_mill;

struct pfl_mill_conf {
    struct pfl_trace_filter *filter; /* given; NULL: all passes */
    enum pfl_codec codec;
    int zstd_level;
    uint64_t (*now_ns)(void *user); /* for the statistics; called where the mill runs; or NULL */
    void *user;
};

/* On failure `filter` stays the caller's. PFL_ENOMEM. */
PFL_MUST_USE int pfl_mill_new(const struct pfl_mill_conf *conf, struct pfl_mill **ret_mill);
void pfl_mill_free(struct pfl_mill *self); /* NULL is legal */

/* Whether batches that are sealed from now on are left uncompressed. */
void pfl_mill_set_plain(struct pfl_mill *self, bool is_plain);
bool pfl_mill_is_full(const struct pfl_mill *self);
bool pfl_mill_is_empty(const struct pfl_mill *self);
/* Copies one packet: slices, then the tail. PFL_ENOMEM, PFL_ELIMIT (2^29 bytes in all): then it is
 * not in the batch. */
PFL_MUST_USE int pfl_mill_add(struct pfl_mill *self, const struct iovec *slices, size_t slices_len,
                              struct pfl_span tail, unsigned mark);
/* PFL_ENOMEM: the batch can't be run; it may be sealed again later. */
PFL_MUST_USE int pfl_mill_seal(struct pfl_mill *self);
void pfl_mill_run(struct pfl_mill *self);
/* The batch that is running yields nothing, and ends soon. */
void pfl_mill_cancel(struct pfl_mill *self);
bool pfl_mill_is_cancelled(const struct pfl_mill *self); /* any thread */
/* The results in order; borrowed until the mill is used again. A packet of which nothing was left
 * is empty, with data that is not NULL; one that was malformed is empty with data that is, and
 * inside a compressed batch like the other. False: no more, and the mill takes the next batch. */
bool pfl_mill_next(struct pfl_mill *self, struct pfl_span *ret_packet);

/* Of all batches that were run. Not while one is running. */
const struct pfl_mill_stats *pfl_mill_get_stats(const struct pfl_mill *self);
bool pfl_mill_has_filter(const struct pfl_mill *self);

#endif
