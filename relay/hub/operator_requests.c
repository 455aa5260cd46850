/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' requests at the fleet relay: see operator_requests.h.
 *
 * Happy path: the head becomes a route; the policy allows the host; the host is known and, where
 * its agent is needed, connected. Requests for one host, and to forget it, are answered here; a
 * CONNECT becomes a stream (stream_table.h), of a collector to the spool too; clock, streams,
 * kills, alarms and triggers are forwarded to the agent (forwarded_request.h). Failures: each a
 * status with a sentence; refusals by the policy or by a share are audited. Ownership: nothing.
 * Limits: streams per connection, and a part of an agent's for each operator.
 */
#include "relay/hub/operator_requests.h"

#include <stdio.h>
#include <string.h>

#include "perfleet/policy.fields.h"
#include "proto/gate/role.h"
#include "relay/hub/audit_context.h"
#include "relay/hub/collector_list.h"
#include "relay/hub/spool_right.h"

/* When fewer of an agent's streams are left than this, an operator that has half of all gets no
 * more. */
#define LAST_STREAMS (PFL_H2_MAX_STREAMS / 4)

static void respond(struct pfl_h2_stream *h2_stream, unsigned status, const char *type,
                    struct pfl_span body)
{
    if (pfl_h2_stream_respond_body(h2_stream, status, type, body) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}

/* ---- forgetting a host ---- */

/* Only a role that says so permits this, because it changes what others see. */
static bool may_forget(const struct pfl_policy_decision *decision)
{
    return decision->rates.len == 0 || pfl_role_get_number(decision->rates, ROLE__FORGET) != 0;
}

static void refuse_forgetting(const struct pfl_host_request *request)
{
    char role[PFL_ROLE_PATTERN_MAX + 1];
    char detail[PFL_ROLE_PATTERN_MAX + 80];

    pfl_role_copy_name(request->decision.rates, role);
    (void)snprintf(detail, sizeof(detail),
                   "role %s does not allow forgetting hosts (it has no forget: true)", role);
    pfl_host_request_forbid(request, &(struct pfl_problem){403, "relay", "not allowed", detail},
                            detail);
}

static void forget_host(struct pfl_operator_requests *self, const struct pfl_host_request *request)
{
    struct pfl_audit_context context;
    char detail[PFL_IDENTITY_NAME_BYTES + 96];

    if (request->host->peer != NULL) {
        (void)snprintf(detail, sizeof(detail),
                       "%s is connected: a host can be forgotten once it has left",
                       request->host->name);
        pfl_host_request_refuse(request->h2_stream, 409, "host connected", detail);
        return;
    }
    pfl_audit_context_set(&context, request->peer, request->route);
    pfl_audit_context_write_forgotten(&context, request->host);
    pfl_host_inventory_forget(&self->peers->inventory, request->host, PFL_HOST_INVENTORY_ASKED);
    respond(request->h2_stream, 204, NULL, pfl_span_of(NULL, 0));
}

/* ---- a request that needs the agent ---- */

/* One operator's streams and requests leave room at an agent for others, also if the agent does not
 * answer. False: refused already. */
static bool leaves_room(const struct pfl_operator_requests *self,
                        const struct pfl_host_request *request)
{
    const char *who = request->peer->identity.name;
    const char *host = request->route->host;
    bool is_host = request->route->kind != PFL_ROUTE_COLLECTOR;
    unsigned count;
    char detail[256];

    if (pfl_h2_count_streams(request->agent) < PFL_H2_MAX_STREAMS - LAST_STREAMS)
        return true;
    count = pfl_stream_table_count(self->streams, who, host) +
            pfl_forwarded_requests_count(&self->forwarded, who, host);
    if (count < PFL_H2_MAX_STREAMS / 2)
        return true;
    (void)snprintf(detail, sizeof(detail),
                   "%s has %u streams and questions at %s, the last are for others: close some, or "
                   "wait",
                   who, count, is_host ? host : request->route->name);
    pfl_host_request_forbid(request,
                            &(struct pfl_problem){429, "relay", "too many streams", detail}, NULL);
    return false;
}

static void refuse_absent(const struct pfl_operator_requests *self,
                          const struct pfl_host_request *request)
{
    uint64_t away_ms = pfl_peer_table_get_now_ms(self->peers) - request->host->seen_ms;
    char detail[160];

    (void)snprintf(detail, sizeof(detail), "%s was last seen %llu s ago", request->host->name,
                   (unsigned long long)away_ms / 1000);
    pfl_host_request_refuse(request->h2_stream, 503, "host not connected", detail);
}

static void ask_agent(struct pfl_operator_requests *self, struct pfl_host_request *request)
{
    request->agent = pfl_peer_table_get_agent(self->peers, request->host);
    if (request->agent == NULL)
        refuse_absent(self, request);
    else if (!leaves_room(self, request))
        return;
    else if (request->route->kind == PFL_ROUTE_CONSUMER || request->route->kind == PFL_ROUTE_SPOOL)
        pfl_stream_table_open(self->streams, request);
    else
        pfl_forwarded_requests_ask(&self->forwarded, request);
}

/* ---- a request for a host ---- */

static void refuse_forbidden(const struct pfl_host_request *request)
{
    char detail[200];

    (void)snprintf(detail, sizeof(detail), "no rule of the policy lets %s use %s",
                   request->peer->identity.name, request->route->host);
    pfl_host_request_forbid(request, &(struct pfl_problem){403, "relay", "not allowed", detail},
                            NULL);
}

static void refuse_unknown(const struct pfl_host_request *request)
{
    char detail[160];

    (void)snprintf(detail, sizeof(detail), "%s has never been connected to this relay",
                   request->route->host);
    pfl_host_request_refuse(request->h2_stream, 404, "no such host", detail);
}

static void refuse_silent(const struct pfl_host_request *request)
{
    pfl_host_request_refuse(request->h2_stream, 503, "host not connected",
                            "its agent has not said its labels yet");
}

static void take_for_host(struct pfl_operator_requests *self, struct pfl_host_request *request)
{
    const struct pfl_policy_decision *decision = &request->decision;

    pfl_peer_table_decide(self->peers, request->peer->identity.name, request->route->host,
                          &request->decision);
    request->role = decision->role;
    request->host = pfl_host_inventory_find(&self->peers->inventory, request->route->host);
    if (decision->wants_labels)
        refuse_silent(request);
    else if (!decision->is_allowed)
        refuse_forbidden(request);
    else if (request->host == NULL)
        refuse_unknown(request);
    else if (request->route->kind == PFL_ROUTE_HOST)
        pfl_forwarded_requests_describe(&self->forwarded, request);
    else if (request->route->kind != PFL_ROUTE_FORGET)
        ask_agent(self, request);
    else if (may_forget(decision))
        forget_host(self, request);
    else
        refuse_forgetting(request);
}

/* ---- a host's spool ---- */

/* `orderer` NULL: the collector itself has no right. */
static void refuse_spool(const struct pfl_host_request *request, const char *orderer)
{
    const char *host = request->route->host;
    char line[PFL_IDENTITY_NAME_BYTES + 16];
    char detail[256];

    if (orderer != NULL)
        (void)snprintf(detail, sizeof(detail),
                       "no rule of the policy lets %s put orders at %s (order: true)", orderer,
                       host);
    else
        (void)snprintf(detail, sizeof(detail),
                       "no rule of the policy lets %s collect at %s (collect: true)",
                       request->peer->identity.name, host);
    pfl_audit_context_describe(PFL_ROUTE_SPOOL, request->route->orderer, line, sizeof(line));
    pfl_host_request_forbid(request, &(struct pfl_problem){403, "relay", "not allowed", detail},
                            line);
}

static void take_for_spool(struct pfl_operator_requests *self, struct pfl_host_request *request)
{
    const struct pfl_route *route = request->route;
    struct pfl_spool_right right;

    if (route->has_orderer && route->orderer == NULL) {
        pfl_host_request_refuse(request->h2_stream, 400, "bad request",
                                "perfleet-for cannot be the name of an operator");
        return;
    }
    pfl_spool_right_decide(self->peers, request->peer->identity.name, route->orderer, route->host,
                           &right);
    request->decision = right.collector;
    request->role = right.role;
    request->host = pfl_host_inventory_find(&self->peers->inventory, route->host);
    if (right.verdict == PFL_SPOOL_WANTS_LABELS)
        refuse_silent(request);
    else if (right.verdict != PFL_SPOOL_ALLOWED)
        refuse_spool(request, right.verdict == PFL_SPOOL_NO_ORDERER ? route->orderer : NULL);
    else if (request->host == NULL)
        refuse_unknown(request);
    else
        ask_agent(self, request);
}

/* ---- a collector ---- */

static void take_for_collector(struct pfl_operator_requests *self, struct pfl_host_request *request)
{
    const char *name = request->route->name;
    char detail[PFL_IDENTITY_NAME_BYTES + 64];

    pfl_audit_context_describe(PFL_ROUTE_COLLECTOR, name, detail, sizeof(detail));
    if (!pfl_collector_list_admit(request, detail))
        return;
    pfl_policy_decide_anywhere(self->peers->policy, request->peer->identity.name,
                               &request->decision);
    request->agent = pfl_peer_table_get_collector(self->peers, name);
    if (request->agent == NULL) {
        (void)snprintf(detail, sizeof(detail), "no collector %s is connected to this relay", name);
        pfl_host_request_refuse(request->h2_stream, 503, "collector not connected", detail);
        return;
    }
    if (leaves_room(self, request))
        pfl_stream_table_open(self->streams, request);
}

void pfl_operator_requests_take(struct pfl_operator_requests *self, struct pfl_hub_peer *peer,
                                struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    struct pfl_route route;
    struct pfl_host_request request = {
        .peer = peer, .h2_stream = h2_stream, .head = head, .route = &route};

    pfl_route_parse(head, PFL_ROUTE_AT_RELAY, &route);
    switch (route.kind) {
    case PFL_ROUTE_NONE:
    case PFL_ROUTE_HELLO:
    case PFL_ROUTE_EVENTS:
        pfl_host_request_refuse(h2_stream, 404, "no such path", "this relay knows no such path");
        return;
    case PFL_ROUTE_METHOD:
        pfl_host_request_refuse(h2_stream, 405, "wrong method", "this path knows another method");
        return;
    case PFL_ROUTE_NAME:
        pfl_host_request_refuse(h2_stream, 400, "bad request",
                                "that cannot be the name of a host, a stream or a session");
        return;
    case PFL_ROUTE_HEALTH:
        respond(h2_stream, 200, "text/plain", pfl_span_of("ok\n", 3));
        return;
    case PFL_ROUTE_HOSTS:
        pfl_host_list_send(&self->hosts, peer, h2_stream);
        return;
    case PFL_ROUTE_SPOOLS:
        pfl_spool_polls_ask(&self->spools, &request);
        return;
    case PFL_ROUTE_SPOOL:
        take_for_spool(self, &request);
        return;
    case PFL_ROUTE_COLLECTORS:
        pfl_collector_list_send(&self->forwarded, &request);
        return;
    case PFL_ROUTE_RELAY:
        pfl_relay_state_send(&self->state, &self->forwarded, &request);
        return;
    case PFL_ROUTE_SCOPE:
        pfl_collector_list_send_scope(&self->forwarded, &request);
        return;
    case PFL_ROUTE_COLLECTOR:
        take_for_collector(self, &request);
        return;
    default:
        take_for_host(self, &request);
        return;
    }
}

void pfl_operator_requests_init(struct pfl_operator_requests *self,
                                struct pfl_stream_table *streams, const char *relay,
                                const char *fleet)
{
    self->peers = streams->peers;
    self->streams = streams;
    pfl_forwarded_requests_init(&self->forwarded, streams);
    pfl_host_list_init(&self->hosts, relay, fleet);
    pfl_relay_state_init(&self->state, self->hosts.relay, self->hosts.fleet,
                         pfl_peer_table_get_now_ms(self->peers));
    pfl_spool_polls_init(&self->spools, self->peers, &self->forwarded, relay, fleet);
}
