/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts only messages that every protobuf reader interprets alike. Readers differ on a repeated
 * singular field, an unknown field and a wrong wire type; so a gate must refuse all of them. Pure.
 */
#ifndef PFL_PROTO_GATE_STRICT_H
#define PFL_PROTO_GATE_STRICT_H

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

#define PFL_STRICT_MAX_DEPTH 24u

/*
 * True: every field, of nested messages too, is known, has its type's wire type and range, and
 * occurs once unless it is repeated; of a oneof there is one. Tags and values have their shortest
 * form (lengths may be longer: common writers reserve room for them). False: `ret_why` (room for
 * why_len) names the field and the reason, peers' text escaped.
 */
bool pfl_strict_check(const ProtobufCMessageDescriptor *type, struct pfl_span message_untrusted,
                      char *ret_why, size_t why_len);

#endif
