/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a protobuf message in a growing buffer.
 *
 * Happy path: fields are appended; begin leaves four bytes for the length of a nested message,
 * end fills them.
 * Failure: out of memory or of room sets `failed`; the caller drops the message.
 */
#include "agent/probes/procfs/probe_message.h"

#include <assert.h>

#include "base/message.h"

#define LENGTH_BYTES 4u

void pfl_probe_message_init(struct pfl_probe_message *self, size_t max_bytes)
{
    memset(self, 0, sizeof(*self));
    pfl_buf_init(&self->buf, max_bytes);
}

void pfl_probe_message_fini(struct pfl_probe_message *self)
{
    pfl_buf_fini(&self->buf);
}

void pfl_probe_message_clear(struct pfl_probe_message *self)
{
    pfl_buf_clear(&self->buf);
    self->depth = 0;
    self->failed = false;
}

static void note(struct pfl_probe_message *self, int rc)
{
    if (rc != 0)
        self->failed = true;
}

void pfl_probe_message_uint(struct pfl_probe_message *self, uint32_t field, uint64_t value)
{
    note(self, pfl_message_append_varint(&self->buf, field, value));
}

void pfl_probe_message_fixed64(struct pfl_probe_message *self, uint32_t field, uint64_t bits)
{
    note(self, pfl_message_append_fixed64(&self->buf, field, bits));
}

void pfl_probe_message_bytes(struct pfl_probe_message *self, uint32_t field, const void *data,
                             size_t len)
{
    note(self, pfl_message_append_bytes(&self->buf, field, pfl_span_of(data, len)));
}

void pfl_probe_message_text(struct pfl_probe_message *self, uint32_t field, const char *text)
{
    pfl_probe_message_bytes(self, field, text, strlen(text));
}

void pfl_probe_message_begin(struct pfl_probe_message *self, uint32_t field)
{
    static const uint8_t zeros[LENGTH_BYTES];
    uint8_t room[PFL_VARINT_MAX_BYTES];

    assert(self->depth < PFL_MESSAGE_DEPTH);
    note(self, pfl_buf_append(&self->buf, room,
                              pfl_varint_put(room, (uint64_t)field << 3 | PFL_WIRE_BYTES)));
    self->starts[self->depth++] = self->buf.len;
    note(self, pfl_buf_append(&self->buf, zeros, LENGTH_BYTES));
}

void pfl_probe_message_end(struct pfl_probe_message *self)
{
    size_t start = self->starts[--self->depth];
    size_t len = self->buf.len - start - LENGTH_BYTES;
    uint8_t *at;

    if (self->failed)
        return;
    at = self->buf.data + self->buf.start + start;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        at[i] = (uint8_t)((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}
