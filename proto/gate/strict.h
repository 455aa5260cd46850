/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a serialized message be read in one way only? Protobuf readers differ in what they make of a
 * field that comes twice, of one they do not know, of one with another wire type: who judges a
 * message for somebody else has to refuse all of them. Pure.
 */
#ifndef PFL_PROTO_GATE_STRICT_H
#define PFL_PROTO_GATE_STRICT_H

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

#define PFL_STRICT_MAX_DEPTH 24u

/*
 * True: every field, of nested messages too, is known, has its type's wire type and range, and
 * comes once unless it is repeated; of a oneof there is one. Tags and values have their shortest
 * form (lengths may be longer: usual writers leave room for them). False: `ret_why` (room for
 * why_len) says which field and what about it, peers' text escaped.
 */
bool pfl_strict_check(const ProtobufCMessageDescriptor *type, struct pfl_span message_untrusted,
                      char *ret_why, size_t why_len);

#endif
