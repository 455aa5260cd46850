/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's methods that deal with sessions other than its own, or change one: Detach, Attach,
 * ChangeTraceConfig, CloneSession. The cores are session_attach, session_change and clone; this
 * file parses requests and sends replies. Arguments that cannot be parsed are PFL_EPARSE.
 */
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "perfetto/consumer_port.fields.h"
#include "proto/ipc/ds_config.h"
#include "service/port/consumer_conn.h"
#include "service/session/clone.h"
#include "service/session/session_attach.h"
#include "service/session/session_change.h"

#define REPLY_MAX_BYTES (PFL_FRAME_PAYLOAD_MAX - 64u)

static int find_key(struct pfl_span bytes, struct pfl_span *ret_key)
{
    int rc = pfl_ds_config_find(bytes, 1, ret_key);

    return rc == PFL_ENOENT ? 0 : rc;
}

int pfl_consumer_sessions_detach(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_span key = {0};
    int rc = find_key(bytes, &key);

    if (rc != 0)
        return rc;
    rc = pfl_session_detach(conn->service, &conn->consumer, key);
    if (rc == 0) {
        pfl_log_info("session-detached", "uid=%u", conn->cred.uid);
        return pfl_rpc_host_reply_empty(&conn->rpc, request);
    }
    pfl_log_info("detach-refused", "uid=%u reason=\"%s\"", conn->cred.uid, pfl_err_str(rc));
    return pfl_rpc_host_reply_failure(&conn->rpc, request);
}

static int reply_config(struct pfl_consumer_conn *conn, struct pfl_rpc_request request)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    pfl_buf_init(&buf, REPLY_MAX_BYTES);
    pfl_message_bytes(&m, ATTACH_RESPONSE__TRACE_CONFIG,
                      pfl_session_plan_get_config(conn->consumer.session->plan));
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, request, PFL_RPC_SUCCESS, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return rc;
}

int pfl_consumer_sessions_attach(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_span key = {0};
    int rc = find_key(bytes, &key);

    if (rc != 0)
        return rc;
    rc = pfl_session_attach(conn->service, &conn->consumer, key);
    if (rc == 0) {
        pfl_log_info("session-attached", "session=%llu uid=%u",
                     (unsigned long long)conn->consumer.session->id, conn->cred.uid);
        return reply_config(conn, request);
    }
    pfl_log_info("attach-refused", "uid=%u reason=\"%s\"", conn->cred.uid, pfl_err_str(rc));
    return pfl_rpc_host_reply_failure(&conn->rpc, request);
}

int pfl_consumer_sessions_change(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_span config = {0};
    int rc = find_key(bytes, &config);

    if (rc != 0)
        return rc;
    rc = pfl_rpc_host_reply_empty(&conn->rpc, request);
    if (rc != 0)
        return rc;
    rc = conn->consumer.session == NULL
             ? PFL_ENOENT
             : pfl_session_change(conn->service, conn->consumer.session, config);
    if (rc != 0)
        pfl_log_info("change-ignored", "uid=%u reason=\"%s\"", conn->cred.uid,
                     rc == PFL_EPERM ? "this user's share of memory for configs is used up"
                                     : pfl_err_str(rc));
    return 0;
}

static void read_trigger(struct pfl_clone_trigger *trigger, const struct pfl_field *f)
{
    if (f->id == CLONE_SESSION_REQUEST__CLONE_TRIGGER_NAME)
        trigger->name = f->bytes;
    else if (f->id == CLONE_SESSION_REQUEST__CLONE_TRIGGER_PRODUCER_NAME)
        trigger->producer_name = f->bytes;
    else if (f->id == CLONE_SESSION_REQUEST__CLONE_TRIGGER_TRUSTED_PRODUCER_UID)
        trigger->producer_uid = (int32_t)f->value;
    else if (f->id == CLONE_SESSION_REQUEST__CLONE_TRIGGER_BOOT_TIME_NS)
        trigger->boottime_ns = f->value;
    else if (f->id == CLONE_SESSION_REQUEST__CLONE_TRIGGER_DELAY_MS)
        trigger->delay_ms = f->value;
}

/* Of the two selectors the last one counts, as in a oneof. */
static int read_request(struct pfl_span bytes, struct pfl_clone_request *req)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLONE_SESSION_REQUEST__SESSION_ID) {
            req->session_id = f.value;
            req->session_name = (struct pfl_span){0};
        } else if (f.id == CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME) {
            req->session_name = f.bytes;
            req->session_id = 0;
        } else if (f.id == CLONE_SESSION_REQUEST__SKIP_TRACE_FILTER) {
            req->skips_filter = f.value != 0;
        } else if (f.id == CLONE_SESSION_REQUEST__PERFLEET_COMPRESSED) {
            req->is_compressed = f.value != 0;
        } else if (f.id == CLONE_SESSION_REQUEST__FOR_BUGREPORT) {
            req->for_bugreport = f.value != 0;
        } else {
            read_trigger(&req->trigger, &f);
        }
    }
    return r.failed ? PFL_EPARSE : 0;
}

int pfl_consumer_sessions_clone(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_clone_request req = {.fd = &conn->fd};
    int rc = read_request(bytes, &req);

    if (rc == 0 && conn->clone_slot.is_set)
        rc = pfl_rpc_host_reply_failure(&conn->rpc, conn->clone_slot.request);
    if (rc != 0)
        return rc;
    conn->clone_slot = (struct pfl_reply_slot){.request = request, .is_set = true};
    pfl_clone_start(conn->service, &conn->consumer, &req);
    /* Every client sends one, for the case that the session writes into a file. */
    pfl_closer_close(conn->fd, conn->cred.who);
    conn->fd = -1;
    return 0;
}

void pfl_consumer_sessions_on_cloned(void *port, const struct pfl_clone_result *result)
{
    struct pfl_consumer_conn *conn = port;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    if (conn->is_closing || !conn->clone_slot.is_set)
        return;
    conn->clone_slot.is_set = false;
    pfl_buf_init(&buf, 1024);
    pfl_message_varint(&m, CLONE_SESSION_RESPONSE__SUCCESS, result->is_ok);
    if (result->is_ok) {
        pfl_message_varint(&m, CLONE_SESSION_RESPONSE__UUID_MSB, result->uuid.msb);
        pfl_message_varint(&m, CLONE_SESSION_RESPONSE__UUID_LSB, result->uuid.lsb);
    } else {
        pfl_message_str(&m, CLONE_SESSION_RESPONSE__ERROR, result->why);
    }
    pfl_message_varint(&m, CLONE_SESSION_RESPONSE__WAS_WRITE_INTO_FILE,
                       result->was_write_into_file);
    rc = m.rc != 0 ? m.rc
                   : pfl_consumer_conn_reply(conn, conn->clone_slot.request, PFL_RPC_SUCCESS,
                                             pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
}
