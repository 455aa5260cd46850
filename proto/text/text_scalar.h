/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar values of protobuf text format, as encoded field values. For text_format.c alone. */
#ifndef PFL_PROTO_TEXT_TEXT_SCALAR_H
#define PFL_PROTO_TEXT_TEXT_SCALAR_H

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "proto/text/text_lexer.h"

struct pfl_text_scalar {
    enum pfl_wire_type wire;
    uint64_t value; /* as pfl_writer_field_* takes it */
};

/* The name of `type` in a message ("an integer from 0 to 4294967295"). */
const char *pfl_text_scalar_expected(ProtobufCType type);
/*
 * Parses one token (NAME or NUMBER, with or without a preceding minus) as a number or bool of
 * `type`; enums by number only. PFL_EINVAL: not such a value; PFL_ELIMIT: out of its range.
 */
PFL_MUST_USE int pfl_text_scalar_parse(ProtobufCType type, bool is_negative,
                                       const struct pfl_text_token *token,
                                       struct pfl_text_scalar *ret_scalar);

#endif
