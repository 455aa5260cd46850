/* SPDX-License-Identifier: Apache-2.0 */
/* QueryServiceState and QueryCapabilities (docs/abi/service.md sections 2 and 12). */
#ifndef PFL_SERVICE_QUERY_H
#define PFL_SERVICE_QUERY_H

#include "proto/ipc/rpc_host.h"
#include "service/core/service.h"

/* An entry that would make the TracingServiceState of a reply longer begins the next reply. */
#define PFL_QUERY_SPLIT_BYTES 130944u
/* Limits of an answer, shared by the users whose entries they are: clients refuse more than 16 MiB,
 * packed or unpacked. An entry counts its bytes and what unpacking adds. */
#define PFL_QUERY_MAX_BYTES   (12u << 20)
#define PFL_QUERY_ENTRY_BYTES 320u

/* What an answer leaves out because it does not fit. */
struct pfl_query_left_out {
    uint64_t producers;
    uint64_t sources;
    uint64_t descriptors; /* of sources that are sent by name only */
    uint64_t sessions;
};

struct pfl_query {
    const struct pfl_service *service; /* borrowed */
    uint32_t uid;                      /* the requester: sees its own sessions, root sees all */
    uint64_t subject;                  /* in whose name it asks, as of struct pfl_consumer */
    bool sessions_only;
    bool has_figures; /* wanted */
    /* Private to pfl_query_next; initially zero. */
    size_t step;
    uint64_t last_sent; /* serial number of the last entry of this step that was sent whole */
    uint64_t last_sent_source; /* of the next producer's sources */
    uint64_t last_producer;    /* later ones are not sent */
    struct pfl_shares *room;   /* owned; NULL until the first part */
    struct pfl_query_left_out left_out;
};

/* Writes the next part of the answer, a QueryServiceStateResponse, into `part`, which must allow
 * PFL_RPC_REPLY_BODY_MAX bytes; the old content is dropped. Parts merge by concatenation. Do not
 * call after the last one. PFL_ENOMEM. */
PFL_MUST_USE int pfl_query_next(struct pfl_query *self, struct pfl_buf *part, bool *ret_has_more);
/* Legal also before the first part. */
void pfl_query_fini(struct pfl_query *self);
/* Appends the fields of QueryCapabilitiesResponse. */
void pfl_query_capabilities(struct pfl_message *m);

#endif
