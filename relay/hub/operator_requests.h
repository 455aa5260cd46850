/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' requests at the fleet relay (docs/protocol-tunnel.md, "Requests"): each is answered
 * here, becomes a stream (stream_table.h), or is forwarded to the host's agent
 * (forwarded_request.h). A core.
 */
#ifndef PFL_RELAY_HUB_OPERATOR_REQUESTS_H
#define PFL_RELAY_HUB_OPERATOR_REQUESTS_H

#include "relay/hub/forwarded_request.h"
#include "relay/hub/host_list.h"
#include "relay/hub/relay_state.h"
#include "relay/hub/spool_polls.h"

struct pfl_operator_requests {
    struct pfl_peer_table *peers;     /* borrowed */
    struct pfl_stream_table *streams; /* borrowed */
    struct pfl_forwarded_requests forwarded;
    struct pfl_host_list hosts;
    struct pfl_spool_polls spools;
    struct pfl_relay_state state;
};

/* `streams` is borrowed while there are requests; names are copied. */
void pfl_operator_requests_init(struct pfl_operator_requests *self,
                                struct pfl_stream_table *streams, const char *relay,
                                const char *fleet);
/* A request on an operator's connection: it is answered now or later. */
void pfl_operator_requests_take(struct pfl_operator_requests *self, struct pfl_hub_peer *peer,
                                struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head);

#endif
