/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One walk over a packet's own fields: see packet_view.h.
 *
 * Happy path: a tag of one or two bytes and a varint (a value, or a payload's length) are read at
 * once, from eight bytes; near the end these are loaded from before and shifted, so that what is
 * past the end reads as zero and is found by the length. An irrelevant field costs a table look-up.
 * Other encodings, and errors, are left to pfl_reader_field. If the rest is equal to the tail of
 * the previous packet, its result is reused; a new tail is remembered. Failures: false. Limits:
 * PFL_PACKET_CUTS_MAX fields that are replaced.
 */
#include "consumer/merge/packet_view.h"

#include "base/bytes.h"
#include "consumer/merge/merge_impl.h"
#include "perfetto/trace_packet.fields.h"

#define WORD_BYTES 8

/* Up to ROLE_TIME they do not matter to a packet that is not special. */
enum role {
    ROLE_NONE,
    ROLE_FLAGS,
    ROLE_TIME,
    ROLE_LOSS,
    ROLE_CUT,
    ROLE_KIND,
    ROLE_SPECIAL,
    ROLE_COMPRESSED
};

/* By field id; the last row is for all ids past it. */
static const uint8_t roles[] = {
    [TRACE_PACKET__TIMESTAMP] = ROLE_TIME,
    [TRACE_PACKET__SEQUENCE_FLAGS] = ROLE_FLAGS,
    [TRACE_PACKET__PREVIOUS_PACKET_DROPPED] = ROLE_LOSS,
    [TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID] = ROLE_CUT,
    [TRACE_PACKET__MACHINE_ID] = ROLE_CUT,
    [TRACE_PACKET__CLOCK_SNAPSHOT] = ROLE_KIND,
    [TRACE_PACKET__TRACE_CONFIG] = ROLE_KIND,
    [TRACE_PACKET__EXTENSION_DESCRIPTOR] = ROLE_KIND,
    [TRACE_PACKET__TRACE_UUID] = ROLE_KIND,
    [TRACE_PACKET__TRACE_STATS] = ROLE_SPECIAL,
    [TRACE_PACKET__SYSTEM_INFO] = ROLE_SPECIAL,
    [TRACE_PACKET__SERVICE_EVENT] = ROLE_SPECIAL,
    [TRACE_PACKET__REMOTE_CLOCK_SYNC] = ROLE_SPECIAL,
    [TRACE_PACKET__TRACE_PROVENANCE] = ROLE_SPECIAL,
    [TRACE_PACKET__COMPRESSED_PACKETS] = ROLE_COMPRESSED,
    [TRACE_PACKET__ZSTD_COMPRESSED_PACKETS] = ROLE_COMPRESSED,
    [TRACE_PACKET__ZSTD_COMPRESSED_PACKETS + 1] = ROLE_NONE,
};

struct walk {
    const uint8_t *pos;
    const uint8_t *end;
    uint32_t id;
    uint64_t value;
};

/* The eight bytes at `p`, little-endian; those past the end are zero. The walk has eight. */
static inline uint64_t load_word(const struct walk *w, const uint8_t *p)
{
    ptrdiff_t missing = WORD_BYTES - (w->end - p);
    uint64_t word;

    memcpy(&word, missing > 0 ? w->end - WORD_BYTES : p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return missing > 0 ? word >> (8 * (unsigned)missing) : word;
}

/* The value of a varint of `len` bytes (1 to 8), the first of the word. */
static inline uint64_t join_groups(uint64_t word, size_t len)
{
    word &= UINT64_MAX >> (64 - 8 * len);
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}

/* The next field in its common spelling. False: something else, and nothing was taken. */
static inline bool take_common(struct walk *w)
{
    const uint8_t *p = w->pos;
    uint32_t tag = *p++;
    uint64_t word;
    uint64_t stops;
    size_t len;

    if (tag >= 0x80) {
        if (p == w->end || *p >= 0x80)
            return false;
        tag = (tag & 0x7f) | (uint32_t)*p++ << 7;
    }
    if (tag < 8 || (tag & 5) != 0 || p == w->end) /* neither varint nor payload */
        return false;
    word = load_word(w, p);
    stops = ~word & 0x8080808080808080u;
    if (stops == 0)
        return false;
    len = (size_t)__builtin_ctzll(stops) / 8 + 1;
    if (len > (size_t)(w->end - p))
        return false;
    p += len;
    word = len == 1 && (tag & 7) == PFL_WIRE_BYTES ? word & 0x7f : join_groups(word, len);
    if ((tag & 7) == PFL_WIRE_BYTES) {
        if (word > (size_t)(w->end - p))
            return false;
        p += word;
        word = 0;
    }
    w->id = tag >> 3;
    w->value = word;
    w->pos = p;
    return true;
}

/* The same for any spelling. */
static bool take_any(struct walk *w)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(w->pos, (size_t)(w->end - w->pos)));
    struct pfl_field f;

    if (!pfl_reader_field(&r, &f))
        return false;
    w->id = f.id;
    w->value = f.value;
    w->pos = r.pos;
    return true;
}

static bool cut(struct pfl_packet_view *v, size_t at, size_t len)
{
    if (v->cuts_len == PFL_PACKET_CUTS_MAX)
        return false;
    v->cuts[v->cuts_len++] = (struct pfl_packet_cut){at, len};
    v->cut_bytes += len;
    return true;
}

static void note_id(struct pfl_packet_view *v, const struct walk *w)
{
    if (w->id == TRACE_PACKET__MACHINE_ID) {
        v->machine = (uint32_t)w->value;
        return;
    }
    v->sequence = (uint32_t)w->value;
    v->has_sequence = true;
}

static void note_special(struct pfl_packet_view *v, uint32_t id)
{
    v->has_two_special = v->has_two_special || (v->special != 0 && v->special != id);
    v->special = id;
}

static inline uint8_t role_of(uint32_t id)
{
    return id < sizeof(roles) ? roles[id] : (uint8_t)ROLE_NONE;
}

/* ---- tails ---- */

/* By the first eight bytes and the last, which may overlap. */
static inline bool is_tail(const struct pfl_packet_tail *tail, const uint8_t *p)
{
    const size_t last = tail->len - PFL_PACKET_TAIL_MIN;

    return memcmp(p, tail->bytes, PFL_PACKET_TAIL_MIN) == 0 &&
           memcmp(p + last, tail->bytes + last, PFL_PACKET_TAIL_MIN) == 0;
}

/* Fields 3, 10 and 79 are only the service's; any other begins a new tail. */
static inline bool may_be_in_tail(uint32_t id)
{
    return id == TRACE_PACKET__TRUSTED_UID || id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID ||
           id == TRACE_PACKET__TRUSTED_PID;
}

/* Remembers the tail from `begin` on, `at` bytes into the packet, which has one sequence in it. */
static void learn(struct pfl_packet_tail *tail, const struct pfl_packet_view *v, struct pfl_span is,
                  size_t at)
{
    const struct pfl_packet_cut *last;

    if (is.len < PFL_PACKET_TAIL_MIN || is.len > PFL_PACKET_TAIL_MAX || v->cuts_len == 0)
        return;
    last = &v->cuts[v->cuts_len - 1];
    if (last->at < at || (v->cuts_len > 1 && last[-1].at >= at))
        return;
    tail->len = is.len;
    tail->is_new = true;
    memcpy(tail->bytes, is.data, is.len);
    tail->sequence = v->sequence;
    tail->cut = (struct pfl_packet_cut){last->at - at, last->len};
}

static bool take_tail(struct pfl_packet_view *v, const struct pfl_packet_tail *tail, size_t at)
{
    v->has_sequence = true;
    v->sequence = tail->sequence;
    return cut(v, at + tail->cut.at, tail->cut.len);
}

/* ---- the walk ---- */

/* A field whose role is not ROLE_NONE, which begins `at` bytes into the packet. */
static bool note_field(struct pfl_packet_view *v, const struct walk *w, uint8_t role, size_t at,
                       size_t len)
{
    switch (role) {
    case ROLE_TIME:
        v->timestamp_ns = w->value;
        return true;
    case ROLE_LOSS:
        v->loss_reasons = (uint32_t)w->value;
        return true;
    case ROLE_FLAGS:
        v->flags = (uint32_t)w->value;
        return true;
    case ROLE_CUT:
        note_id(v, w);
        return cut(v, at, len);
    case ROLE_KIND:
        v->kind = w->id;
        return true;
    default:
        note_special(v, w->id);
        v->is_compressed = v->is_compressed || role == ROLE_COMPRESSED;
        return true;
    }
}

/* The fields of one slice, which begins `at` bytes into the packet. */
static bool view_slice(struct pfl_packet_view *v, struct pfl_packet_tail *tail,
                       const struct iovec *slice, size_t at)
{
    const uint8_t *begin = slice->iov_base;
    struct walk w = {.pos = begin, .end = begin + slice->iov_len};
    const uint8_t *tail_at =
        tail->len != 0 && tail->len <= slice->iov_len ? w.end - tail->len : NULL;
    const uint8_t *tail_begin = begin;
    bool is_wide = slice->iov_len >= WORD_BYTES;

    if (begin == NULL) /* an empty slice may have no place */
        return true;
    while (w.pos != w.end) {
        const uint8_t *field = w.pos;
        uint8_t role;

        if (tail_at != NULL && field == tail_at && is_tail(tail, field))
            return take_tail(v, tail, at + (size_t)(field - begin));
        if (!(is_wide && take_common(&w)) && !take_any(&w))
            return false;
        if (!may_be_in_tail(w.id))
            tail_begin = w.pos;
        role = role_of(w.id);
        if (role != ROLE_NONE &&
            !note_field(v, &w, role, at + (size_t)(field - begin), (size_t)(w.pos - field)))
            return false;
    }
    learn(tail, v, pfl_span_of(tail_begin, (size_t)(w.end - tail_begin)),
          at + (size_t)(tail_begin - begin));
    return true;
}

bool pfl_packet_view_of(struct pfl_packet_view *self, struct pfl_packet_tail *tail,
                        const struct iovec *slices, int slices_len)
{
    size_t at = 0;

    memset(self, 0, offsetof(struct pfl_packet_view, cuts));
    for (int i = 0; i < slices_len; at += slices[i].iov_len, i++) {
        if (!view_slice(self, tail, &slices[i], at))
            return false;
    }
    return true;
}

/* A length of two to four bytes, the first of `word`, and what it counts. Writers leave four bytes
 * for a nested message's, whatever it will be. */
static inline uint64_t past_payload(uint64_t word)
{
    unsigned bits = (unsigned)__builtin_ctzll(~word & 0x80808080u) + 1;

    word &= UINT64_MAX >> (64 - bits);
    return bits / 8 + ((word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000) |
                       (word >> 3 & 0xfe00000));
}

/*
 * Past one field in its common spelling that is of no concern; NULL: not so. `last`, before which
 * it begins, has PFL_PACKET_PLAIN_ROOM bytes behind it, so that there are eight bytes wherever a
 * value may begin.
 */
static inline const uint8_t *skip_usual(const uint8_t *p, const uint8_t *last)
{
    uint32_t tag = *p++;
    uint64_t word;

    if (tag >= 0x80) {
        if (*p >= 0x80)
            return NULL;
        tag = (tag & 0x7f) | (uint32_t)*p++ << 7;
    }
    if (tag < 8 || p >= last || role_of(tag >> 3) > ROLE_TIME)
        return NULL;
    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    if ((tag & 7) == PFL_WIRE_VARINT) {
        if ((word & 0x80) == 0)
            return p + 1;
        if ((word & 0x8000) == 0)
            return p + 2;
        word = ~word & 0x8080808080808080u;
        return word != 0 ? p + __builtin_ctzll(word) / 8 + 1 : NULL;
    }
    if ((tag & 7) != PFL_WIRE_BYTES || (~word & 0x80808080u) == 0)
        return NULL;
    word = (word & 0x80) == 0 ? 1 + (word & 0x7f) : past_payload(word);
    return word <= (size_t)(last - p) ? p + word : NULL;
}

bool pfl_packet_view_is_plain(const uint8_t *begin, const uint8_t *end)
{
    const uint8_t *p = begin;

    while (p != NULL && p < end)
        p = skip_usual(p, end);
    return p == end;
}

bool pfl_packet_view_is_usual(const struct pfl_packet_tail *tail, const struct iovec *slice)
{
    const uint8_t *begin = slice->iov_base;
    const uint8_t *last;

    if (tail->len == 0 || slice->iov_len < tail->len)
        return false;
    last = begin + slice->iov_len - tail->len;
    return is_tail(tail, last) && pfl_packet_view_is_plain(begin, last);
}
