/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame of a ReadBuffers reply.
 *
 *   scratch: [room for the reply's head][slice head|bytes|trusted][slice head]   [trusted]...
 *   iov:     [------------------ one block -----------------------------------][ring][- block -]...
 *
 * Happy path: one slice per packet (head, bytes, trusted fields, last_slice_for_packet), or runs of
 * packets (readback_run.c). Short pieces are copied into the scratch, where neighbours become one
 * iovec. A piece of PFL_SEND_IN_PLACE_MIN bytes or more is sent from the ring. Packets that
 * follow in the source's record are copied in one loop from fragment to fragment. The reply's head
 * is written in front at the end, when the size is known. It cannot fail: the budget is an upper
 * bound of the body, and the scratch holds all of it.
 */
#include "service/buffer/readback_frame.h"

#include <assert.h>

#include "perfetto/consumer_port.fields.h"
#include "proto/packet.h"
#include "service/buffer/fragments.h"

/* Slice: data's head, both lengths in a byte, and last_slice_for_packet. */
#define SLICE_HEAD 4u
#define SLICE_TAIL 2u
#define SHORT_MAX  (0x80u - 2 - SLICE_TAIL) /* exclusive, of data with both lengths in a byte */

/* A small packet is copied as a block; the check of it reads 8 bytes past the end. */
#define BLOCK      64u
#define SMALL_ROOM (PFL_FRAGMENT_SIZE_BYTES + BLOCK + 8u)

_Static_assert(BLOCK + PFL_TRUSTED_MAX_BYTES < SHORT_MAX, "small packets' lengths are a byte");
_Static_assert(BLOCK <= PFL_REPLY_OVERRUN, "blocks are written past a packet's end");
_Static_assert(PFL_TRUSTED_MAX_BYTES + SLICE_TAIL <= PFL_REPLY_OVERRUN, "as is what is behind it");

void pfl_reply_frame_begin(struct pfl_reply_frame *self)
{
    self->pos = self->scratch + PFL_RPC_REPLY_HEADER_MAX;
    self->block = self->pos;
    self->budget = PFL_READBACK_FRAME_MAX;
    self->placed = 0;
    self->iov_len = 1; /* the first is the reply's head with the first block */
    self->run_source = NULL;
}

static void close_block(struct pfl_reply_frame *self)
{
    size_t bytes = (size_t)(self->pos - self->block);

    if (self->block == self->scratch + PFL_RPC_REPLY_HEADER_MAX)
        self->iov[0].iov_len = bytes; /* its base comes with the head */
    else if (bytes != 0)
        self->iov[self->iov_len++] = (struct iovec){.iov_base = self->block, .iov_len = bytes};
    self->block = self->pos;
}

void pfl_reply_frame_end(struct pfl_reply_frame *self, uint64_t request_id, bool is_last,
                         struct pfl_readback_frame *ret_frame)
{
    uint8_t *body = self->scratch + PFL_RPC_REPLY_HEADER_MAX;
    unsigned flags = PFL_RPC_SUCCESS | (is_last ? 0u : (unsigned)PFL_RPC_HAS_MORE);
    size_t body_bytes;
    size_t head_bytes;

    pfl_reply_frame_end_run(self);
    body_bytes = (size_t)(self->pos - body) + self->placed;
    close_block(self);
    head_bytes = pfl_rpc_encode_reply_header(body, request_id, flags, body_bytes);
    self->iov[0].iov_base = body - head_bytes;
    self->iov[0].iov_len += head_bytes;
    ret_frame->iov = self->iov;
    ret_frame->iov_len = (int)self->iov_len;
    ret_frame->bytes = head_bytes + body_bytes;
    ret_frame->has_more = !is_last;
}

static inline uint8_t *put_varint(uint8_t *dst, size_t v)
{
    return dst + pfl_varint_put(dst, v);
}

/* Opens a slice of `bytes` of data, below SHORT_MAX. */
static inline uint8_t *put_short_head(uint8_t *dst, size_t bytes)
{
    const uint8_t head[SLICE_HEAD] = {
        READ_BUFFERS_RESPONSE__SLICES << 3 | PFL_WIRE_BYTES, (uint8_t)(2 + bytes + SLICE_TAIL),
        READ_BUFFERS_RESPONSE__SLICE__DATA << 3 | PFL_WIRE_BYTES, (uint8_t)bytes};

    memcpy(dst, head, sizeof(head));
    return dst + sizeof(head);
}

/* Opens a slice of `bytes` of data. */
static inline uint8_t *put_head(uint8_t *dst, size_t bytes)
{
    if (bytes < SHORT_MAX)
        return put_short_head(dst, bytes);
    *dst++ = READ_BUFFERS_RESPONSE__SLICES << 3 | PFL_WIRE_BYTES;
    dst = put_varint(dst, 1 + pfl_varint_size(bytes) + bytes + SLICE_TAIL);
    *dst++ = READ_BUFFERS_RESPONSE__SLICE__DATA << 3 | PFL_WIRE_BYTES;
    return put_varint(dst, bytes);
}

static inline uint8_t *put_slice_head(struct pfl_reply_frame *self, size_t bytes)
{
    if (self->run_source != NULL)
        pfl_reply_frame_end_run(self);
    self->budget -= bytes + PFL_READBACK_SLICE_COST;
    return put_head(self->pos, bytes);
}

static inline uint8_t *put_slice_tail(uint8_t *dst, bool is_last)
{
    dst[0] = READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET << 3 | PFL_WIRE_VARINT;
    dst[1] = is_last;
    return dst + SLICE_TAIL;
}

/* Puts one piece of a slice's data into the frame. */
static inline void put_piece(struct pfl_reply_frame *self, const struct iovec *piece)
{
    if (piece->iov_len < PFL_SEND_IN_PLACE_MIN) {
        pfl_bytes_copy(self->pos, piece->iov_base, piece->iov_len);
        self->pos += piece->iov_len;
        return;
    }
    close_block(self);
    self->iov[self->iov_len++] = *piece;
    self->placed += piece->iov_len;
}

void pfl_reply_frame_put_bytes(struct pfl_reply_frame *self, struct pfl_span bytes, bool is_last)
{
    uint8_t *dst = put_slice_head(self, bytes.len);

    memcpy(dst, bytes.data, bytes.len);
    self->pos = put_slice_tail(dst + bytes.len, is_last);
}

void pfl_reply_frame_put_packet(struct pfl_reply_frame *self,
                                const struct pfl_trace_buffer_packet *packet, size_t bytes)
{
    self->pos = put_slice_head(self, bytes);
    for (size_t i = 0; i < packet->slices_len; i++)
        put_piece(self, &packet->slices[i]);
    self->pos = put_slice_tail(pfl_reply_put_trusted(self->pos, packet), true);
}

/* Packets that go from a record into slices. */
struct passage {
    const uint8_t *pos; /* in the record */
    const uint8_t *end;
    uint8_t *dst;
    size_t budget;
    size_t trusted_len;
    uint8_t behind[PFL_TRUSTED_MAX_BYTES + SLICE_TAIL]; /* each packet: trusted fields, tail */
};

/* A packet of at most BLOCK bytes with SMALL_ROOM. False: it is another, not valid, or does not
 * fit. */
static inline bool pass_small(struct passage *p)
{
    struct pfl_fragment_head head = pfl_fragment_head_of(p->pos);
    const uint8_t *body = p->pos + head.size_bytes;
    size_t bytes = head.bytes + p->trusted_len;

    if (head.bytes - 1u >= BLOCK || bytes + PFL_READBACK_SLICE_COST > p->budget ||
        !pfl_packet_is_valid_hot(body, head.bytes))
        return false;
    p->dst = put_short_head(p->dst, bytes);
    memcpy(p->dst, body, BLOCK);
    memcpy(p->dst + head.bytes, p->behind, sizeof(p->behind));
    p->dst += bytes + SLICE_TAIL;
    p->budget -= bytes + PFL_READBACK_SLICE_COST;
    p->pos = body + head.bytes;
    return true;
}

/* False: the packet is sent from the ring, or is the record's last. */
static inline bool is_copied(const uint8_t *pos, const uint8_t *end,
                             struct pfl_fragment_head *ret_head)
{
    if ((size_t)(end - pos) <= PFL_FRAGMENT_SIZE_BYTES)
        return false;
    *ret_head = pfl_fragment_head_of(pos);
    return ret_head->bytes - 1u < PFL_SEND_IN_PLACE_MIN - 1u &&
           ret_head->bytes < (size_t)(end - pos) - ret_head->size_bytes;
}

/* False: it is not copied, is not valid, or does not fit. */
static bool pass_one(struct passage *p)
{
    struct pfl_fragment_head head;
    const uint8_t *body;
    size_t bytes;

    if (!is_copied(p->pos, p->end, &head))
        return false;
    body = p->pos + head.size_bytes;
    bytes = head.bytes + p->trusted_len;
    if (bytes + PFL_READBACK_SLICE_COST > p->budget || !pfl_packet_is_valid_piece(body, head.bytes))
        return false;
    p->dst = put_head(p->dst, bytes);
    memcpy(p->dst, body, head.bytes);
    memcpy(p->dst + head.bytes, p->behind, sizeof(p->behind));
    p->dst += bytes + SLICE_TAIL;
    p->budget -= bytes + PFL_READBACK_SLICE_COST;
    p->pos = body + head.bytes;
    return true;
}

void pfl_reply_frame_put_stretch(struct pfl_reply_frame *self, struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_stretch stretch = pfl_trace_buffer_get_stretch(buffer);
    struct pfl_fragment_head head;
    struct passage p;

    if (stretch.source == NULL || !is_copied(stretch.pos, stretch.end, &head))
        return;
    assert(self->run_source == NULL);
    p = (struct passage){
        .pos = stretch.pos, .end = stretch.end, .dst = self->pos, .budget = self->budget};
    p.trusted_len = stretch.source->trusted_len;
    memcpy(p.behind, stretch.source->trusted, p.trusted_len);
    (void)put_slice_tail(p.behind + p.trusted_len, true);
    while (((size_t)(p.end - p.pos) >= SMALL_ROOM && pass_small(&p)) || pass_one(&p))
        continue;
    if (p.pos == stretch.pos)
        return;
    self->pos = p.dst;
    self->budget = p.budget;
    pfl_trace_buffer_take_stretch(buffer, p.pos);
}

size_t pfl_reply_frame_put_front(struct pfl_reply_frame *self,
                                 const struct pfl_trace_buffer_packet *packet)
{
    size_t part;
    size_t filled = 0;
    uint8_t *dst;

    if (packet->bytes <= PFL_REPLY_CUT_MIN || self->budget <= PFL_REPLY_CUT_MIN)
        return 0;
    part = self->budget - PFL_READBACK_SLICE_COST;
    if (part > packet->bytes)
        part = packet->bytes;
    dst = put_slice_head(self, part);
    /* The rest is kept in the same call, so it must not be sent in place. */
    for (size_t i = 0; filled < part; i++) {
        size_t len = packet->slices[i].iov_len;
        size_t now = len < part - filled ? len : part - filled;

        pfl_bytes_copy(dst + filled, packet->slices[i].iov_base, now);
        filled += now;
    }
    self->pos = put_slice_tail(dst + part, false);
    return part;
}
