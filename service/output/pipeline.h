/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters and then compresses a batch of packets between the buffers and the reader
 * (docs/abi/service.md section 8). A core: the shell may run the costly step in a thread.
 *
 *     pfl_pipeline_add(pipeline, slices, n, tail, mark)...  main thread, until pfl_pipeline_is_full
 *     pfl_pipeline_seal(pipeline)                           main thread: takes all the memory
 *     pfl_pipeline_run(pipeline)                            any thread: no allocation, no callback
 *     while (pfl_pipeline_next(pipeline, &packet)) ...      main thread; then the pipeline is empty
 *
 * One batch at a time. Another thread may call pfl_pipeline_cancel while it runs.
 */
#ifndef PFL_SERVICE_PIPELINE_H
#define PFL_SERVICE_PIPELINE_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "service/output/compressor.h"
#include "service/output/trace_filter.h"

/* A batch is full from here on. Larger ones compress better and need fewer hand-overs. */
#define PFL_PIPELINE_BATCH_BYTES (256u * 1024)
/* A larger batch, of one long packet, is not compressed: compression cannot be cancelled. */
#define PFL_PIPELINE_COMPRESSED_MAX_BYTES ((size_t)16 << 20)
#define PFL_PIPELINE_BUFFERS              128u

/* A packet's origin: the index of its buffer, or one of these. */
enum pfl_pipeline_mark {
    PFL_PIPELINE_SERVICE = 254, /* the service's own */
    PFL_PIPELINE_RAW = 255,     /* not filtered, but counted as if it had been: the statistics */
};

struct pfl_pipeline_stats {
    uint64_t input_packets;
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint64_t errors;
    uint64_t time_ns;
    uint64_t discarded_bytes[PFL_PIPELINE_BUFFERS];
    uint32_t discarded_len; /* buffers that had a packet filtered, up to the last one */
};

struct pfl_pipeline;

struct pfl_pipeline_conf {
    struct pfl_trace_filter *filter; /* given; NULL: all passes */
    enum pfl_codec codec;
    int zstd_level;
    uint64_t (*now_ns)(
        void *user); /* for the statistics; called in the thread that runs the pipeline; or NULL */
    void *user;
};

/* On failure `filter` stays the caller's. PFL_ENOMEM. */
PFL_MUST_USE int pfl_pipeline_new(const struct pfl_pipeline_conf *conf,
                                  struct pfl_pipeline **ret_pipeline);
void pfl_pipeline_free(struct pfl_pipeline *self); /* NULL is legal */

/* Whether batches that are sealed from now on are left uncompressed. */
void pfl_pipeline_set_plain(struct pfl_pipeline *self, bool is_plain);
bool pfl_pipeline_is_full(const struct pfl_pipeline *self);
bool pfl_pipeline_is_empty(const struct pfl_pipeline *self);
/* Copies one packet: slices, then the tail. PFL_ENOMEM, PFL_ELIMIT (2^29 bytes in all): the packet
 * is not added. */
PFL_MUST_USE int pfl_pipeline_add(struct pfl_pipeline *self, const struct iovec *slices,
                                  size_t slices_len, struct pfl_span tail, unsigned mark);
/* The same in parts. begin returns the codes; until all `bytes` are added the pipeline is not full,
 * and must not be sealed. */
PFL_MUST_USE int pfl_pipeline_begin_packet(struct pfl_pipeline *self, size_t bytes, unsigned mark);
void pfl_pipeline_add_part(struct pfl_pipeline *self, struct pfl_span part);
bool pfl_pipeline_is_in_packet(const struct pfl_pipeline *self);
/* Removes a packet whose other parts do not come. */
void pfl_pipeline_drop_packet(struct pfl_pipeline *self);
/* PFL_ENOMEM: the batch cannot be run; seal it again later. */
PFL_MUST_USE int pfl_pipeline_seal(struct pfl_pipeline *self);
void pfl_pipeline_run(struct pfl_pipeline *self);
/* The batch in progress yields nothing, and ends soon. */
void pfl_pipeline_cancel(struct pfl_pipeline *self);
bool pfl_pipeline_is_cancelled(const struct pfl_pipeline *self); /* any thread */
/* The results in order; borrowed until the pipeline is used again. A packet that became empty has
 * len 0 and data that is not NULL. A malformed one has len 0 and data NULL; inside a compressed
 * batch it is the same as an empty one. False: no more, and the pipeline takes the next batch. */
bool pfl_pipeline_next(struct pfl_pipeline *self, struct pfl_span *ret_packet);

/* Bytes that are kept from one batch to the next. Not while one is running, as what follows. */
size_t pfl_pipeline_get_kept_bytes(const struct pfl_pipeline *self);
/* Keeps nothing of the batch that was run once its results are taken. */
void pfl_pipeline_trim(struct pfl_pipeline *self);

/* Sums of all batches that were run. Not while one is running. */
const struct pfl_pipeline_stats *pfl_pipeline_get_stats(const struct pfl_pipeline *self);
bool pfl_pipeline_has_filter(const struct pfl_pipeline *self);
/* Borrowed; NULL: it has none. */
const struct pfl_trace_filter *pfl_pipeline_get_filter(const struct pfl_pipeline *self);

#endif
