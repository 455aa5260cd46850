/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation with a collector: see collector_session.h. Happy path: open the relay, GET
 * /v1/collectors, open a stream to the only one or the one of --collector, ask. Failures: reported
 * on stderr with the remedy; --timeout limits the time without any reply.
 */
#include "consumer/cmd/collector_session.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"
#include "proto/tunnel/tunnel.h"

static void on_late(uv_timer_t *timer)
{
    struct pfl_collector_session *s = timer->data;

    s->is_late = true;
}

static void begin_time(struct pfl_collector_session *s)
{
    s->is_late = false;
    (void)uv_timer_start(&s->timer, on_late, s->args->targets.timeout_ms, 0);
}

static void take_names(struct pfl_collector_session *s, struct pfl_span body)
{
    char name[sizeof(s->name)] = "";

    s->found = pfl_collector_conn_read_names(body, name, sizeof(name));
    if (s->found != 0 && s->args->collector == NULL)
        (void)snprintf(s->name, sizeof(s->name), "%s", name);
}

static void on_collectors(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_collector_session *s = user;

    s->has_answer = true;
    if (err == 0 && status == 200)
        take_names(s, body);
    else if (err != 0)
        (void)snprintf(s->why, sizeof(s->why), "%s", pfl_err_str(err));
    else if (status == 404 || status == 405)
        (void)snprintf(s->why, sizeof(s->why), "it is too old: it knows no collectors");
    else
        (void)snprintf(s->why, sizeof(s->why), "it answers with status %u: %s", status,
                       pfl_log_quote((const char *)body.data, body.len));
}

/* 0 or the exit code. */
static int find_collector(struct pfl_collector_session *s)
{
    const char *relay = s->args->targets.relay;
    const struct pfl_tunnel_call call = {
        .method = "GET", .path = PFL_TUNNEL_COLLECTORS_PATH, .on_done = on_collectors, .user = s};

    if (s->args->collector != NULL) {
        (void)snprintf(s->name, sizeof(s->name), "%s", s->args->collector);
        return PFL_EXIT_OK;
    }
    if (pfl_tunnel_client_call(s->args->targets.tunnel, &call) != 0)
        on_collectors(s, PFL_ECLOSED, 0, pfl_span_of(NULL, 0));
    begin_time(s);
    while (!s->has_answer && !s->is_late)
        uv_run(&s->loop, UV_RUN_ONCE);
    if (!s->has_answer)
        (void)snprintf(s->why, sizeof(s->why), "no answer in time");
    if (s->why[0] != '\0') {
        pfl_cmd_error("relay %s: %s", relay, s->why);
        return PFL_EXIT_NOTHING;
    }
    if (s->found == 1)
        return PFL_EXIT_OK;
    pfl_cmd_error(s->found == 0
                      ? "relay %s: no collector is connected to it; see perfleet-collector(8)"
                      : "relay %s: several collectors are connected to it; give "
                        "--collector NAME",
                  relay);
    return s->found == 0 ? PFL_EXIT_NOTHING : PFL_EXIT_USAGE;
}

static void on_closed(void *user, const char *why)
{
    struct pfl_collector_session *s = user;

    s->conn = NULL;
    (void)snprintf(s->why, sizeof(s->why), "%s", why);
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_collector_session *s = user;

    begin_time(s);
    if (s->id == 0) {
        if (s->on_reply != NULL)
            s->on_reply(s->user, reply);
        return;
    }
    if (reply->id != s->id)
        return;
    if (reply->status != 0) {
        s->status = reply->status;
        (void)snprintf(s->why, sizeof(s->why), "%s",
                       reply->why != NULL ? pfl_log_quote_reason(reply->why) : "it refuses");
    } else if (s->on_reply != NULL) {
        s->on_reply(s->user, reply);
    }
    if (!reply->has_more)
        s->id = 0;
}

static void fini(struct pfl_collector_session *s)
{
    uv_close((uv_handle_t *)&s->timer, NULL);
    pfl_targets_close(&s->args->targets);
}

int pfl_collector_session_open(struct pfl_collector_session *self, struct pfl_args *args)
{
    struct pfl_collector_conn_conf conf = {
        .loop = &self->loop, .on_reply = on_reply, .on_closed = on_closed, .user = self};
    int code;

    *self = (struct pfl_collector_session){.args = args};
    pfl_text_init_json();
    args->targets.is_relay_only = true;
    code = pfl_targets_open(&args->targets, &self->loop);
    if (code != PFL_EXIT_OK)
        return code;
    (void)uv_timer_init(&self->loop, &self->timer);
    self->timer.data = self;
    code = find_collector(self);
    if (code == PFL_EXIT_OK) {
        conf.tunnel = args->targets.tunnel;
        conf.name = self->name;
        if (pfl_collector_conn_open(&conf, &self->conn) != 0) {
            pfl_cmd_error("--collector %s: give its name, as its certificate has it",
                          pfl_log_quote_str(self->name));
            code = PFL_EXIT_USAGE;
        }
    }
    if (code != PFL_EXIT_OK)
        fini(self);
    return code;
}

void pfl_collector_session_close(struct pfl_collector_session *self)
{
    if (self->conn != NULL)
        pfl_collector_conn_close(self->conn);
    while (self->conn != NULL)
        uv_run(&self->loop, UV_RUN_ONCE);
    fini(self);
}

int pfl_collector_session_ask(struct pfl_collector_session *self,
                              Perfleet__CollectorRequest *request,
                              void (*on_answer)(void *user, const Perfleet__CollectorReply *reply),
                              void *user)
{
    int rc = self->conn != NULL ? pfl_collector_conn_send(self->conn, request) : PFL_ECLOSED;

    self->why[0] = '\0';
    self->status = 0;
    self->on_reply = on_answer;
    self->user = user;
    self->id = rc == 0 ? request->id : 0;
    if (rc != 0)
        (void)snprintf(self->why, sizeof(self->why), "%s", pfl_err_str(rc));
    begin_time(self);
    while (self->id != 0 && self->conn != NULL && !self->is_late)
        uv_run(&self->loop, UV_RUN_ONCE);
    if (self->id != 0 && self->why[0] == '\0')
        (void)snprintf(self->why, sizeof(self->why), "no answer in time");
    self->id = 0;
    self->on_reply = NULL;
    if (self->why[0] == '\0')
        return PFL_EXIT_OK;
    pfl_cmd_error("collector %s: %s", self->name, self->why);
    return PFL_EXIT_NOTHING;
}

void pfl_collector_session_hear(struct pfl_collector_session *self,
                                void (*on_answer)(void *user,
                                                  const Perfleet__CollectorReply *reply),
                                void *user)
{
    self->id = 0;
    self->on_reply = on_answer;
    self->user = user;
    begin_time(self);
}
