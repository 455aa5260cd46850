/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to agents in an operator's name: see forwarded_request.h.
 *
 * Happy path: the route becomes a request to the agent, with the operator's name and role; the
 * answer is returned, and audited if the request changes something. Failures: an agent that takes
 * no request now, is lost, or whose answer is too large or invalid: a status with a sentence. The
 * end of the operator's stream cancels the request. Ownership: a request frees itself when its
 * HTTP/2 streams are closed. Limits: AGENT_ANSWER_BYTES; unread answers count like data of the
 * operator's streams (stream_table.h, `unread`).
 */
#include "relay/hub/forwarded_request.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proto/gate/role.h"
#include "proto/h2/h2_call.h"
#include "relay/hub/audit_context.h"

#define AGENT_ANSWER_BYTES (64u * 1024)

struct forwarded {
    struct pfl_list node;             /* in a bucket, until the agent is done with it */
    struct pfl_stream_table *streams; /* borrowed: outlives us */
    struct pfl_audit_context context;
    struct pfl_h2_stream *h2_stream; /* the operator's; NULL once it is gone */
    struct pfl_h2_call *call;        /* the agent's; NULL once it is done, or none was asked */
    size_t held;                     /* bytes of the answer, counted in streams->unread */
    char detail[96];                 /* for the audit log, as the next */
    const char *action;              /* NULL: it only asks */
};

static void audit(const struct forwarded *f, unsigned status)
{
    if (f->action != NULL)
        pfl_audit_context_write(
            &f->context, f->action, status,
            &(struct pfl_audit_context_more){.detail = f->detail,
                                             .is_refused = status < 200 || status > 299});
}

static void free_forwarded(struct forwarded *f)
{
    if (f->held != 0)
        pfl_stream_table_give_memory(f->streams, pfl_stream_table_get_share(f->context.who),
                                     f->held);
    pfl_list_remove(&f->node);
    pfl_mem_free(f);
}

/* ---- the operator's HTTP/2 stream ---- */

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* the request has no body */
}

static void on_end(void *user)
{
    (void)user;
}

/* It counts for its operator as long as it has a stream of the agent's connection, which may be
 * slow to receive the cancel; the agent may have done the request nevertheless. */
static void on_closed(void *user, uint32_t code)
{
    struct forwarded *f = user;

    (void)code;
    f->h2_stream = NULL;
    if (f->call != NULL)
        pfl_h2_call_cancel(f->call);
    else
        free_forwarded(f);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

static void refuse(const struct forwarded *f, unsigned status, const char *title,
                   const char *detail)
{
    pfl_host_request_refuse(f->h2_stream, status, title, detail);
}

/* The answer, which waits in memory until the operator reads it. */
static void answer(struct forwarded *f, unsigned status, const char *type, struct pfl_span body)
{
    uint64_t share = pfl_stream_table_get_share(f->context.who);

    if (body.len != 0 && !pfl_stream_table_take_memory(f->streams, share, body.len)) {
        refuse(f, 429, "too much is not read",
               "answers and streams wait at this relay: read them, or close streams");
        return;
    }
    f->held = body.len;
    if (pfl_h2_stream_respond_body(f->h2_stream, status, type, body) != 0)
        pfl_h2_stream_reset(f->h2_stream, PFL_H2_INTERNAL_ERROR);
}

/* ---- the agent's answer ---- */

static void pass_answer(struct forwarded *f, unsigned status, struct pfl_span body)
{
    const char *type = status < 300 ? "application/json" : "application/problem+json";

    if (status < 200 || status > 599)
        refuse(f, 502, "bad answer", "the host's agent answered what makes no sense");
    else
        answer(f, status, body.len != 0 ? type : NULL, body);
}

static void on_answer(void *user, int err, unsigned status, struct pfl_span body)
{
    struct forwarded *f = user;

    f->call = NULL;
    pfl_list_remove(&f->node); /* it takes none of the agent's streams any more */
    audit(f, status);
    if (f->h2_stream == NULL) {
        free_forwarded(f);
        return;
    }
    if (err == 0)
        pass_answer(f, status, body);
    else if (err == PFL_ELIMIT)
        refuse(f, 502, "bad answer", "the host's agent answered more than it may");
    else
        refuse(f, 503, "host not connected", "the host's agent was lost while it was asked");
}

/* ---- asking the agent ---- */

/* What becomes of a route at the agent. */
struct agent_request {
    const char *method;
    const char *action; /* of the audit log; NULL: it only asks */
};

static struct agent_request agent_request_of(enum pfl_route_kind kind)
{
    switch (kind) {
    case PFL_ROUTE_KILL:
        return (struct agent_request){"DELETE", "kill"};
    case PFL_ROUTE_ALARM_SET:
        return (struct agent_request){"PUT", "arm"};
    case PFL_ROUTE_ALARM_DROP:
        return (struct agent_request){"DELETE", "disarm"};
    case PFL_ROUTE_RAISE:
        return (struct agent_request){"PUT", "raise"};
    default:
        return (struct agent_request){"GET", NULL};
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

static bool is_raised_or_set(const struct pfl_route *route)
{
    return route->kind == PFL_ROUTE_ALARM_SET || route->kind == PFL_ROUTE_RAISE;
}

/* The operator's fields that concern the agent, and the role that the agent must enforce. */
static size_t fields_of(const struct pfl_route *route, const char *role,
                        struct pfl_h2_field *fields)
{
    size_t count = 1;

    if (!is_raised_or_set(route))
        return count;
    if (route->triggers != NULL)
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_TRIGGERS, route->triggers};
    if (role[0] != '\0')
        fields[count++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, role};
    return count;
}

static void describe(struct forwarded *f, const struct pfl_route *route)
{
    if (route->session[0] != '\0')
        (void)snprintf(f->detail, sizeof(f->detail), "session=%s", route->session);
    else if (route->kind == PFL_ROUTE_RAISE && route->triggers != NULL)
        (void)snprintf(f->detail, sizeof(f->detail), "triggers=%s", route->triggers);
}

static int start(struct forwarded *f, const struct pfl_host_request *request)
{
    struct pfl_h2_field fields[3] = {{PFL_TUNNEL_H_OPERATOR, request->peer->identity.name}};
    struct agent_request at_agent = agent_request_of(request->route->kind);
    char role[PFL_ROLE_FIELD_BYTES];
    char path[PFL_IDENTITY_NAME_BYTES + PFL_TUNNEL_STREAM_ID_BYTES + 32];
    struct pfl_h2_call_conf call = {
        .method = at_agent.method,
        .path = path_at_agent(request->route, path, sizeof(path)),
        .fields = fields,
        .body_max_bytes = AGENT_ANSWER_BYTES,
        .on_done = on_answer,
        .user = f,
    };

    pfl_role_write(request->decision.role, role);
    call.fields_len = fields_of(request->route, role, fields);
    f->action = at_agent.action;
    return pfl_h2_call_start(request->agent, &call, &f->call);
}

static struct forwarded *make(struct pfl_forwarded_requests *self,
                              const struct pfl_host_request *request)
{
    struct forwarded *f = pfl_mem_zalloc(sizeof(*f));

    if (f == NULL)
        return NULL;
    pfl_audit_context_set(&f->context, request->peer, request->route);
    f->streams = self->streams;
    f->h2_stream = request->h2_stream;
    return f;
}

void pfl_forwarded_requests_ask(struct pfl_forwarded_requests *self,
                                const struct pfl_host_request *request)
{
    struct forwarded *f;

    if (agent_request_of(request->route->kind).action != NULL &&
        (!pfl_stream_table_take_change(self->streams, request) ||
         !pfl_host_request_may_begin(request)))
        return;
    f = make(self, request);
    if (f == NULL || start(f, request) != 0) {
        pfl_mem_free(f);
        pfl_host_request_refuse(request->h2_stream, 503, "relay busy",
                                "too much is being asked of this host at the moment");
        return;
    }
    describe(f, request->route);
    pfl_list_append(&self->buckets[pfl_stream_table_get_bucket(f->context.host)], &f->node);
    pfl_h2_stream_set_user(request->h2_stream, &ops, f);
}

static void refuse_for_memory(const struct pfl_host_request *request)
{
    pfl_host_request_refuse(request->h2_stream, 503, "out of memory", "the relay is out of memory");
}

void pfl_forwarded_requests_respond(struct pfl_forwarded_requests *self,
                                    const struct pfl_host_request *request, const char *type,
                                    struct pfl_span body)
{
    struct forwarded *f = make(self, request);

    if (f == NULL) {
        refuse_for_memory(request);
        return;
    }
    pfl_h2_stream_set_user(request->h2_stream, &ops, f);
    answer(f, 200, type, body);
}

void pfl_forwarded_requests_describe(struct pfl_forwarded_requests *self,
                                     const struct pfl_host_request *request)
{
    uint64_t now_ms = pfl_peer_table_get_now_ms(self->streams->peers);
    char *json = NULL;

    if (pfl_host_inventory_encode_host(request->host, now_ms, &json) != 0) {
        refuse_for_memory(request);
        return;
    }
    pfl_forwarded_requests_respond(self, request, "application/json",
                                   pfl_span_of(json, strlen(json)));
    pfl_mem_free(json);
}

unsigned pfl_forwarded_requests_count(const struct pfl_forwarded_requests *self, const char *who,
                                      const char *host)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &self->buckets[pfl_stream_table_get_bucket(host)]) {
        const struct forwarded *f = PFL_CONTAINER_OF(it, struct forwarded, node);

        count += strcmp(f->context.who, who) == 0 && strcmp(f->context.host, host) == 0;
    }
    return count;
}

void pfl_forwarded_requests_init(struct pfl_forwarded_requests *self,
                                 struct pfl_stream_table *streams)
{
    self->streams = streams;
    for (size_t i = 0; i < PFL_STREAM_TABLE_BUCKETS; i++)
        pfl_list_init(&self->buckets[i]);
}
