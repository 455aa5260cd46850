/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Top-level walk over a packet's fields: see packet.h.
 *
 * Happy path: `walk_whole` walks a packet in one slice, with everything inline. A packet in several
 * slices is walked slice by slice: `struct pfl_packet_walk` keeps what the end of a slice cuts (a
 * payload to skip, or up to 20 bytes of tag and value).
 *
 * Failures: any rule broken is `false`; nothing is allocated and nothing read past a slice.
 */
#include "proto/packet.h"

#include <assert.h>

#include "perfetto/trace_packet.fields.h"

#define LEN_MAX         0x0fffffffu /* 2^28 - 1 */
#define RESERVED_ID_MAX 191u

/* One bit an id, for the ids that only the service may write. */
#define BIT(id) (1ull << ((id) % 64))
static const uint64_t reserved[3] = {
    BIT(TRACE_PACKET__TRUSTED_UID) | BIT(TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID) |
        BIT(TRACE_PACKET__TRACE_CONFIG) | BIT(TRACE_PACKET__TRACE_STATS) |
        BIT(TRACE_PACKET__SYNCHRONIZATION_MARKER) | BIT(TRACE_PACKET__COMPRESSED_PACKETS),
    BIT(TRACE_PACKET__SERVICE_EVENT) | BIT(TRACE_PACKET__TRUSTED_PID) |
        BIT(TRACE_PACKET__MACHINE_ID) | BIT(TRACE_PACKET__TRACE_PROVENANCE) |
        BIT(TRACE_PACKET__PROTOVMS),
    BIT(TRACE_PACKET__ZSTD_COMPRESSED_PACKETS),
};

enum step {
    STEP_OK,
    STEP_CUT, /* the field's head or scalar continues in the next slice */
    STEP_BAD,
};

static inline bool is_reserved(uint64_t id)
{
    return id <= RESERVED_ID_MAX && (reserved[id / 64] >> (id % 64) & 1) != 0;
}

/* A varint of at most 10 bytes at *pos; moves *pos behind it. */
static inline enum step read_varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
    const uint8_t *p = *pos;
    uint64_t v = 0;

    if (p < end && *p < 0x80) {
        *ret = *p;
        *pos = p + 1;
        return STEP_OK;
    }
    for (unsigned shift = 0; shift < 7 * PFL_VARINT_MAX_BYTES; shift += 7) {
        if (p == end)
            return STEP_CUT;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (*p++ < 0x80) {
            *ret = v;
            *pos = p;
            return STEP_OK;
        }
    }
    return STEP_BAD;
}

/* As read_varint for an unused value: long ones (timestamps) need no loop. */
static inline enum step skip_varint(const uint8_t **pos, const uint8_t *end)
{
    const uint8_t *p = *pos;
    uint64_t word;
    uint64_t v;

    if (end - p < (ptrdiff_t)PFL_VARINT_MAX_BYTES)
        return read_varint(pos, end, &v);
    memcpy(&word, p, sizeof(word));
    word = ~word & 0x8080808080808080u; /* the last byte is the first without the high bit */
    if (word != 0)
        *pos = p + __builtin_ctzll(word) / 8 + 1;
    else if (p[8] < 0x80)
        *pos = p + 9;
    else if (p[9] < 0x80)
        *pos = p + 10;
    else
        return STEP_BAD;
    return STEP_OK;
}

static inline enum step skip_fixed(const uint8_t **pos, const uint8_t *end, size_t len)
{
    if ((size_t)(end - *pos) < len)
        return STEP_CUT;
    *pos += len;
    return STEP_OK;
}

/* Reads one field's head and scalar; `ret_skip` is the length of a payload that follows. */
static inline enum step read_field(const uint8_t **pos, const uint8_t *end, size_t *ret_skip)
{
    enum step step;
    uint64_t tag;
    uint64_t v;

    *ret_skip = 0;
    step = read_varint(pos, end, &tag);
    if (step != STEP_OK)
        return step;
    if (tag >> 3 == 0 || tag > UINT32_MAX || is_reserved(tag >> 3))
        return STEP_BAD;
    switch (tag & 7) {
    case PFL_WIRE_VARINT:
        return skip_varint(pos, end);
    case PFL_WIRE_FIXED64:
        return skip_fixed(pos, end, 8);
    case PFL_WIRE_FIXED32:
        return skip_fixed(pos, end, 4);
    case PFL_WIRE_BYTES:
        step = read_varint(pos, end, &v);
        if (step == STEP_OK && v > LEN_MAX)
            return STEP_BAD;
        *ret_skip = step == STEP_OK ? (size_t)v : 0;
        return step;
    default:
        return STEP_BAD;
    }
}

/*
 * Past one field of a tag of one byte and a value of two at most, or a payload of less than 128
 * bytes; NULL: another one.
 */
static inline const uint8_t *skip_common(const uint8_t *pos, const uint8_t *end)
{
    size_t left = (size_t)(end - pos);
    unsigned type = pos[0] & 7;
    size_t len;

    if (left < 3 || pos[0] >= 0x80 || is_reserved(pos[0] >> 3) || pos[0] < 8)
        return NULL;
    if (type == PFL_WIRE_VARINT) {
        if (pos[1] < 0x80)
            return pos + 2;
        return pos[2] < 0x80 ? pos + 3 : NULL;
    }
    if (type != PFL_WIRE_BYTES)
        return NULL;
    len = pos[1];
    if (len >= 0x80 || len > left - 2)
        return NULL;
    return pos + 2 + len;
}

/* The common case: the packet lies in one piece, and nothing may be cut. */
static bool walk_whole(const uint8_t *pos, const uint8_t *end)
{
    while (pos < end) {
        const uint8_t *next = skip_common(pos, end);
        size_t skip;

        if (next != NULL) {
            pos = next;
            continue;
        }
        if (read_field(&pos, end, &skip) != STEP_OK || skip > (size_t)(end - pos))
            return false;
        pos += skip;
    }
    return true;
}

/* Walks one of several pieces; `w` keeps the field that its end cuts. */
static bool walk(struct pfl_packet_walk *w, const uint8_t *pos, const uint8_t *end)
{
    while (pos < end) {
        const uint8_t *start = pos;
        enum step step = read_field(&pos, end, &w->skip);

        if (step == STEP_BAD)
            return false;
        if (step == STEP_CUT) {
            w->cut_len = (size_t)(end - start);
            assert(w->cut_len < PFL_PACKET_CUT_MAX);
            memcpy(w->cut, start, w->cut_len);
            return true;
        }
        if (w->skip > (size_t)(end - pos)) {
            w->skip -= (size_t)(end - pos);
            return true;
        }
        pos += w->skip;
        w->skip = 0;
    }
    return true;
}

/* Completes a cut head byte by byte from *pos; rare, so simple. */
static bool complete_cut(struct pfl_packet_walk *w, const uint8_t **pos, const uint8_t *end)
{
    while (w->cut_len != 0 && *pos < end) {
        const uint8_t *p = w->cut;
        enum step step;

        if (w->cut_len == PFL_PACKET_CUT_MAX)
            return false;
        w->cut[w->cut_len++] = *(*pos)++;
        step = read_field(&p, w->cut + w->cut_len, &w->skip);
        if (step == STEP_BAD)
            return false;
        if (step == STEP_OK)
            w->cut_len = 0;
    }
    return true;
}

bool pfl_packet_walk_piece(struct pfl_packet_walk *self, const uint8_t *data, size_t len)
{
    struct pfl_packet_walk *w = self;
    const uint8_t *pos = data;
    const uint8_t *end = data + len;

    if (!complete_cut(w, &pos, end))
        return false;
    if (w->skip >= (size_t)(end - pos)) {
        w->skip -= (size_t)(end - pos);
        return true;
    }
    pos += w->skip;
    w->skip = 0;
    return walk(w, pos, end);
}

bool pfl_packet_walk_is_whole(const struct pfl_packet_walk *self)
{
    return self->skip == 0 && self->cut_len == 0;
}

static bool walk_slices(const struct iovec *slices, size_t slices_len)
{
    struct pfl_packet_walk w;

    w.skip = 0;
    w.cut_len = 0;
    for (size_t i = 0; i < slices_len; i++) {
        if (slices[i].iov_len != 0 &&
            !pfl_packet_walk_piece(&w, slices[i].iov_base, slices[i].iov_len))
            return false;
    }
    return pfl_packet_walk_is_whole(&w);
}

bool pfl_packet_is_valid(const struct iovec *slices, size_t slices_len)
{
    if (slices_len != 1)
        return walk_slices(slices, slices_len);
    return pfl_packet_is_valid_piece(slices->iov_base, slices->iov_len);
}

bool pfl_packet_is_valid_piece(const uint8_t *data, size_t len)
{
    return walk_whole(data, data + len);
}

size_t pfl_packet_encode_trusted(uint8_t *dst, const struct pfl_packet_trusted *trusted)
{
    struct pfl_writer w = pfl_writer_of(dst, PFL_PACKET_TRUSTED_MAX);

    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_UID,
                            (uint64_t)(int64_t)(int32_t)trusted->uid);
    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, trusted->sequence_id);
    if (trusted->pid != -1)
        pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_PID,
                                (uint64_t)(int64_t)(int32_t)trusted->pid);
    if (trusted->machine_id != 0)
        pfl_writer_field_varint(&w, TRACE_PACKET__MACHINE_ID, trusted->machine_id);
    if (trusted->loss_reasons != 0)
        pfl_writer_field_varint(&w, TRACE_PACKET__PREVIOUS_PACKET_DROPPED, trusted->loss_reasons);
    assert(!w.failed);
    return PFL_PACKET_TRUSTED_MAX - w.left;
}

size_t pfl_packet_encode_preamble(uint8_t dst[PFL_TRACE_PREAMBLE_MAX], size_t packet_bytes)
{
    dst[0] = TRACE__PACKET << 3 | PFL_WIRE_BYTES;
    return 1 + pfl_varint_put(dst + 1, packet_bytes);
}
