/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing of the tracing protocol: u32 little-endian payload length, then that many bytes of one
 * serialized IPCFrame. Source of the format: docs/abi/wire.md section 1. I/O-free.
 */
#ifndef PFL_PROTO_IPC_FRAME_H
#define PFL_PROTO_IPC_FRAME_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define PFL_FRAME_PREFIX_BYTES 4u
#define PFL_FRAME_MAX_BYTES    131072u /* prefix included */
#define PFL_FRAME_PAYLOAD_MAX  (PFL_FRAME_MAX_BYTES - PFL_FRAME_PREFIX_BYTES)
/* The same framing, with one message a frame, on the streams of spools and collectors. */
#define PFL_FRAME_LARGE_MAX_BYTES ((1u << 20) + PFL_FRAME_PREFIX_BYTES)

/* One whole payload; borrowed until return. A negative return stops, and becomes the result.
 * PFL_FRAME_PAUSE stops, too: the reader keeps what follows. PFL_FRAME_AGAIN: it keeps the frame,
 * too, which comes again at the next feed. */
typedef int (*pfl_frame_cb)(void *user, struct pfl_span payload);
#define PFL_FRAME_PAUSE 1
#define PFL_FRAME_AGAIN 2

struct pfl_frame_reader {
    struct pfl_buf partial; /* owned; an incomplete frame, or what is kept after a pause */
    size_t max_bytes;       /* of a frame */
};

void pfl_frame_reader_init(struct pfl_frame_reader *self);
/* For frames of up to PFL_FRAME_LARGE_MAX_BYTES. */
void pfl_frame_reader_init_large(struct pfl_frame_reader *self);
void pfl_frame_reader_fini(struct pfl_frame_reader *self);
/*
 * Takes the next bytes of the connection and calls `cb` for each whole frame, without copying
 * those that arrived whole. Empty frames are skipped. PFL_EPROTO as soon as a prefix passes
 * the maximum; PFL_ENOMEM; or the failure that `cb` returned. After a failure: only fini. While
 * whole frames are kept `data` must be empty: then it continues with these.
 */
PFL_MUST_USE int pfl_frame_reader_feed(struct pfl_frame_reader *self, struct pfl_span data,
                                       pfl_frame_cb cb, void *user);

/* Does it keep a whole frame, after a pause? */
bool pfl_frame_reader_has_frames(const struct pfl_frame_reader *self);

/* Appends a frame of that message. PFL_ELIMIT: larger than PFL_FRAME_LARGE_MAX_BYTES, or no room;
 * PFL_ENOMEM. On failure nothing was added. */
PFL_MUST_USE int pfl_frame_write(const ProtobufCMessage *message, struct pfl_buf *out);

#endif
