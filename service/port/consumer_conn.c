/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer's connection: what it reads, its unfinished answers and its events go out here.
 *
 * A connection that reads, or has incomplete query answers, is on the `readers` list. While that
 * list is not empty an idle handle keeps the loop turning, and each turn gives each reader
 * PFL_CONSUMER_TURN_BYTES of frames, written straight from the rings. The readers of one user have
 * a part of the turn (fair_turn.h), and the others wait. A reader whose socket is full leaves the
 * list until on_writable: it slows only itself, and all others are served between two turns. Events
 * wait on the `observers` list until the end of the turn.
 *
 * Failures: whatever cannot be sent ends the connection, which is logged once. Owns the queries.
 */
#include "service/port/consumer_conn.h"

#include "base/log.h"
#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "service/port/consumer_port.h"

#define REPLY_MAX_BYTES (PFL_FRAME_PAYLOAD_MAX - 64u)

static void end_conn(struct pfl_consumer_conn *conn, const char *why)
{
    if (conn->is_closing)
        return;
    conn->is_closing = true;
    pfl_log_warn("consumer-disconnected", "uid=%u pid=%lld reason=\"%s\"", conn->cred.uid,
                 (long long)conn->cred.pid, why);
    pfl_stream_close(conn->stream);
}

void pfl_consumer_conn_fail(struct pfl_consumer_conn *conn, int err)
{
    end_conn(conn, err == PFL_ELIMIT ? "it does not read its replies" : pfl_err_str(err));
}

void pfl_consumer_conn_count_waiting(struct pfl_consumer_conn *conn)
{
    uint64_t bytes = conn->rpc.reader.partial.capacity + conn->unfed.capacity +
                     pfl_stream_queued_bytes(conn->stream) +
                     conn->queries_len * sizeof(struct pfl_pending_query);

    if (bytes == conn->held_bytes || conn->is_closing)
        return;
    if (!pfl_shares_set(&conn->service->shares.peer_bytes, conn->cred.who, &conn->held_bytes,
                        bytes))
        end_conn(conn, "its user's share of the service's memory is used up");
}

int pfl_consumer_conn_reply(struct pfl_consumer_conn *conn, struct pfl_rpc_request request,
                            unsigned flags, struct pfl_span body)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.len};

    return pfl_rpc_host_reply(&conn->rpc, request, flags, &iov, 1, -1);
}

static void free_query(struct pfl_pending_query *pending)
{
    pfl_query_fini(&pending->query);
    pfl_mem_free(pending);
}

/* One part of the oldest pending answer, which is to be there. */
static int send_query_part(struct pfl_consumer_conn *conn, size_t *ret_bytes)
{
    struct pfl_pending_query *pending =
        PFL_CONTAINER_OF(conn->queries.next, struct pfl_pending_query, node);
    bool has_more = false;
    struct pfl_buf buf;
    int rc;

    pfl_buf_init(&buf, PFL_RPC_REPLY_BODY_MAX);
    rc = pfl_query_next(&pending->query, &buf, &has_more);
    if (rc == 0)
        rc = pfl_consumer_conn_reply(
            conn, pending->request, has_more ? PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE : PFL_RPC_SUCCESS,
            pfl_buf_get(&buf));
    *ret_bytes = buf.len;
    pfl_buf_fini(&buf);
    if (rc == 0 && !has_more) {
        pfl_list_remove(&pending->node);
        conn->queries_len--;
        free_query(pending);
    }
    return rc;
}

void pfl_consumer_conn_free_queries(struct pfl_consumer_conn *conn)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &conn->queries) {
        pfl_list_remove(it);
        free_query(PFL_CONTAINER_OF(it, struct pfl_pending_query, node));
    }
    conn->queries_len = 0;
}

void pfl_consumer_conn_send_observed(struct pfl_consumer_conn *conn)
{
    struct pfl_observe *observe = &conn->consumer.observe;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    if (!pfl_observe_has_events(observe) || conn->is_closing || !conn->observe_slot.is_set) {
        pfl_observe_clear(observe);
        return;
    }
    pfl_buf_init(&buf, REPLY_MAX_BYTES);
    pfl_message_bytes(&m, OBSERVE_EVENTS_RESPONSE__EVENTS, pfl_observe_get(observe));
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, conn->observe_slot.request,
                                             PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    pfl_observe_clear(observe);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}

void pfl_consumer_conn_stop_reading(struct pfl_consumer_conn *conn)
{
    if (conn->queries_len == 0 || conn->is_closing) {
        pfl_list_remove(&conn->reading);
        pfl_fair_turn_leave(&conn->sending);
    }
    pfl_session_read_stop(&conn->read);
}

static void fail_reading(struct pfl_consumer_conn *conn)
{
    int rc;

    pfl_consumer_conn_stop_reading(conn);
    if (!conn->read_slot.is_set)
        return;
    conn->read_slot.is_set = false;
    rc = pfl_rpc_host_reply_failure(&conn->rpc, conn->read_slot.request);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}

/* One frame; false when the reader is done, full or closing. */
static bool send_next_frame(struct pfl_consumer_conn *conn, size_t *sent_bytes)
{
    struct pfl_readback_frame frame;
    int rc = pfl_session_read_next_frame(&conn->read, &frame);

    if (rc == PFL_EAGAIN) {
        if (!pfl_session_read_can_proceed(&conn->read) && !pfl_session_read_is_paused(&conn->read))
            pfl_list_remove(&conn->reading); /* on_read_ready brings it back */
        return false;
    }
    if (rc != 0) {
        fail_reading(conn);
        return false;
    }
    rc = pfl_stream_writev(conn->stream, frame.iov, frame.iov_len, -1);
    if (rc != 0) {
        pfl_consumer_conn_stop_reading(conn);
        pfl_consumer_conn_fail(conn, rc);
        return false;
    }
    *sent_bytes += frame.bytes;
    if (frame.has_more)
        return true;
    conn->read_slot.is_set = false;
    pfl_consumer_conn_stop_reading(conn);
    return false;
}

/* Likewise of a query's answer; those come first. */
static bool send_next_part(struct pfl_consumer_conn *conn, size_t *sent_bytes)
{
    size_t bytes = 0;
    int rc = send_query_part(conn, &bytes);

    *sent_bytes += bytes;
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
    return rc == 0;
}

void pfl_consumer_conn_pump(struct pfl_consumer_conn *conn)
{
    size_t sent_bytes = 0;

    while (sent_bytes < PFL_CONSUMER_TURN_BYTES) {
        bool proceeds = false;

        if (conn->is_closing) {
            pfl_consumer_conn_stop_reading(conn);
            return;
        }
        if (pfl_stream_queued_bytes(conn->stream) != 0 ||
            (conn->queries_len == 0 && conn->read.readback == NULL)) {
            pfl_list_remove(&conn->reading); /* on_writable brings it back */
            return;
        }
        if (conn->queries_len != 0)
            proceeds = send_next_part(conn, &sent_bytes);
        else
            proceeds = send_next_frame(conn, &sent_bytes);
        if (!proceeds)
            return;
    }
    pfl_consumer_conn_want_reading(conn);
}

/* If its user's part of the turn is not used up; else it leaves the list until it is released. */
static void take_turn(struct pfl_consumer_senders *senders, struct pfl_consumer_conn *conn)
{
    uint64_t began_ns;

    if (!pfl_fair_turn_may(&senders->fair_turn, conn->cred.who, &conn->sending)) {
        if (conn->sending.state == PFL_FAIR_TURN_WAITING)
            pfl_list_remove(&conn->reading);
        return;
    }
    began_ns = uv_hrtime();
    pfl_consumer_conn_pump(conn);
    pfl_fair_turn_take(&senders->fair_turn, conn->cred.who, uv_hrtime() - began_ns);
}

static void on_released(struct pfl_fair_turn_conn *sending)
{
    pfl_consumer_conn_want_reading(PFL_CONTAINER_OF(sending, struct pfl_consumer_conn, sending));
}

static void on_idle(uv_idle_t *handle)
{
    struct pfl_consumer_senders *senders = handle->data;
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &senders->readers) {
        take_turn(senders, PFL_CONTAINER_OF(it, struct pfl_consumer_conn, reading));
    }
    pfl_fair_turn_end(&senders->fair_turn, on_released);
    if (pfl_list_is_empty(&senders->readers))
        (void)uv_idle_stop(handle);
}

void pfl_consumer_conn_want_reading(struct pfl_consumer_conn *conn)
{
    if (conn->senders->is_closing || conn->reading.next != NULL ||
        conn->sending.state == PFL_FAIR_TURN_WAITING)
        return;
    pfl_list_append(&conn->senders->readers, &conn->reading);
    (void)uv_idle_start(&conn->senders->idle, on_idle);
}

void pfl_consumer_conn_want_observed(struct pfl_consumer_conn *conn)
{
    if (conn->observing.next == NULL)
        pfl_list_append(&conn->senders->observers, &conn->observing);
}
