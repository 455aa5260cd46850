/* SPDX-License-Identifier: Apache-2.0 */
/* QueryServiceState and QueryCapabilities (docs/abi/service.md sections 2 and 12). */
#ifndef PFL_SERVICE_QUERY_H
#define PFL_SERVICE_QUERY_H

#include "proto/ipc/rpc_host.h"
#include "service/core/service.h"

/* An entry with which the TracingServiceState of a reply would be longer begins the next one. */
#define PFL_QUERY_SPLIT_BYTES 130944u
/* Of an answer, shared by the users whose entries they are: clients refuse 16 MiB, packed or
 * unpacked. An entry counts its bytes and what unpacking adds. */
#define PFL_QUERY_MAX_BYTES   (12u << 20)
#define PFL_QUERY_ENTRY_BYTES 320u

/* What an answer leaves out for want of room. */
struct pfl_query_left_out {
    uint64_t producers;
    uint64_t sources;
    uint64_t descriptors; /* of sources that are told by name */
    uint64_t sessions;
};

struct pfl_query {
    const struct pfl_service *service; /* borrowed */
    uint32_t uid;                      /* who asks: sees own sessions, root sees all */
    bool sessions_only;
    bool has_figures; /* wanted */
    /* Of pfl_query_next alone; zero at first. */
    size_t step;
    uint64_t told;           /* serial number of the last entry of this step that was told whole */
    uint64_t told_source;    /* of the next producer's sources */
    uint64_t last_producer;  /* later ones are not told */
    struct pfl_shares *room; /* owned; NULL until the first part */
    struct pfl_query_left_out left_out;
};

/* The next part of the answer, a QueryServiceStateResponse, replaces what is in `part`, which has
 * room for PFL_RPC_REPLY_BODY_MAX. Parts merge by concatenation. Not after the last one.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_query_next(struct pfl_query *self, struct pfl_buf *part, bool *ret_has_more);
/* Legal before the first part, too. */
void pfl_query_fini(struct pfl_query *self);
/* Appends the fields of QueryCapabilitiesResponse. */
void pfl_query_capabilities(struct pfl_message *m);

#endif
