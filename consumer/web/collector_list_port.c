/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest traces of a host: see collector_list_port.h.
 *
 *     NAME --GET /v1/collectors--> LIST --replies--> ENDING --closed--> on_done
 *
 * Happy path: the relay names its collector, unless it was given; a stream to it; one request; rows
 * until the last reply. Failures: a sentence; no collector is no failure. Time is limited as a
 * whole. Ownership: the owner frees it after on_done; it waits for its call, stream and timer.
 */
#include "consumer/web/collector_list_port.h"

#include <jansson.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/collector/collector_conn.h"
#include "consumer/host/host_spec.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"

struct pfl_collector_list {
    struct pfl_collector_list_conf conf;
    struct pfl_collector_conn *conn; /* owned; NULL: none */
    uv_timer_t timer;
    bool is_call_open;
    bool is_ending;
    bool is_timer_closing;
    bool has_collector;
    char host[PFL_HOST_NAME_MAX];
    char name[PFL_HOST_NAME_MAX]; /* the collector's */
    unsigned found;
    char why[512];
    struct pfl_trace_rows rows;
};

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_collector_list *l = handle->data;

    l->conf.on_done(l->conf.user);
}

static void finish_if_done(struct pfl_collector_list *l)
{
    if (!l->is_ending || l->is_call_open || l->conn != NULL || l->is_timer_closing)
        return;
    l->is_timer_closing = true;
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

static void end(struct pfl_collector_list *l, const char *why)
{
    if (!l->is_ending && why[0] != '\0')
        (void)snprintf(l->why, sizeof(l->why), "%s", why);
    l->is_ending = true;
    if (l->conn != NULL)
        pfl_collector_conn_close(l->conn);
    finish_if_done(l);
}

static void on_late(uv_timer_t *timer)
{
    struct pfl_collector_list *l = timer->data;

    end(l, "the collector did not answer in time");
}

/* ---- the request ---- */

static void on_closed(void *user, const char *why)
{
    struct pfl_collector_list *l = user;

    l->conn = NULL;
    end(l, why);
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_collector_list *l = user;

    if (l->is_ending)
        return;
    if (reply->status != 0) {
        end(l, reply->why != NULL ? pfl_log_quote_reason(reply->why) : "the collector refuses");
        return;
    }
    pfl_trace_rows_take(&l->rows, reply);
    if (!reply->has_more)
        end(l, "");
}

static int send_request(struct pfl_collector_list *l)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *hosts[1] = {l->host};

    query.host = hosts;
    query.n_host = 1;
    query.has_limit = 1;
    query.limit = PFL_TRACE_ROWS_MAX;
    request.list = &query;
    return pfl_collector_conn_send(l->conn, &request);
}

static void dial(struct pfl_collector_list *l)
{
    struct pfl_collector_conn_conf conf = {.loop = l->conf.loop,
                                           .tunnel = l->conf.tunnel,
                                           .name = l->name,
                                           .on_reply = on_reply,
                                           .on_closed = on_closed,
                                           .user = l};

    l->has_collector = true;
    if (pfl_collector_conn_open(&conf, &l->conn) != 0) {
        l->conn = NULL;
        end(l, "the collector has no usable name");
    } else if (send_request(l) != 0) {
        end(l, "out of memory");
    }
}

/* ---- its name ---- */

static void take_names(struct pfl_collector_list *l, struct pfl_span body)
{
    json_t *answer = json_loadb((const char *)body.data, body.len, 0, NULL);
    const json_t *list = json_object_get(answer, "collectors");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));

        if (name == NULL || !pfl_identity_is_name(name))
            continue;
        l->found++;
        (void)snprintf(l->name, sizeof(l->name), "%s", name);
    }
    json_decref(answer);
}

static void on_collectors(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_collector_list *l = user;

    l->is_call_open = false;
    if (l->is_ending) {
        finish_if_done(l);
        return;
    }
    if (err == 0 && status == 200)
        take_names(l, body);
    if (l->found == 1) {
        dial(l);
    } else {
        l->has_collector = l->found > 1;
        end(l, l->found > 1 ? "several collectors are connected to the relay: give perfleet ui "
                              "--collector NAME"
                            : "");
    }
}

int pfl_collector_list_open(const struct pfl_collector_list_conf *conf,
                            struct pfl_collector_list **ret_list)
{
    struct pfl_collector_list *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_tunnel_call call = {
        .method = "GET", .path = PFL_TUNNEL_COLLECTORS_PATH, .on_done = on_collectors, .user = l};

    if (l == NULL)
        return PFL_ENOMEM;
    l->conf = *conf;
    (void)snprintf(l->host, sizeof(l->host), "%s", conf->host);
    (void)uv_timer_init(conf->loop, &l->timer);
    l->timer.data = l;
    (void)uv_timer_start(&l->timer, on_late, conf->timeout_ms, 0);
    if (conf->collector != NULL) {
        (void)snprintf(l->name, sizeof(l->name), "%s", conf->collector);
        dial(l);
    } else if (pfl_tunnel_client_call(conf->tunnel, &call) == 0) {
        l->is_call_open = true;
    } else {
        end(l, ""); /* the relay is away, and the page says so */
    }
    *ret_list = l;
    return 0;
}

const struct pfl_trace_rows *pfl_collector_list_get(const struct pfl_collector_list *self)
{
    return self->has_collector ? &self->rows : NULL;
}

const char *pfl_collector_list_get_why(const struct pfl_collector_list *self)
{
    return self->why;
}

void pfl_collector_list_abort(struct pfl_collector_list *self)
{
    end(self, "");
}

void pfl_collector_list_free(struct pfl_collector_list *self)
{
    pfl_mem_free(self);
}
