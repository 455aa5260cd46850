/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short packets of one sequence -> runs in a frame (proto/packet_run.h), for a consumer that takes
 * them.
 *
 *     [tag|length: 3 bytes][tail's tag|length|tail][packets' tag|length: 3 bytes][length|bytes]...
 *
 * Happy path: the first short packet opens a run, the next ones of its source follow; what else
 * goes into the frame closes it, and the lengths, of which room was left, are written then, in
 * padded varints. Where the source's record goes on with whole packets they are walked in one loop
 * from fragment to fragment. What such a packet costs of the budget is exactly what it takes.
 * Nothing fails: what does not fit, is not valid or is not short is left to the reader of packets.
 */
#include <assert.h>

#include "proto/packet_run.h"
#include "service/buffer/fragments.h"
#include "service/buffer/readback_frame.h"

#define TAG(id)   ((id) << 3 | PFL_WIRE_BYTES)
#define TAG_BYTES 3u
/* A varint of 3 bytes, whatever its value: as much as a frame can hold. */
#define LENGTH_BYTES 3u
/* Of a packet: < 2^14. */
#define PACKET_LENGTH_MAX 2u
#define HEAD_BYTES        (TAG_BYTES + LENGTH_BYTES + 1u + 1u)

/* Small packets are copied as a block; the check of them reads 8 bytes past the end. */
#define BLOCK      64u
#define SMALL_MAX  BLOCK
#define SMALL_ROOM (PFL_FRAGMENT_SIZE_BYTES + SMALL_MAX + 8u)

_Static_assert(PFL_READBACK_FRAME_MAX < 1u << (7 * LENGTH_BYTES), "lengths fit");
_Static_assert(PFL_RUN_PACKET_MAX_BYTES <= 1u << (7 * PACKET_LENGTH_MAX), "packets' lengths fit");
_Static_assert(PFL_TRUSTED_MAX_BYTES <= PFL_RUN_TAIL_MAX_BYTES, "the tail's length is one byte");
_Static_assert(HEAD_BYTES + 1 + LENGTH_BYTES + PACKET_LENGTH_MAX <= PFL_READBACK_SLICE_COST,
               "what does not fit as a run does not as a slice");

static void put_length(uint8_t *dst, size_t len)
{
    dst[0] = (uint8_t)(len | 0x80);
    dst[1] = (uint8_t)(len >> 7 | 0x80);
    dst[2] = (uint8_t)(len >> 14);
}

static void begin_run(struct pfl_reply_frame *self, const struct pfl_trace_buffer_source *source)
{
    uint8_t *dst = self->pos;

    self->run_source = source;
    self->run = dst;
    dst += pfl_varint_put(dst, TAG(PFL_READ_RUNS_FIELD));
    assert(dst == self->run + TAG_BYTES);
    dst += LENGTH_BYTES;
    *dst++ = TAG(PFL_RUN_TAIL);
    *dst++ = source->trusted_len;
    memcpy(dst, source->trusted, sizeof(source->trusted));
    dst += source->trusted_len;
    *dst++ = TAG(PFL_RUN_PACKETS);
    dst += LENGTH_BYTES;
    self->run_packets = dst;
    self->budget -= (size_t)(dst - self->pos);
    self->pos = dst;
}

void pfl_reply_frame_end_run(struct pfl_reply_frame *self)
{
    if (self->run_source == NULL)
        return;
    put_length(self->run + TAG_BYTES, (size_t)(self->pos - self->run) - TAG_BYTES - LENGTH_BYTES);
    put_length(self->run_packets - LENGTH_BYTES, (size_t)(self->pos - self->run_packets));
    self->run_source = NULL;
}

/* Of a packet of fewer than PFL_RUN_PACKET_MAX_BYTES. */
static inline uint8_t *put_packet_length(uint8_t *dst, size_t len)
{
    if (len < 0x80) {
        *dst = (uint8_t)len;
        return dst + 1;
    }
    dst[0] = (uint8_t)(len | 0x80);
    dst[1] = (uint8_t)(len >> 7);
    return dst + 2;
}

bool pfl_reply_frame_run_packet(struct pfl_reply_frame *self,
                                const struct pfl_trace_buffer_packet *packet)
{
    size_t bytes = packet->bytes + PACKET_LENGTH_MAX;
    uint8_t *dst;

    if (self->run_source != packet->source) {
        size_t head = HEAD_BYTES + packet->source->trusted_len + 1u + LENGTH_BYTES;

        if (head + bytes > self->budget)
            return false;
        pfl_reply_frame_end_run(self);
        begin_run(self, packet->source);
    }
    if (bytes > self->budget)
        return false;
    dst = put_packet_length(self->pos, packet->bytes);
    for (size_t i = 0; i < packet->slices_len; i++) {
        pfl_bytes_copy(dst, packet->slices[i].iov_base, packet->slices[i].iov_len);
        dst += packet->slices[i].iov_len;
    }
    self->budget -= (size_t)(dst - self->pos);
    self->pos = dst;
    return true;
}

/* Packets that go from a record into a run. */
struct passage {
    const uint8_t *pos; /* in the record */
    const uint8_t *end;
    uint8_t *dst;
    const uint8_t *limit; /* of the frame's budget */
};

/* A size below 128: as pfl_fragment_head_of, where the next fragment is known one step after the
 * load, because everything waits for that. 0: another size. */
static inline uint32_t get_small_size(const uint8_t *pos, const uint8_t **ret_body)
{
    uint32_t word = pfl_fragment_load_word(pos);

    if ((word & ~0x7fu) == 0x00808080u)
        *ret_body = pos + sizeof(word);
    else if ((word & 0x80u) == 0)
        *ret_body = pos + 1;
    else
        return 0;
    return word & 0x7fu;
}

/* The common case of pass_one: a packet of at most SMALL_MAX bytes with as much behind it. */
static inline bool pass_small(struct passage *p)
{
    const uint8_t *body = p->pos;
    uint32_t bytes = get_small_size(p->pos, &body);

    if (bytes - 1u >= SMALL_MAX || bytes + 1u > (size_t)(p->limit - p->dst) ||
        !pfl_packet_is_valid_hot(body, bytes))
        return false;
    __builtin_prefetch(body + 768);
    *p->dst = (uint8_t)bytes;
    memcpy(p->dst + 1, body, BLOCK);
    p->dst += 1 + bytes;
    p->pos = body + bytes;
    return true;
}

/* Without a call, and without the string instructions that compilers choose for a bounded length
 * and that take their time to begin. */
static inline void copy_blocks(uint8_t *dst, const uint8_t *src, size_t len)
{
    for (; len > BLOCK; len -= BLOCK, dst += BLOCK, src += BLOCK)
        memcpy(dst, src, BLOCK);
    pfl_bytes_copy(dst, src, len);
}

/* False: it is not one for a run, or does not fit, or is the record's last. */
static bool pass_one(struct passage *p)
{
    struct pfl_fragment_head head;
    const uint8_t *body;

    if ((size_t)(p->end - p->pos) <= PFL_FRAGMENT_SIZE_BYTES)
        return false;
    head = pfl_fragment_head_of(p->pos);
    body = p->pos + head.size_bytes;
    if (head.bytes == 0 || head.bytes >= PFL_RUN_PACKET_MAX_BYTES ||
        head.bytes >= (size_t)(p->end - body) ||
        head.bytes + PACKET_LENGTH_MAX > (size_t)(p->limit - p->dst) ||
        !pfl_packet_is_valid_piece(body, head.bytes))
        return false;
    p->dst = put_packet_length(p->dst, head.bytes);
    copy_blocks(p->dst, body, head.bytes);
    p->dst += head.bytes;
    p->pos = body + head.bytes;
    return true;
}

void pfl_reply_frame_run_stretch(struct pfl_reply_frame *self, struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_stretch stretch = pfl_trace_buffer_get_stretch(buffer);
    struct passage p = {.pos = stretch.pos,
                        .end = stretch.end,
                        .dst = self->pos,
                        .limit = self->pos + self->budget};

    do {
        while ((size_t)(p.end - p.pos) >= SMALL_ROOM && pass_small(&p))
            continue;
    } while (pass_one(&p));
    if (p.pos == stretch.pos)
        return;
    self->budget -= (size_t)(p.dst - self->pos);
    self->pos = p.dst;
    pfl_trace_buffer_take_stretch(buffer, p.pos);
}
