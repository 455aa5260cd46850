/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends protobuf fields to a pfl_buf, nested messages included. The first failure sticks in `rc`
 * and makes the rest do nothing, so that an encoder reads like the message's definition and checks
 * once.
 */
#ifndef PFL_BASE_MESSAGE_H
#define PFL_BASE_MESSAGE_H

#include "base/buf.h"

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
