/* SPDX-License-Identifier: Apache-2.0 */
/* String literals of protobuf text format. For text_format.c alone. */
#ifndef PFL_PROTO_TEXT_TEXT_STRING_H
#define PFL_PROTO_TEXT_TEXT_STRING_H

#include "base/buf.h"

/*
 * Appends the decoded `literal` (with its quotes) to `out`. PFL_EPARSE: an invalid escape;
 * `ret_offset` is its position in the literal. PFL_ELIMIT, PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_text_string_decode(struct pfl_span literal, struct pfl_buf *out,
                                        size_t *ret_offset);

#endif
