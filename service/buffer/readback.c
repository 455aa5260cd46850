/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of packets in a ReadBuffers reply: the service's own packets, then those of buffers,
 * frame by frame (readback_frame.c, readback_run.c) or packet by packet.
 *
 * Happy path: what is pending, then buffer after buffer. The frame is closed when the next packet
 * does not fit. That packet has left the buffer already: the bytes that did not fit are kept in
 * `pending` for the next frame. The service's own packets are kept there, too. A long packet comes
 * in its own memory (gather.h), and is sent, or lent, part by part.
 * Failures: out of memory for `pending` ends the reply. Packets that claim the service's fields,
 * are malformed, or whose writer gets no id, are counted and skipped. A producer may fill a buffer
 * with such packets, or with records without a packet; a call looks at a part of them and pauses.
 * Owns the frame, `pending` and the long packet; buffers are borrowed. Limits: one frame, and one
 * packet that is kept from the buffers (at most 2^28 bytes, mostly less than a frame).
 */
#include "service/buffer/readback.h"

#include <assert.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/packet.h"
#include "proto/packet_run.h"
#include "service/buffer/gather.h"
#include "service/buffer/readback_frame.h"

#define PENDING_MAX  ((size_t)1 << 30)
#define PENDING_KEPT ((size_t)512 * 1024)
/* Of refused packets, in one call: bytes, and so many more for each. */
#define REFUSED_MAX  ((size_t)1 << 20)
#define REFUSED_COST 16u

/* In front of a packet, or a part. */
struct pending {
    uint32_t bytes; /* of this part, left */
    uint32_t more;  /* of the packet, in parts behind it */
};

enum progress {
    READS,
    HAS_DRAINED, /* all buffers, and said so */
    IS_OVER,
};

struct pfl_readback {
    struct pfl_readback_conf conf;
    struct pfl_trace_buffer **buffers; /* owned array, borrowed buffers */
    size_t at;                         /* the buffer being drained */
    bool has_begun;                    /* a pass on it */
    enum progress progress;
    bool is_held;
    bool accepts_runs;
    bool is_paused;
    size_t refused;    /* in this call, as REFUSED_MAX says */
    size_t lent_bytes; /* of pending, to next_packet's caller: gone at the next call */
    uint64_t invalid_packets;
    struct pfl_buf pending;       /* struct pending and bytes of each packet, or part of one */
    struct pfl_long_packet rest;  /* owned: a long packet, or none; precedes `pending` */
    size_t rest_at;               /* of it, sent or lent */
    size_t rest_lent;             /* where the part begins that is lent */
    unsigned rest_buffer;         /* the index of its buffer */
    size_t rest_trusted;          /* its trusted fields, bytes at its end */
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
    if (self->buffers != NULL && self->at < self->conf.buffers_len &&
        self->buffers[self->at] != NULL)
        pfl_trace_buffer_end_read(self->buffers[self->at]);
    pfl_long_packet_fini(&self->rest);
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

static int begin_pending(struct pfl_readback *self, size_t bytes, size_t more)
{
    struct pending head = {.bytes = (uint32_t)bytes, .more = (uint32_t)more};
    uint8_t *room;
    int rc;

    if (bytes > UINT32_MAX || more > UINT32_MAX)
        return PFL_ELIMIT;
    rc = pfl_buf_reserve(&self->pending, sizeof(head) + bytes, &room);
    if (rc == 0)
        rc = pfl_buf_append(&self->pending, &head, sizeof(head));
    return rc;
}

/* The first one, which is there. Returns where its bytes are. */
static const uint8_t *get_pending(const struct pfl_readback *self, struct pending *ret_head)
{
    struct pfl_span queued = pfl_buf_get(&self->pending);

    assert(queued.data != NULL && queued.len >= sizeof(*ret_head));
    memcpy(ret_head, queued.data, sizeof(*ret_head));
    return queued.data + sizeof(*ret_head);
}

void pfl_readback_set_request(struct pfl_readback *self, uint64_t request_id, bool accepts_runs)
{
    self->conf.request_id = request_id;
    self->accepts_runs = accepts_runs;
}

int pfl_readback_push(struct pfl_readback *self, struct pfl_span packet)
{
    return packet.len == 0 ? 0 : pfl_readback_push_part(self, packet, 0);
}

int pfl_readback_push_part(struct pfl_readback *self, struct pfl_span part, size_t more)
{
    int rc = begin_pending(self, part.len, more);

    return rc != 0 ? rc : pfl_buf_append(&self->pending, part.data, part.len);
}

int pfl_readback_push_empty(struct pfl_readback *self)
{
    return begin_pending(self, 0, 0);
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

/* How much of a packet's `bytes` fits; false: the frame is full. */
static bool fits(const struct pfl_reply_frame *f, size_t bytes, size_t *ret_part)
{
    *ret_part = bytes;
    if (pfl_reply_frame_has_room(f, bytes))
        return true;
    *ret_part = f->budget - PFL_READBACK_SLICE_COST;
    return f->budget >= PFL_REPLY_CUT_MIN;
}

/* Copies of the first packet what fits. False: the frame is full. */
static bool put_pending(struct pfl_readback *self)
{
    struct pfl_reply_frame *f = &self->frame;
    struct pending head;
    const uint8_t *data = get_pending(self, &head);
    size_t part;

    if (!fits(f, head.bytes, &part))
        return false;
    pfl_reply_frame_put_bytes(f, pfl_span_of(data, part), part == head.bytes && head.more == 0);

    pfl_buf_consume(&self->pending, part);
    head.bytes -= (uint32_t)part;
    if (head.bytes != 0) {
        struct pfl_span queued = pfl_buf_get(&self->pending);

        assert(queued.data != NULL);
        memcpy((uint8_t *)(uintptr_t)queued.data, &head, sizeof(head));
        return false;
    }
    pfl_buf_consume(&self->pending, sizeof(head));
    if (self->pending.len == 0 && self->pending.capacity > PENDING_KEPT)
        pfl_buf_fini(&self->pending);
    return f->budget > PFL_READBACK_SLICE_COST;
}

/* ---- a long packet ---- */

/* Copies the part of it that fits. False: the frame is full. */
static bool put_rest(struct pfl_readback *self)
{
    struct pfl_reply_frame *f = &self->frame;
    size_t left = self->rest.bytes - self->rest_at;
    size_t part;

    if (!fits(f, left, &part))
        return false;
    pfl_reply_frame_put_bytes(f, pfl_span_of(self->rest.base + self->rest_at, part), part == left);
    pfl_long_packet_release(&self->rest, self->rest_at, self->rest_at + part);
    self->rest_at += part;
    if (part != left)
        return false;
    pfl_long_packet_fini(&self->rest);
    return f->budget > PFL_READBACK_SLICE_COST;
}

/* Takes the buffer's last packet. */
static void take_rest(struct pfl_readback *self, struct pfl_trace_buffer *buffer,
                      const struct pfl_trace_buffer_packet *packet)
{
    uint8_t *end;

    pfl_trace_buffer_take_long(buffer, &self->rest);
    end = self->rest.base + self->rest.bytes;
    self->rest_trusted = (size_t)(pfl_reply_put_trusted(end, packet) - end);
    self->rest.bytes += self->rest_trusted;
    self->rest_at = 0;
    self->rest_buffer = (unsigned)self->at;
}

_Static_assert(PFL_REPLY_OVERRUN + PFL_TRUSTED_MAX_BYTES <= PFL_LONG_PACKET_TAIL, "trusted fields");
_Static_assert(PFL_LONG_PACKET_MAX_BYTES + PFL_LONG_PACKET_TAIL < (size_t)1 << 28,
               "a packet with its trusted fields is one that readers accept");

static void lend_rest(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    const uint8_t *data = self->rest.base + self->rest_at;
    size_t left = self->rest.bytes - self->rest_at;
    size_t part = left < PFL_READBACK_PART_BYTES ? left : PFL_READBACK_PART_BYTES;

    *ret_packet = (struct pfl_readback_packet){
        .tail = pfl_span_of(data, part),
        .bytes = part,
        .more = left - part,
        .buffer = self->rest_buffer,
    };
    if (self->rest_at == 0)
        ret_packet->trusted = pfl_span_of(data + left - self->rest_trusted, self->rest_trusted);
    self->rest_lent = self->rest_at;
    self->rest_at += part;
    self->is_paused = left != part;
}

/* ---- from a buffer ---- */

/* A packet that does not fit: fills the frame with a part of it, and keeps the rest. */
static int carry_packet(struct pfl_readback *self, const struct pfl_trace_buffer_packet *packet)
{
    uint8_t trusted[PFL_REPLY_OVERRUN];
    size_t trusted_len = (size_t)(pfl_reply_put_trusted(trusted, packet) - trusted);
    size_t skip = pfl_reply_frame_put_front(&self->frame, packet);
    int rc = begin_pending(self, packet->bytes - skip + trusted_len, 0);

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

static bool refuse(struct pfl_readback *self, const struct pfl_trace_buffer_packet *packet)
{
    self->invalid_packets++;
    self->refused += REFUSED_COST + packet->bytes;
    return false;
}

/* Counts a packet that must not be sent; makes sure that the sequence of any other has an id. */
static inline bool is_sendable(struct pfl_readback *self,
                               const struct pfl_trace_buffer_packet *packet)
{
    if (__builtin_expect(packet->is_long, false)
            ? !packet->is_valid
            : !pfl_packet_is_valid(packet->slices, packet->slices_len))
        return refuse(self, packet);
    if (__builtin_expect(packet->source->packet_sequence_id != 0, true))
        return true;
    self->conf.on_new_source(self->conf.user, packet->source);
    return packet->source->packet_sequence_id != 0 || refuse(self, packet);
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
    if (!self->accepts_runs)
        pfl_reply_frame_put_stretch(f, buffer);
    return true;
}

/* Reads the buffer into the frame until the buffer is empty or the frame is full
 * (`ret_is_full`). */
static int put_buffer(struct pfl_readback *self, struct pfl_trace_buffer *buffer, bool *ret_is_full)
{
    struct pfl_trace_buffer_packet packet;

    *ret_is_full = false;
    if (!self->has_begun) {
        pfl_trace_buffer_begin_read(buffer);
        self->has_begun = true;
    }
    while (read_packet(self, buffer, &packet)) {
        if (!is_sendable(self, &packet))
            continue;
        if (packet.is_long) {
            take_rest(self, buffer, &packet);
            *ret_is_full = !put_rest(self);
            if (*ret_is_full)
                return 0;
            continue;
        }
        if (put_packet(self, buffer, &packet))
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
    if (self->rest.base != NULL || self->pending.len != 0) {
        *ret_is_full = self->rest.base != NULL ? !put_rest(self) : !put_pending(self);
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
    if (self->progress == READS) {
        self->progress = HAS_DRAINED;
        if (self->conf.on_drained != NULL)
            self->conf.on_drained(self->conf.user, self);
        return 0;
    }
    self->progress = IS_OVER;
    return 0;
}

int pfl_readback_next_frame(struct pfl_readback *self, struct pfl_readback_frame *ret_frame)
{
    bool is_full = false;
    int rc;

    if (self->progress == IS_OVER)
        return PFL_ESTATE;
    if (self->is_held && self->pending.len == 0)
        return PFL_EAGAIN;
    begin_call(self);
    pfl_reply_frame_begin(&self->frame);
    while (!is_full && self->progress != IS_OVER && !self->is_paused) {
        rc = fill(self, &is_full);
        if (rc != 0) {
            self->progress = IS_OVER;
            return rc;
        }
    }
    if (self->is_paused && self->frame.budget == PFL_READBACK_FRAME_MAX)
        return PFL_EAGAIN;
    pfl_reply_frame_end(&self->frame, self->conf.request_id, self->progress == IS_OVER, ret_frame);
    return 0;
}

/* ---- packet by packet ---- */

static void lend_pending(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    struct pending head;
    const uint8_t *data = get_pending(self, &head);

    self->lent_bytes = sizeof(head) + head.bytes;
    *ret_packet = (struct pfl_readback_packet){
        .tail = pfl_span_of(data, head.bytes),
        .bytes = head.bytes,
        .more = head.more,
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
    if (packet.is_long) {
        take_rest(self, buffer, &packet);
        lend_rest(self, ret_packet);
        return true;
    }
    tail_len = (size_t)(pfl_reply_put_trusted(scratch, &packet) - scratch);
    *ret_packet = (struct pfl_readback_packet){
        .slices = packet.slices,
        .slices_len = packet.slices_len,
        .tail = pfl_span_of(scratch, tail_len),
        .bytes = packet.bytes + tail_len,
        .trusted = pfl_span_of(scratch, tail_len),
        .buffer = (unsigned)self->at,
    };
    return true;
}

int pfl_readback_next_packet(struct pfl_readback *self, struct pfl_readback_packet *ret_packet)
{
    pfl_buf_consume(&self->pending, self->lent_bytes);
    self->lent_bytes = 0;
    begin_call(self);
    if (self->rest.base != NULL && self->rest_at == self->rest.bytes)
        pfl_long_packet_fini(&self->rest);
    if (self->rest.base != NULL) {
        pfl_long_packet_release(&self->rest, self->rest_lent, self->rest_at);
        lend_rest(self, ret_packet);
        return 0;
    }
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
        if (self->progress != READS)
            return PFL_EEOF;
        self->progress = HAS_DRAINED;
        if (self->conf.on_drained != NULL)
            self->conf.on_drained(self->conf.user, self);
    }
}
