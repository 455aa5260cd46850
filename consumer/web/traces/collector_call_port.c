/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a collector: see collector_call_port.h.
 *
 *     NAME --GET /v1/collectors--> READY --replies--> ENDING --closed--> on_done
 *
 * Happy path: the relay names its collector, unless the owner gave a name; a stream to it opens;
 * the owner sends requests and gets replies until it ends the call. Failures: a sentence for the
 * page; having no collector is not a failure. The time between two replies is limited. Ownership:
 * the owner frees it after on_done; it waits for its stream and timer. A request that the relay
 * does not answer outlives it, up to the connection's end.
 */
#include "consumer/web/traces/collector_call_port.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/collector/collector_conn.h"
#include "consumer/host/host_spec.h"
#include "proto/tunnel/tunnel.h"

/* The request for names: its own, as the relay may never answer. */
struct asked {
    struct pfl_collector_call *call; /* NULL: it ended before */
};

struct pfl_collector_call {
    struct pfl_collector_call_conf conf;
    struct pfl_collector_conn *conn; /* owned; NULL: none */
    uv_timer_t timer;
    struct asked *asked; /* NULL: no request is open */
    bool is_ending;
    bool is_timer_closing;
    bool has_collector;
    char name[PFL_HOST_NAME_MAX]; /* the collector's */
    size_t found;
    char why[512];
};

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_collector_call *c = handle->data;

    c->conf.on_done(c->conf.user);
}

static void finish_if_done(struct pfl_collector_call *c)
{
    if (!c->is_ending || c->conn != NULL || c->is_timer_closing)
        return;
    c->is_timer_closing = true;
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void pfl_collector_call_end(struct pfl_collector_call *self, const char *why)
{
    if (!self->is_ending && why[0] != '\0')
        (void)snprintf(self->why, sizeof(self->why), "%s", why);
    self->is_ending = true;
    if (self->asked != NULL)
        self->asked->call = NULL;
    self->asked = NULL;
    if (self->conn != NULL)
        pfl_collector_conn_close(self->conn);
    finish_if_done(self);
}

static void on_late(uv_timer_t *timer)
{
    pfl_collector_call_end(timer->data, "the collector did not answer in time");
}

static void start_timer(struct pfl_collector_call *c)
{
    (void)uv_timer_start(&c->timer, on_late, c->conf.timeout_ms, 0);
}

/* ---- requests ---- */

static void on_closed(void *user, const char *why)
{
    struct pfl_collector_call *c = user;

    c->conn = NULL;
    pfl_collector_call_end(c, why);
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_collector_call *c = user;

    if (c->is_ending)
        return;
    start_timer(c);
    c->conf.on_reply(c->conf.user, reply);
}

uint32_t pfl_collector_call_send(struct pfl_collector_call *self,
                                 Perfleet__CollectorRequest *request)
{
    if (self->conn == NULL || self->is_ending)
        return 0;
    if (pfl_collector_conn_send(self->conn, request) == 0) {
        start_timer(self);
        return request->id;
    }
    pfl_collector_call_end(self, "the request to the collector cannot be sent");
    return 0;
}

void pfl_collector_call_rest(struct pfl_collector_call *self)
{
    if (!self->is_ending)
        (void)uv_timer_stop(&self->timer);
}

const char *pfl_collector_call_quote_why(const Perfleet__CollectorReply *reply)
{
    return reply->why != NULL ? pfl_log_quote_reason(reply->why) : "the collector refuses";
}

static void dial(struct pfl_collector_call *c)
{
    struct pfl_collector_conn_conf conf = {.loop = c->conf.loop,
                                           .tunnel = c->conf.tunnel,
                                           .name = c->name,
                                           .on_reply = on_reply,
                                           .on_closed = on_closed,
                                           .user = c};

    c->has_collector = true;
    if (pfl_collector_conn_open(&conf, &c->conn) != 0) {
        c->conn = NULL;
        pfl_collector_call_end(c, "the collector has no usable name");
        return;
    }
    c->conf.on_ready(c->conf.user, c);
}

/* ---- its name ---- */

static void on_collectors(void *user, int err, unsigned status, struct pfl_span body)
{
    struct asked *asked = user;
    struct pfl_collector_call *c = asked->call;

    pfl_mem_free(asked);
    if (c == NULL)
        return;
    c->asked = NULL;
    if (err == 0 && status == 200)
        c->found = pfl_collector_conn_read_names(body, c->name, sizeof(c->name));
    if (c->found == 1) {
        dial(c);
        return;
    }
    c->has_collector = c->found > 1;
    pfl_collector_call_end(c, c->found > 1
                                  ? "several collectors are connected to the relay: give perfleet "
                                    "ui --collector NAME"
                                  : "");
}

/* False: the relay is away, or memory is short. */
static bool ask_names(struct pfl_collector_call *c)
{
    struct asked *asked = pfl_mem_zalloc(sizeof(*asked));
    const struct pfl_tunnel_call call = {.method = "GET",
                                         .path = PFL_TUNNEL_COLLECTORS_PATH,
                                         .on_done = on_collectors,
                                         .user = asked};

    if (asked == NULL || pfl_tunnel_client_call(c->conf.tunnel, &call) != 0) {
        pfl_mem_free(asked);
        return false;
    }
    asked->call = c;
    c->asked = asked;
    return true;
}

int pfl_collector_call_open(const struct pfl_collector_call_conf *conf,
                            struct pfl_collector_call **ret_call)
{
    struct pfl_collector_call *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    (void)uv_timer_init(conf->loop, &c->timer);
    c->timer.data = c;
    start_timer(c);
    *ret_call = c;
    if (conf->collector != NULL) {
        (void)snprintf(c->name, sizeof(c->name), "%s", conf->collector);
        dial(c);
    } else if (!ask_names(c)) {
        pfl_collector_call_end(c, ""); /* the relay is away, and the page says so */
    }
    return 0;
}

bool pfl_collector_call_has_collector(const struct pfl_collector_call *self)
{
    return self->has_collector;
}

const char *pfl_collector_call_get_why(const struct pfl_collector_call *self)
{
    return self->why;
}

void pfl_collector_call_free(struct pfl_collector_call *self)
{
    pfl_mem_free(self);
}
