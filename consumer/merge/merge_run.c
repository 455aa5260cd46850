/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of packets into the file (proto/packet_run.h): the merge's work for nearly all of a trace.
 *
 *     run    tail | rest, rest ... | time, time ... | length, length ...
 *     room          [0A len][40 time][rest][tail in the file]  [0A len][40 time]...
 *
 * Happy path: the tail is walked and mapped once; of each packet the rest is looked at where it
 * lies, for fields that would concern the merge, and the pieces are copied once behind a preamble;
 * many packets go to the sink at a time. Whatever is not plain (a packet that names a sequence
 * itself, one that is rewritten or refused, a tail that is more than ids), and the last bytes of a
 * reply, behind which there is nothing that may be read, goes through pfl_merge_packet in pieces.
 * Failures: columns that do not fit together; pfl_merge_packet's. What came before is written.
 * Limits: lengths are bounded by the run, which is bounded by a frame.
 */
#include <assert.h>

#include "consumer/merge/merge_impl.h"
#include "proto/packet_run.h"

/* Copies may read and write this far past their end. */
#define BLOCK PFL_MERGE_TAIL_BLOCK
/* Asked of the sink at a time; what is left of it is given back. */
#define ROOM_BYTES   (32u * 1024)
#define PREAMBLE_MAX 11u
#define TIME_MAX     10u
/* So many bytes are a varint, whatever they are; the tenth may be too much. */
#define TIME_PLAIN   9u
#define TIME_BLOCK   16u
#define TAIL_ROOM    (sizeof(((struct pfl_merge_tail *)NULL)->bytes) + BLOCK)
#define OVERHEAD_MAX (PREAMBLE_MAX + 1u + TIME_BLOCK + TAIL_ROOM)

/* Whole packets that the sink was not given yet. */
struct room {
    uint8_t *begin;
    uint8_t *pos;
    uint8_t *end;
    uint64_t packets;
};

/* What is left of a column. */
struct column {
    const uint8_t *pos;
    const uint8_t *end;
};

struct run {
    struct pfl_merge *merge;
    struct pfl_merge_host *host;
    size_t index; /* the host's */
    struct pfl_span tail;
    struct pfl_merge_tail out; /* the tail in the file */
    bool is_tail_plain;        /* `out` can stand for it */
    struct column rest;
    struct column times;
    struct column lengths;
    const uint8_t *readable_end;
    struct room room;
};

/* One packet without the tail. */
struct piece {
    const uint8_t *time;
    size_t time_len; /* 0: it does not begin with one */
    const uint8_t *rest;
    size_t rest_len;
};

static struct column column_of(struct pfl_span span)
{
    return (struct column){span.data, span.data + span.len};
}

static int map_tail(struct run *run)
{
    struct iovec slice = {(void *)(uintptr_t)run->tail.data, run->tail.len};
    struct pfl_packet_tail none = {0};
    struct pfl_packet_view view;

    run->is_tail_plain = run->tail.len != 0 && pfl_packet_view_of(&view, &none, &slice, 1) &&
                         view.special == 0 && view.loss_reasons == 0 && view.has_sequence;
    if (!run->is_tail_plain)
        return 0;
    return pfl_merge_map_tail(run->merge, run->host, &view, run->tail, &run->out);
}

static void flush(struct run *run)
{
    size_t len = (size_t)(run->room.pos - run->room.begin);

    if (len != 0)
        run->merge->sink.commit(run->merge->sink.user, len);
    run->host->stats.packets += run->room.packets;
    run->host->stats.bytes += len;
    run->room = (struct room){0};
}

/* Room for a packet whose rest has `len` bytes, and for the blocks that copies end with. */
static int make_room(struct run *run, size_t len)
{
    size_t wanted = OVERHEAD_MAX + len;
    uint8_t *begin;
    int rc;

    flush(run);
    if (wanted < ROOM_BYTES)
        wanted = ROOM_BYTES;
    rc = run->merge->sink.reserve(run->merge->sink.user, wanted, &begin);
    if (rc == 0)
        run->room = (struct room){.begin = begin, .pos = begin, .end = begin + wanted};
    return rc;
}

static inline uint8_t *copy_blocks(uint8_t *to, const uint8_t *from, size_t len)
{
    for (size_t at = 0; at < len; at += BLOCK)
        memcpy(to + at, from + at, BLOCK);
    return to + len;
}

/* A plain packet; BLOCK bytes behind its pieces can be read. */
static inline int put_plain(struct run *run, const struct piece *p)
{
    size_t whole = p->rest_len + run->out.len + (p->time_len != 0 ? 1 + p->time_len : 0);
    uint8_t *to;

    if ((size_t)(run->room.end - run->room.pos) < OVERHEAD_MAX + p->rest_len) {
        int rc = make_room(run, p->rest_len);

        if (rc != 0)
            return rc;
    }
    to = run->room.pos;
    assert(to != NULL);
    *to++ = PFL_TRACE_PACKET_TAG;
    if (whole < 0x80)
        *to++ = (uint8_t)whole;
    else
        to += pfl_varint_put(to, whole);
    if (p->time_len != 0) {
        *to++ = PFL_RUN_TIME_TAG;
        memcpy(to, p->time, TIME_BLOCK);
        to += p->time_len;
    }
    to = copy_blocks(to, p->rest, p->rest_len);
    memcpy(to, run->out.bytes, BLOCK); /* a fixed size is quicker */
    if (run->out.len > BLOCK)
        memcpy(to + BLOCK, run->out.bytes + BLOCK, run->out.len - BLOCK);
    run->room.pos = to + run->out.len;
    run->room.packets++;
    return 0;
}

static void add_slice(struct iovec *slices, int *len, const void *data, size_t bytes)
{
    if (bytes != 0)
        slices[(*len)++] = (struct iovec){(void *)(uintptr_t)data, bytes};
}

/* Any packet. */
static int put_any(struct run *run, const struct piece *p)
{
    uint8_t head[1 + TIME_MAX] = {PFL_RUN_TIME_TAG};
    size_t head_len = p->time_len != 0 ? 1 + p->time_len : 0;
    struct iovec slices[3];
    int slices_len = 0;

    flush(run);
    if (p->time_len != 0)
        memcpy(head + 1, p->time, p->time_len);
    add_slice(slices, &slices_len, head, head_len);
    add_slice(slices, &slices_len, p->rest, p->rest_len);
    add_slice(slices, &slices_len, run->tail.data, run->tail.len);
    return pfl_merge_packet(run->merge, run->index, slices, slices_len,
                            head_len + p->rest_len + run->tail.len);
}

/* Bytes of the varint that the column goes on with; 0: it has no end in it. */
static size_t varint_len(const struct column *c)
{
    size_t left = (size_t)(c->end - c->pos);
    size_t max = left < TIME_MAX ? left : TIME_MAX;

    for (size_t i = 0; i < max; i++) {
        if (c->pos[i] < 0x80)
            return i + 1;
    }
    return 0;
}

static inline bool take_time(struct run *run, struct piece *p)
{
    struct column *c = &run->times;
    uint64_t word = 0;

    p->time = c->pos;
    if (run->readable_end - c->pos >= (ptrdiff_t)TIME_BLOCK)
        memcpy(&word, c->pos, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    word = ~word & 0x8080808080808080u;
    if (word == 0 || run->readable_end - c->pos < (ptrdiff_t)TIME_BLOCK)
        p->time_len = varint_len(c);
    else
        p->time_len = (size_t)__builtin_ctzll(word) / 8 + 1;
    if (p->time_len == 0 || p->time_len > (size_t)(c->end - c->pos))
        return false;
    c->pos += p->time_len;
    return true;
}

/* The next packet out of the columns; false: they do not fit together. There is a length. */
static inline bool take_piece(struct run *run, struct piece *ret_piece)
{
    uint64_t length = *run->lengths.pos;

    if (length < 0x80) {
        run->lengths.pos++;
    } else {
        struct pfl_reader r = pfl_reader_of(
            pfl_span_of(run->lengths.pos, (size_t)(run->lengths.end - run->lengths.pos)));

        length = pfl_reader_varint(&r);
        if (r.failed)
            return false;
        run->lengths.pos = r.pos;
    }
    if (length >> 1 > (size_t)(run->rest.end - run->rest.pos))
        return false;
    ret_piece->rest = run->rest.pos;
    ret_piece->rest_len = (size_t)(length >> 1);
    run->rest.pos += ret_piece->rest_len;
    ret_piece->time_len = 0;
    return (length & 1) == 0 || take_time(run, ret_piece);
}

static inline bool is_plain(const struct run *run, const struct piece *p)
{
    return run->is_tail_plain && run->readable_end - run->rest.pos >= (ptrdiff_t)BLOCK &&
           (p->time_len == 0 ||
            (p->time_len <= TIME_PLAIN && run->readable_end - p->time >= (ptrdiff_t)TIME_BLOCK)) &&
           pfl_packet_view_is_plain(p->rest, run->rest.pos);
}

static int put_packets(struct run *run, uint64_t *ret_bytes)
{
    int rc = 0;

    while (rc == 0 && run->lengths.pos != run->lengths.end) {
        struct piece p;

        if (!take_piece(run, &p))
            return PFL_EPROTO;
        *ret_bytes += p.rest_len + run->tail.len + (p.time_len != 0 ? 1 + p.time_len : 0);
        rc = is_plain(run, &p) ? put_plain(run, &p) : put_any(run, &p);
    }
    if (rc == 0 && (run->rest.pos != run->rest.end || run->times.pos != run->times.end))
        rc = PFL_EPROTO;
    return rc;
}

int pfl_merge_run(struct pfl_merge *self, size_t host, const struct pfl_packet_run *packets,
                  uint64_t *ret_bytes)
{
    struct run run = {
        .merge = self,
        .host = &self->hosts[host],
        .index = host,
        .tail = packets->tail,
        .rest = column_of(packets->rest),
        .times = column_of(packets->times),
        .lengths = column_of(packets->lengths),
        .readable_end = packets->readable_end,
    };
    int rc = packets->tail.len <= PFL_RUN_TAIL_MAX_BYTES ? map_tail(&run) : PFL_EPROTO;

    *ret_bytes = 0;
    if (rc == 0)
        rc = put_packets(&run, ret_bytes);
    flush(&run);
    return rc;
}
