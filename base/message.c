/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf fields at the end of a buffer.
 *
 * A nested message is written behind its tag. When its length is known it is moved to make room for
 * the length, so that every length is minimal. Failures: PFL_ELIMIT (the buffer's maximum) and
 * PFL_ENOMEM stick. The caller drops what was written before.
 */
#include "base/message.h"

#include "base/bytes.h"

static size_t put_tag(uint8_t *dst, uint32_t id, enum pfl_wire_type type)
{
    return pfl_varint_put(dst, (uint64_t)id << 3 | (uint64_t)type);
}

int pfl_message_append_varint(struct pfl_buf *out, uint32_t id, uint64_t v)
{
    uint8_t field[2 * PFL_VARINT_MAX_BYTES];
    size_t len = put_tag(field, id, PFL_WIRE_VARINT);

    len += pfl_varint_put(field + len, v);
    return pfl_buf_append(out, field, len);
}

int pfl_message_append_fixed64(struct pfl_buf *out, uint32_t id, uint64_t v)
{
    uint8_t field[PFL_VARINT_MAX_BYTES + sizeof(v)];
    struct pfl_writer w = pfl_writer_of(field, sizeof(field));

    pfl_writer_field_fixed64(&w, id, v);
    return pfl_buf_append(out, field, sizeof(field) - w.left);
}

int pfl_message_append_header(struct pfl_buf *out, uint32_t id, size_t len)
{
    uint8_t header[2 * PFL_VARINT_MAX_BYTES];
    size_t header_len = put_tag(header, id, PFL_WIRE_BYTES);

    header_len += pfl_varint_put(header + header_len, len);
    return pfl_buf_append(out, header, header_len);
}

int pfl_message_append_bytes(struct pfl_buf *out, uint32_t id, struct pfl_span bytes)
{
    int rc = pfl_message_append_header(out, id, bytes.len);

    return rc != 0 || bytes.len == 0 ? rc : pfl_buf_append(out, bytes.data, bytes.len);
}

void pfl_message_varint(struct pfl_message *self, uint32_t id, uint64_t v)
{
    if (self->rc == 0)
        self->rc = pfl_message_append_varint(self->buf, id, v);
}

void pfl_message_bytes(struct pfl_message *self, uint32_t id, struct pfl_span bytes)
{
    if (self->rc == 0)
        self->rc = pfl_message_append_bytes(self->buf, id, bytes);
}

void pfl_message_str(struct pfl_message *self, uint32_t id, const char *str)
{
    pfl_message_bytes(self, id, pfl_span_of(str, strlen(str)));
}

void pfl_message_raw(struct pfl_message *self, struct pfl_span fields)
{
    if (self->rc == 0)
        self->rc = pfl_buf_append(self->buf, fields.data, fields.len);
}

size_t pfl_message_begin(struct pfl_message *self, uint32_t id)
{
    uint8_t tag[PFL_VARINT_MAX_BYTES];

    pfl_message_raw(self, pfl_span_of(tag, put_tag(tag, id, PFL_WIRE_BYTES)));
    return self->buf->len;
}

void pfl_message_end(struct pfl_message *self, size_t mark)
{
    uint8_t length[PFL_VARINT_MAX_BYTES];
    size_t len;
    size_t length_bytes;
    uint8_t *content;
    uint8_t *room;

    if (self->rc != 0)
        return;
    len = self->buf->len - mark;
    length_bytes = pfl_varint_put(length, len);
    self->rc = pfl_buf_reserve(self->buf, length_bytes, &room);
    if (self->rc != 0)
        return;
    content = room - len;
    memmove(content + length_bytes, content, len);
    memcpy(content, length, length_bytes);
    pfl_buf_extend(self->buf, length_bytes);
}
