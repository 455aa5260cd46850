/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of RelayPort (docs/abi/service.md section 13): the relay of another machine reports
 * the machine's system information and clock readings.
 *
 * SyncClock first reads the host's clocks, then replies, then parses the request, so that the two
 * readings are only a network transfer apart. InitRelay replies first, too. A relay that did not
 * identify its machine, exceeds the number of relays or reports too much gets a failure, or is
 * ignored from then on; this is logged, and its connection stays.
 */
#include "base/log.h"
#include "perfetto/relay_port.fields.h"
#include "service/port/producer_conn.h"
#include "service/session/session_record.h"

static int get_relay(struct pfl_producer_conn *conn)
{
    if (conn->relay != NULL)
        return 0;
    return pfl_remote_machines_add(&conn->service->relays, conn->peer.machine_id, conn->peer.who,
                                   &conn->relay);
}

static int refuse(struct pfl_producer_conn *conn, struct pfl_rpc_request request, int rc)
{
    conn->relay = NULL;
    if (!conn->is_relay_refused)
        pfl_log_warn("relay-refused", "machine=%s reason=\"%s\"",
                     pfl_log_quote_str(conn->peer.machine_name),
                     rc == PFL_EINVAL ? "it did not say which machine it is" : pfl_err_str(rc));
    conn->is_relay_refused = true;
    return rc == PFL_ENOMEM ? rc : pfl_rpc_host_reply_failure(&conn->rpc, request);
}

static int init_relay(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_span info = {0};
    struct pfl_field f;
    bool is_first;
    int rc;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == INIT_RELAY_REQUEST__SYSTEM_INFO && f.type == PFL_WIRE_BYTES)
            info = f.bytes;
    }
    if (r.failed)
        return PFL_EPARSE;
    rc = get_relay(conn);
    if (rc != 0)
        return refuse(conn, request, rc);
    rc = pfl_rpc_host_reply_empty(&conn->rpc, request);
    if (rc != 0 || info.len == 0)
        return rc;
    is_first = conn->relay->info == NULL;
    rc = pfl_relay_set_info(conn->relay, info);
    if (rc == 0 && is_first)
        pfl_log_info("relay-connected", "machine=%s id=%u",
                     pfl_log_quote_str(conn->peer.machine_name), conn->peer.machine_id);
    if (rc == PFL_ENOMEM || rc == 0)
        return rc;
    if (!conn->is_relay_refused)
        pfl_log_warn("system-info-ignored", "machine=%s reason=\"%s\"",
                     pfl_log_quote_str(conn->peer.machine_name), pfl_err_str(rc));
    conn->is_relay_refused = true;
    return 0;
}

static int read_clock(struct pfl_span bytes, struct pfl_clock_reading *ret_reading)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_clock_reading reading = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == SYNC_CLOCK_REQUEST__CLOCK__CLOCK_ID)
            reading.clock_id = (uint32_t)f.value;
        else if (f.id == SYNC_CLOCK_REQUEST__CLOCK__TIMESTAMP)
            reading.value = f.value;
    }
    if (r.failed)
        return PFL_EPARSE;
    *ret_reading = reading;
    return 0;
}

static int read_clocks(struct pfl_span bytes, struct pfl_relay_clocks *clocks)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != SYNC_CLOCK_REQUEST__CLOCKS || f.type != PFL_WIRE_BYTES ||
            clocks->len == PFL_RELAY_CLOCKS)
            continue;
        if (read_clock(f.bytes, &clocks->clocks[clocks->len]) != 0)
            return PFL_EPARSE;
        clocks->len++;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int sync_clock(void *user, struct pfl_rpc_request request, struct pfl_span bytes)
{
    struct pfl_producer_conn *conn = user;
    struct pfl_clock_snapshot now = pfl_session_read_clocks(conn->service);
    struct pfl_relay_clocks client = {0};
    struct pfl_relay_clocks host = {.len = now.clocks_len};
    int rc = read_clocks(bytes, &client);

    if (rc != 0)
        return rc;
    rc = get_relay(conn);
    if (rc != 0)
        return refuse(conn, request, rc);
    rc = pfl_rpc_host_reply_empty(&conn->rpc, request);
    if (rc != 0)
        return rc;
    memcpy(host.clocks, now.clocks, now.clocks_len * sizeof(now.clocks[0]));
    if (client.len != 0)
        pfl_relay_add_pair(conn->relay, &client, &host);
    return 0;
}

static const struct pfl_rpc_method methods[] = {
    {"InitRelay", init_relay},
    {"SyncClock", sync_clock},
};

const struct pfl_rpc_service pfl_relay_service = {
    .name = "RelayPort",
    .methods = methods,
    .methods_len = sizeof(methods) / sizeof(methods[0]),
};
