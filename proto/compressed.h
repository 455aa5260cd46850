/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that a service compressed into one packet: TracePacket.zstd_compressed_packets
 * (docs/abi/service.md section 8). Pure.
 */
#ifndef PFL_PROTO_COMPRESSED_H
#define PFL_PROTO_COMPRESSED_H

#include "base/buf.h"

struct pfl_compressed_decoder;

PFL_MUST_USE int pfl_compressed_decoder_new(struct pfl_compressed_decoder **ret_decoder);
void pfl_compressed_decoder_free(struct pfl_compressed_decoder *self); /* NULL is legal */
/*
 * Appends the packets, as they lie in a trace file (repeated field 1). PFL_EPARSE: no zstd frame
 * that tells its size; PFL_ELIMIT: larger than out's maximum, nothing was allocated; PFL_ENOMEM. On
 * failure `out` is as it was.
 */
PFL_MUST_USE int pfl_compressed_decode(struct pfl_compressed_decoder *self,
                                       struct pfl_span frame_untrusted, struct pfl_buf *out);

#endif
