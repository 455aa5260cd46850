/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks messages from untrusted bytes with protobuf-c; use it everywhere. protobuf-c follows
 * nesting to any depth and allocates without a limit; this limits both, and uses memory of
 * base/mem.
 *
 *     Perfetto__Protos__TraceConfig *config;
 *     rc = pfl_proto_unpack(&perfetto__protos__trace_config__descriptor, bytes,
 *                           (ProtobufCMessage **)&config);
 *     ...
 *     pfl_proto_free(&config->base);
 */
#ifndef PFL_PROTO_UNPACK_H
#define PFL_PROTO_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define PFL_PROTO_MAX_DEPTH     64u
#define PFL_PROTO_MAX_MEM_BYTES (16u << 20) /* of one unpacked message */

/* PFL_EPARSE: malformed, or nested deeper than PFL_PROTO_MAX_DEPTH; PFL_ELIMIT: past
 * PFL_PROTO_MAX_MEM_BYTES; PFL_ENOMEM. Transfer: the caller frees with pfl_proto_free. */
PFL_MUST_USE int pfl_proto_unpack(const ProtobufCMessageDescriptor *type, struct pfl_span bytes,
                                  ProtobufCMessage **ret_message);
void pfl_proto_free(ProtobufCMessage *message); /* NULL is legal */

/* Serializes at the end of `out`. PFL_ELIMIT, PFL_ENOMEM; then nothing was appended. */
PFL_MUST_USE int pfl_proto_pack(const ProtobufCMessage *message, struct pfl_buf *out);

#endif
