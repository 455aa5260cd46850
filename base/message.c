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

static void append(struct pfl_message *m, const void *data, size_t len)
{
    if (m->rc == 0)
        m->rc = pfl_buf_append(m->buf, data, len);
}

static void append_tag(struct pfl_message *m, uint32_t id, enum pfl_wire_type type)
{
    uint8_t bytes[PFL_VARINT_MAX_BYTES];

    append(m, bytes, pfl_varint_put(bytes, (uint64_t)id << 3 | (uint64_t)type));
}

static void append_varint(struct pfl_message *m, uint64_t v)
{
    uint8_t bytes[PFL_VARINT_MAX_BYTES];

    append(m, bytes, pfl_varint_put(bytes, v));
}

void pfl_message_varint(struct pfl_message *self, uint32_t id, uint64_t v)
{
    append_tag(self, id, PFL_WIRE_VARINT);
    append_varint(self, v);
}

void pfl_message_bytes(struct pfl_message *self, uint32_t id, struct pfl_span bytes)
{
    append_tag(self, id, PFL_WIRE_BYTES);
    append_varint(self, bytes.len);
    append(self, bytes.data, bytes.len);
}

void pfl_message_str(struct pfl_message *self, uint32_t id, const char *str)
{
    pfl_message_bytes(self, id, pfl_span_of(str, strlen(str)));
}

void pfl_message_raw(struct pfl_message *self, struct pfl_span fields)
{
    append(self, fields.data, fields.len);
}

size_t pfl_message_begin(struct pfl_message *self, uint32_t id)
{
    append_tag(self, id, PFL_WIRE_BYTES);
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
