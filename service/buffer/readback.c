/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets -> frames of a ReadBuffers reply.
 *
 *   scratch: [room for the reply's head][slice head|bytes|trusted][slice head]   [trusted]...
 *   iov:     [------------------ one run ------------------------------------][ring][-- run --]...
 *
 * Happy path: one slice a packet: head, bytes, trusted fields, last_slice_for_packet. What is short
 * is copied into the scratch, where neighbours become one iovec; a piece of SEND_IN_PLACE_MIN or
 * more is sent from where it lies in the ring. The frame is closed when the next packet does
 * not fit, and the reply's head is written in front, when the size is known.
 * A packet that does not fit has left the buffer already: its bytes, or those past what filled the
 * frame, are kept in `pending`, before the next frame may run. So are the service's own packets.
 * Failures: out of memory for `pending` ends the reply. Packets that claim the service's fields or
 * are malformed are counted and left out.
 * It owns scratch and pending; buffers are borrowed. Limits: one frame, and one packet pending from
 * the buffers (at most 2^28 bytes, mostly less than a frame).
 */
#include "service/buffer/readback.h"

#include <assert.h>
#include <limits.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/packet.h"
#include "proto/rpc_host.h"

/* Measured: docs/adr/0008. */
#define SEND_IN_PLACE_MIN 16384u
/* A packet that does not fit is cut only when both parts are worth a slice. */
#define CUT_MIN 4096u
/* Slice: tag, length, data's tag, length, ..., last_slice_for_packet. */
#define SLICE_HEAD_MAX 10u
#define SLICE_TAIL     2u
#define LOSS_MAX       4u
/* Copies of trusted fields and short pieces may write this far past their end. */
#define OVERRUN       64u
#define SCRATCH_BYTES (PFL_RPC_REPLY_HEADER_MAX + PFL_READBACK_FRAME_MAX + 4096u + OVERRUN)
#define IOV_LEN       (2u * PFL_READBACK_FRAME_MAX / SEND_IN_PLACE_MIN + 4u)
#define PENDING_MAX   ((size_t)1 << 30)
#define PENDING_KEPT  ((size_t)512 * 1024)

_Static_assert(IOV_LEN <= 1024, "IOV_MAX");
_Static_assert(PFL_TRUSTED_MAX_BYTES + LOSS_MAX < OVERRUN, "trusted fields are copied as a block");

struct frame {
    uint8_t *pos;  /* in scratch: the end of the current run */
    uint8_t *run;  /* its beginning */
    size_t budget; /* of PFL_READBACK_FRAME_MAX, left */
    size_t placed; /* bytes sent from the ring */
    unsigned iov_len;
};

struct pfl_readback {
    struct pfl_readback_conf conf;
    struct pfl_trace_buffer **buffers; /* owned array, borrowed buffers */
    size_t at;                         /* the buffer being drained */
    bool has_begun;                    /* a pass on it */
    bool is_drained;
    bool is_over;
    bool is_held;
    size_t lent_bytes; /* of pending, to next_packet's caller: gone at the next call */
    uint64_t invalid_packets;
    struct pfl_buf pending; /* u32 length and bytes of each packet or rest of one */
    struct frame frame;
    struct iovec iov[IOV_LEN];
    uint8_t scratch[SCRATCH_BYTES];
};

int pfl_readback_new(const struct pfl_readback_conf *conf, struct pfl_readback **ret_readback)
{
    struct pfl_readback *self = pfl_mem_alloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    memset(self, 0, offsetof(struct pfl_readback, iov));
    pfl_buf_init(&self->pending, PENDING_MAX);
    self->conf = *conf;
    self->conf.buffers = NULL;
    if (conf->buffers_len != 0) {
        self->buffers = pfl_mem_memdup(conf->buffers, conf->buffers_len * sizeof(*conf->buffers));
        if (self->buffers == NULL) {
            pfl_readback_free(self);
            return PFL_ENOMEM;
        }
    }
    *ret_readback = self;
    return 0;
}

void pfl_readback_free(struct pfl_readback *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->pending);
    pfl_mem_free(self->buffers);
    pfl_mem_free(self);
}

void pfl_readback_drop_buffer(struct pfl_readback *self, const struct pfl_trace_buffer *buffer)
{
    for (size_t i = 0; i < self->conf.buffers_len; i++) {
        if (self->buffers[i] == buffer)
            self->buffers[i] = NULL;
    }
}

uint64_t pfl_readback_take_invalid_packets(struct pfl_readback *self)
{
    uint64_t count = self->invalid_packets;

    self->invalid_packets = 0;
    return count;
}

/* ---- pending packets ---- */

static int begin_pending(struct pfl_readback *self, size_t bytes)
{
    uint32_t len = (uint32_t)bytes;
    uint8_t *room;
    int rc;

    if (bytes > UINT32_MAX)
        return PFL_ELIMIT;
    rc = pfl_buf_reserve(&self->pending, sizeof(len) + bytes, &room);
    if (rc == 0)
        rc = pfl_buf_append(&self->pending, &len, sizeof(len));
    return rc;
}

void pfl_readback_set_request_id(struct pfl_readback *self, uint64_t request_id)
{
    self->conf.request_id = request_id;
}

int pfl_readback_push(struct pfl_readback *self, struct pfl_span packet)
{
    int rc;

    if (packet.len == 0)
        return 0;
    rc = begin_pending(self, packet.len);
    return rc != 0 ? rc : pfl_buf_append(&self->pending, packet.data, packet.len);
}

int pfl_readback_push_empty(struct pfl_readback *self)
{
    return begin_pending(self, 0);
}

size_t pfl_readback_get_pending_bytes(const struct pfl_readback *self)
{
    return self->pending.len - self->lent_bytes;
}

void pfl_readback_hold(struct pfl_readback *self, bool is_held)
{
    self->is_held = is_held;
}

bool pfl_readback_is_held(const struct pfl_readback *self)
{
    return self->is_held;
}

/* ---- frame ---- */

static void begin_frame(struct pfl_readback *self)
{
    self->frame = (struct frame){
        .pos = self->scratch + PFL_RPC_REPLY_HEADER_MAX,
        .run = self->scratch + PFL_RPC_REPLY_HEADER_MAX,
        .budget = PFL_READBACK_FRAME_MAX,
        .iov_len = 1, /* the first is the reply's head with the first run */
    };
}

static void close_run(struct pfl_readback *self)
{
    struct frame *f = &self->frame;
    size_t bytes = (size_t)(f->pos - f->run);

    if (f->run == self->scratch + PFL_RPC_REPLY_HEADER_MAX)
        self->iov[0].iov_len = bytes; /* its base comes with the head */
    else if (bytes != 0)
        self->iov[f->iov_len++] = (struct iovec){.iov_base = f->run, .iov_len = bytes};
    f->run = f->pos;
}

static void end_frame(struct pfl_readback *self, struct pfl_readback_frame *ret_frame)
{
    struct frame *f = &self->frame;
    uint8_t *body = self->scratch + PFL_RPC_REPLY_HEADER_MAX;
    size_t body_bytes = (size_t)(f->pos - body) + f->placed;
    unsigned flags = PFL_RPC_SUCCESS | (self->is_over ? 0u : (unsigned)PFL_RPC_HAS_MORE);
    size_t head_bytes;

    close_run(self);
    head_bytes = pfl_rpc_encode_reply_header(body, self->conf.request_id, flags, body_bytes);
    self->iov[0].iov_base = body - head_bytes;
    self->iov[0].iov_len += head_bytes;
    ret_frame->iov = self->iov;
    ret_frame->iov_len = (int)f->iov_len;
    ret_frame->bytes = head_bytes + body_bytes;
    ret_frame->has_more = !self->is_over;
}

static inline uint8_t *put_varint(uint8_t *dst, size_t v)
{
    return dst + pfl_varint_put(dst, v);
}

/* Opens a slice of `bytes` of data; the caller has looked at the budget. */
static inline uint8_t *put_slice_head(struct frame *f, uint8_t *dst, size_t bytes)
{
    f->budget -= bytes + PFL_READBACK_SLICE_COST;
    if (bytes < 0x80 - 2 - SLICE_TAIL) { /* both lengths in a byte, as mostly */
        const uint8_t head[4] = {2 << 3 | PFL_WIRE_BYTES, (uint8_t)(2 + bytes + SLICE_TAIL),
                                 1 << 3 | PFL_WIRE_BYTES, (uint8_t)bytes};

        memcpy(dst, head, sizeof(head));
        return dst + sizeof(head);
    }
    *dst++ = 2 << 3 | PFL_WIRE_BYTES; /* ReadBuffersResponse.slices */
    dst = put_varint(dst, 1 + pfl_varint_size(bytes) + bytes + SLICE_TAIL);
    *dst++ = 1 << 3 | PFL_WIRE_BYTES; /* Slice.data */
    return put_varint(dst, bytes);
}

static inline uint8_t *put_slice_tail(uint8_t *dst, bool is_last)
{
    dst[0] = 2 << 3 | PFL_WIRE_VARINT; /* Slice.last_slice_for_packet */
    dst[1] = is_last;
    return dst + SLICE_TAIL;
}

static inline uint8_t *copy_piece(uint8_t *dst, const void *src, size_t len)
{
    pfl_bytes_copy(dst, src, len);
    return dst + len;
}

/* Puts one piece of a slice's data into the frame; moves f->pos. */
static void put_piece(struct pfl_readback *self, const void *src, size_t len)
{
    struct frame *f = &self->frame;

    if (len < SEND_IN_PLACE_MIN) {
        f->pos = copy_piece(f->pos, src, len);
        return;
    }
    close_run(self);
    self->iov[f->iov_len++] = (struct iovec){.iov_base = (void *)(uintptr_t)src, .iov_len = len};
    f->placed += len;
}

/* ---- from pending ---- */

/* Copies of the first packet what fits. False: the frame is full. */
static bool put_pending(struct pfl_readback *self)
{
    struct frame *f = &self->frame;
    struct pfl_span queued = pfl_buf_get(&self->pending);
    uint32_t left;
    size_t part;

    assert(queued.data != NULL && queued.len >= sizeof(left));
    memcpy(&left, queued.data, sizeof(left));
    part = left;
    if (part + PFL_READBACK_SLICE_COST > f->budget) {
        if (f->budget < CUT_MIN)
            return false;
        part = f->budget - PFL_READBACK_SLICE_COST;
    }
    f->pos = put_slice_head(f, f->pos, part);
    memcpy(f->pos, queued.data + sizeof(left), part);
    f->pos = put_slice_tail(f->pos + part, part == left);

    pfl_buf_consume(&self->pending, part);
    left -= (uint32_t)part;
    if (left != 0) {
        queued = pfl_buf_get(&self->pending);
        assert(queued.data != NULL);
        memcpy((uint8_t *)(uintptr_t)queued.data, &left, sizeof(left));
        return false;
    }
    pfl_buf_consume(&self->pending, sizeof(left));
    if (self->pending.len == 0 && self->pending.capacity > PENDING_KEPT)
        pfl_buf_fini(&self->pending);
    return f->budget > PFL_READBACK_SLICE_COST;
}

/* ---- from a buffer ---- */

static inline size_t trusted_bytes(const struct pfl_trace_buffer_packet *packet)
{
    size_t loss = packet->loss_reasons == 0 ? 0 : 2 + pfl_varint_size(packet->loss_reasons);

    return packet->source->trusted_len + loss;
}

/* Trusted fields and the loss; may write OVERRUN bytes. */
static inline uint8_t *put_trusted(uint8_t *dst, const struct pfl_trace_buffer_packet *packet)
{
    memcpy(dst, packet->source->trusted, sizeof(packet->source->trusted));
    dst += packet->source->trusted_len;
    if (packet->loss_reasons != 0) {
        dst = put_varint(dst, PFL_PACKET_PREVIOUS_PACKET_DROPPED << 3);
        dst = put_varint(dst, packet->loss_reasons);
    }
    return dst;
}

/* A packet that does not fit: fills the frame when that is worth a slice, keeps the rest. */
static int carry_packet(struct pfl_readback *self, const struct pfl_trace_buffer_packet *packet)
{
    struct frame *f = &self->frame;
    uint8_t trusted[OVERRUN];
    size_t trusted_len = (size_t)(put_trusted(trusted, packet) - trusted);
    size_t part = 0;
    size_t filled = 0;
    int rc;

    if (packet->bytes > CUT_MIN && f->budget > CUT_MIN) {
        part = f->budget - PFL_READBACK_SLICE_COST;
        if (part > packet->bytes)
            part = packet->bytes;
        f->pos = put_slice_head(f, f->pos, part);
    }
    rc = begin_pending(self, packet->bytes - part + trusted_len);
    for (size_t i = 0; rc == 0 && i < packet->slices_len; i++) {
        const uint8_t *data = packet->slices[i].iov_base;
        size_t len = packet->slices[i].iov_len;
        size_t now = len < part - filled ? len : part - filled;

        /* The rest is written behind in the same call, so it must not be sent in place. */
        f->pos = now != 0 ? copy_piece(f->pos, data, now) : f->pos;
        filled += now;
        if (len != now)
            rc = pfl_buf_append(&self->pending, data + now, len - now);
    }
    if (part != 0)
        f->pos = put_slice_tail(f->pos, false);
    return rc != 0 ? rc : pfl_buf_append(&self->pending, trusted, trusted_len);
}

static inline void put_packet(struct pfl_readback *self,
                              const struct pfl_trace_buffer_packet *packet, size_t bytes)
{
    struct frame *f = &self->frame;

    f->pos = put_slice_head(f, f->pos, bytes);
    for (size_t i = 0; i < packet->slices_len; i++)
        put_piece(self, packet->slices[i].iov_base, packet->slices[i].iov_len);
    f->pos = put_slice_tail(put_trusted(f->pos, packet), true);
}

/* Counts what may not be sent; makes sure that the others' sequence has an id. */
static inline bool is_sendable(struct pfl_readback *self,
                               const struct pfl_trace_buffer_packet *packet)
{
    if (!pfl_packet_is_valid(packet->slices, packet->slices_len)) {
        self->invalid_packets++;
        return false;
    }
    if (packet->source->packet_sequence_id == 0)
        self->conf.on_new_source(self->conf.user, packet->source);
    return true;
}

/* Reads the buffer into the frame until one of them has no more. `ret_is_full`: the frame. */
static int put_buffer(struct pfl_readback *self, struct pfl_trace_buffer *buffer, bool *ret_is_full)
{
    struct pfl_trace_buffer_packet packet;

    *ret_is_full = false;
    if (!self->has_begun) {
        pfl_trace_buffer_begin_read(buffer);
        self->has_begun = true;
    }
    while (pfl_trace_buffer_read(buffer, &packet)) {
        size_t bytes;

        if (!is_sendable(self, &packet))
            continue;
        bytes = packet.bytes + trusted_bytes(&packet);
        if (bytes + PFL_READBACK_SLICE_COST > self->frame.budget) {
            *ret_is_full = true;
            return carry_packet(self, &packet);
        }
        put_packet(self, &packet, bytes);
    }
    return 0;
}

/* One step of filling the frame. */
static int fill(struct pfl_readback *self, bool *ret_is_full)
{
    int rc;

    *ret_is_full = false;
    if (self->pending.len != 0) {
        *ret_is_full = !put_pending(self);
        return 0;
    }
    if (self->at < self->conf.buffers_len) {
        rc = self->buffers[self->at] != NULL
                 ? put_buffer(self, self->buffers[self->at], ret_is_full)
                 : 0;
        if (rc == 0 && !*ret_is_full) {
            self->at++;
            self->has_begun = false;
        }
        return rc;
    }
    if (self->is_held) {
        *ret_is_full = true;
        return 0;
    }
    if (!self->is_drained) {
        self->is_drained = true;
        if (self->conf.on_drained != NULL)
            self->conf.on_drained(self->conf.user, self);
        return 0;
    }
    self->is_over = true;
    return 0;
}

int pfl_readback_next_frame(struct pfl_readback *self, struct pfl_readback_frame *ret_frame)
{
    bool is_full = false;
    int rc;

    if (self->is_over)
        return PFL_ESTATE;
    if (self->is_held && self->pending.len == 0)
        return PFL_EAGAIN;
    begin_frame(self);
    while (!is_full && !self->is_over) {
        rc = fill(self, &is_full);
        if (rc != 0) {
            self->is_over = true;
            return rc;
        }
    }
    end_frame(self, ret_frame);
    return 0;
}

/* ---- packet by packet ---- */

static void lend_pending(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    struct pfl_span queued = pfl_buf_get(&self->pending);
    uint32_t len;

    assert(queued.data != NULL && queued.len >= sizeof(len));
    memcpy(&len, queued.data, sizeof(len));
    self->lent_bytes = sizeof(len) + len;
    *ret_packet = (struct pfl_readback_packet){
        .tail = pfl_span_of(queued.data + sizeof(len), len),
        .bytes = len,
        .buffer = PFL_READBACK_PUSHED,
    };
}

/* False: the buffer has no more. */
static bool lend_from_buffer(struct pfl_readback *self, struct pfl_trace_buffer *buffer,
                             struct pfl_readback_packet *ret_packet)
{
    struct pfl_trace_buffer_packet packet;
    size_t tail_len;

    if (!self->has_begun)
        pfl_trace_buffer_begin_read(buffer);
    self->has_begun = true;
    do {
        if (!pfl_trace_buffer_read(buffer, &packet))
            return false;
    } while (!is_sendable(self, &packet));
    tail_len = (size_t)(put_trusted(self->scratch, &packet) - self->scratch);
    *ret_packet = (struct pfl_readback_packet){
        .slices = packet.slices,
        .slices_len = packet.slices_len,
        .tail = pfl_span_of(self->scratch, tail_len),
        .bytes = packet.bytes + tail_len,
        .buffer = (unsigned)self->at,
    };
    return true;
}

int pfl_readback_next_packet(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    pfl_buf_consume(&self->pending, self->lent_bytes);
    self->lent_bytes = 0;
    for (;;) {
        if (self->pending.len != 0) {
            lend_pending(self, ret_packet);
            return 0;
        }
        if (self->at < self->conf.buffers_len) {
            struct pfl_trace_buffer *buffer = self->buffers[self->at];

            if (buffer != NULL && lend_from_buffer(self, buffer, ret_packet))
                return 0;
            self->at++;
            self->has_begun = false;
            continue;
        }
        if (self->is_held)
            return PFL_EAGAIN;
        if (self->is_drained)
            return PFL_EEOF;
        self->is_drained = true;
        if (self->conf.on_drained != NULL)
            self->conf.on_drained(self->conf.user, self);
    }
}
