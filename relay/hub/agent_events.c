/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of agents: see agent_events.h.
 *
 * Happy path: GET /v1/events when an agent joins. Each line is a request of an operator that the
 * agent judged, which is written to the audit log, or a trigger that an alarm waits for, which is
 * forwarded (trigger_passing.h). Failures: an agent without this request answers 404; malformed
 * lines, and those above the rate, are counted and dropped. After an answer ends the next clock
 * exchange retries. Ownership: a listening is freed when its HTTP/2 stream closes. Limits:
 * PFL_AGENT_EVENT_LINE_BYTES; EVENTS_PER_S, TRIGGERS_PER_S,
 * SPOOLS_PER_S of a host, over all its connections.
 */
#include "relay/hub/agent_events.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "relay/hub/agent_event.h"
#include "relay/hub/audit_context.h"

#define EVENTS_PER_S     50u
#define EVENTS_AT_ONCE   500u
#define TRIGGERS_PER_S   1u
#define TRIGGERS_AT_ONCE 10u
/* An agent reports its spool once a second at most. */
#define SPOOLS_PER_S   2u
#define SPOOLS_AT_ONCE 20u

struct pfl_agent_events {
    struct pfl_audit_context
        source; /* the agent: host and address; `who` and `stream` are set per line */
    struct pfl_hub_peer *peer;         /* borrowed: outlives the HTTP/2 stream */
    struct pfl_agent_events_conf conf; /* the same */
    struct pfl_h2_stream *h2_stream;
    struct pfl_buf line; /* the received part of an incomplete line */
    int64_t clock_ms;    /* our clock - the host's; when has_clock */
    bool has_clock;
    bool is_subscribed; /* it was answered 200 */
};

/* ---- lines ---- */

static void audit_unsubscribed(struct pfl_agent_events *l, struct pfl_host *host)
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
    const struct pfl_peer_table *peers = l->peer->table;
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES];
    struct pfl_trigger_log_entry r = {.ago_ms = ago_of(l, h, pfl_peer_table_get_now_ms(peers))};

    if (h->order[0] != '\0')
        (void)snprintf(detail, sizeof(detail), "order=%s trigger=%s id=%s", h->order, h->trigger,
                       h->trigger_id);
    else
        (void)snprintf(detail, sizeof(detail), "session=%s trigger=%s", h->session, h->trigger);
    pfl_audit_context_write(&l->source, "trigger", 200,
                            &(struct pfl_audit_context_more){.detail = detail});
    /* An operator that may not use the reporting host does not get its triggers forwarded. */
    if (!pfl_trigger_passing_may(peers, h->who, l->source.host, h->order[0] != '\0'))
        return;
    memcpy(r.operator_name, h->who, sizeof(r.operator_name));
    memcpy(r.session, h->session, sizeof(r.session));
    memcpy(r.order, h->order, sizeof(r.order));
    memcpy(r.id, h->trigger_id, sizeof(r.id));
    memcpy(r.trigger, h->trigger, sizeof(r.trigger));
    memcpy(r.host, l->source.host, sizeof(r.host));
    pfl_trigger_passing_raise(l->conf.triggers, &r);
}

static void take_spool(struct pfl_agent_events *l, struct pfl_host *host,
                       const struct pfl_host_spool *spool)
{
    bool is_same = host->spool.is_known && host->spool.segments == spool->segments &&
                   host->spool.bytes == spool->bytes &&
                   strcmp(host->spool.orders, spool->orders) == 0;

    host->spool = *spool;
    if (!is_same)
        pfl_host_inventory_touch(&l->peer->table->inventory, host);
}

static void take_event(struct pfl_agent_events *l, struct pfl_host *host,
                       const struct pfl_agent_event *h)
{
    if (h->kind == PFL_AGENT_EVENT_NOTHING || h->kind == PFL_AGENT_EVENT_LOST) {
        host->unheard += h->kind == PFL_AGENT_EVENT_LOST ? h->count : 1;
        return;
    }
    if (h->kind == PFL_AGENT_EVENT_SPOOL) {
        take_spool(l, host, &h->spool);
        if (h->is_clock_wanted)
            l->conf.on_clock_wanted(l->conf.user);
        return;
    }
    audit_unsubscribed(l, host);
    memcpy(l->source.who, h->who, sizeof(l->source.who));
    memcpy(l->source.stream, h->stream, sizeof(l->source.stream));
    if (h->kind == PFL_AGENT_EVENT_TRIGGER)
        take_trigger(l, h);
    else
        pfl_audit_context_write(
            &l->source, "request", h->kind == PFL_AGENT_EVENT_REFUSED ? 403 : 200,
            &(struct pfl_audit_context_more){.method = h->method, .detail = h->detail});
}

/* Triggers and spools have rates of their own: what operators ask cannot keep them back. */
static struct pfl_token_bucket *bucket_of(struct pfl_host *host, enum pfl_agent_event_kind kind)
{
    if (kind == PFL_AGENT_EVENT_TRIGGER)
        return &host->triggers;
    return kind == PFL_AGENT_EVENT_SPOOL ? &host->spools : &host->events;
}

/* False: it is above the rate. */
static bool take_rate(struct pfl_host *host, struct pfl_token_bucket *bucket, uint64_t now_ms)
{
    if (pfl_token_bucket_get(bucket, now_ms) == 0) {
        host->unheard++;
        return false;
    }
    pfl_token_bucket_take(bucket, 1);
    return true;
}

static void take_line(struct pfl_agent_events *l, struct pfl_span line)
{
    struct pfl_host *host = l->peer->host;
    uint64_t now_ms = pfl_peer_table_get_now_ms(l->peer->table);
    struct pfl_token_bucket *bucket = bucket_of(host, pfl_agent_event_guess(line));
    struct pfl_token_bucket *real;
    struct pfl_agent_event event;

    if (!take_rate(host, bucket, now_ms))
        return;
    pfl_agent_event_parse(line, &event);
    real = bucket_of(host, event.kind);
    if (real != bucket && real != &host->events && !take_rate(host, real, now_ms))
        return;
    take_event(l, host, &event);
}

/* ---- the answer that does not end ---- */

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct pfl_agent_events *l = user;
    unsigned status = pfl_h2_head_get_status(head);
    uint64_t host_ms;

    l->is_subscribed = status == 200;
    l->peer->lacks_events = status == 404;
    l->has_clock = pfl_h2_head_get_number(head, PFL_TUNNEL_H_NOW, &host_ms);
    if (l->has_clock)
        l->clock_ms = (int64_t)pfl_peer_table_get_now_ms(l->peer->table) - (int64_t)host_ms;
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
        if (l->is_subscribed && l->peer->host != NULL)
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
        audit_unsubscribed(l, p->host);
    if (l->is_subscribed && pfl_peer_table_get_h2(p) != NULL)
        pfl_audit_context_report(&l->source, PFL_HUB_EVENTS_ENDED, code, NULL);
    p->events = NULL;
    pfl_buf_fini(&l->line);
    pfl_mem_free(l);
}

static const struct pfl_h2_stream_ops ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

static void report_unsubscribed(const struct pfl_hub_peer *p, const char *reason)
{
    struct pfl_audit_context context;

    pfl_audit_context_set_agent(&context, p);
    pfl_audit_context_report(&context, PFL_HUB_EVENTS_UNHEARD, 0, reason);
}

/* The level is kept: a reconnect does not fill the bucket. */
static void set_rates(struct pfl_host *host, uint64_t now_ms)
{
    pfl_token_bucket_set(&host->events, EVENTS_PER_S, EVENTS_AT_ONCE, now_ms);
    pfl_token_bucket_set(&host->triggers, TRIGGERS_PER_S, TRIGGERS_AT_ONCE, now_ms);
    pfl_token_bucket_set(&host->spools, SPOOLS_PER_S, SPOOLS_AT_ONCE, now_ms);
}

static void listen_to(struct pfl_hub_peer *p, struct pfl_h2 *h2,
                      const struct pfl_agent_events_conf *conf)
{
    struct pfl_agent_events *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_h2_request request = {
        .method = "GET", .path = PFL_TUNNEL_EVENTS_PATH, .ops = &ops, .user = l};

    if (l == NULL) {
        report_unsubscribed(p, "out of memory");
        return;
    }
    l->peer = p;
    l->conf = *conf;
    pfl_audit_context_set_agent(&l->source, p);
    pfl_buf_init(&l->line, PFL_AGENT_EVENT_LINE_BYTES);
    set_rates(p->host, pfl_peer_table_get_now_ms(p->table));
    if (pfl_h2_request(h2, &request, &l->h2_stream) == 0) {
        p->events = l;
        return;
    }
    report_unsubscribed(p, "it could not be asked");
    pfl_mem_free(l);
}

void pfl_agent_events_start(struct pfl_hub_peer *agent, const struct pfl_agent_events_conf *conf)
{
    struct pfl_h2 *h2 =
        agent->state == PFL_HUB_PEER_INTRODUCED ? pfl_peer_table_get_h2(agent) : NULL;

    if (h2 == NULL)
        return;
    if (agent->events != NULL)
        audit_unsubscribed(agent->events, agent->host);
    else if (!agent->lacks_events)
        listen_to(agent, h2, conf);
    pfl_trigger_passing_next(conf->triggers, agent);
}

void pfl_agent_events_stop(struct pfl_hub_peer *agent)
{
    if (agent->events != NULL)
        pfl_h2_stream_reset(agent->events->h2_stream, PFL_H2_DETACH);
}
