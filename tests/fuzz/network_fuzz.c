/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as all that one connection on a network producer socket says: identity, binds, requests of
 * ProducerPort and RelayPort, chunks in commits. A session that wants every machine runs beside it
 * and is read at the end. Nothing may crash, and nothing may be left.
 */
#include <stdlib.h>

#include "service/control/query.h"
#include "service/control/registry.h"
#include "service/port/producer_conn.h"
#include "service/session/session_read.h"
#include "service/session/session_run.h"
#include "tests/support/fuzz_note.h"
#include "tests/support/fuzz_packets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    return 1000000000ull + (uint64_t)id;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 7, len);
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void on_observed(void *port)
{
    (void)port;
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    (void)is_ok;
}

static void on_session_gone(void *port)
{
    pfl_session_read_stop(port);
}

static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_flush_done = on_flush_done,
                                                     .on_session_gone = on_session_gone,
                                                     .on_observed = on_observed};

/* buffers { size_kb: 16 } data_sources { config { name: "s" } } trace_all_machines: true */
static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x10, 0x12, 0x05, 0x0a,
                                 0x03, 0x0a, 0x01, 's',  0xd8, 0x02, 0x01};

static struct pfl_span join(const struct iovec *iov, int iov_len)
{
    static uint8_t bytes[PFL_FRAME_MAX_BYTES];
    size_t len = 0;

    for (int i = 0; i < iov_len; i++) {
        memcpy(bytes + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    return pfl_span_of(bytes + PFL_FRAME_PREFIX_BYTES, len - PFL_FRAME_PREFIX_BYTES);
}

static void note_iov(const struct iovec *iov, int iov_len)
{
    note_message("sent", join(iov, iov_len));
}

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    (void)user;
    if (iov_len < 1 || iov[0].iov_len < PFL_FRAME_PREFIX_BYTES || fd >= 0)
        abort();
    note_iov(iov, iov_len);
    return 0;
}

static void on_peer_identity(void *user, const struct pfl_rpc_peer_identity *identity)
{
    struct pfl_producer_conn *conn = user;

    pfl_peer_identify(&conn->peer, identity);
}

static void feed(struct pfl_service *service, struct pfl_span input)
{
    const struct pfl_rpc_service services[] = {pfl_producer_service, pfl_relay_service};
    struct pfl_producer_conn conn = {
        .service = service, .fd = -1, .peer = {.is_network = true, .pid = -1}};
    const struct pfl_rpc_host_conf rpc = {.services = services,
                                          .services_len = 2,
                                          .user = &conn,
                                          .send = send_frame,
                                          .on_peer_identity = on_peer_identity};
    int rc;

    pfl_rpc_host_init(&conn.rpc, &rpc);
    rc = pfl_rpc_host_feed(&conn.rpc, input);
    note("fed: %s", pfl_err_str(rc));
    if (conn.producer != NULL)
        pfl_registry_remove_producer(service, conn.producer);
    if (conn.relay != NULL)
        pfl_remote_machines_leave(&service->relays, conn.relay, true);
    pfl_rpc_host_fini(&conn.rpc);
}

static void read_all(struct pfl_session_read *read, struct pfl_service *service,
                     struct pfl_session *session)
{
    struct pfl_readback_frame frame = {.has_more = true};

    if (pfl_session_read_start(read, service, session, 1) != 0)
        abort();
    while (frame.has_more && pfl_readback_next_frame(read->readback, &frame) == 0)
        note_reply(join(frame.iov, frame.iov_len));
}

static void note_state(const struct pfl_service *service)
{
    struct pfl_query query = {.service = service, .has_figures = true};
    bool has_more = true;
    struct pfl_buf buf;

    pfl_buf_init(&buf, 131072);
    while (has_more && pfl_query_next(&query, &buf, &has_more) == 0)
        note_message("state", pfl_buf_get(&buf));
    pfl_query_fini(&query);
    pfl_buf_fini(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pfl_service_facts facts = {.version = "fuzz"};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};
    struct pfl_session_read read = {0};
    struct pfl_consumer consumer = {.ops = &consumer_ops, .port = &read};
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_service service;

    if (pfl_service_init(&service, &conf) != 0)
        abort();
    pfl_registry_add_consumer(&service, &consumer);
    if (pfl_session_enable(
            &service, &consumer,
            &(struct pfl_session_enable_conf){.config = pfl_span_of(config, sizeof(config))},
            why) != 0)
        abort();
    feed(&service, pfl_span_of(data, size));
    note_packets_open();
    read_all(&read, &service, consumer.session);
    note_packets_close();
    note_state(&service);
    pfl_registry_remove_consumer(&service, &consumer);
    if (service.relays.len != 0 || service.producers_len != 0)
        abort();
    pfl_service_fini(&service);
    return 0;
}
