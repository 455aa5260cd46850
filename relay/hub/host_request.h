/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's request for one host, with what the hub has found out about it. A core. */
#ifndef PFL_RELAY_HUB_HOST_REQUEST_H
#define PFL_RELAY_HUB_HOST_REQUEST_H

#include "proto/h2/problem.h"
#include "proto/tunnel/route.h"
#include "relay/hub/peer_table.h"

struct pfl_host_request {
    struct pfl_hub_peer *peer;       /* the operator's connection */
    struct pfl_h2_stream *h2_stream; /* of the request */
    const struct pfl_h2_head *head;
    const struct pfl_route *route;
    struct pfl_policy_decision decision;
    struct pfl_span role;  /* that the agent must enforce; empty: none */
    struct pfl_host *host; /* NULL: not known */
    struct pfl_h2 *agent;  /* NULL: not connected, or not looked for yet */
};

/* Answers with a problem of the relay's. */
void pfl_host_request_refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                             const char *detail);
/* The same, with a line of the audit log. `audit_detail` may be NULL. */
void pfl_host_request_forbid(const struct pfl_host_request *self, const struct pfl_problem *problem,
                             const char *audit_detail);
/* Refuses it because the audit log cannot be written. */
void pfl_host_request_refuse_unaudited(const struct pfl_host_request *self);
/* Whether something that is to be audited may begin. False: refused already. */
bool pfl_host_request_may_begin(const struct pfl_host_request *self);

#endif
