/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds-checked reading and writing of byte strings.
 *
 * A read past the end sets `failed` and yields 0 or an empty span, so that a parser reads like the
 * format's table and checks `failed` once, at the end. A writer works the same way on caller's
 * storage. Integers are little-endian; varints are protobuf's.
 */
#ifndef PFL_BASE_BYTES_H
#define PFL_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes; `data` may be NULL when `len` is 0. */
struct pfl_span {
    const uint8_t *data;
    size_t len;
};

struct pfl_reader {
    const uint8_t *pos; /* borrowed from the caller while reading */
    size_t left;
    bool failed;
};

struct pfl_writer {
    uint8_t *pos; /* borrowed from the caller while writing */
    size_t left;
    bool failed; /* something did not fit; nothing of it was written */
};

enum pfl_wire_type {
    PFL_WIRE_VARINT = 0,
    PFL_WIRE_FIXED64 = 1,
    PFL_WIRE_BYTES = 2,
    PFL_WIRE_FIXED32 = 5,
};

/* One field of a protobuf message as encoded. */
struct pfl_field {
    uint32_t id;
    uint32_t type;         /* enum pfl_wire_type */
    uint64_t value;        /* varint, fixed32, fixed64 */
    struct pfl_span bytes; /* length-delimited payload, borrowed from the reader's input */
    struct pfl_span raw;   /* the whole field with its tag */
};

#define PFL_VARINT_MAX_BYTES 10u

static inline struct pfl_span pfl_span_of(const void *data, size_t len)
{
    return (struct pfl_span){.data = (const uint8_t *)data, .len = len};
}

static inline bool pfl_span_eq(struct pfl_span a, struct pfl_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* `text` without its NUL. */
static inline bool pfl_span_is(struct pfl_span span, const char *text)
{
    return pfl_span_eq(span, pfl_span_of(text, strlen(text)));
}

static inline struct pfl_reader pfl_reader_of(struct pfl_span span)
{
    return (struct pfl_reader){.pos = span.data, .left = span.len, .failed = false};
}

static inline struct pfl_writer pfl_writer_of(void *data, size_t len)
{
    return (struct pfl_writer){.pos = (uint8_t *)data, .left = len, .failed = false};
}

uint8_t pfl_reader_u8(struct pfl_reader *r);
uint16_t pfl_reader_u16(struct pfl_reader *r);
uint32_t pfl_reader_u32(struct pfl_reader *r);
uint64_t pfl_reader_u64(struct pfl_reader *r);
/* At most 10 bytes; bits past 64 are dropped as protobuf does. */
uint64_t pfl_reader_varint(struct pfl_reader *r);
struct pfl_span pfl_reader_bytes(struct pfl_reader *r, size_t len);
/*
 * The next field of a protobuf message. False at the end of the input and on malformed input
 * (then r->failed): id 0, wire types 3, 4, 6, 7, a length past the end.
 */
bool pfl_reader_field(struct pfl_reader *r, struct pfl_field *ret_field);

/* A varint of at most 8 bytes in the 8 bytes at `p`: its value and size; 0: it is longer. */
static inline size_t pfl_varint_load(const uint8_t *p, uint64_t *ret_value)
{
    uint64_t word;
    uint64_t stops;
    size_t len;

    if (*p < 0x80) {
        *ret_value = *p;
        return 1;
    }
    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    stops = ~word & 0x8080808080808080u; /* the last byte is the first without the high bit */
    if (stops == 0)
        return 0;
    len = (size_t)__builtin_ctzll(stops) / 8 + 1;
    word &= UINT64_MAX >> (64 - 8 * len);
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    *ret_value = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
    return len;
}

/* As pfl_reader_field, inline, for loops over every packet: the common shapes (tags of one or two
 * bytes, varints of at most 8, payloads) are read here, the others by pfl_reader_field. */
static inline bool pfl_reader_field_hot(struct pfl_reader *r, struct pfl_field *ret_field)
{
    const uint8_t *p = r->pos;
    uint64_t tag = 0;
    uint64_t value = 0;
    size_t len = 0;

    if (r->left >= 2) {
        tag = *p++;
        if (tag >= 0x80)
            tag = (tag & 0x7f) | (uint64_t)*p++ << 7;
    }
    if ((tag & 5) == 0 && r->left >= 2 + 8) { /* a varint or a payload's length is within reach */
        len = pfl_varint_load(p, &value);
    } else if ((tag & 5) == 0 && p - r->pos < (ptrdiff_t)r->left && *p < 0x80) {
        value = *p;
        len = 1;
    }
    if (tag >= 0x4000 || tag < 8 || len == 0)
        return pfl_reader_field(r, ret_field);
    p += len;
    ret_field->bytes = (struct pfl_span){NULL, 0};
    if ((tag & 7) == PFL_WIRE_BYTES) {
        if (value > r->left - (size_t)(p - r->pos))
            return pfl_reader_field(r, ret_field); /* which detects what is wrong */
        ret_field->bytes = pfl_span_of(p, (size_t)value);
        p += value;
        value = 0;
    }
    ret_field->id = (uint32_t)(tag >> 3);
    ret_field->type = (uint32_t)(tag & 7);
    ret_field->value = value;
    ret_field->raw = pfl_span_of(r->pos, (size_t)(p - r->pos));
    r->left -= (size_t)(p - r->pos);
    r->pos = p;
    return true;
}

void pfl_writer_u8(struct pfl_writer *w, uint8_t v);
void pfl_writer_u16(struct pfl_writer *w, uint16_t v);
void pfl_writer_u32(struct pfl_writer *w, uint32_t v);
void pfl_writer_u64(struct pfl_writer *w, uint64_t v);
void pfl_writer_varint(struct pfl_writer *w, uint64_t v);
void pfl_writer_bytes(struct pfl_writer *w, const void *data, size_t len);
/* Protobuf fields: tag and value. */
void pfl_writer_field_varint(struct pfl_writer *w, uint32_t id, uint64_t v);
void pfl_writer_field_fixed32(struct pfl_writer *w, uint32_t id, uint32_t v);
void pfl_writer_field_fixed64(struct pfl_writer *w, uint32_t id, uint64_t v);
void pfl_writer_field_bytes(struct pfl_writer *w, uint32_t id, const void *data, size_t len);
/* Tag and length of a length-delimited field whose payload the caller puts elsewhere. */
void pfl_writer_field_header(struct pfl_writer *w, uint32_t id, uint64_t len);

/* Copies without a call if short: up to 64 bytes by two overlapping moves. */
__attribute__((always_inline)) static inline void pfl_bytes_copy(uint8_t *dst, const uint8_t *src,
                                                                 size_t len)
{
    if (len > 64) {
        memcpy(dst, src, len);
    } else if (len >= 32) {
        memcpy(dst, src, 32);
        memcpy(dst + len - 32, src + len - 32, 32);
    } else if (len >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + len - 16, src + len - 16, 16);
    } else if (len >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + len - 8, src + len - 8, 8);
    } else {
        for (size_t i = 0; i < len; i++)
            dst[i] = src[i];
    }
}

/* Bytes that the varint of `v` takes, 1 to 10. */
static inline size_t pfl_varint_size(uint64_t v)
{
    return (size_t)(9 * (64 - __builtin_clzll(v | 1)) + 64) / 64;
}

/* Writes the varint of `v` at `dst` (room for 10 bytes) and returns its size. */
static inline size_t pfl_varint_put(uint8_t *dst, uint64_t v)
{
    size_t n = 0;

    while (v >= 0x80) {
        dst[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    dst[n++] = (uint8_t)v;
    return n;
}

#endif
