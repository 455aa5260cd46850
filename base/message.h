/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends protobuf fields to a pfl_buf: one by one, or as a message with nested ones. Of a message
 * the first failure sticks in `rc` and makes the rest do nothing, so that an encoder reads like the
 * message's definition and checks once.
 */
#ifndef PFL_BASE_MESSAGE_H
#define PFL_BASE_MESSAGE_H

#include "base/buf.h"

/* One field at the end of `out`. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_message_append_varint(struct pfl_buf *out, uint32_t id, uint64_t v);
PFL_MUST_USE int pfl_message_append_fixed64(struct pfl_buf *out, uint32_t id, uint64_t v);
PFL_MUST_USE int pfl_message_append_bytes(struct pfl_buf *out, uint32_t id, struct pfl_span bytes);
/* Its tag and length alone: the caller appends the `len` bytes. */
PFL_MUST_USE int pfl_message_append_header(struct pfl_buf *out, uint32_t id, size_t len);

struct pfl_message {
    struct pfl_buf *buf; /* borrowed */
    int rc;              /* 0, PFL_ENOMEM or PFL_ELIMIT */
};

static inline struct pfl_message pfl_message_of(struct pfl_buf *buf)
{
    return (struct pfl_message){.buf = buf, .rc = 0};
}

void pfl_message_varint(struct pfl_message *self, uint32_t id, uint64_t v);
void pfl_message_bytes(struct pfl_message *self, uint32_t id, struct pfl_span bytes);
void pfl_message_str(struct pfl_message *self, uint32_t id, const char *str);
/* Appends bytes that are whole fields already. */
void pfl_message_raw(struct pfl_message *self, struct pfl_span fields);
/* A nested message: everything appended between begin and end is its content. */
size_t pfl_message_begin(struct pfl_message *self, uint32_t id);
void pfl_message_end(struct pfl_message *self, size_t mark);

#endif
