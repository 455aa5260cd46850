/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock measurement.
 *
 *     EnableTracing{}  ->  Flush, answer, Flush, answer, ...  ->  ReadBuffers  ->  FreeBuffers
 *
 *     us    sent ------------------------------------------- received      CLOCK_BOOTTIME here
 *     host        flush_started ... all_data_sources_flushed               CLOCK_BOOTTIME there
 *
 * Happy path: with no data source every flush ends at once; the n-th pair of events belongs to the
 * n-th round. Failures: a refused session, a failed flush, or events that do not match the rounds
 * (a service that does not record them): on_done(NULL), and the session is freed, too. Limits: as
 * many rounds as the service remembers, fewer on a slow path.
 */
#include "consumer/host/clock_probe.h"

#include "base/clock.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/trace_packet.fields.h"

#define PACKET_MAX_BYTES (256u * 1024)

/* On a slow path fewer rounds must suffice: after this time no new one is begun. */
#define BUDGET_NS       1500000000
#define ROUNDS_AT_LEAST 4u

static int ask_flush(struct pfl_clock_probe *p);

static int64_t now_ns(void)
{
    return (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
}

static int finish(struct pfl_clock_probe *p, bool is_measured)
{
    struct pfl_clock_line line;
    bool has_line = is_measured && p->begun == p->rounds && p->ended == p->rounds &&
                    pfl_clock_sync_fit(p->samples, p->rounds, &line) == 0;
    int rc = pfl_host_conn_invoke(p->conn, "FreeBuffers", pfl_span_of(NULL, 0), NULL, NULL);

    pfl_packet_scan_fini(&p->scan);
    p->is_running = false;
    p->on_done(p->user, has_line ? &line : NULL);
    return rc;
}

static void note_event(struct pfl_clock_probe *p, uint32_t kind, int64_t ns)
{
    if (kind == TRACING_SERVICE_EVENT__FLUSH_STARTED && p->begun < p->rounds)
        p->samples[p->begun++].host_first_ns = ns;
    else if (kind == TRACING_SERVICE_EVENT__ALL_DATA_SOURCES_FLUSHED && p->ended < p->rounds)
        p->samples[p->ended++].host_last_ns = ns;
}

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_clock_probe *p = user;
    struct pfl_reader r;
    struct pfl_field f;
    uint32_t kind = 0;
    int64_t ns = 0;

    /* Service events are far smaller than a slice: the first one holds all that is wanted. */
    (void)bytes;
    if (slices_len < 1)
        return 0;
    r = pfl_reader_of(pfl_span_of(slices[0].iov_base, slices[0].iov_len));
    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader event = pfl_reader_of(f.bytes);
        struct pfl_field e;

        if (f.id == TRACE_PACKET__TIMESTAMP)
            ns = (int64_t)f.value;
        if (f.id == TRACE_PACKET__SERVICE_EVENT && pfl_reader_field(&event, &e))
            kind = e.id;
    }
    note_event(p, kind, ns);
    return 0;
}

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_clock_probe *p = user;
    int rc;

    if (!p->is_running)
        return 0;
    if (!reply->success)
        return finish(p, false);
    rc = pfl_packet_scan_feed(&p->scan, reply->body, on_packet, p);
    if (rc != 0)
        return rc;
    return reply->has_more ? 0 : finish(p, true);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_clock_probe *p = user;

    if (!p->is_running)
        return 0;
    p->samples[p->rounds].received_ns = now_ns();
    if (!reply->success)
        return finish(p, false);
    p->rounds++;
    if (p->rounds < PFL_CLOCK_PROBE_ROUNDS &&
        (p->rounds < ROUNDS_AT_LEAST ||
         p->samples[p->rounds - 1].received_ns - p->samples[0].sent_ns < BUDGET_NS))
        return ask_flush(p);
    return pfl_host_conn_invoke(p->conn, "ReadBuffers", pfl_span_of(NULL, 0), on_read, p);
}

static int ask_flush(struct pfl_clock_probe *p)
{
    p->samples[p->rounds].sent_ns = now_ns();
    return pfl_host_conn_invoke(p->conn, "Flush", pfl_span_of(NULL, 0), on_flushed, p);
}

/* The end of the probe's session; while running this is a refusal. A flush without a session is
 * never answered, so the first one is sent only after a refusal could have arrived: see
 * on_state. */
static int on_disabled(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_clock_probe *p = user;

    (void)reply;
    if (!p->is_running || p->rounds != 0)
        return 0;
    return finish(p, false);
}

/* The fence after EnableTracing: fails when there is no session. */
static int on_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_clock_probe *p = user;

    if (!p->is_running)
        return 0;
    return reply->success ? ask_flush(p) : finish(p, false);
}

int pfl_clock_probe_start(struct pfl_clock_probe *self, struct pfl_host_conn *conn,
                          void (*on_done)(void *user, const struct pfl_clock_line *line),
                          void *user)
{
    static const uint8_t empty_config[] = {
        ENABLE_TRACING_REQUEST__TRACE_CONFIG << 3 | PFL_WIRE_BYTES, 0};
    int rc;

    *self = (struct pfl_clock_probe){.conn = conn, .on_done = on_done, .user = user};
    pfl_packet_scan_init(&self->scan, PACKET_MAX_BYTES);
    self->is_running = true;
    rc = pfl_host_conn_invoke(conn, "EnableTracing",
                              pfl_span_of(empty_config, sizeof(empty_config)), on_disabled, self);
    if (rc == 0)
        rc = pfl_host_conn_invoke(conn, "GetTraceStats", pfl_span_of(NULL, 0), on_stats, self);
    if (rc != 0)
        self->is_running = false;
    return rc;
}

void pfl_clock_probe_fini(struct pfl_clock_probe *self)
{
    if (self->is_running)
        pfl_packet_scan_fini(&self->scan);
    self->is_running = false;
}
