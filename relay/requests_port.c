/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask of the meeting point: docs/protocol-tunnel.md, "Requests".
 *
 * Happy path: the inventory is answered here; clock, streams and kill are asked of the agent in the
 * operator's name and its answer passed back; a CONNECT becomes a splice.
 * Failures: each a status with a sentence. Ownership: an errand or a splice frees itself when its
 * legs are gone. Limits: an agent's answer of ERRAND_BODY_BYTES; streams per connection.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/h2_call.h"
#include "proto/problem.h"
#include "proto/route.h"
#include "relay/hub_impl.h"
#include "relay/splice.h"

#define ERRAND_BODY_BYTES (64u * 1024)

/* Who asked what, for the audit log; the peer may be gone at the end. */
struct asker {
    struct pfl_hub *hub;
    char who[PFL_IDENTITY_NAME_BYTES];
    char address[80];
    char host[PFL_IDENTITY_NAME_BYTES];
    char stream[PFL_TUNNEL_STREAM_ID_BYTES];
};

static void audit(const struct asker *a, const char *action, unsigned status,
                  const struct pfl_splice_stats *stats)
{
    struct pfl_audit_entry entry = {
        .who = a->who,
        .address = a->address,
        .action = action,
        .host = a->host,
        .stream = a->stream,
        .status = status,
        .bytes_to_host = stats != NULL ? stats->bytes_to_host : 0,
        .bytes_to_operator = stats != NULL ? stats->bytes_to_operator : 0,
    };

    pfl_audit_write(a->hub->audit, &entry);
}

static void set_asker(struct asker *a, const struct pfl_peer *p, const struct pfl_route *route)
{
    a->hub = p->hub;
    memcpy(a->who, p->identity.name, sizeof(a->who));
    memcpy(a->address, p->address, sizeof(a->address));
    memcpy(a->host, route->host, sizeof(a->host));
    memcpy(a->stream, route->stream, sizeof(a->stream));
}

static void refuse(struct pfl_h2_stream *leg, unsigned status, const char *title,
                   const char *detail)
{
    struct pfl_problem problem = {status, "relay", title, detail};

    pfl_problem_respond(leg, &problem);
}

/* ---- errands: questions for the agent, asked in the operator's name ---- */

struct errand {
    struct asker asker;
    struct pfl_h2_stream *leg; /* the operator's; NULL once it is gone */
    struct pfl_h2_call *call;  /* the agent's; NULL once it is done */
    bool is_kill;
};

static void free_errand_if_gone(struct errand *e)
{
    if (e->leg == NULL && e->call == NULL)
        pfl_mem_free(e);
}

static void on_errand_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* nobody asked for a body */
}

static void on_errand_end(void *user)
{
    (void)user;
}

static void on_errand_leg_closed(void *user, uint32_t code)
{
    struct errand *e = user;

    (void)code;
    e->leg = NULL;
    if (e->call != NULL) {
        pfl_h2_call_abandon(e->call);
        e->call = NULL;
    }
    free_errand_if_gone(e);
}

static const struct pfl_h2_stream_ops errand_ops = {
    .on_data = on_errand_data,
    .on_end = on_errand_end,
    .on_closed = on_errand_leg_closed,
};

static void pass_answer(struct errand *e, unsigned status, struct pfl_span body)
{
    const char *type = status < 300 ? "application/json" : "application/problem+json";

    if (status < 200 || status > 599)
        refuse(e->leg, 502, "bad answer", "the host's agent answered what makes no sense");
    else if (pfl_h2_stream_respond_body(e->leg, status, body.len != 0 ? type : NULL, body) != 0)
        pfl_h2_stream_reset(e->leg, PFL_H2_INTERNAL_ERROR);
}

static void on_errand_done(void *user, int err, unsigned status, struct pfl_span body)
{
    struct errand *e = user;

    e->call = NULL;
    if (e->is_kill)
        audit(&e->asker, "kill", status, NULL);
    if (e->leg == NULL) {
        pfl_mem_free(e);
        return;
    }
    if (err == 0)
        pass_answer(e, status, body);
    else if (err == PFL_ELIMIT)
        refuse(e->leg, 502, "bad answer", "the host's agent answered more than it may");
    else
        refuse(e->leg, 503, "host not connected", "the host's agent was lost while it was asked");
}

static const char *path_at_agent(const struct pfl_route *route, char *dst, size_t room)
{
    if (route->kind == PFL_ROUTE_CLOCK)
        return PFL_TUNNEL_CLOCK_PATH;
    if (route->kind == PFL_ROUTE_STREAMS)
        return PFL_TUNNEL_STREAMS_PATH;
    (void)snprintf(dst, room, PFL_TUNNEL_STREAMS_PATH "/%s", route->stream);
    return dst;
}

static void run_errand(struct pfl_peer *p, struct pfl_h2_stream *leg, const struct pfl_route *route,
                       struct pfl_h2 *agent)
{
    struct pfl_h2_field field = {PFL_TUNNEL_H_OPERATOR, p->identity.name};
    struct errand *e = pfl_mem_zalloc(sizeof(*e));
    char path[80];
    struct pfl_h2_call_conf call = {
        .method = route->kind == PFL_ROUTE_KILL ? "DELETE" : "GET",
        .path = path_at_agent(route, path, sizeof(path)),
        .fields = &field,
        .fields_len = 1,
        .body_max_bytes = ERRAND_BODY_BYTES,
        .on_done = on_errand_done,
        .user = e,
    };

    if (e == NULL || pfl_h2_call_start(agent, &call, &e->call) != 0) {
        pfl_mem_free(e);
        refuse(leg, 503, "relay busy", "too much is being asked of this host at the moment");
        return;
    }
    set_asker(&e->asker, p, route);
    e->is_kill = route->kind == PFL_ROUTE_KILL;
    e->leg = leg;
    pfl_h2_stream_set_user(leg, &errand_ops, e);
}

/* ---- streams ---- */

struct carried {
    struct pfl_list node;
    struct pfl_splice *splice; /* borrowed until its on_ended */
    struct asker asker;
    char host[PFL_IDENTITY_NAME_BYTES];
};

static void count_stream(struct pfl_hub *hub, const char *name, bool is_more)
{
    struct pfl_host *host = pfl_inventory_find(&hub->inventory, name);

    if (host != NULL && (is_more || host->streams != 0))
        host->streams += is_more ? 1 : -1u;
}

static void on_splice_ended(void *user, const struct pfl_splice_stats *stats)
{
    struct carried *c = user;

    pfl_list_remove(&c->node);
    count_stream(c->asker.hub, c->host, false);
    audit(&c->asker, stats->status == 200 ? "end" : "refuse", stats->status, stats);
    pfl_log_info("stream-ended",
                 "operator=%s host=%s stream=%s status=%u bytes_to_host=%llu "
                 "bytes_to_operator=%llu operator_side=%u host_side=%u",
                 c->asker.who, c->host, c->asker.stream, stats->status,
                 (unsigned long long)stats->bytes_to_host,
                 (unsigned long long)stats->bytes_to_operator, stats->operator_code,
                 stats->host_code);
    pfl_mem_free(c);
}

static void carry(struct pfl_peer *p, struct pfl_h2_stream *leg, const struct pfl_h2_head *head,
                  const struct pfl_route *route, struct pfl_h2 *agent)
{
    struct carried *c = pfl_mem_zalloc(sizeof(*c));
    const char *id = pfl_h2_head_get(head, PFL_TUNNEL_H_STREAM);
    bool is_resume = pfl_h2_head_get(head, PFL_TUNNEL_H_RECEIVED) != NULL;
    struct pfl_splice_conf conf = {
        .leg = leg,
        .head = head,
        .agent = agent,
        .operator_name = p->identity.name,
        .host_window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .operator_window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .on_ended = on_splice_ended,
        .user = c,
    };

    if (c == NULL || pfl_splice_new(&conf, &c->splice) != 0) {
        pfl_mem_free(c);
        refuse(leg, 503, "relay busy", "this host carries too many streams at the moment");
        return;
    }
    set_asker(&c->asker, p, route);
    memcpy(c->host, route->host, sizeof(c->host));
    if (id != NULL)
        (void)snprintf(c->asker.stream, sizeof(c->asker.stream), "%s", id);
    pfl_list_append(&p->hub->carried, &c->node);
    count_stream(p->hub, c->host, true);
    audit(&c->asker, is_resume ? "resume" : "connect", 0, NULL);
}

void pfl_hub_end_forbidden(struct pfl_hub *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->carried) {
        struct carried *c = PFL_CONTAINER_OF(it, struct carried, node);

        if (pfl_policy_allows(self->policy, c->asker.who, c->host))
            continue;
        audit(&c->asker, "forbid", 403, NULL);
        pfl_splice_cancel(c->splice);
    }
}

/* ---- routes ---- */

static bool may_use(void *user, const char *host)
{
    struct pfl_peer *p = user;

    return pfl_policy_allows(p->hub->policy, p->identity.name, host);
}

static void respond_json(struct pfl_h2_stream *leg, int rc, char *json)
{
    if (rc != 0) {
        refuse(leg, 503, "out of memory", "the relay is out of memory");
        return;
    }
    if (pfl_h2_stream_respond_body(leg, 200, "application/json", pfl_span_of(json, strlen(json))) !=
        0)
        pfl_h2_stream_reset(leg, PFL_H2_INTERNAL_ERROR);
    pfl_mem_free(json);
}

static void answer_hosts(struct pfl_peer *p, struct pfl_h2_stream *leg)
{
    struct pfl_hub *hub = p->hub;
    char *json = NULL;
    struct pfl_inventory_view view = {
        .relay = hub->relay,
        .fleet = hub->fleet,
        .now_ms = uv_now(hub->loop),
        .may_see = may_use,
        .user = p,
    };
    int rc = pfl_inventory_encode(&hub->inventory, &view, &json);

    respond_json(leg, rc, json);
}

static void answer_host(struct pfl_peer *p, struct pfl_h2_stream *leg, const struct pfl_host *host)
{
    char *json = NULL;
    int rc = pfl_inventory_encode_host(host, uv_now(p->hub->loop), &json);

    respond_json(leg, rc, json);
}

static void refuse_absent(struct pfl_peer *p, struct pfl_h2_stream *leg,
                          const struct pfl_host *host)
{
    char detail[160];

    (void)snprintf(detail, sizeof(detail), "%s was last seen %llu s ago", host->name,
                   (unsigned long long)(uv_now(p->hub->loop) - host->seen_ms) / 1000);
    refuse(leg, 503, "host not connected", detail);
}

static void refuse_forbidden(struct pfl_peer *p, struct pfl_h2_stream *leg,
                             const struct pfl_route *route)
{
    struct asker asker;
    char detail[200];

    set_asker(&asker, p, route);
    audit(&asker, "refuse", 403, NULL);
    (void)snprintf(detail, sizeof(detail), "no rule of the policy lets %s use %s", asker.who,
                   route->host);
    refuse(leg, 403, "not allowed", detail);
}

static void route_host(struct pfl_peer *p, struct pfl_h2_stream *leg,
                       const struct pfl_h2_head *head, const struct pfl_route *route)
{
    struct pfl_host *host = pfl_inventory_find(&p->hub->inventory, route->host);
    struct pfl_h2 *agent;
    char detail[160];

    if (!may_use(p, route->host)) {
        refuse_forbidden(p, leg, route);
        return;
    }
    if (host == NULL) {
        (void)snprintf(detail, sizeof(detail), "%s has never been connected to this relay",
                       route->host);
        refuse(leg, 404, "no such host", detail);
        return;
    }
    if (route->kind == PFL_ROUTE_HOST) {
        answer_host(p, leg, host);
        return;
    }
    agent = pfl_hub_get_agent(p->hub, host);
    if (agent == NULL)
        refuse_absent(p, leg, host);
    else if (route->kind == PFL_ROUTE_CONSUMER)
        carry(p, leg, head, route, agent);
    else
        run_errand(p, leg, route, agent);
}

void pfl_peer_on_request(void *user, struct pfl_h2_stream *leg, const struct pfl_h2_head *head)
{
    struct pfl_peer *p = user;
    struct pfl_route route;

    pfl_route_parse(head, true, &route);
    switch (route.kind) {
    case PFL_ROUTE_NONE:
    case PFL_ROUTE_HELLO:
        refuse(leg, 404, "no such path", "this relay knows no such path");
        return;
    case PFL_ROUTE_METHOD:
        refuse(leg, 405, "wrong method", "this path knows another method");
        return;
    case PFL_ROUTE_NAME:
        refuse(leg, 400, "bad request", "that cannot be the name of a host or a stream");
        return;
    case PFL_ROUTE_HEALTH:
        if (pfl_h2_stream_respond_body(leg, 200, "text/plain", pfl_span_of("ok\n", 3)) != 0)
            pfl_h2_stream_reset(leg, PFL_H2_INTERNAL_ERROR);
        return;
    case PFL_ROUTE_HOSTS:
        answer_hosts(p, leg);
        return;
    default:
        route_host(p, leg, head, &route);
        return;
    }
}
