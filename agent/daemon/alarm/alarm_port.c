/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An alarm: see alarm_port.h.
 *
 *     ARMING --> ARMED --> COPYING --> COPIED
 *       ^          |          `------> FAILED
 *       `----------' its triggers are not waited for any more
 *
 * Happy path: when a trigger is raised, open a connection for the copy: CloneSession, Detach under
 * SESSION.triggered; then close it. Failures: a failed copy stays as FAILED with the service's
 * text. Ownership: a connection and a timer; the last of them that closes frees. Limits: those of
 * the header; one copy, until the alarm is set again.
 */
#include "agent/daemon/alarm/alarm_port.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "tunnel/service_conn.h"

#define REQUEST_BYTES 2048u

struct pfl_agent_alarm {
    struct pfl_list node;
    struct pfl_agent_alarm_conf conf;
    struct pfl_agent_alarm_order order; /* its texts are the arrays below */
    enum pfl_agent_alarm_state state;
    uint64_t set_ms;
    uint64_t since_ms;             /* in this state */
    struct pfl_service_conn *copy; /* owned; makes the copy */
    uv_timer_t timer;              /* COPYING: too long */
    bool is_timer_open;
    bool is_closing;
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char session[PFL_IDENTITY_NAME_BYTES];
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES];
    char why[PFL_AGENT_ALARM_WHY_BYTES];
};

static const char *const state_names[] = {
    [PFL_AGENT_ALARM_ARMING] = "arming",   [PFL_AGENT_ALARM_ARMED] = "armed",
    [PFL_AGENT_ALARM_COPYING] = "copying", [PFL_AGENT_ALARM_COPIED] = "copied",
    [PFL_AGENT_ALARM_FAILED] = "failed",
};

static void enter(struct pfl_agent_alarm *a, enum pfl_agent_alarm_state state, const char *why)
{
    a->state = state;
    a->since_ms = uv_now(a->conf.loop);
    (void)snprintf(a->why, sizeof(a->why), "%s", why);
}

/* ---- the end ---- */

static void finish(struct pfl_agent_alarm *a)
{
    if (!a->is_closing || a->copy != NULL || a->is_timer_open)
        return;
    pfl_list_remove(&a->node);
    a->conf.on_gone(a->conf.user);
    pfl_mem_free(a);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_agent_alarm *a = handle->data;

    a->is_timer_open = false;
    finish(a);
}

static void close_copy(struct pfl_agent_alarm *a)
{
    if (a->copy != NULL)
        pfl_service_conn_close(a->copy);
}

void pfl_agent_alarm_close(struct pfl_agent_alarm *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    close_copy(self);
}

/* ---- copying ---- */

static void fail(struct pfl_agent_alarm *a, const char *why)
{
    if (a->state != PFL_AGENT_ALARM_COPYING || a->is_closing)
        return;
    enter(a, PFL_AGENT_ALARM_FAILED, why);
    pfl_log_warn("alarm-failed", "operator=%s session=%s trigger=%s reason=%s", a->operator_name,
                 a->session, a->trigger, pfl_log_quote_str(why));
    (void)uv_timer_stop(&a->timer);
    close_copy(a);
}

static void on_copy_late(uv_timer_t *timer)
{
    fail(timer->data, "the service did not make the copy in time");
}

static int on_detached(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_agent_alarm *a = user;

    if (a->state != PFL_AGENT_ALARM_COPYING || a->is_closing)
        return 0;
    if (!reply->success) {
        fail(a, "the copy cannot be kept: the last one is still there (perfleet read or kill "
                "SESSION" PFL_AGENT_ALARM_COPY_SUFFIX ")");
        return 0;
    }
    enter(a, PFL_AGENT_ALARM_COPIED, "");
    pfl_log_info("alarm-copied", "operator=%s session=%s trigger=%s host=%s", a->operator_name,
                 a->session, a->trigger, a->host[0] != '\0' ? a->host : "here");
    (void)uv_timer_stop(&a->timer);
    close_copy(a);
    return 0;
}

static struct pfl_span encode_key(const char *session, uint8_t *dst, size_t room)
{
    char key[PFL_IDENTITY_NAME_BYTES + sizeof(PFL_AGENT_ALARM_COPY_SUFFIX)];
    struct pfl_writer w = pfl_writer_of(dst, room);

    (void)snprintf(key, sizeof(key), "%s" PFL_AGENT_ALARM_COPY_SUFFIX, session);
    pfl_writer_field_bytes(&w, DETACH_REQUEST__KEY, key, strlen(key));
    return pfl_span_of(dst, room - w.left);
}

static int on_cloned(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_agent_alarm *a = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    uint8_t args[REQUEST_BYTES];
    bool is_cloned = false;
    char why[PFL_AGENT_ALARM_WHY_BYTES] = "the service does not copy the session";

    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLONE_SESSION_RESPONSE__SUCCESS)
            is_cloned = f.value != 0;
        if (f.id == CLONE_SESSION_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
            (void)snprintf(why, sizeof(why), "the service does not copy the session: %.150s",
                           pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
    }
    if (!reply->success || !is_cloned)
        fail(a, why);
    else if (pfl_service_conn_invoke(a->copy, "Detach", encode_key(a->session, args, sizeof(args)),
                                     on_detached, a) != 0)
        fail(a, "the service cannot keep a copy");
    return 0;
}

static void on_copy_bound(void *user)
{
    struct pfl_agent_alarm *a = user;
    uint8_t args[REQUEST_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME, a->session,
                           strlen(a->session));
    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_NAME, a->trigger,
                           strlen(a->trigger));
    if (a->host[0] != '\0')
        pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_PRODUCER_NAME, a->host,
                               strlen(a->host));
    pfl_writer_field_varint(&w, CLONE_SESSION_REQUEST__CLONE_TRIGGER_BOOT_TIME_NS,
                            pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    if (pfl_service_conn_invoke(a->copy, "CloneSession", pfl_span_of(args, sizeof(args) - w.left),
                                on_cloned, a) != 0)
        fail(a, "the service cannot copy sessions");
}

static void on_copy_closed(void *user)
{
    struct pfl_agent_alarm *a = user;

    a->copy = NULL;
    fail(a, "the service was lost while it made the copy");
    finish(a);
}

static bool is_waiting(const struct pfl_agent_alarm *a)
{
    return !a->is_closing && a->state < PFL_AGENT_ALARM_COPYING;
}

static bool has_trigger(const struct pfl_agent_alarm *a, const char *trigger)
{
    for (size_t i = 0; i < a->order.triggers_len; i++) {
        if (strcmp(a->order.triggers[i], trigger) == 0)
            return true;
    }
    return false;
}

bool pfl_agent_alarm_raise(struct pfl_agent_alarm *self, const char *trigger, const char *host)
{
    struct pfl_service_conn_conf conf = {.loop = self->conf.loop,
                                         .socket = self->conf.socket,
                                         .on_bound = on_copy_bound,
                                         .on_closed = on_copy_closed,
                                         .user = self};

    if (!is_waiting(self) || !has_trigger(self, trigger))
        return false;
    (void)snprintf(self->trigger, sizeof(self->trigger), "%s", trigger);
    (void)snprintf(self->host, sizeof(self->host), "%s", host);
    enter(self, PFL_AGENT_ALARM_COPYING, "");
    (void)uv_timer_start(&self->timer, on_copy_late, PFL_AGENT_ALARM_COPY_MS, 0);
    if (pfl_service_conn_open(&conf, &self->copy) != 0) {
        self->copy = NULL;
        fail(self, "the service does not answer");
    }
    return true;
}

void pfl_agent_alarm_set_watched(struct pfl_agent_alarm *self, bool is_watched, const char *why)
{
    enum pfl_agent_alarm_state state = is_watched ? PFL_AGENT_ALARM_ARMED : PFL_AGENT_ALARM_ARMING;

    if (is_waiting(self) && (self->state != state || strcmp(self->why, why) != 0))
        enter(self, state, why);
}

/* ---- orders ---- */

bool pfl_agent_alarm_read_triggers(const char *text_untrusted, struct pfl_agent_alarm_order *order)
{
    const char *at = text_untrusted;

    for (order->triggers_len = 0; order->triggers_len < PFL_AGENT_ALARM_TRIGGERS;) {
        char *name = order->triggers[order->triggers_len++];
        size_t len = strcspn(at, ",");

        if (len >= PFL_IDENTITY_NAME_BYTES)
            return false;
        memcpy(name, at, len);
        name[len] = '\0';
        if (!pfl_identity_is_name(name))
            return false;
        if (at[len] == '\0')
            return true;
        at += len + 1;
    }
    return false;
}

bool pfl_agent_alarm_is_allowed(const char *session, struct pfl_span role, char *ret_why)
{
    uint8_t args[REQUEST_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    if (role.len == 0)
        return true;
    pfl_writer_field_bytes(&w, CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME, session,
                           strlen(session));
    return pfl_judge_request(role, PFL_METHOD_CLONE_SESSION,
                             pfl_span_of(args, sizeof(args) - w.left), ret_why) &&
           pfl_judge_request(role, PFL_METHOD_DETACH, encode_key(session, args, sizeof(args)),
                             ret_why);
}

/* ---- opening ---- */

int pfl_agent_alarm_open(const struct pfl_agent_alarm_conf *conf,
                         struct pfl_agent_alarm **ret_alarm)
{
    struct pfl_agent_alarm *a = pfl_mem_zalloc(sizeof(*a));

    if (a == NULL)
        return PFL_ENOMEM;
    a->conf = *conf;
    a->order = *conf->order;
    (void)snprintf(a->operator_name, sizeof(a->operator_name), "%s", conf->order->operator_name);
    (void)snprintf(a->session, sizeof(a->session), "%s", conf->order->session);
    a->order.operator_name = a->operator_name;
    a->order.session = a->session;
    a->conf.order = &a->order;
    (void)uv_timer_init(conf->loop, &a->timer);
    a->timer.data = a;
    a->is_timer_open = true;
    a->set_ms = uv_now(conf->loop);
    enter(a, PFL_AGENT_ALARM_ARMING, "");
    *ret_alarm = a;
    return 0;
}

void pfl_agent_alarm_get_info(const struct pfl_agent_alarm *self,
                              struct pfl_agent_alarm_info *ret_info)
{
    *ret_info = (struct pfl_agent_alarm_info){
        .operator_name = self->operator_name,
        .session = self->session,
        .state = state_names[self->state],
        .trigger = self->trigger,
        .host = self->host,
        .why = self->why,
        .since_ms = uv_now(self->conf.loop) - self->since_ms,
        .is_closing = self->is_closing,
        .is_waiting = is_waiting(self),
        .order = &self->order,
    };
}

uint64_t pfl_agent_alarm_get_age_ms(const struct pfl_agent_alarm *self)
{
    return uv_now(self->conf.loop) - self->set_ms;
}

struct pfl_list *pfl_agent_alarm_get_node(struct pfl_agent_alarm *self)
{
    return &self->node;
}

struct pfl_agent_alarm *pfl_agent_alarm_of_node(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_agent_alarm, node);
}
