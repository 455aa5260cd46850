/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' requests at the fleet relay: docs/protocol-tunnel.md, "Requests".
 *
 * Happy path: requests for one host, and to forget it, are answered here, the list of all hosts by
 * host_list.c; clock, streams and kill are forwarded to the agent with the operator's name, and its
 * answer is returned; a CONNECT becomes a stream (stream_table.c). Failures: each a status with a
 * sentence. Ownership: a request to an agent frees itself when its HTTP/2 streams are closed.
 * Limits: an agent's answer of AGENT_ANSWER_BYTES; streams per connection, and a part of an agent's
 * for each operator; unread answers count like data of the operator's streams (hub->unread).
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "proto/h2/problem.h"
#include "proto/tunnel/route.h"
#include "relay/hub/hub_impl.h"

#define AGENT_ANSWER_BYTES (64u * 1024)
/* When fewer of an agent's streams are left than this, an operator that has half of all gets no
 * more. */
#define LAST_STREAMS (PFL_H2_MAX_STREAMS / 4)

static void refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                   const char *detail)
{
    struct pfl_problem problem = {status, "relay", title, detail};

    pfl_problem_respond(h2_stream, &problem);
}

/* ---- requests to the agent, asked in the operator's name ---- */

struct forwarded_request {
    struct pfl_list node;
    struct pfl_audit_context context;
    struct pfl_h2_stream *h2_stream; /* the operator's; NULL once it is gone */
    struct pfl_h2_call *call;        /* the agent's; NULL once it is done, or none was asked */
    size_t held;                     /* bytes of the answer, counted in hub->unread */
    char detail[96];                 /* for the audit log, as the next */
    const char *action;              /* NULL: it only asks */
};

static void audit(const struct forwarded_request *e, unsigned status)
{
    if (e->action != NULL)
        pfl_audit_context_write(
            &e->context, e->action, status,
            &(struct pfl_audit_context_more){.detail = e->detail,
                                             .is_refused = status < 200 || status > 299});
}

static uint64_t share_of(const struct forwarded_request *e)
{
    return pfl_shares_hash(e->context.who, strlen(e->context.who));
}

static void free_forwarded_request(struct forwarded_request *e)
{
    if (e->held != 0)
        pfl_shares_give(&e->context.hub->unread, share_of(e), e->held);
    pfl_list_remove(&e->node);
    pfl_mem_free(e);
}

static void free_forwarded_request_if_gone(struct forwarded_request *e)
{
    if (e->h2_stream == NULL && e->call == NULL)
        free_forwarded_request(e);
}

static void on_forwarded_request_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* the request has no body */
}

static void on_forwarded_request_end(void *user)
{
    (void)user;
}

/* It counts for its operator as long as it has a stream of the agent's connection, which may be
 * slow to take what cancels it; the agent may have done it all the same. */
static void on_forwarded_request_h2_stream_closed(void *user, uint32_t code)
{
    struct forwarded_request *e = user;

    (void)code;
    e->h2_stream = NULL;
    if (e->call != NULL)
        pfl_h2_call_cancel(e->call);
    free_forwarded_request_if_gone(e);
}

static const struct pfl_h2_stream_ops forwarded_request_ops = {
    .on_data = on_forwarded_request_data,
    .on_end = on_forwarded_request_end,
    .on_closed = on_forwarded_request_h2_stream_closed,
};

/* The answer, which waits in memory until the operator reads it. */
static void answer(struct forwarded_request *e, unsigned status, const char *type,
                   struct pfl_span body)
{
    if (body.len != 0 && !pfl_hub_take_memory(e->context.hub, share_of(e), body.len)) {
        refuse(e->h2_stream, 429, "too much is not read",
               "answers and streams wait at this relay: read them, or close streams");
        return;
    }
    e->held = body.len;
    if (pfl_h2_stream_respond_body(e->h2_stream, status, type, body) != 0)
        pfl_h2_stream_reset(e->h2_stream, PFL_H2_INTERNAL_ERROR);
}

static void pass_answer(struct forwarded_request *e, unsigned status, struct pfl_span body)
{
    const char *type = status < 300 ? "application/json" : "application/problem+json";

    if (status < 200 || status > 599)
        refuse(e->h2_stream, 502, "bad answer", "the host's agent answered what makes no sense");
    else
        answer(e, status, body.len != 0 ? type : NULL, body);
}

static void on_forwarded_request_done(void *user, int err, unsigned status, struct pfl_span body)
{
    struct forwarded_request *e = user;

    e->call = NULL;
    audit(e, status);
    if (e->h2_stream == NULL) {
        free_forwarded_request(e);
        return;
    }
    if (err == 0)
        pass_answer(e, status, body);
    else if (err == PFL_ELIMIT)
        refuse(e->h2_stream, 502, "bad answer", "the host's agent answered more than it may");
    else
        refuse(e->h2_stream, 503, "host not connected",
               "the host's agent was lost while it was asked");
}

/* What becomes of a route at the agent. */
struct forwarded_request_kind {
    const char *method;
    const char *action;
};

static struct forwarded_request_kind kind_of(enum pfl_route_kind kind)
{
    switch (kind) {
    case PFL_ROUTE_KILL:
        return (struct forwarded_request_kind){"DELETE", "kill"};
    case PFL_ROUTE_ALARM_SET:
        return (struct forwarded_request_kind){"PUT", "arm"};
    case PFL_ROUTE_ALARM_DROP:
        return (struct forwarded_request_kind){"DELETE", "disarm"};
    case PFL_ROUTE_RAISE:
        return (struct forwarded_request_kind){"PUT", "raise"};
    default:
        return (struct forwarded_request_kind){"GET", NULL};
    }
}

static const char *path_at_agent(const struct pfl_route *route, char *dst, size_t room)
{
    if (route->kind == PFL_ROUTE_CLOCK)
        return PFL_TUNNEL_CLOCK_PATH;
    if (route->kind == PFL_ROUTE_STREAMS)
        return PFL_TUNNEL_STREAMS_PATH;
    if (route->kind == PFL_ROUTE_ALARMS)
        return PFL_TUNNEL_ALARMS_PATH;
    if (route->kind == PFL_ROUTE_RAISE)
        return PFL_TUNNEL_TRIGGERS_PATH;
    if (route->kind == PFL_ROUTE_KILL)
        (void)snprintf(dst, room, PFL_TUNNEL_STREAMS_PATH "/%s", route->stream);
    else
        (void)snprintf(dst, room, PFL_TUNNEL_ALARMS_PATH "/%s", route->session);
    return dst;
}

/* The operator's fields that concern the agent, and the role that the agent must enforce. */
static size_t fields_of(const struct pfl_hub_stream_conf *conf, const char *role,
                        struct pfl_h2_field *fields)
{
    const char *triggers = conf->route->triggers;
    size_t count = 1;

    if (conf->route->kind != PFL_ROUTE_ALARM_SET && conf->route->kind != PFL_ROUTE_RAISE)
        return count;
    if (triggers != NULL)
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_TRIGGERS, triggers};
    if (role[0] != '\0')
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, role};
    return count;
}

static void run_forwarded_request(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                                  const struct pfl_hub_stream_conf *conf)
{
    struct forwarded_request_kind kind = kind_of(conf->route->kind);
    struct pfl_h2_field fields[3] = {{PFL_TUNNEL_H_OPERATOR, p->identity.name}};
    struct forwarded_request *e = pfl_mem_zalloc(sizeof(*e));
    char role[PFL_ROLE_FIELD_BYTES];
    char path[PFL_IDENTITY_NAME_BYTES + PFL_TUNNEL_STREAM_ID_BYTES + 32];
    struct pfl_h2_call_conf call = {
        .method = kind.method,
        .path = path_at_agent(conf->route, path, sizeof(path)),
        .fields = fields,
        .body_max_bytes = AGENT_ANSWER_BYTES,
        .on_done = on_forwarded_request_done,
        .user = e,
    };

    pfl_role_write(conf->decision->role, role);
    call.fields_len = fields_of(conf, role, fields);
    if (e == NULL || pfl_h2_call_start(conf->agent, &call, &e->call) != 0) {
        pfl_mem_free(e);
        refuse(h2_stream, 503, "relay busy", "too much is being asked of this host at the moment");
        return;
    }
    pfl_audit_context_set(&e->context, p, conf->route);
    if (conf->route->session[0] != '\0')
        (void)snprintf(e->detail, sizeof(e->detail), "session=%s", conf->route->session);
    else if (conf->route->kind == PFL_ROUTE_RAISE && fields[1].value != NULL)
        (void)snprintf(e->detail, sizeof(e->detail), "triggers=%s", fields[1].value);
    e->action = kind.action;
    e->h2_stream = h2_stream;
    pfl_list_append(&p->hub->forwarded_requests, &e->node);
    pfl_h2_stream_set_user(h2_stream, &forwarded_request_ops, e);
}

/* ---- routes ---- */

static void answer_host(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                        const struct pfl_route *route, const struct pfl_host *host)
{
    struct forwarded_request *e = pfl_mem_zalloc(sizeof(*e));
    char *json = NULL;

    if (e == NULL || pfl_host_inventory_encode_host(host, uv_now(p->hub->loop), &json) != 0) {
        pfl_mem_free(e);
        refuse(h2_stream, 503, "out of memory", "the relay is out of memory");
        return;
    }
    pfl_audit_context_set(&e->context, p, route);
    e->h2_stream = h2_stream;
    pfl_h2_stream_set_user(h2_stream, &forwarded_request_ops, e);
    answer(e, 200, "application/json", pfl_span_of(json, strlen(json)));
    pfl_mem_free(json);
}

static void refuse_absent(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                          const struct pfl_host *host)
{
    char detail[160];

    (void)snprintf(detail, sizeof(detail), "%s was last seen %llu s ago", host->name,
                   (unsigned long long)(uv_now(p->hub->loop) - host->seen_ms) / 1000);
    refuse(h2_stream, 503, "host not connected", detail);
}

static void refuse_forbidden(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                             const struct pfl_route *route)
{
    struct pfl_audit_context context;
    char detail[200];

    pfl_audit_context_set(&context, p, route);
    pfl_audit_context_write(&context, "refuse", 403, NULL);
    (void)snprintf(detail, sizeof(detail), "no rule of the policy lets %s use %s", context.who,
                   route->host);
    refuse(h2_stream, 403, "not allowed", detail);
}

/* ---- forgetting ---- */

/* Only a role that says so permits this, because it changes what others see. */
static bool may_forget(const struct pfl_policy_decision *decision)
{
    return decision->rates.len == 0 || pfl_role_get_number(decision->rates, PFL_ROLE_FORGET) != 0;
}

static void refuse_forgetting(const struct pfl_audit_context *context,
                              struct pfl_h2_stream *h2_stream,
                              const struct pfl_policy_decision *decision)
{
    char role[PFL_ROLE_PATTERN_MAX + 1];
    char detail[PFL_ROLE_PATTERN_MAX + 80];

    pfl_role_copy_name(decision->rates, role);
    (void)snprintf(detail, sizeof(detail),
                   "role %s does not allow forgetting hosts (it has no forget: true)", role);
    pfl_audit_context_write(context, "refuse", 403,
                            &(struct pfl_audit_context_more){.detail = detail});
    refuse(h2_stream, 403, "not allowed", detail);
}

static void forget_host(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                        struct pfl_host *host, const struct pfl_audit_context *context)
{
    char detail[PFL_IDENTITY_NAME_BYTES + 96];

    if (host->peer != NULL) {
        (void)snprintf(detail, sizeof(detail),
                       "%s is connected: a host can be forgotten once it has left", host->name);
        refuse(h2_stream, 409, "host connected", detail);
        return;
    }
    pfl_audit_context_write_forgotten(context, host);
    pfl_host_inventory_forget(&p->hub->inventory, host, PFL_HOST_INVENTORY_ASKED);
    if (pfl_h2_stream_respond_body(h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}

static void answer_forget(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                          const struct pfl_route *route, struct pfl_host *host,
                          const struct pfl_policy_decision *decision)
{
    struct pfl_audit_context context;

    pfl_audit_context_set(&context, p, route);
    if (may_forget(decision))
        forget_host(p, h2_stream, host, &context);
    else
        refuse_forgetting(&context, h2_stream, decision);
}

/* ---- hosts ---- */

static unsigned count_forwarded_requests(const struct pfl_hub *hub, const char *who,
                                         const char *host)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &hub->forwarded_requests) {
        const struct forwarded_request *e = PFL_CONTAINER_OF(it, struct forwarded_request, node);

        count += strcmp(e->context.who, who) == 0 && strcmp(e->context.host, host) == 0;
    }
    return count;
}

/* One operator's streams and requests leave room at an agent for others, also if the agent does not
 * answer. False: refused already. */
static bool leaves_room(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                        const struct pfl_route *route, const struct pfl_h2 *agent)
{
    const char *who = p->identity.name;
    struct pfl_audit_context context;
    unsigned count;
    char detail[256];

    if (pfl_h2_count_streams(agent) < PFL_H2_MAX_STREAMS - LAST_STREAMS)
        return true;
    count = pfl_hub_stream_count(p->hub, who, route->host) +
            count_forwarded_requests(p->hub, who, route->host);
    if (count < PFL_H2_MAX_STREAMS / 2)
        return true;
    pfl_audit_context_set(&context, p, route);
    pfl_audit_context_write(&context, "refuse", 429, NULL);
    (void)snprintf(detail, sizeof(detail),
                   "%s has %u streams and questions at %s, the last are for others: close some, or "
                   "wait",
                   who, count, route->host);
    refuse(h2_stream, 429, "too many streams", detail);
    return false;
}

static void route_host(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                       const struct pfl_h2_head *head, const struct pfl_route *route)
{
    struct pfl_host *host = pfl_host_inventory_find(&p->hub->inventory, route->host);
    struct pfl_policy_decision decision;
    struct pfl_h2 *agent;
    char detail[160];

    pfl_hub_decide(p->hub, p->identity.name, route->host, &decision);
    if (decision.wants_labels) {
        refuse(h2_stream, 503, "host not connected", "its agent has not said its labels yet");
        return;
    }
    if (!decision.is_allowed) {
        refuse_forbidden(p, h2_stream, route);
        return;
    }
    if (host == NULL) {
        (void)snprintf(detail, sizeof(detail), "%s has never been connected to this relay",
                       route->host);
        refuse(h2_stream, 404, "no such host", detail);
        return;
    }
    if (route->kind == PFL_ROUTE_HOST) {
        answer_host(p, h2_stream, route, host);
        return;
    }
    if (route->kind == PFL_ROUTE_FORGET) {
        answer_forget(p, h2_stream, route, host, &decision);
        return;
    }
    agent = pfl_hub_get_agent(p->hub, host);
    if (agent == NULL)
        refuse_absent(p, h2_stream, host);
    else if (!leaves_room(p, h2_stream, route, agent))
        return;
    else if (route->kind == PFL_ROUTE_CONSUMER)
        pfl_hub_stream_open(p, h2_stream,
                            &(struct pfl_hub_stream_conf){head, route, agent, &decision});
    else
        run_forwarded_request(p, h2_stream,
                              &(struct pfl_hub_stream_conf){head, route, agent, &decision});
}

void pfl_operator_requests_on_request(void *user, struct pfl_h2_stream *h2_stream,
                                      const struct pfl_h2_head *head)
{
    struct pfl_hub_peer *p = user;
    struct pfl_route route;

    pfl_route_parse(head, true, &route);
    switch (route.kind) {
    case PFL_ROUTE_NONE:
    case PFL_ROUTE_HELLO:
    case PFL_ROUTE_EVENTS:
        refuse(h2_stream, 404, "no such path", "this relay knows no such path");
        return;
    case PFL_ROUTE_METHOD:
        refuse(h2_stream, 405, "wrong method", "this path knows another method");
        return;
    case PFL_ROUTE_NAME:
        refuse(h2_stream, 400, "bad request",
               "that cannot be the name of a host, a stream or a session");
        return;
    case PFL_ROUTE_HEALTH:
        if (pfl_h2_stream_respond_body(h2_stream, 200, "text/plain", pfl_span_of("ok\n", 3)) != 0)
            pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
        return;
    case PFL_ROUTE_HOSTS:
        pfl_host_list_send(p, h2_stream);
        return;
    default:
        route_host(p, h2_stream, head, &route);
        return;
    }
}
