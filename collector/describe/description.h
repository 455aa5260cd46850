/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies beside an object in the store, as JSON: what the index has of it, so that an index can
 * be made from the store alone. Pure.
 *
 *     {"format": 1, "trace": {"id": "01J...", "segment": {"host": "web1", ...}}, "packed":
 * "0a1a..."}
 *
 * "trace" is for people and other programs: fields as in proto/perfleet/collector.proto, 64-bit
 * numbers and enums as text, bytes in hex. "packed" is the perfleet.StoredTrace itself, in hex.
 */
#ifndef PFL_COLLECTOR_DESCRIBE_DESCRIPTION_H
#define PFL_COLLECTOR_DESCRIBE_DESCRIPTION_H

#include "base/buf.h"
#include "perfleet/collector.pb-c.h"

#define PFL_DESCRIPTION_MAX_BYTES (1u << 20)

/* Appends the JSON. PFL_ELIMIT, PFL_ENOMEM: nothing was appended. */
PFL_MUST_USE int pfl_description_write(const Perfleet__StoredTrace *trace, struct pfl_buf *out);
/* PFL_EPARSE: it is none, or one of another format; PFL_ELIMIT, PFL_ENOMEM. Transfer: the caller
 * frees with pfl_proto_free. */
PFL_MUST_USE int pfl_description_parse(struct pfl_span text_untrusted,
                                       Perfleet__StoredTrace **ret_trace);

#endif
