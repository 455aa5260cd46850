/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/spools: which hosts a collector may collect, and what changed there since it asked last.
 * An answer waits for a change, at most PFL_SPOOL_POLLS_HOLD_MS. A core.
 */
#ifndef PFL_RELAY_HUB_SPOOL_POLLS_H
#define PFL_RELAY_HUB_SPOOL_POLLS_H

#include "relay/hub/forwarded_request.h"
#include "relay/hub/host_list.h"

#define PFL_SPOOL_POLLS_HOLD_MS 30000u
/* Hosts of one answer, and hosts that are looked at for it; fewer where the policy takes its time:
 * the answers of an operator take PFL_HOST_LIST_TURN_NS of a turn, or one host. */
#define PFL_SPOOL_POLLS_HOSTS 256u
#define PFL_SPOOL_POLLS_LOOKS 1024u
/* Operators whose names hash to the same bucket share a rate. */
#define PFL_SPOOL_POLLS_BUCKETS 256u
#define PFL_SPOOL_POLLS_VERSION 48u

struct pfl_spool_polls {
    struct pfl_peer_table *peers;           /* borrowed */
    struct pfl_forwarded_requests *answers; /* borrowed */
    struct pfl_list waiting;                /* they free themselves */
    char relay[PFL_IDENTITY_NAME_BYTES];
    char fleet[PFL_IDENTITY_NAME_BYTES];
    uint64_t start;  /* of this relay */
    unsigned policy; /* the number of policies so far */
    struct pfl_host_list_account looks[PFL_SPOOL_POLLS_BUCKETS];
};

/* Both are borrowed while there are requests; names are copied. */
void pfl_spool_polls_init(struct pfl_spool_polls *self, struct pfl_peer_table *peers,
                          struct pfl_forwarded_requests *answers, const char *relay,
                          const char *fleet);
/* The request is answered now or later. */
void pfl_spool_polls_ask(struct pfl_spool_polls *self, const struct pfl_host_request *request);
/* Answers those for whom something changed, and those that waited long enough. Call it about once a
 * second. */
void pfl_spool_polls_run(struct pfl_spool_polls *self);
/* Another policy: what a collector knows is void, and it gets everything again. */
void pfl_spool_polls_restart(struct pfl_spool_polls *self);
/* Answers all: the relay is about to go. */
void pfl_spool_polls_finish(struct pfl_spool_polls *self);

#endif
