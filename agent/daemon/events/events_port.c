/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends lines of the event log to relays: see events_port.h.
 *
 * Happy path: a line is added, each listener's HTTP/2 stream pulls it, the relay credits it when it
 * has used it up, and lines that all have credited are dropped. Failures: a lost HTTP/2 stream ends
 * its listener; the next one gets the lines that were not credited again. If the log is full,
 * listeners that lag behind the others are reset. Ownership: the log, listeners. Limits: the log's;
 * PFL_EVENTS_MAX_LISTENERS.
 */
#include "agent/daemon/events/events_port.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/tunnel.h"

struct listener {
    struct pfl_list node;
    struct pfl_events *events;
    const void *relay;               /* the relay that listens; only compared */
    struct pfl_h2_stream *h2_stream; /* borrowed until its on_closed */
    uint64_t line;                   /* sent next, from byte `at` on */
    size_t at;
    uint64_t credited; /* the first line that is not used up, and how much of it was used */
    size_t credited_bytes;
    bool is_cut; /* it is no longer waited for */
};

void pfl_events_init(struct pfl_events *self)
{
    memset(self, 0, sizeof(*self));
    self->requests.per_s = PFL_EVENTS_REQUESTS_PER_S;
    self->requests.burst = PFL_EVENTS_REQUESTS_AT_ONCE;
    pfl_event_log_init(&self->log);
    pfl_list_init(&self->listeners);
}

void pfl_events_fini(struct pfl_events *self)
{
    pfl_event_log_fini(&self->log);
}

static struct listener *listener_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct listener, node);
}

static void release(struct pfl_events *e)
{
    uint64_t below = e->log.next;
    bool has_listener = false;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &e->listeners) {
        if (!listener_of(it)->is_cut && listener_of(it)->credited < below)
            below = listener_of(it)->credited;
        has_listener |= !listener_of(it)->is_cut;
    }
    if (has_listener)
        pfl_event_log_release(&e->log, below);
}

/* The log is full: resets listeners that lag behind the others. */
static void cut_slow(struct pfl_events *e)
{
    uint64_t best = 0;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &e->listeners) {
        if (!listener_of(it)->is_cut && listener_of(it)->credited > best)
            best = listener_of(it)->credited;
    }
    if (best < e->log.first + PFL_EVENT_LOG_LINES / 2)
        return; /* none is far ahead */
    PFL_LIST_EACH (it, &e->listeners) {
        struct listener *l = listener_of(it);

        if (l->is_cut || l->credited >= e->log.first + PFL_EVENT_LOG_LINES / 2)
            continue;
        l->is_cut = true;
        pfl_log_warn("events-not-read", "reason=\"a relay reads no events while others do\"");
        pfl_h2_stream_reset(l->h2_stream, PFL_H2_DETACH);
    }
    release(e);
}

static void wake(struct pfl_events *e)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &e->listeners)
        pfl_h2_stream_wake(listener_of(it)->h2_stream);
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* the request has no body */
}

static void on_end(void *user)
{
    (void)user;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct listener *l = user;
    size_t done = 0;

    *ret_is_end = false;
    while (done < room) {
        struct pfl_span line = pfl_event_log_get(&l->events->log, l->line);
        size_t len = line.len - l->at < room - done ? line.len - l->at : room - done;

        if (line.len == 0)
            break;
        memcpy(dst + done, line.data + l->at, len);
        done += len;
        l->at += len;
        if (l->at < line.len)
            break;
        l->line++;
        l->at = 0;
    }
    return done;
}

static void on_credit(void *user, uint32_t bytes)
{
    struct listener *l = user;

    l->credited_bytes += bytes;
    while (l->credited < l->line) {
        size_t len = pfl_event_log_get(&l->events->log, l->credited).len;

        if (l->credited_bytes < len)
            break;
        l->credited_bytes -= len;
        l->credited++;
    }
    release(l->events);
    wake(l->events); /* release may have added a line */
}

static void on_closed(void *user, uint32_t code)
{
    struct listener *l = user;

    (void)code;
    pfl_list_remove(&l->node);
    l->events->listeners_len--;
    release(l->events);
    pfl_mem_free(l);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_credit = on_credit,
    .on_closed = on_closed,
};

static bool may_listen(const struct pfl_events *self, const void *relay)
{
    struct pfl_list *it;
    unsigned of_relay = 0;

    PFL_LIST_EACH (it, &self->listeners) {
        of_relay += listener_of(it)->relay == relay;
    }
    return self->listeners_len < PFL_EVENTS_MAX_LISTENERS &&
           of_relay < PFL_EVENTS_LISTENERS_OF_RELAY;
}

int pfl_events_listen(struct pfl_events *self, const void *relay, struct pfl_h2_stream *h2_stream,
                      uint64_t now_ms)
{
    char now[24];
    struct pfl_h2_field fields[] = {{"content-type", PFL_TUNNEL_EVENTS_TYPE},
                                    {PFL_TUNNEL_H_NOW, now}};
    struct listener *l;
    int rc;

    if (!may_listen(self, relay))
        return PFL_ELIMIT;
    l = pfl_mem_zalloc(sizeof(*l));
    if (l == NULL)
        return PFL_ENOMEM;
    (void)snprintf(now, sizeof(now), "%llu", (unsigned long long)now_ms);
    l->events = self;
    l->relay = relay;
    l->h2_stream = h2_stream;
    l->line = l->credited = self->log.first;
    pfl_h2_stream_set_user(h2_stream, &ops, l);
    rc = pfl_h2_stream_respond(h2_stream, 200, fields, 2);
    if (rc != 0) {
        pfl_h2_stream_set_user(h2_stream, NULL, NULL);
        pfl_mem_free(l);
        return rc;
    }
    pfl_list_append(&self->listeners, &l->node);
    self->listeners_len++;
    return 0;
}

/* Takes `event`. */
static void tell(struct pfl_events *e, json_t *event, bool is_urgent)
{
    char *text = event != NULL ? json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    json_decref(event);
    if (pfl_event_log_is_full(&e->log, is_urgent))
        cut_slow(e);
    if (text != NULL)
        pfl_event_log_add(&e->log, text, is_urgent);
    else
        pfl_event_log_count_lost(&e->log, 1);
    pfl_mem_free(text);
    wake(e);
}

/* With the next request that has a line, so that this takes few lines of what is for others. */
static void tell_lost(struct pfl_events *e, uint64_t now_ms)
{
    if (e->lost == 0 || now_ms - e->told_lost_ms < PFL_EVENTS_TELL_LOST_MS)
        return;
    pfl_event_log_count_lost(&e->log, e->lost);
    e->lost = 0;
    e->told_lost_ms = now_ms;
}

void pfl_events_tell_request(struct pfl_events *self, const struct pfl_request_event *request,
                             uint64_t now_ms)
{
    json_t *event;

    if (!pfl_operator_rates_take(&self->requests, request->operator_name, 1, now_ms)) {
        self->lost++;
        return;
    }
    tell_lost(self, now_ms);
    event = json_pack("{s:s, s:s, s:s, s:s}", "kind", request->why == NULL ? "request" : "refused",
                      "operator", request->operator_name, "stream", request->stream, "method",
                      request->method);
    if (request->why != NULL && event != NULL)
        (void)json_object_set_new(event, "reason", json_string(request->why));
    tell(self, event, false);
}

void pfl_events_tell_trigger(struct pfl_events *self, const char *operator_name,
                             const char *session, const char *trigger, uint64_t now_ms)
{
    tell(self,
         json_pack("{s:s, s:s, s:s, s:s, s:I}", "kind", "trigger", "operator", operator_name,
                   "session", session, "trigger", trigger, "at_ms", (json_int_t)now_ms),
         true);
}

void pfl_events_tell_order_trigger(struct pfl_events *self, const struct pfl_order_event *event)
{
    tell(self,
         json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "kind", "trigger", "operator", event->orderer,
                   "order", event->order, "trigger", event->trigger, "id", event->id, "at_ms",
                   (json_int_t)event->at_ms),
         true);
}

void pfl_events_report_spool(struct pfl_events *self, const struct pfl_spool_event *spool)
{
    json_t *event = json_pack("{s:s, s:I, s:I, s:I, s:s}", "kind", "spool", "segments",
                              (json_int_t)spool->segments, "bytes", (json_int_t)spool->bytes,
                              "oldest_ms", (json_int_t)spool->oldest_ms, "orders", spool->orders);

    if (spool->is_clock_wanted && event != NULL)
        (void)json_object_set_new(event, "clock", json_true());
    tell(self, event, false);
}
