/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame of a ReadBuffers reply while it is being filled; for readback*.c alone. Unless stated
 * otherwise, the caller checks `budget` before it adds something.
 */
#ifndef PFL_SERVICE_READBACK_FRAME_H
#define PFL_SERVICE_READBACK_FRAME_H

#include "perfetto/trace_packet.fields.h"
#include "proto/ipc/rpc_host.h"
#include "service/buffer/readback.h"

/* Measured: docs/adr/0008. */
#define PFL_SEND_IN_PLACE_MIN 16384u
/* A packet that does not fit is cut only when both parts are worth a slice. */
#define PFL_REPLY_CUT_MIN 4096u
/* Copies of trusted fields and short pieces may write this far past their end. */
#define PFL_REPLY_OVERRUN       64u
#define PFL_REPLY_SCRATCH_BYTES (PFL_RPC_REPLY_HEADER_MAX + PFL_READBACK_FRAME_MAX + 4096u + 64u)
#define PFL_REPLY_IOV_LEN       (2u * PFL_READBACK_FRAME_MAX / PFL_SEND_IN_PLACE_MIN + 4u)
#define PFL_REPLY_LOSS_MAX      4u
/* Times and lengths of the packets of an open run. The run is closed when the longest length would
 * not fit. Each packet has a byte there, so the times of all fit. */
#define PFL_REPLY_RUN_LENGTH_MAX    2u
#define PFL_REPLY_RUN_LENGTHS_BYTES 4096u
#define PFL_REPLY_RUN_TIME_MAX      10u
#define PFL_REPLY_RUN_TIME_BLOCK    16u /* bytes copied of each */
#define PFL_REPLY_RUN_TIMES_BYTES   (PFL_REPLY_RUN_LENGTHS_BYTES * PFL_REPLY_RUN_TIME_MAX)

_Static_assert(PFL_REPLY_IOV_LEN <= 1024, "IOV_MAX");
_Static_assert(PFL_TRUSTED_MAX_BYTES + PFL_REPLY_LOSS_MAX < PFL_REPLY_OVERRUN,
               "trusted fields are copied as a block");

struct pfl_reply_frame {
    uint8_t *pos;   /* in scratch: the end of what is written */
    uint8_t *block; /* the beginning of the next iovec */
    size_t budget;  /* what is left of PFL_READBACK_FRAME_MAX */
    size_t placed;  /* bytes sent from the ring */
    unsigned iov_len;
    /* The run of packets that is open (proto/packet_run.h). */
    const struct pfl_trace_buffer_source *run_source; /* the run's sequence; NULL: no run is open */
    uint8_t *run;                                     /* its beginning */
    uint8_t *run_rest;                                /* the rest of its packets */
    uint8_t *run_times;                               /* in times: the end of what is written */
    uint8_t *run_lengths;                             /* in lengths */
    struct iovec iov[PFL_REPLY_IOV_LEN];
    uint8_t lengths[PFL_REPLY_RUN_LENGTHS_BYTES];
    uint8_t times[PFL_REPLY_RUN_TIMES_BYTES + PFL_REPLY_RUN_TIME_BLOCK];
    uint8_t scratch[PFL_REPLY_SCRATCH_BYTES];
};

void pfl_reply_frame_begin(struct pfl_reply_frame *self);
/* Its iovecs are borrowed from the frame, and from the rings. */
void pfl_reply_frame_end(struct pfl_reply_frame *self, uint64_t request_id, bool is_last,
                         struct pfl_readback_frame *ret_frame);

/* A packet or a part of one, copied. */
void pfl_reply_frame_put_bytes(struct pfl_reply_frame *self, struct pfl_span bytes, bool is_last);
/* A whole packet of a buffer with its trusted fields, `bytes` in all. */
void pfl_reply_frame_put_packet(struct pfl_reply_frame *self,
                                const struct pfl_trace_buffer_packet *packet, size_t bytes);
/* Takes packets out of the buffer that follow its last one in its record, while each is valid, fits
 * and is copied. No run is open. */
void pfl_reply_frame_put_stretch(struct pfl_reply_frame *self, struct pfl_trace_buffer *buffer);
/* For a packet that does not fit: fills the frame if that is worth a slice. Returns how many of the
 * packet's bytes are in it. */
size_t pfl_reply_frame_put_front(struct pfl_reply_frame *self,
                                 const struct pfl_trace_buffer_packet *packet);

/* Runs (readback_run.c). False: the packet does not fit into a run. If that would have opened a
 * run, it may still fit as a slice. */
bool pfl_reply_frame_run_packet(struct pfl_reply_frame *self,
                                const struct pfl_trace_buffer_packet *packet);
/* Takes packets of the open run's source out of the buffer while each is short, valid and fits. */
void pfl_reply_frame_run_stretch(struct pfl_reply_frame *self, struct pfl_trace_buffer *buffer);
void pfl_reply_frame_end_run(struct pfl_reply_frame *self);

static inline bool pfl_reply_frame_has_room(const struct pfl_reply_frame *self, size_t bytes)
{
    return bytes + PFL_READBACK_SLICE_COST <= self->budget;
}

static inline size_t pfl_reply_trusted_bytes(const struct pfl_trace_buffer_packet *packet)
{
    size_t loss = packet->loss_reasons == 0 ? 0 : 2 + pfl_varint_size(packet->loss_reasons);

    return packet->source->trusted_len + loss;
}

/* Writes trusted fields and the loss, and maybe PFL_REPLY_OVERRUN bytes past them; returns their
 * end. */
static inline uint8_t *pfl_reply_put_trusted(uint8_t *dst,
                                             const struct pfl_trace_buffer_packet *packet)
{
    memcpy(dst, packet->source->trusted, sizeof(packet->source->trusted));
    dst += packet->source->trusted_len;
    if (packet->loss_reasons != 0) {
        dst += pfl_varint_put(dst, TRACE_PACKET__PREVIOUS_PACKET_DROPPED << 3);
        dst += pfl_varint_put(dst, packet->loss_reasons);
    }
    return dst;
}

#endif
