/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the service: see service_watch.h.
 *
 *     connect -> bind -> QueryServiceState{sessions only, figures}
 *                          |-- with figures: done
 *                          `-- without: QueryServiceState{} -> producers counted: done
 *
 * Failures: no listener, no answer in time, too long or malformed: the service is unknown, and the
 * connection is closed. Nothing is logged: the metrics show it. Ownership: the connection until its
 * on_closed, the timer until close. Limits: those of the header; one query at a time.
 */
#include "tunnel/service_watch.h"

#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"
#include "tunnel/service_conn.h"

struct pfl_service_watch {
    struct pfl_service_watch_conf conf;
    struct pfl_service_view view;  /* of the last question */
    struct pfl_service_view next;  /* of this one */
    struct pfl_service_conn *conn; /* owned until its on_closed; NULL: no question is open */
    size_t answer_bytes;
    uint64_t fresh_until_ms;
    uv_timer_t timer;
    bool is_whole; /* everything was answered */
    bool is_timer_open;
    bool is_closing;
};

static void free_if_gone(struct pfl_service_watch *w)
{
    if (w->is_closing && w->conn == NULL && !w->is_timer_open)
        pfl_mem_free(w);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_service_watch *w = handle->data;

    w->is_timer_open = false;
    free_if_gone(w);
}

/* ---- one question ---- */

/* 0, or why the connection is to end. */
static int take(struct pfl_service_watch *w, const struct pfl_rpc_reply *reply)
{
    w->answer_bytes += reply->body.len;
    if (w->is_whole || !reply->success || w->answer_bytes > PFL_SERVICE_WATCH_ANSWER_BYTES)
        return PFL_EPROTO;
    return pfl_service_view_feed(&w->next, reply->body);
}

static void end_well(struct pfl_service_watch *w)
{
    w->is_whole = true;
    pfl_service_conn_close(w->conn);
}

static int on_counted(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_service_watch *w = user;
    int rc = take(w, reply);

    if (rc == 0 && !reply->has_more)
        end_well(w);
    return rc;
}

static int on_state(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_service_watch *w = user;
    int rc = take(w, reply);

    if (rc != 0 || reply->has_more)
        return rc;
    if (w->next.has_figures) {
        end_well(w);
        return 0;
    }
    w->next = (struct pfl_service_view){0};
    return pfl_service_conn_invoke(w->conn, "QueryServiceState", pfl_span_of(NULL, 0), on_counted,
                                   w);
}

static void on_bound(void *user)
{
    struct pfl_service_watch *w = user;
    uint8_t args[16];
    struct pfl_writer writer = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_varint(&writer, QUERY_SERVICE_STATE_REQUEST__SESSIONS_ONLY, 1);
    pfl_writer_field_varint(&writer, QUERY_SERVICE_STATE_REQUEST__PERFLEET_FIGURES, 1);
    if (pfl_service_conn_invoke(w->conn, "QueryServiceState",
                                pfl_span_of(args, sizeof(args) - writer.left), on_state, w) != 0)
        pfl_service_conn_close(w->conn);
}

static void end_question(struct pfl_service_watch *w)
{
    w->next.is_known = w->is_whole;
    w->view = w->is_whole ? w->next : (struct pfl_service_view){0};
    w->fresh_until_ms = uv_now(w->conf.loop) + PFL_SERVICE_WATCH_FRESH_MS;
}

static void on_closed(void *user)
{
    struct pfl_service_watch *w = user;

    w->conn = NULL;
    if (w->is_closing) {
        free_if_gone(w);
        return;
    }
    (void)uv_timer_stop(&w->timer);
    end_question(w);
    w->conf.on_done(w->conf.user);
}

static void on_timeout(uv_timer_t *timer)
{
    struct pfl_service_watch *w = timer->data;

    if (w->conn != NULL)
        pfl_service_conn_close(w->conn);
}

bool pfl_service_watch_ask(struct pfl_service_watch *self)
{
    const struct pfl_service_conn_conf conf = {.loop = self->conf.loop,
                                               .socket = self->conf.socket,
                                               .on_bound = on_bound,
                                               .on_closed = on_closed,
                                               .user = self};

    if (self->conn != NULL)
        return false;
    if (uv_now(self->conf.loop) < self->fresh_until_ms)
        return true;
    self->next = (struct pfl_service_view){0};
    self->is_whole = false;
    self->answer_bytes = 0;
    if (pfl_service_conn_open(&conf, &self->conn) != 0) {
        end_question(self);
        return true;
    }
    (void)uv_timer_start(&self->timer, on_timeout, PFL_SERVICE_WATCH_TIMEOUT_MS, 0);
    return false;
}

/* ---- the watch ---- */

int pfl_service_watch_open(const struct pfl_service_watch_conf *conf,
                           struct pfl_service_watch **ret_watch)
{
    struct pfl_service_watch *w = pfl_mem_zalloc(sizeof(*w));

    if (w == NULL)
        return PFL_ENOMEM;
    w->conf = *conf;
    (void)uv_timer_init(conf->loop, &w->timer);
    w->timer.data = w;
    w->is_timer_open = true;
    *ret_watch = w;
    return 0;
}

const struct pfl_service_view *pfl_service_watch_get(const struct pfl_service_watch *self)
{
    return &self->view;
}

void pfl_service_watch_close(struct pfl_service_watch *self)
{
    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    if (self->conn != NULL)
        pfl_service_conn_close(self->conn);
}
