/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of packets into the file (proto/packet_run.h): the merge's work for nearly all of a trace.
 *
 *     run    tail | [len][bytes]  [len][bytes]  ...
 *     room          [0A len][bytes][tail in the file]  [0A len][bytes][tail in the file]  ...
 *
 * Happy path: the tail is walked and mapped once; each packet is looked at where it lies, for
 * fields that would concern the merge, and copied once behind a preamble; many of them go to the
 * sink at a time. Whatever is not plain (a packet that names a sequence itself, one that is
 * rewritten or refused, a tail that is more than ids), and the last bytes of a run, behind which
 * there is nothing that may be read, goes through pfl_merge_packet, as body and tail.
 * Failures: a length that passes the run's end; pfl_merge_packet's. What came before is written.
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
#define TAIL_ROOM    (sizeof(((struct pfl_merge_tail *)NULL)->bytes) + BLOCK)

/* Whole packets that the sink was not given yet. */
struct room {
    uint8_t *begin;
    uint8_t *pos;
    uint8_t *end;
    uint64_t packets;
};

struct run {
    struct pfl_merge *merge;
    struct pfl_merge_host *host;
    size_t index; /* the host's */
    struct pfl_span tail;
    struct pfl_merge_tail out; /* the tail in the file */
    bool is_tail_plain;        /* `out` can stand for it */
    struct room room;
};

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

/* Room for a packet of `len` bytes without its tail, and the blocks that copies end with. */
static int make_room(struct run *run, size_t len)
{
    size_t wanted = PREAMBLE_MAX + len + TAIL_ROOM;
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

/* A plain packet; BLOCK bytes behind it can be read. */
static inline int put_plain(struct run *run, const uint8_t *bytes, size_t len)
{
    size_t whole = len + run->out.len;
    uint8_t *to;

    if ((size_t)(run->room.end - run->room.pos) < PREAMBLE_MAX + len + TAIL_ROOM) {
        int rc = make_room(run, len);

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
    to = copy_blocks(to, bytes, len);
    memcpy(to, run->out.bytes, BLOCK); /* a fixed size is quicker */
    if (run->out.len > BLOCK)
        memcpy(to + BLOCK, run->out.bytes + BLOCK, run->out.len - BLOCK);
    run->room.pos = to + run->out.len;
    run->room.packets++;
    return 0;
}

/* Any packet. */
static int put_any(struct run *run, const uint8_t *bytes, size_t len)
{
    struct iovec slices[2];
    int slices_len = 0;

    flush(run);
    if (len != 0)
        slices[slices_len++] = (struct iovec){(void *)(uintptr_t)bytes, len};
    if (run->tail.len != 0)
        slices[slices_len++] = (struct iovec){(void *)(uintptr_t)run->tail.data, run->tail.len};
    return pfl_merge_packet(run->merge, run->index, slices, slices_len, len + run->tail.len);
}

/* The length that `*pos` stands before; false: none, or it passes `end`. */
static inline bool take_length(const uint8_t **pos, const uint8_t *end, size_t *ret_len)
{
    const uint8_t *p = *pos;
    size_t len = *p;

    if (len < 0x80) {
        *pos = p + 1;
    } else {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(p, (size_t)(end - p)));
        uint64_t value = pfl_reader_varint(&r);

        if (r.failed || value > (size_t)(end - r.pos))
            return false;
        len = (size_t)value;
        *pos = r.pos;
    }
    *ret_len = len;
    return len <= (size_t)(end - *pos);
}

static int put_packets(struct run *run, struct pfl_span packets, uint64_t *ret_bytes)
{
    const uint8_t *pos = packets.data;
    const uint8_t *end = pos + packets.len;
    int rc = 0;

    while (rc == 0 && pos != end) {
        const uint8_t *bytes;
        size_t len;

        if (!take_length(&pos, end, &len))
            return PFL_EPROTO;
        bytes = pos;
        pos += len;
        *ret_bytes += len + run->tail.len;
        if ((size_t)(end - pos) >= BLOCK && run->is_tail_plain &&
            pfl_packet_view_is_plain(bytes, pos))
            rc = put_plain(run, bytes, len);
        else
            rc = put_any(run, bytes, len);
    }
    return rc;
}

int pfl_merge_run(struct pfl_merge *self, size_t host, struct pfl_span tail,
                  struct pfl_span packets, uint64_t *ret_bytes)
{
    struct run run = {.merge = self, .host = &self->hosts[host], .index = host, .tail = tail};
    int rc = tail.len <= PFL_RUN_TAIL_MAX_BYTES ? map_tail(&run) : PFL_EPROTO;

    *ret_bytes = 0;
    if (rc == 0)
        rc = put_packets(&run, packets, ret_bytes);
    flush(&run);
    return rc;
}
