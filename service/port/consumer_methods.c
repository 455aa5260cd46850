/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of ConsumerPort (docs/abi/service.md section 2), and later messages to a consumer.
 *
 * A method replies first and then changes the service. Pending answers wait in one slot per method;
 * a second call fails the first. Methods of features that this version lacks keep their places in
 * the table and answer as the protocol's failing case does. Arguments that cannot be parsed are
 * PFL_EPARSE, which the rpc host answers; other failures close the connection.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"
#include "proto/ipc/ds_config.h"
#include "service/port/consumer_conn.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_instances.h"
#include "service/session/session_run.h"
#include "service/session/stats.h"
#include "service/session/trigger_state.h"

#define REPLY_MAX_BYTES     (PFL_FRAME_PAYLOAD_MAX - 64u)
#define STATS_ROOM_BYTES    100000u
#define OBSERVE_EARLY_BYTES (PFL_OBSERVE_MAX_BYTES / 2)

static int reply_empty(struct pfl_consumer_conn *conn, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply_empty(&conn->rpc, request);
}

static int reply_failure(struct pfl_consumer_conn *conn, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply_failure(&conn->rpc, request);
}

static int set_slot(struct pfl_consumer_conn *conn, struct pfl_reply_slot *slot,
                    struct pfl_rpc_request request)
{
    int rc = slot->is_set ? reply_failure(conn, slot->request) : 0;

    *slot = (struct pfl_reply_slot){.request = request, .is_set = true};
    return rc;
}

/* The end of tracing: `why` NULL or empty when it ended well. */
static int reply_enable(struct pfl_consumer_conn *conn, const char *why)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    if (!conn->enable_slot.is_set)
        return 0;
    conn->enable_slot.is_set = false;
    pfl_buf_init(&buf, 1024);
    pfl_message_varint(&m, ENABLE_TRACING_RESPONSE__DISABLED, 1);
    if (why != NULL && why[0] != '\0')
        pfl_message_str(&m, ENABLE_TRACING_RESPONSE__ERROR, why);
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, conn->enable_slot.request, PFL_RPC_SUCCESS,
                                             pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return rc;
}

static int read_flag(struct pfl_span bytes, uint32_t id, bool *ret_flag)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    bool flag = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id && f.type == PFL_WIRE_VARINT)
            flag = f.value != 0;
    }
    *ret_flag = flag;
    return r.failed ? PFL_EPARSE : 0;
}

/* A consumer that attaches to a session that is over gets its answer at once. */
static int reply_if_over(struct pfl_consumer_conn *conn)
{
    const struct pfl_session *session = conn->consumer.session;

    if (session == NULL || session->state != PFL_SESSION_DISABLED || session->is_finishing)
        return 0;
    return reply_enable(conn, NULL);
}

static int enable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_session_enable_conf enable = {.fd = &conn->fd};
    struct pfl_span config = {0};
    bool is_attach = false;
    int rc = read_flag(bytes, ENABLE_TRACING_REQUEST__ATTACH_NOTIFICATION_ONLY, &is_attach);

    if (rc == 0)
        rc = pfl_ds_config_find(bytes, 1, &config);
    if (rc != 0 && rc != PFL_ENOENT)
        return rc;
    rc = set_slot(conn, &conn->enable_slot, request);
    if (rc != 0 || is_attach)
        return rc != 0 ? rc : reply_if_over(conn);
    enable.config = config;
    rc = pfl_session_enable(conn->service, &conn->consumer, &enable, why);
    if (rc == 0) {
        pfl_log_info("session-enabled", "session=%llu uid=%u pid=%lld",
                     (unsigned long long)conn->consumer.session->id, conn->cred.uid,
                     (long long)conn->cred.pid);
        return 0;
    }
    if (rc == PFL_EPARSE) {
        conn->enable_slot.is_set = false;
        return rc;
    }
    if (why[0] == '\0')
        (void)snprintf(why, sizeof(why), "the service has no memory for a session now");
    /* It was for this session. */
    pfl_closer_close(conn->fd, conn->cred.who);
    conn->fd = -1;
    pfl_log_info("session-refused", "uid=%u pid=%lld reason=%s", conn->cred.uid,
                 (long long)conn->cred.pid, pfl_log_quote_str(why));
    return reply_enable(conn, why);
}

static int start_tracing(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    int rc = reply_empty(conn, request);

    (void)bytes;
    if (rc != 0)
        return rc;
    if (conn->consumer.session == NULL || !pfl_session_start(conn->service, conn->consumer.session))
        pfl_log_info("start-ignored", "uid=%u reason=\"no session waits for its start\"",
                     conn->cred.uid);
    return 0;
}

static int disable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    int rc = reply_empty(conn, request);

    (void)bytes;
    if (rc == 0 && conn->consumer.session != NULL)
        pfl_session_disable(conn->service, conn->consumer.session);
    return rc;
}

static int free_buffers(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    int rc = reply_empty(conn, request);

    (void)bytes;
    if (rc == 0 && conn->consumer.session != NULL)
        pfl_session_end(conn->service, conn->consumer.session);
    return rc;
}

static int flush(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_session_flush_conf conf = {
        .then = PFL_FLUSH_THEN_REPLY, .request_id = request.id, .drop_reply = request.drop_reply};
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == FLUSH_REQUEST__TIMEOUT_MS)
            conf.timeout_ms = (uint32_t)f.value;
        else if (f.id == FLUSH_REQUEST__FLAGS)
            conf.flags = f.value;
    }
    if (r.failed)
        return PFL_EPARSE;
    /* Without a session there is never a reply: as documented. */
    if (conn->consumer.session != NULL)
        pfl_session_flush(conn->service, conn->consumer.session, &conf);
    return 0;
}

/* Not while it goes into a file or is being copied, nor before a trigger that is waited for. */
static bool can_read(const struct pfl_session *session)
{
    return session != NULL && !session->is_copied && !pfl_session_file_is_open(session->file) &&
           !pfl_trigger_is_awaited(session);
}

static int read_buffers(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    bool accepts_runs;
    int rc;

    if (request.drop_reply) /* packets whose reply is dropped stay in the buffers */
        return 0;
    rc = read_flag(bytes, READ_BUFFERS_REQUEST__PERFLEET_ACCEPTS_RUNS, &accepts_runs);
    if (rc == 0)
        rc = set_slot(conn, &conn->read_slot, request);
    if (rc != 0)
        return rc;
    if (conn->read.readback != NULL) {
        pfl_readback_set_request(conn->read.readback, request.id, accepts_runs);
        return 0;
    }
    if (!can_read(conn->consumer.session)) {
        conn->read_slot.is_set = false;
        return reply_empty(conn, request);
    }
    rc = pfl_session_read_start(&conn->read, conn->service, conn->consumer.session, request.id);
    if (rc != 0) {
        conn->read_slot.is_set = false;
        return reply_failure(conn, request);
    }
    pfl_readback_set_request(conn->read.readback, request.id, accepts_runs);
    pfl_consumer_conn_want_reading(conn);
    return 0;
}

static int get_trace_stats(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;
    int rc;

    (void)bytes;
    if (conn->consumer.session == NULL)
        return reply_failure(conn, request);
    pfl_buf_init(&buf, REPLY_MAX_BYTES);
    mark = pfl_message_begin(&m, GET_TRACE_STATS_RESPONSE__TRACE_STATS);
    pfl_stats_encode(&m, conn->service, conn->consumer.session, STATS_ROOM_BYTES);
    pfl_message_end(&m, mark);
    rc = m.rc != 0 ? reply_failure(conn, request)
                   : pfl_consumer_conn_reply(conn, request, PFL_RPC_SUCCESS, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return rc;
}

static int read_mask(struct pfl_span bytes, unsigned *ret_mask)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    unsigned mask = 0;

    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader packed = pfl_reader_of(f.bytes);

        if (f.id != OBSERVE_EVENTS_REQUEST__EVENTS_TO_OBSERVE)
            continue;
        if (f.type == PFL_WIRE_VARINT)
            mask |= (unsigned)f.value;
        while (f.type == PFL_WIRE_BYTES && packed.left != 0 && !packed.failed)
            mask |= (unsigned)pfl_reader_varint(&packed);
        r.failed = r.failed || packed.failed;
    }
    *ret_mask = mask;
    return r.failed ? PFL_EPARSE : 0;
}

/* Repeats the current state to a consumer that begins to observe. */
static void replay_state(struct pfl_consumer_conn *conn)
{
    struct pfl_session *session = conn->consumer.session;
    struct pfl_list *it;

    if (session == NULL)
        return;
    PFL_LIST_EACH (it, &session->instances) {
        pfl_session_tell_instance(session, PFL_CONTAINER_OF(it, struct pfl_instance, of_session));
    }
    /* A detached session has no consumer that was notified at the time. */
    if ((conn->consumer.observe.mask & PFL_OBSERVE_ALL_STARTED) != 0)
        pfl_session_check_all_started(conn->service, session);
    if (session->is_all_started_sent && session->state == PFL_SESSION_STARTED)
        pfl_observe_all_started(&conn->consumer.observe);
    if (pfl_observe_has_events(&conn->consumer.observe))
        pfl_consumer_conn_want_observed(conn);
}

static int observe_events(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    unsigned mask;
    int rc = read_mask(bytes, &mask);

    if (rc != 0)
        return rc;
    pfl_consumer_conn_send_observed(conn);
    if (conn->observe_slot.is_set)
        rc = reply_empty(conn, conn->observe_slot.request);
    if (rc != 0)
        return rc;
    conn->consumer.observe.mask = mask;
    conn->observe_slot = (struct pfl_reply_slot){.request = request, .is_set = mask != 0};
    if (mask == 0)
        return reply_empty(conn, request);
    replay_state(conn);
    return 0;
}

static int query_service_state(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_query query = {
        .service = conn->service, .uid = conn->cred.uid, .subject = conn->consumer.subject};
    struct pfl_pending_query *pending;
    int rc = read_flag(bytes, QUERY_SERVICE_STATE_REQUEST__SESSIONS_ONLY, &query.sessions_only);

    if (rc == 0)
        rc = read_flag(bytes, QUERY_SERVICE_STATE_REQUEST__PERFLEET_FIGURES, &query.has_figures);
    if (rc != 0 || request.drop_reply)
        return rc;
    if (conn->queries_len == PFL_CONSUMER_QUERIES_MAX)
        return reply_failure(conn, request);
    pending = pfl_mem_zalloc(sizeof(*pending));
    if (pending == NULL)
        return PFL_ENOMEM;
    *pending = (struct pfl_pending_query){.request = request, .query = query};
    pfl_list_append(&conn->queries, &pending->node);
    if (conn->queries_len++ == 0)
        pfl_consumer_conn_pump(conn);
    return 0;
}

static int query_capabilities(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    (void)bytes;
    pfl_buf_init(&buf, 256);
    pfl_query_capabilities(&m);
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, request, PFL_RPC_SUCCESS, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return rc;
}

/* success=false and a text. */
static int reply_refusal(struct pfl_consumer_conn *conn, struct pfl_rpc_request request,
                         const char *why)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    pfl_buf_init(&buf, 256);
    pfl_message_varint(&m, SAVE_TRACE_FOR_BUGREPORT_RESPONSE__SUCCESS, 0);
    pfl_message_str(&m, SAVE_TRACE_FOR_BUGREPORT_RESPONSE__MSG, why);
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, request, PFL_RPC_SUCCESS, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return rc;
}

static int save_trace(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    (void)bytes;
    return reply_refusal(user, request, "SaveTraceForBugreport does not exist any more");
}

/* In the order of the ids (docs/abi/wire.md 2.2). */
static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", enable_tracing},
    {"DisableTracing", disable_tracing},
    {"ReadBuffers", read_buffers},
    {"FreeBuffers", free_buffers},
    {"Flush", flush},
    {"StartTracing", start_tracing},
    {"ChangeTraceConfig", pfl_consumer_sessions_change},
    {"Detach", pfl_consumer_sessions_detach},
    {"Attach", pfl_consumer_sessions_attach},
    {"GetTraceStats", get_trace_stats},
    {"ObserveEvents", observe_events},
    {"QueryServiceState", query_service_state},
    {"QueryCapabilities", query_capabilities},
    {"SaveTraceForBugreport", save_trace},
    {"CloneSession", pfl_consumer_sessions_clone},
};

const struct pfl_rpc_service pfl_consumer_service = {
    .name = "ConsumerPort",
    .methods = methods,
    .methods_len = sizeof(methods) / sizeof(methods[0]),
};

static void on_disabled(void *port, const char *why)
{
    struct pfl_consumer_conn *conn = port;
    int rc;

    pfl_consumer_conn_send_observed(conn); /* what led to it comes first */
    rc = conn->is_closing ? 0 : reply_enable(conn, why);

    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}

static void on_flush_done(void *port, const struct pfl_flush *done, bool is_ok)
{
    struct pfl_consumer_conn *conn = port;
    const struct pfl_rpc_request request = {.id = done->request_id, .drop_reply = done->drop_reply};
    int rc;

    if (conn->is_closing)
        return;
    rc = is_ok ? reply_empty(conn, request) : reply_failure(conn, request);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}

static void on_session_gone(void *port)
{
    struct pfl_consumer_conn *conn = port;
    int rc;

    pfl_consumer_conn_stop_reading(conn);
    if (!conn->read_slot.is_set || conn->is_closing)
        return;
    conn->read_slot.is_set = false;
    rc = reply_failure(conn, conn->read_slot.request);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}

static void on_read_ready(void *port)
{
    struct pfl_consumer_conn *conn = port;

    if (!conn->is_closing && conn->read.readback != NULL)
        pfl_consumer_conn_want_reading(conn);
}

static void on_observed(void *port)
{
    struct pfl_consumer_conn *conn = port;

    if (conn->consumer.observe.events.len > OBSERVE_EARLY_BYTES)
        pfl_consumer_conn_send_observed(conn);
    else
        pfl_consumer_conn_want_observed(conn);
}

const struct pfl_consumer_ops pfl_consumer_conn_ops = {
    .on_disabled = on_disabled,
    .on_flush_done = on_flush_done,
    .on_session_gone = on_session_gone,
    .on_read_ready = on_read_ready,
    .on_cloned = pfl_consumer_sessions_on_cloned,
    .on_observed = on_observed,
};
