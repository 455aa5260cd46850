/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a session's buffers -> frames of a ReadBuffers reply, as iovecs for writev
 * (docs/abi/service.md 7). Short pieces are copied into one scratch block, long ones are sent from
 * the ring (docs/adr/0008 has the threshold). A core: no I/O.
 *
 *     pfl_readback_push(rb, packet)...             the service's own packets that come first
 *     while (room in the socket) {
 *         rc = pfl_readback_next_frame(rb, &frame);
 *         pfl_stream_writev(stream, frame.iov, frame.iov_len, -1);
 *         if (!frame.has_more) break;
 *     }
 *
 * A frame is borrowed until the next call on the readback or on any of the buffers: write it before
 * anything else runs (the stream copies what the kernel does not take). Between two frames nothing
 * refers to the rings, so commits, patches and the end of a buffer are legal there.
 */
#ifndef PFL_SERVICE_READBACK_H
#define PFL_SERVICE_READBACK_H

#include "service/buffer/trace_buffer.h"

struct pfl_readback;

/* docs/abi/service.md 7: the sum over a frame's slices of (bytes + 16). This bounds a slice,
 * too. */
#define PFL_READBACK_FRAME_MAX  131008u
#define PFL_READBACK_SLICE_COST 16u
#define PFL_READBACK_SLICE_MAX  (PFL_READBACK_FRAME_MAX - PFL_READBACK_SLICE_COST)

struct pfl_readback_conf {
    uint64_t request_id; /* of the ReadBuffers call that the frames answer */
    /* In index order; each is drained before the next. The array is copied, the buffers are
     * borrowed until pfl_readback_free or pfl_readback_drop_buffer. */
    struct pfl_trace_buffer *const *buffers;
    size_t buffers_len;
    /* Called before the first packet of a sequence is put into a frame (its packet_sequence_id is
     * 0): sets packet_sequence_id, trusted and trusted_len. If it leaves 0, the packet is refused.
     */
    void (*on_new_source)(void *user, struct pfl_trace_buffer_source *source);
    /* Called once, when all buffers are drained: the last moment for pfl_readback_push. May be
     * NULL. */
    void (*on_drained)(void *user, struct pfl_readback *readback);
    void *user;
};

struct pfl_readback_frame {
    const struct iovec *iov;
    int iov_len; /* at most IOV_MAX */
    size_t bytes;
    bool has_more; /* false: this is the reply's last frame */
};

/* Begins a pass on every buffer. PFL_ENOMEM. */
PFL_MUST_USE int pfl_readback_new(const struct pfl_readback_conf *conf,
                                  struct pfl_readback **ret_readback);
void pfl_readback_free(struct pfl_readback *self); /* NULL is legal */

/* The frames from here on answer this request: a second ReadBuffers call continues where the first
 * one stopped. `accepts_runs`: they may contain runs of packets (proto/packet_run.h); initially
 * false. */
void pfl_readback_set_request(struct pfl_readback *self, uint64_t request_id, bool accepts_runs);
/* Queues one whole serialized packet (trusted fields included) of up to 2^28 - 1 bytes. It is
 * copied, and sent before anything that is still in a buffer. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_readback_push(struct pfl_readback *self, struct pfl_span packet);
/* The same in parts: the next calls push the other `more` bytes of the packet. */
PFL_MUST_USE int pfl_readback_push_part(struct pfl_readback *self, struct pfl_span part,
                                        size_t more);
/* Queues a packet of 0 bytes: it is sent as an empty slice. */
PFL_MUST_USE int pfl_readback_push_empty(struct pfl_readback *self);
size_t pfl_readback_get_pending_bytes(const struct pfl_readback *self);
/* While held, a readback that runs out of packets returns PFL_EAGAIN instead of ending, until the
 * next push or the release. For a readback without buffers that is fed from elsewhere. */
void pfl_readback_hold(struct pfl_readback *self, bool is_held);
bool pfl_readback_is_held(const struct pfl_readback *self);
/* The buffer is about to be freed: nothing more is read from it. */
void pfl_readback_drop_buffer(struct pfl_readback *self, const struct pfl_trace_buffer *buffer);

/* The next frame; each call makes progress. PFL_EAGAIN: held, or paused. PFL_ESTATE after the last
 * one. PFL_ENOMEM: a packet larger than a frame could not be kept for the next one; the reply
 * cannot continue. */
PFL_MUST_USE int pfl_readback_next_frame(struct pfl_readback *self,
                                         struct pfl_readback_frame *ret_frame);

/* One packet, or a part of a long one, for readers that do not use frames; borrowed like a frame.
 * Its trusted fields follow its slices. */
#define PFL_READBACK_PART_BYTES ((size_t)256 * 1024)
struct pfl_readback_packet {
    const struct iovec *slices;
    size_t slices_len;
    struct pfl_span tail;
    size_t bytes;            /* of all */
    size_t more;             /* bytes of the same packet that the next calls return */
    struct pfl_span trusted; /* the trusted fields of a buffer's packet, with its first part */
    unsigned buffer;         /* index of its buffer; PFL_READBACK_PUSHED: it was pushed */
};
#define PFL_READBACK_PUSHED 254u
/* The same packets as in the frames; do not mix with pfl_readback_next_frame. PFL_EEOF at the end,
 * PFL_EAGAIN. */
PFL_MUST_USE int pfl_readback_next_packet(struct pfl_readback *self,
                                          struct pfl_readback_packet *ret_packet);

/* After PFL_EAGAIN. Paused: the readback skipped much data without a packet to send, or is in the
 * middle of a long packet. Serve others; the next call continues. Also after a part with `more`. */
bool pfl_readback_is_paused(const struct pfl_readback *self);

/* Packets refused since the beginning (malformed, claiming trusted fields, of a source without id):
 * TraceStats.invalid_packets. Takes the count: the next call starts from 0. */
uint64_t pfl_readback_take_invalid_packets(struct pfl_readback *self);

#endif
