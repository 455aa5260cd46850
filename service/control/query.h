/* SPDX-License-Identifier: Apache-2.0 */
/* QueryServiceState and QueryCapabilities (docs/abi/service.md sections 2 and 12). */
#ifndef PFL_SERVICE_QUERY_H
#define PFL_SERVICE_QUERY_H

#include "proto/rpc_host.h"
#include "service/control/service.h"

/* An entry with which the TracingServiceState of a reply would be longer begins the next one. */
#define PFL_QUERY_SPLIT_BYTES 130944u
struct pfl_query {
    const struct pfl_service *service; /* borrowed */
    uint32_t uid;                      /* who asks: sees own sessions, root sees all */
    bool sessions_only;
    bool has_figures; /* wanted */
    /* Of pfl_query_next alone; zero at first. */
    size_t step;
    uint64_t told;          /* serial number of the last entry of this step that was told whole */
    uint64_t told_source;   /* of the next producer's sources */
    uint64_t last_producer; /* later ones are not told */
};

/* The next part of the answer, a QueryServiceStateResponse, replaces what is in `part`, which has
 * room for PFL_RPC_REPLY_BODY_MAX. Parts merge by concatenation. Not after the last one.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_query_next(struct pfl_query *self, struct pfl_buf *part, bool *ret_has_more);
/* Appends the fields of QueryCapabilitiesResponse. */
void pfl_query_capabilities(struct pfl_message *m);

#endif
