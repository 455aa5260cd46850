/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of agents: docs/protocol-tunnel.md, "Events".
 *
 * Happy path: GET /v1/events when an agent joins. Each line is a request of an operator that the
 * agent judged, which is written to the audit log, or a trigger that an alarm waits for. A trigger
 * is forwarded to every other host that the operator may use, also to those that connect within ten
 * minutes; hosts that have the alarm make their copy. One trigger at a time is in flight to a host.
 * Failures: an agent without this request answers 404; malformed lines, and those above the rate,
 * are counted and dropped. After an answer ends, or a host refused a trigger, the next clock
 * exchange retries. Ownership: a listening is freed when its HTTP/2 stream closes, a passing when
 * its answer arrives. Limits: PFL_AGENT_EVENT_LINE_BYTES; EVENTS_PER_S, TRIGGERS_PER_S of a host,
 * over all its connections.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/token_bucket.h"
#include "proto/h2/h2_call.h"
#include "relay/hub/agent_event.h"
#include "relay/hub/hub_impl.h"

#define EVENTS_PER_S       50u
#define EVENTS_AT_ONCE     500u
#define TRIGGERS_PER_S     1u
#define TRIGGERS_AT_ONCE   10u
#define PASSING_BODY_BYTES 4096u

struct pfl_agent_events {
    struct pfl_audit_context
        source; /* the agent: host and address; `who` and `stream` are set per line */
    struct pfl_hub_peer *peer; /* borrowed: outlives the HTTP/2 stream */
    struct pfl_h2_stream *h2_stream;
    struct pfl_buf line; /* what came of the one that is not whole */
    int64_t clock_ms;    /* our clock - the host's; when has_clock */
    bool has_clock;
    bool is_heard; /* it was answered 200 */
};

/* A trigger in flight to one host. */
struct passing {
    struct pfl_hub_peer *peer;        /* borrowed: outlives the call */
    struct pfl_audit_context context; /* the operator's name, and the target host */
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES];
};

/* ---- a trigger for all ---- */

static void pass_next(struct pfl_hub_peer *p);

static void on_passed(void *user, int err, unsigned status, struct pfl_span body)
{
    struct passing *t = user;
    struct pfl_hub_peer *p = t->peer;

    (void)body;
    /* 410 (or 404, of an agent that knows no alarms): it waits for nothing. */
    if (err == PFL_ECLOSED)
        pfl_log_warn("trigger-not-passed", "host=%s operator=%s %s", t->context.host,
                     t->context.who, t->detail);
    else if (err != 0 || (status != 404 && status != 410))
        pfl_audit_context_write(&t->context, "snapshot", err == 0 ? status : 502,
                                &(struct pfl_audit_context_more){.detail = t->detail});
    pfl_mem_free(t);
    p->is_passing = false;
    pass_next(p);
}

/* PFL_ENOMEM, errors of pfl_h2_call_start. */
static int start_passing(struct pfl_hub_peer *p, struct pfl_h2 *agent,
                         const struct pfl_trigger_log_entry *r, struct pfl_span role_of_operator)
{
    char role[PFL_ROLE_FIELD_BYTES];
    char path[PFL_IDENTITY_NAME_BYTES + 32];
    char ago[24];
    struct pfl_h2_field fields[] = {{PFL_TUNNEL_H_OPERATOR, r->operator_name},
                                    {PFL_TUNNEL_H_TRIGGER, r->trigger},
                                    {PFL_TUNNEL_H_RAISED_AT, r->host},
                                    {PFL_TUNNEL_H_RAISED_AGO, ago},
                                    {PFL_TUNNEL_H_ROLE, role}};
    struct passing *t = pfl_mem_zalloc(sizeof(*t));
    struct pfl_h2_call_conf call = {.method = "PUT",
                                    .path = path,
                                    .fields = fields,
                                    .fields_len = 4,
                                    .body_max_bytes = PASSING_BODY_BYTES,
                                    .on_done = on_passed,
                                    .user = t};
    int rc;

    if (t == NULL)
        return PFL_ENOMEM;
    t->peer = p;
    t->context.hub = p->hub;
    (void)snprintf(t->context.who, sizeof(t->context.who), "%s", r->operator_name);
    (void)snprintf(t->context.host, sizeof(t->context.host), "%s", p->host->name);
    (void)snprintf(t->detail, sizeof(t->detail), "session=%s trigger=%s raised_at=%s", r->session,
                   r->trigger, r->host);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_ALARMS_PATH "/%s/raised", r->session);
    (void)snprintf(ago, sizeof(ago), "%llu",
                   (unsigned long long)pfl_trigger_log_get_ago_ms(r, uv_now(p->hub->loop)));
    pfl_role_write(role_of_operator, role);
    call.fields_len += role[0] != '\0';
    rc = pfl_h2_call_start(agent, &call, NULL);
    if (rc != 0)
        pfl_mem_free(t);
    return rc;
}

/* What cannot be started is tried again with the next one, or with the clock. */
static void pass_next(struct pfl_hub_peer *p)
{
    struct pfl_hub *hub = p->hub;
    struct pfl_h2 *agent =
        p->host != NULL && p->has_said_hello ? pfl_hub_get_agent(hub, p->host) : NULL;
    const struct pfl_trigger_log_entry *r;

    while (agent != NULL && !p->is_passing &&
           (r = pfl_trigger_log_next(&hub->trigger_log, p->passed, uv_now(hub->loop))) != NULL) {
        struct pfl_policy_decision decision;

        pfl_hub_decide(hub, r->operator_name, p->host->name, &decision);
        if (decision.is_allowed && strcmp(p->host->name, r->host) != 0) {
            if (start_passing(p, agent, r, decision.role) != 0)
                return;
            p->is_passing = true;
        }
        p->passed = r->number;
    }
}

static void pass_on(struct pfl_hub *hub)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &hub->peers)
        pass_next(PFL_CONTAINER_OF(it, struct pfl_hub_peer, node));
}

/* ---- lines ---- */

static void tell_unheard(struct pfl_agent_events *l, struct pfl_host *host)
{
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES];

    if (host->unheard == 0)
        return;
    (void)snprintf(detail, sizeof(detail), "%llu events of this host are not here",
                   (unsigned long long)host->unheard);
    host->unheard = 0;
    l->source.who[0] = l->source.stream[0] = '\0';
    pfl_audit_context_write(&l->source, "unheard", 0,
                            &(struct pfl_audit_context_more){.detail = detail});
}

/* How long ago the host says that it was; 0: now, or it does not say. */
static uint64_t ago_of(const struct pfl_agent_events *l, const struct pfl_agent_event *h,
                       uint64_t now_ms)
{
    uint64_t at_ms = h->at_ms + (uint64_t)l->clock_ms;

    return h->has_at && l->has_clock && (int64_t)(now_ms - at_ms) > 0 ? now_ms - at_ms : 0;
}

static void take_trigger(struct pfl_agent_events *l, const struct pfl_agent_event *h)
{
    struct pfl_hub *hub = l->source.hub;
    uint64_t now_ms = uv_now(hub->loop);
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES];
    struct pfl_trigger_log_entry r = {.ago_ms = ago_of(l, h, now_ms)};

    (void)snprintf(detail, sizeof(detail), "session=%s trigger=%s", h->session, h->trigger);
    pfl_audit_context_write(&l->source, "trigger", 200,
                            &(struct pfl_audit_context_more){.detail = detail});
    /* An operator that may not use the reporting host does not get its triggers forwarded. */
    if (!pfl_hub_may_see(hub, h->who, l->source.host))
        return;
    memcpy(r.operator_name, h->who, sizeof(r.operator_name));
    memcpy(r.session, h->session, sizeof(r.session));
    memcpy(r.trigger, h->trigger, sizeof(r.trigger));
    memcpy(r.host, l->source.host, sizeof(r.host));
    if (pfl_trigger_log_add(&hub->trigger_log, &r, now_ms))
        pass_on(hub);
}

static void take_event(struct pfl_agent_events *l, struct pfl_host *host,
                       const struct pfl_agent_event *h)
{
    if (h->kind == PFL_AGENT_EVENT_NOTHING || h->kind == PFL_AGENT_EVENT_LOST) {
        host->unheard += h->kind == PFL_AGENT_EVENT_LOST ? h->count : 1;
        return;
    }
    tell_unheard(l, host);
    memcpy(l->source.who, h->who, sizeof(l->source.who));
    memcpy(l->source.stream, h->stream, sizeof(l->source.stream));
    if (h->kind == PFL_AGENT_EVENT_TRIGGER)
        take_trigger(l, h);
    else
        pfl_audit_context_write(
            &l->source, "request", h->kind == PFL_AGENT_EVENT_REFUSED ? 403 : 200,
            &(struct pfl_audit_context_more){.method = h->method, .detail = h->detail});
}

/* Triggers have a rate of their own: what operators ask cannot keep them back. */
static void take_line(struct pfl_agent_events *l, struct pfl_span line)
{
    struct pfl_host *host = l->peer->host;
    uint64_t now_ms = uv_now(l->source.hub->loop);
    struct pfl_token_bucket *bucket =
        pfl_agent_event_is_trigger(line) ? &host->triggers : &host->events;
    struct pfl_agent_event event;

    if (pfl_token_bucket_get(bucket, now_ms) == 0) {
        host->unheard++;
        return;
    }
    pfl_token_bucket_take(bucket, 1);
    pfl_agent_event_parse(line, &event);
    if (event.kind == PFL_AGENT_EVENT_TRIGGER && bucket != &host->triggers) {
        if (pfl_token_bucket_get(&host->triggers, now_ms) == 0) {
            host->unheard++;
            return;
        }
        pfl_token_bucket_take(&host->triggers, 1);
    }
    take_event(l, host, &event);
}

/* ---- the answer that does not end ---- */

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct pfl_agent_events *l = user;
    unsigned status = pfl_h2_head_get_status(head);
    uint64_t host_ms;

    l->is_heard = status == 200;
    l->peer->is_deaf = status == 404;
    l->has_clock = pfl_h2_head_get_number(head, PFL_TUNNEL_H_NOW, &host_ms);
    if (l->has_clock)
        l->clock_ms = (int64_t)uv_now(l->source.hub->loop) - (int64_t)host_ms;
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_agent_events *l = user;
    uint32_t bytes = (uint32_t)data.len;

    while (data.len != 0) {
        const uint8_t *end = memchr(data.data, '\n', data.len);
        size_t len = end != NULL ? (size_t)(end - data.data) : data.len;

        if (pfl_buf_append(&l->line, data.data, len) != 0) {
            pfl_h2_stream_reset(l->h2_stream, PFL_H2_CANCEL);
            return;
        }
        if (end == NULL)
            break;
        if (l->is_heard && l->peer->host != NULL)
            take_line(l, pfl_buf_get(&l->line));
        pfl_buf_clear(&l->line);
        data = pfl_span_of(end + 1, data.len - len - 1);
    }
    pfl_h2_stream_credit(l->h2_stream, bytes);
}

static void on_end(void *user)
{
    (void)user;
}

static void on_closed(void *user, uint32_t code)
{
    struct pfl_agent_events *l = user;
    struct pfl_hub_peer *p = l->peer;

    if (p->host != NULL)
        tell_unheard(l, p->host);
    if (l->is_heard && p->host != NULL && pfl_hub_get_agent(p->hub, p->host) != NULL)
        pfl_log_warn("events-ended", "host=%s code=%u", l->source.host, code);
    p->agent_events = NULL;
    pfl_buf_fini(&l->line);
    pfl_mem_free(l);
}

static const struct pfl_h2_stream_ops ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

static void listen_to(struct pfl_hub_peer *p)
{
    struct pfl_agent_events *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_h2_request request = {
        .method = "GET", .path = PFL_TUNNEL_EVENTS_PATH, .ops = &ops, .user = l};
    uint64_t now_ms = uv_now(p->hub->loop);

    if (l == NULL) {
        pfl_log_warn("events-unheard", "host=%s reason=\"out of memory\"", p->identity.name);
        return;
    }
    l->peer = p;
    l->source.hub = p->hub;
    memcpy(l->source.host, p->identity.name, sizeof(l->source.host));
    memcpy(l->source.address, p->address, sizeof(l->source.address));
    pfl_buf_init(&l->line, PFL_AGENT_EVENT_LINE_BYTES);
    /* The level is kept: a reconnect does not fill the bucket. */
    pfl_token_bucket_set(&p->host->events, EVENTS_PER_S, EVENTS_AT_ONCE, now_ms);
    pfl_token_bucket_set(&p->host->triggers, TRIGGERS_PER_S, TRIGGERS_AT_ONCE, now_ms);
    if (pfl_h2_request(pfl_tunnel_link_get_h2(p->link), &request, &l->h2_stream) == 0) {
        p->agent_events = l;
        return;
    }
    pfl_log_warn("events-unheard", "host=%s reason=\"it could not be asked\"", p->identity.name);
    pfl_mem_free(l);
}

void pfl_agent_events_start(struct pfl_hub_peer *p)
{
    if (p->host == NULL || !p->has_said_hello || pfl_hub_get_agent(p->hub, p->host) == NULL)
        return;
    if (p->agent_events != NULL)
        tell_unheard(p->agent_events, p->host);
    else if (!p->is_deaf)
        listen_to(p);
    pass_next(p);
}

void pfl_agent_events_stop(struct pfl_hub_peer *p)
{
    if (p->agent_events != NULL)
        pfl_h2_stream_reset(p->agent_events->h2_stream, PFL_H2_DETACH);
}
