/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that a service compressed into one packet (docs/abi/service.md section 8): field 50 of
 * TracePacket, a zlib stream, or field 133, a zstd frame. Pure.
 *
 *     if (pfl_compressed_find(packet, &field))
 *         rc = pfl_compressed_decode(decoder, &field, &out);
 */
#ifndef PFL_PROTO_COMPRESSED_H
#define PFL_PROTO_COMPRESSED_H

#include <stdbool.h>

#include "base/buf.h"

/*
 * What is longer is refused. A hostile stream without any content costs as much as its tables of
 * codes: up to 0.1 s a MiB, in one piece.
 */
#define PFL_COMPRESSED_MAX_BYTES ((size_t)4 << 20)

struct pfl_compressed_decoder;

PFL_MUST_USE int pfl_compressed_decoder_new(struct pfl_compressed_decoder **ret_decoder);
void pfl_compressed_decoder_free(struct pfl_compressed_decoder *self); /* NULL is legal */

/* Whether a packet holds compressed packets. `ret_field` borrows from it. */
bool pfl_compressed_find(struct pfl_span packet, struct pfl_field *ret_field);
/*
 * Appends the packets, as they lie in a trace file (repeated field 1). PFL_EPARSE: neither a zlib
 * stream, nor a zstd frame of today's format that tells its size; PFL_ELIMIT: more than out's
 * maximum, or than PFL_COMPRESSED_MAX_BYTES compressed, or blocks without end; PFL_ENOMEM. On
 * failure `out` has the content that it had.
 */
PFL_MUST_USE int pfl_compressed_decode(struct pfl_compressed_decoder *self,
                                       const struct pfl_field *field_untrusted,
                                       struct pfl_buf *out);
/* How many bytes all calls have decoded, or tried to: what they cost. */
uint64_t pfl_compressed_get_work_bytes(const struct pfl_compressed_decoder *self);

#endif
