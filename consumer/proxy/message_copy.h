/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages without some of their fields, as fields of another message. Pure. */
#ifndef PFL_CONSUMER_PROXY_MESSAGE_COPY_H
#define PFL_CONSUMER_PROXY_MESSAGE_COPY_H

#include "base/buf.h"

/* True: this field is omitted from the copy. */
typedef bool pfl_message_copy_leave(const struct pfl_field *field);

/* The bytes of a field `id` with the copy of `message`, its tag and length included. */
size_t pfl_message_copy_bytes(uint32_t id, struct pfl_span message, pfl_message_copy_leave *leave);
/* Appends that field to `out`. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_message_copy_append(uint32_t id, struct pfl_span message,
                                         pfl_message_copy_leave *leave, struct pfl_buf *out);

#endif
