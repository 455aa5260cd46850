/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing of the tracing protocol: u32 little-endian payload length, then that many bytes of one
 * serialized IPCFrame. Source of the format: docs/abi/wire.md section 1. I/O-free.
 */
#ifndef PFL_PROTO_IPC_FRAME_H
#define PFL_PROTO_IPC_FRAME_H

#include "base/buf.h"

#define PFL_FRAME_PREFIX_BYTES 4u
#define PFL_FRAME_MAX_BYTES    131072u /* prefix included */
#define PFL_FRAME_PAYLOAD_MAX  (PFL_FRAME_MAX_BYTES - PFL_FRAME_PREFIX_BYTES)

/* One whole payload; borrowed until return. A negative return stops, and becomes the result. */
typedef int (*pfl_frame_cb)(void *user, struct pfl_span payload);

struct pfl_frame_reader {
    struct pfl_buf partial; /* owned; an incomplete frame */
};

void pfl_frame_reader_init(struct pfl_frame_reader *self);
void pfl_frame_reader_fini(struct pfl_frame_reader *self);
/*
 * Takes the next bytes of the connection and calls `cb` for each whole frame, without copying
 * those that arrived whole. Empty frames are skipped. PFL_EPROTO as soon as a prefix passes
 * PFL_FRAME_PAYLOAD_MAX; PFL_ENOMEM; or what `cb` returned. After a failure: only fini.
 */
PFL_MUST_USE int pfl_frame_reader_feed(struct pfl_frame_reader *self, struct pfl_span data,
                                       pfl_frame_cb cb, void *user);

#endif
