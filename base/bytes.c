/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers and writers over borrowed bytes: see bytes.h. No allocation, no I/O; the only failure is
 * the sticky `failed` flag, after which every read yields 0 and every write is dropped.
 */
#include "base/bytes.h"

static bool take(struct pfl_reader *r, size_t len)
{
    if (!r->failed && len <= r->left)
        return true;
    r->failed = true;
    r->left = 0;
    return false;
}

static uint64_t read_le(struct pfl_reader *r, size_t len)
{
    uint64_t v = 0;

    if (!take(r, len))
        return 0;
    for (size_t i = 0; i < len; i++)
        v |= (uint64_t)r->pos[i] << (8 * i);
    r->pos += len;
    r->left -= len;
    return v;
}

uint8_t pfl_reader_u8(struct pfl_reader *r)
{
    return (uint8_t)read_le(r, 1);
}

uint16_t pfl_reader_u16(struct pfl_reader *r)
{
    return (uint16_t)read_le(r, 2);
}

uint32_t pfl_reader_u32(struct pfl_reader *r)
{
    return (uint32_t)read_le(r, 4);
}

uint64_t pfl_reader_u64(struct pfl_reader *r)
{
    return read_le(r, 8);
}

uint64_t pfl_reader_varint(struct pfl_reader *r)
{
    uint64_t v = 0;

    if (!r->failed && r->left != 0 && *r->pos < 0x80) {
        r->left--;
        return *r->pos++;
    }
    for (unsigned i = 0; i < PFL_VARINT_MAX_BYTES; i++) {
        uint8_t byte;

        if (!take(r, 1))
            return 0;
        byte = *r->pos++;
        r->left--;
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0)
            return v;
    }
    r->failed = true;
    r->left = 0;
    return 0;
}

struct pfl_span pfl_reader_bytes(struct pfl_reader *r, size_t len)
{
    struct pfl_span span = {NULL, 0};

    if (!take(r, len))
        return span;
    span = pfl_span_of(r->pos, len);
    if (len != 0)
        r->pos += len;
    r->left -= len;
    return span;
}

/* What follows the tag: `ret_value` or `ret_bytes`. */
static void read_value(struct pfl_reader *r, uint32_t type, uint64_t *ret_value,
                       struct pfl_span *ret_bytes)
{
    uint64_t len_untrusted;

    switch (type) {
    case PFL_WIRE_VARINT:
        *ret_value = pfl_reader_varint(r);
        break;
    case PFL_WIRE_BYTES:
        len_untrusted = pfl_reader_varint(r);
        if (len_untrusted > r->left)
            r->failed = true;
        else
            *ret_bytes = pfl_reader_bytes(r, (size_t)len_untrusted);
        break;
    case PFL_WIRE_FIXED64:
        *ret_value = pfl_reader_u64(r);
        break;
    case PFL_WIRE_FIXED32:
        *ret_value = pfl_reader_u32(r);
        break;
    default:
        r->failed = true;
        break;
    }
}

bool pfl_reader_field(struct pfl_reader *r, struct pfl_field *ret_field)
{
    const uint8_t *start = r->pos;
    struct pfl_span bytes = {NULL, 0};
    uint64_t value = 0;
    uint64_t tag;

    if (r->failed || r->left == 0)
        return false;
    tag = pfl_reader_varint(r);
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        r->failed = true;
    else
        read_value(r, (uint32_t)(tag & 7), &value, &bytes);
    if (r->failed) {
        r->left = 0;
        return false;
    }
    /* Member by member: a struct put together and copied waits for its own stores. */
    ret_field->id = (uint32_t)(tag >> 3);
    ret_field->type = (uint32_t)(tag & 7);
    ret_field->value = value;
    ret_field->bytes.data = bytes.data;
    ret_field->bytes.len = bytes.len;
    ret_field->raw.data = start;
    ret_field->raw.len = (size_t)(r->pos - start);
    return true;
}

static bool make_room(struct pfl_writer *w, size_t len)
{
    if (!w->failed && len <= w->left)
        return true;
    w->failed = true;
    return false;
}

static void write_le(struct pfl_writer *w, uint64_t v, size_t len)
{
    if (!make_room(w, len))
        return;
    for (size_t i = 0; i < len; i++)
        w->pos[i] = (uint8_t)(v >> (8 * i));
    w->pos += len;
    w->left -= len;
}

void pfl_writer_u8(struct pfl_writer *w, uint8_t v)
{
    write_le(w, v, 1);
}

void pfl_writer_u16(struct pfl_writer *w, uint16_t v)
{
    write_le(w, v, 2);
}

void pfl_writer_u32(struct pfl_writer *w, uint32_t v)
{
    write_le(w, v, 4);
}

void pfl_writer_u64(struct pfl_writer *w, uint64_t v)
{
    write_le(w, v, 8);
}

void pfl_writer_varint(struct pfl_writer *w, uint64_t v)
{
    uint8_t tmp[PFL_VARINT_MAX_BYTES];

    pfl_writer_bytes(w, tmp, pfl_varint_put(tmp, v));
}

void pfl_writer_bytes(struct pfl_writer *w, const void *data, size_t len)
{
    if (!make_room(w, len) || len == 0)
        return;
    memcpy(w->pos, data, len);
    w->pos += len;
    w->left -= len;
}

static void write_tag(struct pfl_writer *w, uint32_t id, uint32_t type)
{
    pfl_writer_varint(w, (uint64_t)id << 3 | type);
}

void pfl_writer_field_varint(struct pfl_writer *w, uint32_t id, uint64_t v)
{
    write_tag(w, id, PFL_WIRE_VARINT);
    pfl_writer_varint(w, v);
}

void pfl_writer_field_fixed32(struct pfl_writer *w, uint32_t id, uint32_t v)
{
    write_tag(w, id, PFL_WIRE_FIXED32);
    pfl_writer_u32(w, v);
}

void pfl_writer_field_fixed64(struct pfl_writer *w, uint32_t id, uint64_t v)
{
    write_tag(w, id, PFL_WIRE_FIXED64);
    pfl_writer_u64(w, v);
}

void pfl_writer_field_header(struct pfl_writer *w, uint32_t id, uint64_t len)
{
    write_tag(w, id, PFL_WIRE_BYTES);
    pfl_writer_varint(w, len);
}

void pfl_writer_field_bytes(struct pfl_writer *w, uint32_t id, const void *data, size_t len)
{
    pfl_writer_field_header(w, id, len);
    pfl_writer_bytes(w, data, len);
}
