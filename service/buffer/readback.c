/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of packets in a ReadBuffers reply: the service's own packets, then those of buffers,
 * frame by frame (readback_frame.c, readback_run.c) or packet by packet.
 *
 * Happy path: what is pending, then buffer after buffer. The frame is closed when the next packet
 * does not fit. That packet has left the buffer already: the bytes that did not fit are kept in
 * `pending` for the next frame. The service's own packets are kept there, too.
 * Failures: out of memory for `pending` ends the reply. Packets that claim the service's fields or
 * are malformed are counted and skipped. A producer may fill a buffer with such packets, or with
 * records without a packet; a call looks at a part of them and pauses.
 * Owns the frame and `pending`; buffers are borrowed. Limits: one frame, and one pending packet
 * from the buffers (at most 2^28 bytes, mostly less than a frame).
 */
#include "service/buffer/readback.h"

#include <assert.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/packet.h"
#include "proto/packet_run.h"
#include "service/buffer/readback_frame.h"

#define PENDING_MAX  ((size_t)1 << 30)
#define PENDING_KEPT ((size_t)512 * 1024)
/* Of refused packets, in one call: bytes, and so many more for each. */
#define REFUSED_MAX  ((size_t)1 << 20)
#define REFUSED_COST 16u

struct pfl_readback {
    struct pfl_readback_conf conf;
    struct pfl_trace_buffer **buffers; /* owned array, borrowed buffers */
    size_t at;                         /* the buffer being drained */
    bool has_begun;                    /* a pass on it */
    bool is_drained;
    bool is_over;
    bool is_held;
    bool accepts_runs;
    bool is_paused;
    size_t refused;    /* in this call, as REFUSED_MAX says */
    size_t lent_bytes; /* of pending, to next_packet's caller: gone at the next call */
    uint64_t invalid_packets;
    struct pfl_buf pending;       /* u32 length and bytes of each packet or rest of one */
    struct pfl_reply_frame frame; /* last: it is large, and needs no zeroes */
};

int pfl_readback_new(const struct pfl_readback_conf *conf, struct pfl_readback **ret_readback)
{
    struct pfl_readback *self = pfl_mem_alloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    memset(self, 0, offsetof(struct pfl_readback, frame));
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

void pfl_readback_set_request(struct pfl_readback *self, uint64_t request_id, bool accepts_runs)
{
    self->conf.request_id = request_id;
    self->accepts_runs = accepts_runs;
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

/* ---- from pending ---- */

/* Copies of the first packet what fits. False: the frame is full. */
static bool put_pending(struct pfl_readback *self)
{
    struct pfl_reply_frame *f = &self->frame;
    struct pfl_span queued = pfl_buf_get(&self->pending);
    uint32_t left;
    size_t part;

    assert(queued.data != NULL && queued.len >= sizeof(left));
    memcpy(&left, queued.data, sizeof(left));
    part = left;
    if (!pfl_reply_frame_has_room(f, part)) {
        if (f->budget < PFL_REPLY_CUT_MIN)
            return false;
        part = f->budget - PFL_READBACK_SLICE_COST;
    }
    pfl_reply_frame_put_bytes(f, pfl_span_of(queued.data + sizeof(left), part), part == left);

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

/* A packet that does not fit: what of it fills the frame, and keeps the rest. */
static int carry_packet(struct pfl_readback *self, const struct pfl_trace_buffer_packet *packet)
{
    uint8_t trusted[PFL_REPLY_OVERRUN];
    size_t trusted_len = (size_t)(pfl_reply_put_trusted(trusted, packet) - trusted);
    size_t skip = pfl_reply_frame_put_front(&self->frame, packet);
    int rc = begin_pending(self, packet->bytes - skip + trusted_len);

    for (size_t i = 0; rc == 0 && i < packet->slices_len; i++) {
        const uint8_t *data = packet->slices[i].iov_base;
        size_t len = packet->slices[i].iov_len;
        size_t skipped = len < skip ? len : skip;

        skip -= skipped;
        if (len != skipped)
            rc = pfl_buf_append(&self->pending, data + skipped, len - skipped);
    }
    return rc != 0 ? rc : pfl_buf_append(&self->pending, trusted, trusted_len);
}

/* Counts a packet that must not be sent; makes sure that the sequence of any other has an id. */
static inline bool is_sendable(struct pfl_readback *self,
                               const struct pfl_trace_buffer_packet *packet)
{
    if (!pfl_packet_is_valid(packet->slices, packet->slices_len)) {
        self->invalid_packets++;
        self->refused += REFUSED_COST + packet->bytes;
        return false;
    }
    if (packet->source->packet_sequence_id == 0)
        self->conf.on_new_source(self->conf.user, packet->source);
    return true;
}

/* The buffer's next packet; false: it has none now. */
static inline bool read_packet(struct pfl_readback *self, struct pfl_trace_buffer *buffer,
                               struct pfl_trace_buffer_packet *packet)
{
    if (self->refused < REFUSED_MAX && pfl_trace_buffer_read(buffer, packet))
        return true;
    self->is_paused = pfl_trace_buffer_is_paused(buffer);
    return false;
}

static void begin_call(struct pfl_readback *self)
{
    self->is_paused = false;
    self->refused = 0;
}

bool pfl_readback_is_paused(const struct pfl_readback *self)
{
    return self->is_paused;
}

/* As a part of a run, with those behind it that need no look; or as a slice. False: no room. */
static inline bool put_packet(struct pfl_readback *self, struct pfl_trace_buffer *buffer,
                              const struct pfl_trace_buffer_packet *packet)
{
    struct pfl_reply_frame *f = &self->frame;
    size_t bytes = packet->bytes + pfl_reply_trusted_bytes(packet);

    if (self->accepts_runs && packet->loss_reasons == 0 &&
        packet->bytes < PFL_RUN_PACKET_MAX_BYTES && pfl_reply_frame_run_packet(f, packet)) {
        pfl_reply_frame_run_stretch(f, buffer);
        return true;
    }
    if (!pfl_reply_frame_has_room(f, bytes))
        return false;
    pfl_reply_frame_put_packet(f, packet, bytes);
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
    while (read_packet(self, buffer, &packet)) {
        if (!is_sendable(self, &packet) || put_packet(self, buffer, &packet))
            continue;
        *ret_is_full = true;
        return carry_packet(self, &packet);
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
        if (rc == 0 && !*ret_is_full && !self->is_paused) {
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
    begin_call(self);
    pfl_reply_frame_begin(&self->frame);
    while (!is_full && !self->is_over && !self->is_paused) {
        rc = fill(self, &is_full);
        if (rc != 0) {
            self->is_over = true;
            return rc;
        }
    }
    if (self->is_paused && self->frame.budget == PFL_READBACK_FRAME_MAX)
        return PFL_EAGAIN;
    pfl_reply_frame_end(&self->frame, self->conf.request_id, self->is_over, ret_frame);
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
    uint8_t *scratch = self->frame.scratch;
    size_t tail_len;

    if (!self->has_begun)
        pfl_trace_buffer_begin_read(buffer);
    self->has_begun = true;
    do {
        if (!read_packet(self, buffer, &packet))
            return false;
    } while (!is_sendable(self, &packet));
    tail_len = (size_t)(pfl_reply_put_trusted(scratch, &packet) - scratch);
    *ret_packet = (struct pfl_readback_packet){
        .slices = packet.slices,
        .slices_len = packet.slices_len,
        .tail = pfl_span_of(scratch, tail_len),
        .bytes = packet.bytes + tail_len,
        .buffer = (unsigned)self->at,
    };
    return true;
}

int pfl_readback_next_packet(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    pfl_buf_consume(&self->pending, self->lent_bytes);
    self->lent_bytes = 0;
    begin_call(self);
    for (;;) {
        if (self->pending.len != 0) {
            lend_pending(self, ret_packet);
            return 0;
        }
        if (self->at < self->conf.buffers_len) {
            struct pfl_trace_buffer *buffer = self->buffers[self->at];

            if (buffer != NULL && lend_from_buffer(self, buffer, ret_packet))
                return 0;
            if (self->is_paused)
                return PFL_EAGAIN;
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
