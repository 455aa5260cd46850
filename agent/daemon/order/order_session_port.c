/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of an order: see order_session_port.h.
 *
 *     STARTING --fence--> RUNNING --stop--> STOPPING --> closed
 *
 * Happy path: a run begins in the folder of segments and, when its note is on the disk, a
 * connection to the service is opened: EnableTracing, and GetTraceStats as a fence. A ring has no
 * run. To stop it: DisableTracing, and the connection is closed when the session has ended.
 * Failures: it closes, and `why` says why. Ownership: a connection; its owner frees it.
 */
#include "agent/daemon/order/order_session_port.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "tunnel/service_conn.h"

#define NS_PER_MS     UINT64_C(1000000)
#define REQUEST_BYTES (PFL_ORDER_MAX_BYTES + 16384u)
#define LABELS_MAX    64u

/* ---- at the service ---- */

static void on_conn_closed(void *user)
{
    struct pfl_order_session *s = user;

    if (s->id[0] != '\0')
        pfl_segments_end_run(s->conf->segments, s->id);
    s->conf->on_closed(s->conf->user, s);
}

static int on_ended(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_order_session *s = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;

    if (!reply->success)
        (void)snprintf(s->why, sizeof(s->why), "the service refuses the session: %.200s",
                       pfl_log_quote((const char *)reply->why.data, reply->why.len));
    while (pfl_reader_field(&r, &f)) {
        if (f.id == ENABLE_TRACING_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES && f.bytes.len != 0)
            (void)snprintf(s->why, sizeof(s->why), "the service ended the session: %.300s",
                           pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
    }
    if (s->why[0] == '\0')
        (void)snprintf(s->why, sizeof(s->why), "the service ended the session");
    pfl_service_conn_close(s->conn);
    return 0;
}

static int on_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_order_session *s = user;

    if (s->state != PFL_ORDER_SESSION_STARTING || !reply->success)
        return 0;
    s->state = PFL_ORDER_SESSION_RUNNING;
    s->begun_ms = uv_now(s->conf->loop);
    if (s->ring[0] != '\0')
        s->begun_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    s->conf->on_running(s->conf->user, s);
    return 0;
}

static void on_bound(void *user)
{
    struct pfl_order_session *s = user;
    int rc;

    if (s->ring[0] != '\0' && !pfl_service_conn_has_method(s->conn, "CloneSession")) {
        (void)snprintf(s->why, sizeof(s->why),
                       "this host's tracing service is too old to clone "
                       "sessions, so nothing can be copied on a trigger");
        pfl_service_conn_close(s->conn);
        return;
    }
    rc = pfl_service_conn_invoke(s->conn, "EnableTracing", pfl_buf_get(&s->request), on_ended, s);
    pfl_buf_fini(&s->request);
    if (rc == 0)
        rc = pfl_service_conn_invoke(s->conn, "GetTraceStats", pfl_span_of(NULL, 0), on_fence, s);
    if (rc == 0)
        return;
    (void)snprintf(s->why, sizeof(s->why), "%s",
                   rc == PFL_ELIMIT ? "its config is too large for the service's protocol"
                                    : "the service lacks a method, or the agent has no memory");
    pfl_service_conn_close(s->conn);
}

static int on_disabled(void *user, const struct pfl_rpc_reply *reply)
{
    (void)user;
    (void)reply; /* the answer to EnableTracing follows, when the files are written */
    return 0;
}

/* Before there is one, the run's note is being written, and none is opened when it is. */
void pfl_order_session_close(struct pfl_order_session *self)
{
    if (self->conn != NULL)
        pfl_service_conn_close(self->conn);
    else
        self->state = PFL_ORDER_SESSION_STOPPING;
}

void pfl_order_session_stop(struct pfl_order_session *self)
{
    if (self->state == PFL_ORDER_SESSION_STOPPING)
        return;
    if (self->state == PFL_ORDER_SESSION_STARTING ||
        pfl_service_conn_invoke(self->conn, "DisableTracing", pfl_span_of(NULL, 0), on_disabled,
                                self) != 0)
        pfl_order_session_close(self);
    self->state = PFL_ORDER_SESSION_STOPPING;
    self->stop_ms = uv_now(self->conf->loop) + PFL_ORDERS_STOP_MS;
}

/* ---- opening ---- */

const char *pfl_order_session_explain(int rc)
{
    return rc == PFL_ELIMIT   ? "the folder of segments is full"
           : rc == PFL_ENOMEM ? "the agent is out of memory"
                              : "the tracing service does not answer";
}

int pfl_order_session_begin_run(const struct pfl_order_session_conf *conf,
                                const struct pfl_host_order *order,
                                const struct pfl_segments_begin *begin,
                                char ret_id[PFL_SEGMENT_ID_BYTES], struct pfl_segments_op **ret_op)
{
    Perfleet__Segment note = *begin->note;
    struct pfl_segments_begin whole = *begin;
    char *labels[LABELS_MAX];
    char *sources[PFL_ORDER_SOURCES_MAX];
    char version[] = PFL_VERSION;

    note.orderer = order->kept->orderer;
    note.order = order->kept->order->name;
    note.collector = order->kept->collector;
    note.retention = order->kept->order->retention;
    note.has_priority = note.has_generation = 1;
    note.priority = order->terms.priority;
    note.generation = order->kept->generation;
    note.agent_version = version;
    note.label = labels;
    for (; note.n_label < conf->labels_len && note.n_label < LABELS_MAX; note.n_label++)
        memcpy(&labels[note.n_label], &conf->labels[note.n_label], sizeof(labels[0]));
    note.data_source = sources;
    note.n_data_source = pfl_host_order_list_sources(order, sources);
    whole.note = &note;
    whole.quota.max_bytes = order->terms.quota_bytes;
    whole.quota.max_age_ms = order->terms.quota_age_ms;
    return pfl_segments_begin_run(conf->segments, &whole, ret_id, ret_op);
}

/* Nobody can guess the name, and take it before. */
static int encode_ring(const struct pfl_host_order *order, struct pfl_order_session *s)
{
    char id[PFL_ULID_BYTES];

    (void)pfl_ulid_make(pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_PER_MS, id);
    (void)snprintf(s->ring, sizeof(s->ring), "order.%s.%s.%s", s->orderer, s->name, id);
    return pfl_host_order_encode_ring(order, s->ring, &s->request);
}

static int open_conn(struct pfl_order_session *s)
{
    struct pfl_service_conn_conf conf = {.loop = s->conf->loop,
                                         .socket = s->conf->socket,
                                         .on_bound = on_bound,
                                         .on_closed = on_conn_closed,
                                         .user = s};

    return pfl_service_conn_open(&conf, &s->conn);
}

/* The service writes no file before the run has its note. */
static void on_run_begun(void *user, const struct pfl_segments_result *result)
{
    struct pfl_order_session *s = user;
    int rc = result->rc;

    if (rc == 0 && s->state == PFL_ORDER_SESSION_STARTING)
        rc = open_conn(s);
    if (s->conn != NULL)
        return;
    (void)snprintf(s->why, sizeof(s->why), "%s", pfl_order_session_explain(rc));
    on_conn_closed(s);
}

static int open_run(const struct pfl_host_order *order, uint64_t duration_ms,
                    struct pfl_order_session *s)
{
    Perfleet__Segment note = PERFLEET__SEGMENT__INIT;
    struct pfl_segments_begin begin = {.note = &note, .done = on_run_begun, .user = s};
    struct pfl_segments_op *op;
    char path[640];
    int rc = pfl_order_session_begin_run(s->conf, order, &begin, s->id, &op);

    if (rc != 0)
        return rc;
    pfl_segments_get_path(s->conf->segments, s->id, path, sizeof(path));
    rc = pfl_host_order_encode_run(order, path, duration_ms, &s->request);
    if (rc != 0) {
        pfl_segments_cancel(op);
        pfl_segments_end_run(s->conf->segments, s->id);
    }
    return rc;
}

static int open_ring(const struct pfl_host_order *order, struct pfl_order_session *s)
{
    int rc = encode_ring(order, s);

    return rc == 0 ? open_conn(s) : rc;
}

int pfl_order_session_open(const struct pfl_order_session_conf *conf,
                           const struct pfl_host_order *order, uint64_t duration_ms,
                           struct pfl_order_session **ret_session)
{
    struct pfl_order_session *s = pfl_mem_zalloc(sizeof(*s));
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = conf;
    s->generation = order->kept->generation;
    (void)snprintf(s->orderer, sizeof(s->orderer), "%s", order->kept->orderer);
    (void)snprintf(s->name, sizeof(s->name), "%s", order->kept->order->name);
    pfl_list_init(&s->node);
    pfl_buf_init(&s->request, REQUEST_BYTES);
    rc = order->terms.when == PFL_ORDER_ON_TRIGGER ? open_ring(order, s)
                                                   : open_run(order, duration_ms, s);
    if (rc != 0) {
        pfl_order_session_free(s);
        return rc;
    }
    *ret_session = s;
    return 0;
}

void pfl_order_session_free(struct pfl_order_session *self)
{
    pfl_buf_fini(&self->request);
    pfl_mem_free(self);
}
