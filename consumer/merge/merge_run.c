/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of packets into the file (proto/packet_run.h): the merge's work for nearly all of a trace.
 *
 *     run    tail | rest, rest ... | time, time ... | length, length ...
 *     room          [0A len][40 time][rest][tail in the file]  [0A len][40 time]...
 *
 * Happy path: the tail is walked once, and mapped with the first plain packet. The rest of each
 * packet is checked in place for fields that concern the merge, and the pieces are copied once
 * after a preamble; many packets are committed at a time. Other packets go through pfl_merge_packet
 * in pieces: those that name a sequence themselves, or are rewritten or refused; those with a tail
 * that is more than ids, or of a sequence whose interned data may be missing; and a run at the end
 * of a reply, after which no bytes are readable. Failures: inconsistent columns;
 * pfl_merge_packet's. Earlier packets are written. Limits: lengths are bounded by the run, which is
 * bounded by a frame.
 */
#include "consumer/merge/merge_impl.h"
#include "proto/packet_run.h"

/* Copies may read and write this far past their end. */
#define BLOCK PFL_MERGE_TAIL_BLOCK
/* Reserved from the sink at a time; the rest is returned. */
#define ROOM_BYTES (32u * 1024)
#define TIME_MAX   10u
#define TIME_BLOCK 16u
/* So many bytes are a varint, whatever they are; the tenth may be too much. */
#define TIME_PLAIN 9u
/* Of a plain packet, beside its rest: preamble, time, and what copies write past their end. */
#define OVERHEAD_MAX (4u + 1u + TIME_BLOCK + 2 * BLOCK)

/* Whole packets that the sink was not given yet. */
struct room {
    uint8_t *begin;
    uint8_t *pos;
    uint8_t *end;
    uint64_t packets;
};

/* The rest of a column. */
struct column {
    const uint8_t *pos;
    const uint8_t *end;
};

struct columns {
    struct column rest;
    struct column times;
    struct column lengths;
};

struct run {
    struct pfl_merge *merge;
    struct pfl_merge_host *host;
    size_t index; /* the host's */
    struct pfl_span tail;
    struct pfl_packet_view tail_view;
    bool is_tail_plain;        /* nothing but ids, and short in the file as far as is known */
    bool is_tail_mapped;       /* with the first plain packet: others may not have this sequence */
    struct pfl_merge_tail out; /* the tail in the file, when it is mapped */
    struct columns columns;
    const uint8_t *readable_end;
    uint64_t bytes; /* of all packets so far */
    struct room room;
};

/* One packet without the tail, at the beginning of the rest of the columns. */
struct piece {
    size_t length_len; /* bytes of its length */
    size_t time_len;   /* 0: it does not begin with one */
    size_t rest_len;
};

static struct column column_of(struct pfl_span span)
{
    return (struct column){span.data, span.data + span.len};
}

static inline size_t left_of(const struct column *c)
{
    return (size_t)(c->end - c->pos);
}

static inline void take_piece(struct columns *c, const struct piece *p)
{
    c->lengths.pos += p->length_len;
    c->times.pos += p->time_len;
    c->rest.pos += p->rest_len;
}

/* Of a packet without its tail. */
static inline size_t piece_bytes(const struct piece *p)
{
    return p->rest_len + (p->time_len != 0 ? 1 + p->time_len : 0);
}

static bool view_tail(struct run *run)
{
    struct iovec slice = {(void *)(uintptr_t)run->tail.data, run->tail.len};
    struct pfl_packet_view *view = &run->tail_view;
    struct pfl_packet_tail none = {0};

    return run->tail.len != 0 && pfl_packet_view_of(view, &none, &slice, 1) && view->special == 0 &&
           view->loss_reasons == 0 && view->has_sequence;
}

static int map_tail(struct run *run)
{
    int rc = pfl_merge_map_tail(run->merge, run->host, &run->tail_view, run->tail, &run->out);

    run->is_tail_mapped = true;
    run->is_tail_plain = rc == 0 && run->out.sequence != 0 && run->out.len <= BLOCK;
    return rc;
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

/* For a packet whose rest has `len` bytes, and for further ones. */
static int make_room(struct run *run, size_t len)
{
    size_t wanted = OVERHEAD_MAX + len < ROOM_BYTES ? ROOM_BYTES : OVERHEAD_MAX + len;
    uint8_t *begin;
    int rc;

    flush(run);
    rc = run->merge->sink.reserve(run->merge->sink.user, wanted, &begin);
    if (rc == 0)
        run->room = (struct room){.begin = begin, .pos = begin, .end = begin + wanted};
    return rc;
}

/* ---- any packet ---- */

/* Length of the column's next varint; 0: it is incomplete. */
static size_t varint_len(const struct column *c)
{
    size_t max = left_of(c) < TIME_MAX ? left_of(c) : TIME_MAX;

    for (size_t i = 0; i < max; i++) {
        if (c->pos[i] < 0x80)
            return i + 1;
    }
    return 0;
}

/* The next packet; false: the columns do not fit together. */
static bool find_piece(const struct columns *c, struct piece *ret_piece)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(c->lengths.pos, left_of(&c->lengths)));
    uint64_t length = pfl_reader_varint(&r);

    if (r.failed || length >> 1 > left_of(&c->rest))
        return false;
    *ret_piece = (struct piece){
        .length_len = (size_t)(r.pos - c->lengths.pos),
        .rest_len = (size_t)(length >> 1),
        .time_len = (length & 1) != 0 ? varint_len(&c->times) : 0,
    };
    return (length & 1) == 0 || ret_piece->time_len != 0;
}

static void add_slice(struct iovec *slices, int *len, const void *data, size_t bytes)
{
    if (bytes != 0)
        slices[(*len)++] = (struct iovec){(void *)(uintptr_t)data, bytes};
}

/* The next packet, whatever it is. */
static int put_any(struct run *run)
{
    struct columns *c = &run->columns;
    uint8_t head[1 + TIME_MAX] = {PFL_RUN_TIME_TAG};
    struct iovec slices[3];
    int slices_len = 0;
    struct piece p;
    size_t bytes;

    flush(run);
    if (!find_piece(c, &p))
        return PFL_EPROTO;
    bytes = piece_bytes(&p) + run->tail.len;
    if (p.time_len != 0) {
        memcpy(head + 1, c->times.pos, p.time_len);
        add_slice(slices, &slices_len, head, 1 + p.time_len);
    }
    add_slice(slices, &slices_len, c->rest.pos, p.rest_len);
    add_slice(slices, &slices_len, run->tail.data, run->tail.len);
    take_piece(c, &p);
    run->bytes += bytes;
    return pfl_merge_packet(run->merge, run->index, slices, slices_len, bytes);
}

/* ---- plain packets, with BLOCK readable bytes after their columns ---- */

/* More than TIME_PLAIN: it may have no end. */
static inline size_t plain_time_len(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    word = ~word & 0x8080808080808080u;
    if (word != 0)
        return (size_t)__builtin_ctzll(word) / 8 + 1;
    return p[TIME_PLAIN - 1] < 0x80 ? TIME_PLAIN : TIME_MAX;
}

/* The next packet, if it is short and plain. */
static inline bool find_plain(const struct columns *c, struct piece *ret_piece)
{
    size_t length = c->lengths.pos[0];

    ret_piece->length_len = 1;
    if (length >= 0x80) {
        if (left_of(&c->lengths) < 2 || c->lengths.pos[1] >= 0x80)
            return false;
        length = (length & 0x7f) | (size_t)c->lengths.pos[1] << 7;
        ret_piece->length_len = 2;
    }
    ret_piece->rest_len = length >> 1;
    ret_piece->time_len = (length & 1) != 0 ? plain_time_len(c->times.pos) : 0;
    return ret_piece->rest_len <= left_of(&c->rest) && ret_piece->time_len <= TIME_PLAIN &&
           ret_piece->time_len <= left_of(&c->times) &&
           pfl_packet_view_is_plain(c->rest.pos, c->rest.pos + ret_piece->rest_len);
}

static inline void copy_blocks(uint8_t *to, const uint8_t *from, size_t len)
{
    for (size_t at = 0; at < len; at += BLOCK)
        memcpy(to + at, from + at, BLOCK);
}

/* To where there is room for OVERHEAD_MAX bytes and its rest; returns its end. */
static inline uint8_t *put_plain(const struct columns *c, const struct piece *p,
                                 const struct pfl_merge_tail *tail, uint8_t *to)
{
    size_t len = piece_bytes(p) + tail->len;

    *to++ = PFL_TRACE_PACKET_TAG;
    if (len < 0x80)
        *to++ = (uint8_t)len;
    else
        to += pfl_varint_put(to, len);
    if (p->time_len != 0) {
        *to++ = PFL_RUN_TIME_TAG;
        memcpy(to, c->times.pos, TIME_BLOCK);
        to += p->time_len;
    }
    copy_blocks(to, c->rest.pos, p->rest_len);
    to += p->rest_len;
    memcpy(to, tail->bytes, BLOCK);
    return to + tail->len;
}

static bool is_readable_behind(const struct run *run)
{
    const struct columns *c = &run->columns;
    const uint8_t *end = run->readable_end;

    return end - c->rest.end >= (ptrdiff_t)BLOCK && end - c->times.end >= (ptrdiff_t)BLOCK;
}

/* Up to the first that is not plain. Works on local copies, because the compiler must assume that
 * the writes alias them. */
static int put_all_plain(struct run *run)
{
    const struct pfl_merge_tail tail = run->out;
    struct columns c = run->columns;
    struct room room = run->room;
    uint64_t bytes = 0;
    struct piece p;
    int rc = 0;

    while (c.lengths.pos != c.lengths.end && find_plain(&c, &p)) {
        if ((size_t)(room.end - room.pos) < OVERHEAD_MAX + p.rest_len) {
            run->room = room;
            rc = make_room(run, p.rest_len);
            room = run->room;
            if (rc != 0)
                break;
        }
        room.pos = put_plain(&c, &p, &tail, room.pos);
        room.packets++;
        bytes += piece_bytes(&p) + run->tail.len;
        take_piece(&c, &p);
    }
    run->columns = c;
    run->room = room;
    run->bytes += bytes;
    return rc;
}

/* Those that are plain, from here on. */
static int put_plain_ones(struct run *run)
{
    struct piece p;
    int rc = 0;

    if (!run->is_tail_mapped) {
        if (!find_plain(&run->columns, &p))
            return 0;
        rc = map_tail(run);
    }
    if (!pfl_interned_is_settled(&run->merge->interned, run->out.sequence))
        return rc;
    return rc == 0 && run->is_tail_plain ? put_all_plain(run) : rc;
}

static int put_packets(struct run *run)
{
    const struct columns *c = &run->columns;
    bool is_readable = is_readable_behind(run);
    int rc = 0;

    while (rc == 0 && c->lengths.pos != c->lengths.end) {
        if (is_readable && run->is_tail_plain)
            rc = put_plain_ones(run);
        if (rc == 0 && c->lengths.pos != c->lengths.end)
            rc = put_any(run);
    }
    if (rc == 0 && (left_of(&c->rest) != 0 || left_of(&c->times) != 0))
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
        .columns = {.rest = column_of(packets->rest),
                    .times = column_of(packets->times),
                    .lengths = column_of(packets->lengths)},
        .readable_end = packets->readable_end,
    };
    int rc = PFL_EPROTO;

    if (packets->tail.len <= PFL_RUN_TAIL_MAX_BYTES) {
        run.is_tail_plain = view_tail(&run);
        rc = put_packets(&run);
    }
    flush(&run);
    *ret_bytes = run.bytes;
    return rc;
}
