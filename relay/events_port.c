/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents tell unasked: docs/protocol-tunnel.md, "Events".
 *
 * Happy path: GET /v1/events when an agent joins; each line is a request of an operator's that the
 * agent judged, which goes into the audit log, or a trigger that an alarm waits for: it is passed
 * on to every other host that the operator may use, also when that comes within ten minutes, and
 * those that have the alarm make their copy.
 * Failures: an agent that knows no events has none (404); lines that make no sense, or are more
 * than their rate, are counted and left out. Ownership: a listening is freed when its leg closes, a
 * passing when its answer came. Limits: one line of LINE_BYTES; EVENTS_PER_S, TRIGGERS_PER_S.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/gate/judge.h"
#include "proto/h2_call.h"
#include "relay/bucket.h"
#include "relay/hub_impl.h"

#define LINE_BYTES         2048u
#define EVENTS_PER_S       50u
#define EVENTS_AT_ONCE     500u
#define TRIGGERS_PER_S     1u
#define TRIGGERS_AT_ONCE   10u
#define PASSING_BODY_BYTES 4096u

struct listening {
    struct pfl_asker source; /* the agent: host and address; `who` changes with the line */
    struct pfl_h2_stream *leg;
    struct pfl_buf line; /* what came of the one that is not whole */
    struct pfl_bucket events;
    struct pfl_bucket triggers;
    uint64_t unheard; /* since the last one that was heard */
    bool is_heard;    /* it was answered 200 */
};

/* A trigger on its way to one host. */
struct passing {
    struct pfl_asker asker; /* in whose name, to which host */
    char detail[PFL_AUDIT_DETAIL_BYTES];
};

/* ---- a trigger for all ---- */

static void on_passed(void *user, int err, unsigned status, struct pfl_span body)
{
    struct passing *p = user;

    (void)body;
    /* 410 (or 404, of an agent that knows no alarms): it waits for nothing. */
    if (err == PFL_ECLOSED)
        pfl_log_warn("trigger-not-passed", "host=%s operator=%s %s", p->asker.host, p->asker.who,
                     p->detail);
    else if (err != 0 || (status != 404 && status != 410))
        pfl_asker_audit_more(&p->asker, "snapshot", err == 0 ? status : 502,
                             &(struct pfl_audit_more){.detail = p->detail});
    pfl_mem_free(p);
}

static void pass_to_host(struct pfl_hub *hub, const struct pfl_raised *r,
                         const struct pfl_host *host)
{
    struct pfl_h2 *agent = pfl_hub_get_agent(hub, host);
    struct pfl_policy_decision decision;
    char role[PFL_ROLE_FIELD_BYTES];
    char path[PFL_IDENTITY_NAME_BYTES + 32];
    char ago[24];
    struct pfl_h2_field fields[] = {{PFL_TUNNEL_H_OPERATOR, r->operator_name},
                                    {PFL_TUNNEL_H_TRIGGER, r->trigger},
                                    {PFL_TUNNEL_H_RAISED_AT, r->host},
                                    {PFL_TUNNEL_H_RAISED_AGO, ago},
                                    {PFL_TUNNEL_H_ROLE, role}};
    struct pfl_h2_call_conf call = {.method = "PUT",
                                    .path = path,
                                    .fields = fields,
                                    .fields_len = 4,
                                    .body_max_bytes = PASSING_BODY_BYTES,
                                    .on_done = on_passed};
    struct passing *p;

    pfl_hub_decide(hub, r->operator_name, host->name, &decision);
    if (agent == NULL || !decision.is_allowed)
        return;
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL)
        return;
    p->asker.hub = hub;
    (void)snprintf(p->asker.who, sizeof(p->asker.who), "%s", r->operator_name);
    (void)snprintf(p->asker.host, sizeof(p->asker.host), "%s", host->name);
    (void)snprintf(p->detail, sizeof(p->detail), "session=%s trigger=%s raised_at=%s", r->session,
                   r->trigger, r->host);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_ALARMS_PATH "/%s/raised", r->session);
    (void)snprintf(ago, sizeof(ago), "%llu", (unsigned long long)(uv_now(hub->loop) - r->at_ms));
    pfl_role_write(decision.role, role);
    call.fields_len += role[0] != '\0';
    call.user = p;
    if (pfl_h2_call_start(agent, &call, NULL) == 0)
        return;
    pfl_log_warn("trigger-not-passed", "host=%s operator=%s %s", host->name, r->operator_name,
                 p->detail);
    pfl_mem_free(p);
}

static void pass_on(struct pfl_hub *hub, const struct pfl_raised *r)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &hub->inventory.hosts) {
        const struct pfl_host *host = PFL_CONTAINER_OF(it, struct pfl_host, node);

        if (strcmp(host->name, r->host) != 0)
            pass_to_host(hub, r, host);
    }
}

void pfl_peer_catch_up(struct pfl_peer *p)
{
    struct pfl_hub *hub = p->hub;

    for (unsigned i = 0; p->host != NULL && i < PFL_RAISED_KEPT; i++) {
        const struct pfl_raised *r = &hub->raised[(hub->raised_next + i) % PFL_RAISED_KEPT];

        if (r->operator_name[0] != '\0' && uv_now(hub->loop) - r->at_ms < PFL_RAISED_KEPT_MS &&
            strcmp(p->host->name, r->host) != 0)
            pass_to_host(hub, r, p->host);
    }
}

/* ---- lines ---- */

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

static void take_request(struct listening *l, const json_t *event, bool is_refused)
{
    const char *stream = text_of(event, "stream");
    const char *name = text_of(event, "method");
    struct pfl_audit_more more = {
        .method = pfl_method_name(pfl_method_find(pfl_span_of(name, strlen(name)))),
        .detail = text_of(event, "reason"),
    };

    if (pfl_route_is_stream_id(stream))
        (void)snprintf(l->source.stream, sizeof(l->source.stream), "%s", stream);
    pfl_asker_audit_more(&l->source, "request", is_refused ? 403 : 200, &more);
    l->source.stream[0] = '\0';
}

static void take_trigger(struct listening *l, const json_t *event)
{
    struct pfl_hub *hub = l->source.hub;
    const char *session = text_of(event, "session");
    const char *trigger = text_of(event, "trigger");
    char detail[PFL_AUDIT_DETAIL_BYTES];
    struct pfl_raised *r;

    if (!pfl_identity_is_name(session) || !pfl_identity_is_name(trigger) ||
        pfl_bucket_get(&l->triggers, uv_now(hub->loop)) == 0) {
        l->unheard++;
        return;
    }
    pfl_bucket_take(&l->triggers, 1);
    (void)snprintf(detail, sizeof(detail), "session=%s trigger=%s", session, trigger);
    pfl_asker_audit_more(&l->source, "trigger", 200, &(struct pfl_audit_more){.detail = detail});
    /* Who may not use the host that says so may not be woken by it. */
    if (!pfl_hub_may_see(hub, l->source.who, l->source.host))
        return;
    r = &hub->raised[hub->raised_next++ % PFL_RAISED_KEPT];
    r->at_ms = uv_now(hub->loop);
    memcpy(r->operator_name, l->source.who, sizeof(r->operator_name));
    memcpy(r->host, l->source.host, sizeof(r->host));
    (void)snprintf(r->session, sizeof(r->session), "%s", session);
    (void)snprintf(r->trigger, sizeof(r->trigger), "%s", trigger);
    pass_on(hub, r);
}

static void tell_unheard(struct listening *l)
{
    char detail[PFL_AUDIT_DETAIL_BYTES];

    (void)snprintf(detail, sizeof(detail), "%llu events of this host are not here",
                   (unsigned long long)l->unheard);
    l->unheard = 0;
    l->source.who[0] = '\0';
    pfl_asker_audit_more(&l->source, "unheard", 0, &(struct pfl_audit_more){.detail = detail});
}

static void take_event(struct listening *l, const json_t *event)
{
    const char *kind = text_of(event, "kind");
    const char *who = text_of(event, "operator");

    if (strcmp(kind, "lost") == 0) {
        json_int_t count = json_integer_value(json_object_get(event, "count"));

        l->unheard += count > 0 ? (uint64_t)count : 1;
        return;
    }
    if (l->unheard != 0)
        tell_unheard(l);
    if (!pfl_identity_is_name(who)) {
        l->unheard++;
        return;
    }
    (void)snprintf(l->source.who, sizeof(l->source.who), "%s", who);
    if (strcmp(kind, "request") == 0 || strcmp(kind, "refused") == 0)
        take_request(l, event, kind[2] == 'f');
    else if (strcmp(kind, "trigger") == 0)
        take_trigger(l, event);
    else
        l->unheard++; /* of a newer agent */
}

static void take_line(struct listening *l, struct pfl_span line)
{
    json_t *event;

    if (pfl_bucket_get(&l->events, uv_now(l->source.hub->loop)) == 0) {
        l->unheard++;
        return;
    }
    pfl_bucket_take(&l->events, 1);
    event = json_loadb((const char *)line.data, line.len, 0, NULL);
    take_event(l, event);
    json_decref(event);
}

/* ---- the answer that does not end ---- */

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct listening *l = user;

    l->is_heard = pfl_h2_head_get_status(head) == 200;
}

static void on_data(void *user, struct pfl_span data)
{
    struct listening *l = user;
    uint32_t bytes = (uint32_t)data.len;

    while (data.len != 0) {
        const uint8_t *end = memchr(data.data, '\n', data.len);
        size_t len = end != NULL ? (size_t)(end - data.data) : data.len;

        if (pfl_buf_append(&l->line, data.data, len) != 0) {
            pfl_h2_stream_reset(l->leg, PFL_H2_CANCEL);
            return;
        }
        if (end == NULL)
            break;
        if (l->is_heard)
            take_line(l, pfl_buf_get(&l->line));
        pfl_buf_clear(&l->line);
        data = pfl_span_of(end + 1, data.len - len - 1);
    }
    pfl_h2_stream_credit(l->leg, bytes);
}

static void on_end(void *user)
{
    (void)user;
}

static void on_closed(void *user, uint32_t code)
{
    struct listening *l = user;

    (void)code;
    if (l->unheard != 0)
        tell_unheard(l);
    pfl_buf_fini(&l->line);
    pfl_mem_free(l);
}

static const struct pfl_h2_stream_ops ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

void pfl_peer_listen(struct pfl_peer *p)
{
    struct listening *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_h2_request request = {
        .method = "GET", .path = PFL_TUNNEL_EVENTS_PATH, .ops = &ops, .user = l};
    uint64_t now_ms = uv_now(p->hub->loop);

    if (l == NULL) {
        pfl_log_warn("events-unheard", "host=%s reason=\"out of memory\"", p->identity.name);
        return;
    }
    l->source.hub = p->hub;
    memcpy(l->source.host, p->identity.name, sizeof(l->source.host));
    memcpy(l->source.address, p->address, sizeof(l->source.address));
    pfl_buf_init(&l->line, LINE_BYTES);
    pfl_bucket_set(&l->events, EVENTS_PER_S, EVENTS_AT_ONCE, now_ms);
    pfl_bucket_set(&l->triggers, TRIGGERS_PER_S, TRIGGERS_AT_ONCE, now_ms);
    if (pfl_h2_request(pfl_tunnel_link_get_h2(p->link), &request, &l->leg) == 0)
        return;
    pfl_log_warn("events-unheard", "host=%s reason=\"it could not be asked\"", p->identity.name);
    pfl_mem_free(l);
}
