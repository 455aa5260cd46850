/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of ProducerPort (docs/abi/service.md section 3).
 *
 * Each reads its request in place, replies, and only then changes the service, so that the reply
 * precedes every consequence. CommitData is the exception: its reply says that everything was
 * applied. Before InitializeConnection every method fails. Arguments that cannot be parsed are
 * PFL_EPARSE, which the rpc host answers; other failures close the connection.
 */
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "perfetto/producer_port.fields.h"
#include "service/control/registry.h"
#include "service/core/command.h"
#include "service/port/producer_conn.h"
#include "service/session/session_run.h"
#include "service/session/trigger.h"

#define TRIGGERS_MAX 1024u /* of one request; the rest is ignored */

static int reply_empty(struct pfl_producer_conn *conn, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply_empty(&conn->rpc, request);
}

static int reply_failure(struct pfl_producer_conn *conn, struct pfl_rpc_request request)
{
    return pfl_rpc_host_reply_failure(&conn->rpc, request);
}

/* Two fields are all that most requests have. */
struct args {
    uint64_t number1;
    uint64_t number2;
    struct pfl_span bytes1;
};

/* The other requests have the first field of one of these two. */
static int read_args(struct pfl_span bytes, struct args *ret_args)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct args args = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == REGISTER_DATA_SOURCE_REQUEST__DATA_SOURCE_DESCRIPTOR &&
            f.type == PFL_WIRE_BYTES)
            args.bytes1 = f.bytes;
        else if (f.id == REGISTER_TRACE_WRITER_REQUEST__TRACE_WRITER_ID)
            args.number1 = f.value;
        else if (f.id == REGISTER_TRACE_WRITER_REQUEST__TARGET_BUFFER)
            args.number2 = f.value;
    }
    if (r.failed)
        return PFL_EPARSE;
    *ret_args = args;
    return 0;
}

struct init_args {
    struct pfl_producer_conf conf;
    bool provides_smb;
};

static int read_init(struct pfl_span bytes, struct init_args *ret_args)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == INITIALIZE_CONNECTION_REQUEST__SHARED_MEMORY_PAGE_SIZE_HINT_BYTES)
            ret_args->conf.page_hint_bytes = (uint32_t)f.value;
        else if (f.id == INITIALIZE_CONNECTION_REQUEST__SHARED_MEMORY_SIZE_HINT_BYTES)
            ret_args->conf.smb_hint_bytes = (uint32_t)f.value;
        else if (f.id == INITIALIZE_CONNECTION_REQUEST__PRODUCER_NAME)
            ret_args->conf.name = f.bytes;
        else if (f.id == INITIALIZE_CONNECTION_REQUEST__SMB_SCRAPING_MODE)
            ret_args->conf.wants_scraping =
                f.value == INITIALIZE_CONNECTION_REQUEST__SMB_SCRAPING_ENABLED;
        else if (f.id == INITIALIZE_CONNECTION_REQUEST__PRODUCER_PROVIDED_SHMEM)
            ret_args->provides_smb = f.value != 0;
        else if (f.id == INITIALIZE_CONNECTION_REQUEST__SDK_VERSION)
            ret_args->conf.sdk_version = f.bytes;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static bool adopt_smb(struct pfl_producer_conn *conn)
{
    int fd = conn->fd;
    int rc;

    conn->fd = -1;
    if (fd < 0)
        return false;
    if (conn->producer->is_emulated) {
        pfl_closer_close(fd, (uint32_t)conn->peer.who);
        return false;
    }
    rc = pfl_service_adopt_smb(conn->service, conn->producer, fd);
    if (rc == 0)
        return true;
    pfl_log_info("producer-memory-refused", "producer=%s reason=\"%s\"",
                 pfl_log_quote_str(conn->producer->name), pfl_err_str(rc));
    return false;
}

/* NULL: this host's own. */
static const char *get_machine_name(const struct pfl_producer_conn *conn)
{
    return conn->peer.is_network ? conn->peer.machine_name : NULL;
}

static int initialize_connection(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct init_args args = {.conf = {.uid = conn->peer.uid,
                                      .who = conn->peer.who,
                                      .pid = conn->peer.pid,
                                      .is_emulated = conn->peer.is_network,
                                      .machine_id = conn->peer.machine_id,
                                      .machine_name = get_machine_name(conn),
                                      .ops = &pfl_producer_conn_ops,
                                      .port = conn}};
    uint8_t body[8];
    struct pfl_writer w = pfl_writer_of(body, sizeof(body));
    struct iovec iov = {.iov_base = body};
    int rc = read_init(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer != NULL)
        return reply_failure(conn, request);
    rc = pfl_registry_add_producer(conn->service, &args.conf, &conn->producer);
    if (rc != 0) {
        conn->producer = NULL;
        pfl_log_warn("producer-refused", "name=%s uid=%u reason=\"%s\"",
                     pfl_log_quote((const char *)args.conf.name.data, args.conf.name.len),
                     conn->peer.uid, pfl_err_str(rc));
        return rc == PFL_ENOMEM ? rc : reply_failure(conn, request);
    }
    pfl_log_debug("producer-connected", "id=%u name=%s uid=%u pid=%lld", conn->producer->id,
                  pfl_log_quote_str(conn->producer->name), conn->peer.uid,
                  (long long)conn->peer.pid);
    pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_RESPONSE__USING_SHMEM_PROVIDED_BY_PRODUCER,
                            args.provides_smb && adopt_smb(conn));
    pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_RESPONSE__DIRECT_SMB_PATCHING_SUPPORTED,
                            1); /* patches in place are fine */
    pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_RESPONSE__USE_SHMEM_EMULATION,
                            conn->producer->is_emulated); /* no memory: emulation */
    iov.iov_len = sizeof(body) - w.left;
    return pfl_rpc_host_reply(&conn->rpc, request, PFL_RPC_SUCCESS, &iov, 1, -1);
}

static int register_source(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct args args;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = reply_empty(conn, request);
    if (rc != 0)
        return rc;
    rc = pfl_registry_register_source(conn->service, conn->producer, args.bytes1);
    if (rc == PFL_ELIMIT || rc == PFL_EPARSE) {
        pfl_log_warn("data-source-ignored", "producer=%s reason=\"%s\"",
                     pfl_log_quote_str(conn->producer->name), pfl_err_str(rc));
        return 0;
    }
    return rc;
}

static int update_source(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct args args;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = pfl_registry_update_source(conn->service, conn->producer, args.bytes1);
    if (rc == PFL_ENOMEM)
        return rc;
    return reply_empty(conn, request);
}

static int unregister_source(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct args args;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = reply_empty(conn, request);
    if (rc != 0)
        return rc;
    pfl_registry_unregister_source(conn->service, conn->producer, args.bytes1);
    return 0;
}

static int commit_data(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    int rc;

    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = pfl_registry_commit(conn->service, conn->producer, bytes);
    if (conn->producer->smb.has_faulted)
        return PFL_EIO;
    if (rc == PFL_ESTATE)
        return reply_failure(conn, request);
    if (rc != 0)
        return rc;
    return reply_empty(conn, request);
}

static int get_async_command(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    int rc = 0;

    (void)bytes;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    if (conn->has_commands)
        rc = reply_failure(conn, conn->commands);
    if (rc != 0)
        return rc;
    conn->commands = request;
    conn->has_commands = true;
    /* It was set up before it called GetAsyncCommand, or has its own memory: send the command
     * now. */
    if (conn->producer->is_setup || conn->producer->smb.is_adopted)
        pfl_command_setup_tracing(conn->producer);
    return 0;
}

static int set_writer(struct pfl_producer_conn *conn, struct pfl_rpc_request request,
                      struct pfl_span bytes, bool is_registration)
{
    struct args args;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = pfl_registry_set_writer(conn->service, conn->producer, (uint32_t)args.number1,
                                 is_registration ? (uint32_t)args.number2 : 0);
    if (rc == PFL_ELIMIT) {
        pfl_producer_conn_fail(conn, "its user's share of the service's memory is used up");
        return 0;
    }
    return rc != 0 ? rc : reply_empty(conn, request);
}

static int register_writer(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    return set_writer(user, request, bytes, true);
}

static int unregister_writer(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    return set_writer(user, request, bytes, false);
}

typedef void (*notify_fn)(struct pfl_service *service, struct pfl_producer *producer, uint64_t id);

static int notify(struct pfl_producer_conn *conn, struct pfl_rpc_request request,
                  struct pfl_span bytes, notify_fn on_notified)
{
    struct args args;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = reply_empty(conn, request);
    if (rc != 0)
        return rc;
    on_notified(conn->service, conn->producer, args.number1);
    return 0;
}

static int notify_started(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    return notify(user, request, bytes, pfl_session_on_started);
}

static int notify_stopped(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    return notify(user, request, bytes, pfl_session_on_stopped);
}

static int activate_triggers(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    struct args args;
    unsigned activated = 0;
    int rc = read_args(bytes, &args);

    if (rc != 0)
        return rc;
    if (conn->producer == NULL)
        return reply_failure(conn, request);
    rc = reply_empty(conn, request);
    while (rc == 0 && activated < TRIGGERS_MAX && pfl_reader_field(&r, &f)) {
        if (f.id != ACTIVATE_TRIGGERS_REQUEST__TRIGGER_NAMES || f.type != PFL_WIRE_BYTES)
            continue;
        activated++;
        pfl_trigger_activate(conn->service, conn->producer, f.bytes);
    }
    return rc;
}

static int sync_all(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;

    (void)bytes;
    return conn->producer == NULL ? reply_failure(conn, request) : reply_empty(conn, request);
}

/* In the order of the ids (docs/abi/wire.md 2.2). */
static const struct pfl_rpc_method methods[] = {
    {"InitializeConnection", initialize_connection},
    {"RegisterDataSource", register_source},
    {"UnregisterDataSource", unregister_source},
    {"CommitData", commit_data},
    {"GetAsyncCommand", get_async_command},
    {"RegisterTraceWriter", register_writer},
    {"UnregisterTraceWriter", unregister_writer},
    {"NotifyDataSourceStarted", notify_started},
    {"NotifyDataSourceStopped", notify_stopped},
    {"ActivateTriggers", activate_triggers},
    {"Sync", sync_all},
    {"UpdateDataSource", update_source},
};

const struct pfl_rpc_service pfl_producer_service = {
    .name = "ProducerPort",
    .methods = methods,
    .methods_len = sizeof(methods) / sizeof(methods[0]),
};

static void send_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    struct pfl_producer_conn *conn = port;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.len};
    int rc;

    (void)is_setup;
    if (!conn->has_commands || conn->is_closing)
        return;
    rc = pfl_rpc_host_reply(&conn->rpc, conn->commands, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, &iov, 1,
                            fd);
    if (rc == PFL_ELIMIT)
        pfl_producer_conn_fail(conn, "it does not read its socket");
    else if (rc != 0)
        pfl_producer_conn_fail(conn, pfl_err_str(rc));
}

static bool may_continue(void *port)
{
    return pfl_producer_conn_may_continue(port);
}

static void on_copied(void *port)
{
    pfl_producer_conn_go_on(port);
}

const struct pfl_producer_ops pfl_producer_conn_ops = {
    .send_command = send_command, .may_continue = may_continue, .on_copied = on_copied};
