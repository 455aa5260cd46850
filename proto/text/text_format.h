/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads protobuf text format (.pbtx) over protobuf-c's descriptors, as a serialized message: for
 * trace configs, policies and the daemons' own files. Supports nested messages `{ }` and `< >`,
 * optional colons and separators, repeated fields by repetition and by `[a, b]`, enums by name or
 * number, decimal, hexadecimal and octal integers, floats (inf, nan), booleans, strings with every
 * escape and adjacent-literal concatenation, bytes, comments with #. Fields whose type is an
 * embedded message are kept whole; the output is in the order of the input.
 */
#ifndef PFL_PROTO_TEXT_TEXT_FORMAT_H
#define PFL_PROTO_TEXT_TEXT_FORMAT_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define PFL_TEXT_FORMAT_MAX_DEPTH 64u

struct pfl_text_error {
    unsigned line;   /* from 1 */
    unsigned column; /* from 1, in bytes */
    /* What is wrong and what would be right ("no field \"durtion_ms\" in TraceConfig; did you mean
     * \"duration_ms\"?"); peers' text is escaped. */
    char message[256];
};

/*
 * Serializes `text` as a message of `type` at the end of `out`. PFL_EPARSE with `ret_error`
 * filled, PFL_ELIMIT (out's maximum, or depth; ret_error filled too), PFL_ENOMEM. On failure
 * `out` is as it was.
 */
PFL_MUST_USE int pfl_text_format_parse(const ProtobufCMessageDescriptor *type, struct pfl_span text,
                                       struct pfl_buf *out, struct pfl_text_error *ret_error);

#endif
