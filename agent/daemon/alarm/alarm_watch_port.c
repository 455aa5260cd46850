/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches triggers: see alarm_watch_port.h.
 *
 *     want --> next: EnableTracing, ObserveEvents, GetTraceStats as a fence --> now
 *
 * Happy path: the next session answers the fence and replaces the current one, whose connection is
 * closed. Failures: a service that cannot be reached is tried again after RETRY_MS, one that was
 * connected at once. If the service refuses the new session (its limit), the old one is closed
 * first and the new one tried again. Ownership: each wait is freed when its connection is closed;
 * the last of them and the timer free the watch. Limits: the header's; two sessions, for a moment.
 */
#include "agent/daemon/alarm/alarm_watch_port.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/message.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_config.fields.h"
#include "proto/ipc/trigger_session.h"
#include "tunnel/service_conn.h"

#define TRIGGER_BYTES (PFL_IDENTITY_NAME_BYTES + 16u)
#define REQUEST_BYTES (PFL_ALARM_WATCH_TRIGGERS * TRIGGER_BYTES + 128u)
#define WHY_BYTES     128u

/* One session; of no watch's any more while its connection closes. */
struct wait {
    struct pfl_alarm_watch *watch;
    struct pfl_service_conn *conn; /* owned until its on_closed */
    struct pfl_alarm_watch_set set;
    const char *why; /* it ended; static; NULL: the connection did */
    bool is_armed;
    uint64_t armed_ms;
};

struct pfl_alarm_watch {
    struct pfl_alarm_watch_conf conf;
    struct pfl_alarm_watch_set wanted;
    struct wait *now;  /* armed; NULL: nothing is waited for */
    struct wait *next; /* to take its place */
    unsigned waits;    /* that are not freed */
    uv_timer_t timer;  /* the next try, or the next session */
    bool is_timer_open;
    bool is_closing;
    bool is_giving_way; /* the next one begins when the one before is gone */
    char why[WHY_BYTES];
};

static void begin(struct pfl_alarm_watch *w);

/* ---- sets ---- */

bool pfl_alarm_watch_set_has(const struct pfl_alarm_watch_set *set, const char *trigger)
{
    for (size_t i = 0; i < set->len; i++) {
        if (strcmp(set->names[i], trigger) == 0)
            return true;
    }
    return false;
}

void pfl_alarm_watch_set_add(struct pfl_alarm_watch_set *set, const char *trigger)
{
    if (set->len == PFL_ALARM_WATCH_TRIGGERS || pfl_alarm_watch_set_has(set, trigger))
        return;
    (void)snprintf(set->names[set->len++], PFL_IDENTITY_NAME_BYTES, "%s", trigger);
}

static bool has_all(const struct wait *wait, const struct pfl_alarm_watch_set *wanted)
{
    for (size_t i = 0; i < wanted->len; i++) {
        if (wait == NULL || !pfl_alarm_watch_set_has(&wait->set, wanted->names[i]))
            return false;
    }
    return true;
}

/* ---- the end of a wait ---- */

static void finish(struct pfl_alarm_watch *w)
{
    if (!w->is_closing || w->waits != 0 || w->is_timer_open)
        return;
    w->conf.on_closed(w->conf.user);
    pfl_mem_free(w);
}

static void let_go(struct wait **wait)
{
    if (*wait != NULL)
        pfl_service_conn_close((*wait)->conn);
    *wait = NULL;
}

static void on_retry(uv_timer_t *timer)
{
    begin(timer->data);
}

static void retry_later(struct pfl_alarm_watch *w, const char *why)
{
    (void)snprintf(w->why, sizeof(w->why), "%s", why);
    (void)uv_timer_start(&w->timer, on_retry, w->conf.retry_ms, 0);
}

/* What waited, or was to, does not any more. */
static void on_lost(struct pfl_alarm_watch *w, const struct wait *wait)
{
    bool was_long_armed =
        wait->is_armed && uv_now(w->conf.loop) - wait->armed_ms >= w->conf.retry_ms;

    if (w->now == wait)
        w->now = NULL;
    else
        w->next = NULL;
    if (wait->why != NULL && w->now != NULL) {
        w->is_giving_way = true;
        let_go(&w->now);
    } else if (w->next == NULL && was_long_armed) {
        begin(w);
    } else if (w->next == NULL) {
        retry_later(w, wait->why != NULL ? wait->why : "the service ended the connection");
    }
    w->conf.on_changed(w->conf.user);
}

static bool is_current(const struct wait *wait)
{
    return wait->watch->now == wait || wait->watch->next == wait;
}

static void on_conn_closed(void *user)
{
    struct wait *wait = user;
    struct pfl_alarm_watch *w = wait->watch;

    w->waits--;
    if (!w->is_closing && is_current(wait))
        on_lost(w, wait);
    else if (!w->is_closing && w->is_giving_way && w->now == NULL && w->next == NULL)
        begin(w);
    pfl_mem_free(wait);
    finish(w);
}

static void give_up(struct wait *wait, const char *why)
{
    if (wait->why == NULL)
        wait->why = why;
    pfl_service_conn_close(wait->conn);
}

/* ---- what the service says ---- */

/* The name of a hit, when it is one of ours; the producers of a host name triggers as they like. */
static const char *find_hit(const struct wait *wait, struct pfl_span hit)
{
    struct pfl_reader r = pfl_reader_of(hit);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        for (size_t i = 0; f.id == OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_NAME &&
                           f.type == PFL_WIRE_BYTES && i < wait->set.len;
             i++) {
            const char *name = wait->set.names[i];

            if (pfl_span_is(f.bytes, name))
                return name;
        }
    }
    return NULL;
}

static int on_observed(void *user, const struct pfl_rpc_reply *reply)
{
    struct wait *wait = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field events;
    struct pfl_field f;

    while (pfl_reader_field(&r, &events)) {
        struct pfl_reader e = pfl_reader_of(events.bytes);

        while (events.id == OBSERVE_EVENTS_RESPONSE__EVENTS && events.type == PFL_WIRE_BYTES &&
               pfl_reader_field(&e, &f)) {
            const char *trigger =
                f.id == OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT && f.type == PFL_WIRE_BYTES
                    ? find_hit(wait, f.bytes)
                    : NULL;

            if (trigger != NULL && is_current(wait))
                wait->watch->conf.on_hit(wait->watch->conf.user, trigger);
        }
    }
    return 0;
}

static int on_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct wait *wait = user;
    struct pfl_alarm_watch *w = wait->watch;

    if (w->next != wait)
        return 0;
    if (!reply->success) {
        give_up(wait, "the service makes no session that waits for a trigger");
        return 0;
    }
    let_go(&w->now);
    w->now = wait;
    w->next = NULL;
    wait->is_armed = true;
    wait->armed_ms = uv_now(w->conf.loop);
    w->why[0] = '\0';
    (void)uv_timer_start(&w->timer, on_retry, PFL_ALARM_WATCH_SESSION_MS / 2, 0);
    w->conf.on_changed(w->conf.user);
    return 0;
}

/* Its time is over, or the service refuses it. */
static int on_ended(void *user, const struct pfl_rpc_reply *reply)
{
    (void)reply;
    give_up(user, "the service ended the session that waits for a trigger");
    return 0;
}

/* ---- asking ---- */

/* A session that records nothing. */
static int encode_wait(const struct pfl_alarm_watch_set *set, struct pfl_buf *out)
{
    struct pfl_buf triggers;
    struct pfl_message m = pfl_message_of(&triggers);
    int rc;

    pfl_buf_init(&triggers, REQUEST_BYTES);
    for (size_t i = 0; i < set->len; i++) {
        size_t trigger = pfl_message_begin(&m, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS);

        pfl_message_str(&m, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__NAME, set->names[i]);
        pfl_message_end(&m, trigger);
    }
    rc = m.rc;
    if (rc == 0)
        rc = pfl_trigger_session_encode(pfl_buf_get(&triggers), PFL_ALARM_WATCH_SESSION_MS, out);
    pfl_buf_fini(&triggers);
    return rc;
}

static void on_bound(void *user)
{
    static const uint8_t observe[] = {OBSERVE_EVENTS_REQUEST__EVENTS_TO_OBSERVE << 3,
                                      OBSERVABLE_EVENTS__TYPE_CLONE_TRIGGER_HIT};
    struct wait *wait = user;
    struct pfl_buf args;
    int rc;

    pfl_buf_init(&args, REQUEST_BYTES);
    rc = encode_wait(&wait->set, &args);
    if (rc == 0)
        rc = pfl_service_conn_invoke(wait->conn, "EnableTracing", pfl_buf_get(&args), on_ended,
                                     wait);
    pfl_buf_fini(&args);
    if (rc == 0)
        rc = pfl_service_conn_invoke(wait->conn, "ObserveEvents",
                                     pfl_span_of(observe, sizeof(observe)), on_observed, wait);
    if (rc == 0)
        rc = pfl_service_conn_invoke(wait->conn, "GetTraceStats", pfl_span_of(NULL, 0), on_fence,
                                     wait);
    if (rc == PFL_ENOMEM)
        give_up(wait, "the agent is out of memory");
    else if (rc != 0)
        give_up(wait, "the service is too old: it lacks a method");
}

static int open_wait(struct pfl_alarm_watch *w, struct wait **ret_wait)
{
    struct wait *wait = pfl_mem_zalloc(sizeof(*wait));
    struct pfl_service_conn_conf conf = {.loop = w->conf.loop,
                                         .socket = w->conf.socket,
                                         .on_bound = on_bound,
                                         .on_closed = on_conn_closed,
                                         .user = wait};
    int rc;

    if (wait == NULL)
        return PFL_ENOMEM;
    wait->watch = w;
    wait->set = w->wanted;
    rc = pfl_service_conn_open(&conf, &wait->conn);
    if (rc != 0) {
        pfl_mem_free(wait);
        return rc;
    }
    w->waits++;
    *ret_wait = wait;
    return 0;
}

/* A session for the wanted triggers, instead of the one that is being made. */
static void begin(struct pfl_alarm_watch *w)
{
    (void)uv_timer_stop(&w->timer);
    let_go(&w->next);
    w->is_giving_way = false;
    if (w->wanted.len != 0 && open_wait(w, &w->next) != 0) {
        w->next = NULL;
        retry_later(w, "the service does not answer");
    }
}

void pfl_alarm_watch_want(struct pfl_alarm_watch *self, const struct pfl_alarm_watch_set *set)
{
    if (self->is_closing)
        return;
    self->wanted = *set;
    if (set->len == 0) {
        (void)uv_timer_stop(&self->timer);
        let_go(&self->next);
        let_go(&self->now);
    } else if (has_all(self->now, set)) {
        let_go(&self->next);
    } else if (!has_all(self->next, set)) {
        self->why[0] = '\0';
        begin(self);
    }
}

/* ---- the watch ---- */

bool pfl_alarm_watch_covers(const struct pfl_alarm_watch *self, const char *trigger)
{
    return self->now != NULL && pfl_alarm_watch_set_has(&self->now->set, trigger);
}

const char *pfl_alarm_watch_get_why(const struct pfl_alarm_watch *self)
{
    return self->why;
}

int pfl_alarm_watch_open(const struct pfl_alarm_watch_conf *conf,
                         struct pfl_alarm_watch **ret_watch)
{
    struct pfl_alarm_watch *w = pfl_mem_zalloc(sizeof(*w));

    if (w == NULL)
        return PFL_ENOMEM;
    w->conf = *conf;
    if (w->conf.retry_ms == 0)
        w->conf.retry_ms = PFL_ALARM_WATCH_RETRY_MS;
    (void)uv_timer_init(conf->loop, &w->timer);
    w->timer.data = w;
    w->is_timer_open = true;
    *ret_watch = w;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_alarm_watch *w = handle->data;

    w->is_timer_open = false;
    finish(w);
}

void pfl_alarm_watch_close(struct pfl_alarm_watch *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    let_go(&self->next);
    let_go(&self->now);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}
