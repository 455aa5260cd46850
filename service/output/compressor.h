/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compresses a batch of packets into one packet (docs/abi/service.md section 8): field 50, a zlib
 * stream, or field 133, a zstd frame. No threads: one caller at a time, in any thread.
 */
#ifndef PFL_SERVICE_COMPRESSOR_H
#define PFL_SERVICE_COMPRESSOR_H

#include "base/bytes.h"
#include "base/err.h"
#include "perfetto/trace_config.fields.h"

/* The field numbers of CompressionConfig. */
enum pfl_codec {
    PFL_CODEC_NONE = 0,
    PFL_CODEC_DEFLATE = TRACE_CONFIG__COMPRESSION_CONFIG__DEFLATE,
    PFL_CODEC_ZSTD = TRACE_CONFIG__COMPRESSION_CONFIG__ZSTD,
};

struct pfl_compressor;

/* `zstd_level`: as in the config, 0 for zstd's default; out of range is clamped. PFL_ENOMEM. Memory
 * of base/mem is allocated only here and freed only in free. */
PFL_MUST_USE int pfl_compressor_new(enum pfl_codec codec, int zstd_level,
                                    struct pfl_compressor **ret_compressor);
void pfl_compressor_free(struct pfl_compressor *self); /* NULL is legal */

/* Bytes that it keeps from one batch to the next: zstd has 1 to 35 MiB, by level and batch. */
size_t pfl_compressor_get_bytes(const struct pfl_compressor *self);
/* Gives back what it can make again for the next batch. */
void pfl_compressor_trim(struct pfl_compressor *self);
/* An upper bound of the size that `len` bytes compress to. */
size_t pfl_compressor_bound(struct pfl_compressor *self, size_t len);
/* `trace`: packets as they lie in a trace file (repeated field 1), at most 2^30 bytes. `ret_packet`
 * lies in `room`, which has pfl_compressor_bound bytes. PFL_ENOMEM: zstd's own memory. */
PFL_MUST_USE int pfl_compressor_run(struct pfl_compressor *self, struct pfl_span trace,
                                    uint8_t *room, struct pfl_span *ret_packet);

#endif
