/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short packets of one sequence -> runs in a frame (proto/packet_run.h), for a consumer that takes
 * them.
 *
 *     frame  [run's head][tail][rest's head][rest]...  [times' head][times][lengths' head][lengths]
 *     aside  [time]...  [length]...
 *
 * Happy path: the first short packet opens a run, and the next ones of its source follow. What
 * follows a packet's time goes into the frame; the time and the length go aside. The run is closed
 * when something else goes into the frame, or when the space aside is full: times and lengths are
 * appended, and the lengths of the fields are written as padded varints into reserved space.
 *
 * Whole packets that follow in the source's record are read in one loop from fragment to fragment.
 * The budget is charged for each packet at once, and for the end of a run when it is opened, so
 * that closing always fits.
 *
 * Nothing fails: a packet that does not fit, is not valid or is not short is left to the reader of
 * packets.
 */
#include <assert.h>

#include "perfetto/consumer_port.fields.h"
#include "proto/packet.h"
#include "proto/packet_run.h"
#include "service/buffer/fragments.h"
#include "service/buffer/readback_frame.h"

#define TAG(id)   ((id) << 3 | PFL_WIRE_BYTES)
#define TAG_BYTES 3u
/* A varint of 3 bytes, whatever its value: as much as a frame can hold. */
#define LENGTH_BYTES 3u
#define COLUMN_BYTES (1u + LENGTH_BYTES)
/* Of an entry of `lengths`: < 2^14. */
#define PACKET_LENGTH_MAX PFL_REPLY_RUN_LENGTH_MAX
#define HEAD_BYTES        (TAG_BYTES + LENGTH_BYTES + 1u + 1u + 3 * COLUMN_BYTES)

/* Where varints end in 8 bytes: the high bits that are not set. */
#define ENDS 0x8080808080808080u

/* Small packets are copied as a block; the check of them reads 8 bytes past the end. */
#define BLOCK 64u
/* Its entry of `lengths` is one byte. */
#define SMALL_MAX 63u
/* In front of the last block: the packet's size, and the longest time that is looked for. */
#define SMALL_ROOM (PFL_FRAGMENT_SIZE_BYTES + 1u + 9u + BLOCK)
#define TIME_BLOCK PFL_REPLY_RUN_TIME_BLOCK

_Static_assert(PFL_READBACK_FRAME_MAX < 1u << (7 * LENGTH_BYTES), "lengths fit");
_Static_assert(PFL_RUN_PACKET_MAX_BYTES <= 1u << (7 * PACKET_LENGTH_MAX - 1),
               "packets' lengths fit");
_Static_assert(PFL_TRUSTED_MAX_BYTES <= PFL_RUN_TAIL_MAX_BYTES, "the tail's length is one byte");
_Static_assert(PFL_FRAGMENT_SIZE_BYTES + SMALL_MAX + 8u <= SMALL_ROOM, "the check's reads");
_Static_assert(1u + TIME_BLOCK <= BLOCK, "the times' reads");
_Static_assert(SMALL_MAX << 1 < 0x7f, "small lengths are a byte");

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
    dst += pfl_varint_put(dst, TAG(READ_BUFFERS_RESPONSE__PERFLEET_RUNS));
    assert(dst == self->run + TAG_BYTES);
    dst += LENGTH_BYTES;
    *dst++ = TAG(READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL);
    *dst++ = source->trusted_len;
    memcpy(dst, source->trusted, sizeof(source->trusted));
    dst += source->trusted_len;
    *dst++ = TAG(READ_BUFFERS_RESPONSE__PACKET_RUN__REST);
    dst += LENGTH_BYTES;
    self->run_rest = dst;
    self->run_times = self->times;
    self->run_lengths = self->lengths;
    self->budget -= HEAD_BYTES + source->trusted_len;
    self->pos = dst;
}

static uint8_t *put_column(uint8_t *dst, uint8_t tag, const uint8_t *data, size_t len)
{
    *dst++ = tag;
    put_length(dst, len);
    dst += LENGTH_BYTES;
    memcpy(dst, data, len);
    return dst + len;
}

void pfl_reply_frame_end_run(struct pfl_reply_frame *self)
{
    uint8_t *dst = self->pos;

    if (self->run_source == NULL)
        return;
    put_length(self->run_rest - LENGTH_BYTES, (size_t)(dst - self->run_rest));
    dst = put_column(dst, TAG(READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES), self->times,
                     (size_t)(self->run_times - self->times));
    dst = put_column(dst, TAG(READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS), self->lengths,
                     (size_t)(self->run_lengths - self->lengths));
    put_length(self->run + TAG_BYTES, (size_t)(dst - self->run) - TAG_BYTES - LENGTH_BYTES);
    self->pos = dst;
    self->run_source = NULL;
}

/* What a packet is in the columns. */
struct columns {
    size_t skip;   /* its bytes in front of the rest */
    size_t time;   /* bytes of the time's varint; 0: it does not begin with one */
    size_t rest;   /* bytes */
    size_t length; /* the entry, and how many bytes that takes */
    size_t length_bytes;
};

/* Of the varint behind the tag of a time, 1 to 10; 0: it does not end in the piece. */
static inline size_t get_time_bytes(struct pfl_span piece)
{
    uint64_t word;
    size_t bytes = 1;

    if (piece.len > sizeof(word)) {
        memcpy(&word, piece.data + 1, sizeof(word));
        word = ~le64toh(word) & ENDS;
        if (word != 0)
            return (size_t)__builtin_ctzll(word) / 8 + 1;
        bytes = sizeof(word) + 1;
    }
    for (; bytes < piece.len && bytes <= PFL_REPLY_RUN_TIME_MAX; bytes++) {
        if (piece.data[bytes] < 0x80)
            return bytes;
    }
    return 0;
}

/* For a valid packet of fewer than PFL_RUN_PACKET_MAX_BYTES that begins with `piece`. A time that
 * continues in another piece counts as none. */
static inline struct columns columns_of(struct pfl_span piece, size_t bytes)
{
    struct columns c = {.rest = bytes};

    if (piece.len != 0 && piece.data[0] == PFL_RUN_TIME_TAG) {
        c.time = get_time_bytes(piece);
        c.skip = c.time == 0 ? 0 : 1 + c.time;
        c.rest = bytes - c.skip;
    }
    c.length = c.rest << 1 | (c.time != 0);
    c.length_bytes = c.length < 0x80 ? 1 : 2;
    return c;
}

/* Nothing, of an empty packet, which has no pieces. */
static struct pfl_span get_first_piece(const struct pfl_trace_buffer_packet *packet)
{
    static const uint8_t none[1];

    if (packet->slices_len == 0)
        return pfl_span_of(none, 0);
    return pfl_span_of(packet->slices[0].iov_base, packet->slices[0].iov_len);
}

/* Its cost in the budget. */
static inline size_t get_cost(const struct columns *c)
{
    return c->rest + c->time + c->length_bytes;
}

static inline uint8_t *put_packet_length(uint8_t *dst, const struct columns *c)
{
    dst[0] = (uint8_t)(c->length_bytes == 1 ? c->length : c->length | 0x80);
    dst[1] = (uint8_t)(c->length >> 7); /* or nothing yet: there is room */
    return dst + c->length_bytes;
}

/* For how many bytes there is a place behind these lengths, and for as many times. */
static inline size_t get_place_aside(const struct pfl_reply_frame *self, const uint8_t *lengths)
{
    return PFL_REPLY_RUN_LENGTHS_BYTES - (size_t)(lengths - self->lengths);
}

/* The packet's rest, out of its pieces. */
static void put_rest(struct pfl_reply_frame *self, const struct pfl_trace_buffer_packet *packet,
                     size_t skip)
{
    for (size_t i = 0; i < packet->slices_len; i++, skip = 0) {
        const struct iovec *piece = &packet->slices[i];

        pfl_bytes_copy(self->pos, (const uint8_t *)piece->iov_base + skip, piece->iov_len - skip);
        self->pos += piece->iov_len - skip;
    }
}

bool pfl_reply_frame_run_packet(struct pfl_reply_frame *self,
                                const struct pfl_trace_buffer_packet *packet)
{
    struct pfl_span piece = get_first_piece(packet);
    struct columns c = columns_of(piece, packet->bytes);
    size_t cost = get_cost(&c);

    if (self->run_source != packet->source ||
        get_place_aside(self, self->run_lengths) < PACKET_LENGTH_MAX) {
        if (HEAD_BYTES + packet->source->trusted_len + cost > self->budget)
            return false;
        pfl_reply_frame_end_run(self);
        begin_run(self, packet->source);
    } else if (cost > self->budget) {
        return false;
    }
    pfl_bytes_copy(self->run_times, piece.data + 1, c.time);
    self->run_times += c.time;
    self->run_lengths = put_packet_length(self->run_lengths, &c);
    put_rest(self, packet, c.skip);
    self->budget -= cost;
    return true;
}

/* Packets that go from a record into a run. */
struct passage {
    const uint8_t *pos; /* in the record */
    const uint8_t *end;
    uint8_t *rest;
    uint8_t *times;
    uint8_t *lengths;
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

/* The common case of pass_one: a packet of at most SMALL_MAX bytes with SMALL_ROOM. Whether it
 * begins with a time is no branch, nor is how long that is. */
static inline bool pass_small(struct passage *p)
{
    const uint8_t *body = p->pos;
    size_t bytes = get_small_size(p->pos, &body);
    const uint8_t *rest;
    const uint8_t *end;
    size_t skip;
    uint64_t word;

    if (bytes - 1u >= SMALL_MAX)
        return false;
    memcpy(&word, body + 1, sizeof(word));
    word = ~le64toh(word) & ENDS;
    if (word == 0 && body[9] >= 0x80) /* a time of 10 bytes, maybe */
        return false;
    skip = word == 0 ? 10 : (size_t)__builtin_ctzll(word) / 8 + 2;
    rest = body + (body[0] == PFL_RUN_TIME_TAG ? skip : 0);
    end = body + bytes;
    if (rest > end || !pfl_packet_is_valid_hot(rest, (size_t)(end - rest)))
        return false;
    __builtin_prefetch(body + 768);
    memcpy(p->times, body + 1, TIME_BLOCK);
    memcpy(p->rest, rest, BLOCK);
    *p->lengths++ = (uint8_t)((end - rest) << 1 | (rest != body));
    p->times += rest - body - (rest != body);
    p->rest += end - rest;
    p->pos = end;
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
static bool pass_one(struct passage *p, size_t budget)
{
    struct pfl_fragment_head head;
    struct columns c;
    const uint8_t *body;

    if ((size_t)(p->end - p->pos) <= PFL_FRAGMENT_SIZE_BYTES)
        return false;
    head = pfl_fragment_head_of(p->pos);
    body = p->pos + head.size_bytes;
    if (head.bytes == 0 || head.bytes >= PFL_RUN_PACKET_MAX_BYTES ||
        head.bytes >= (size_t)(p->end - body) || !pfl_packet_is_valid_piece(body, head.bytes))
        return false;
    c = columns_of(pfl_span_of(body, head.bytes), head.bytes);
    if (get_cost(&c) > budget)
        return false;
    p->lengths = put_packet_length(p->lengths, &c);
    pfl_bytes_copy(p->times, body + 1, c.time);
    copy_blocks(p->rest, body + c.skip, c.rest);
    p->times += c.time;
    p->rest += c.rest;
    p->pos = body + head.bytes;
    return true;
}

/* Charges the passed packets to the budget. */
static inline size_t get_passed(const struct pfl_reply_frame *self, const struct passage *p)
{
    return (size_t)(p->rest - self->pos) + (size_t)(p->times - self->run_times) +
           (size_t)(p->lengths - self->run_lengths);
}

/* Small packets as they come. None takes more of the frame than it and its size do in the record,
 * nor more than one byte aside for two there: so they need not be counted one by one. */
static inline void pass_smalls(struct passage *p, size_t budget, size_t place)
{
    size_t most = 2 * place < budget ? 2 * place : budget;
    const uint8_t *end = most < (size_t)(p->end - p->pos) ? p->pos + most : p->end;

    while ((size_t)(end - p->pos) >= SMALL_ROOM && pass_small(p))
        continue;
}

void pfl_reply_frame_run_stretch(struct pfl_reply_frame *self, struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_stretch stretch = pfl_trace_buffer_get_stretch(buffer);
    struct passage p = {
        .pos = stretch.pos,
        .end = stretch.end,
        .rest = self->pos,
        .times = self->run_times,
        .lengths = self->run_lengths,
    };

    do
        pass_smalls(&p, self->budget - get_passed(self, &p), get_place_aside(self, p.lengths));
    while (get_place_aside(self, p.lengths) >= PACKET_LENGTH_MAX &&
           pass_one(&p, self->budget - get_passed(self, &p)));
    if (p.pos == stretch.pos)
        return;
    self->budget -= get_passed(self, &p);
    self->pos = p.rest;
    self->run_times = p.times;
    self->run_lengths = p.lengths;
    pfl_trace_buffer_take_stretch(buffer, p.pos);
}
