/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_host.h. Out of memory closes the connection: the sweep runs over this too. */
#include "tests/unit/consumer/fake_host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io/fdsock.h"
#include "base/mem.h"
#include "perfetto/service_state.fields.h"
#include "proto/ipc/rpc_host.h"

#define NOTES_MAX    64u
#define FILLER_BYTES 65536u

struct fake_conn {
    struct fake_host *host; /* borrowed */
    struct pfl_stream *stream;
    struct pfl_rpc_host rpc;
    bool is_probe;
    bool has_session;
    bool holds_flight;
    bool is_enable_pending;
    struct pfl_rpc_request enable;
    bool is_observe_pending;
    struct pfl_rpc_request observe;
    int64_t notes[NOTES_MAX][2];
    unsigned notes_len;
};

static int64_t now_ns(const struct fake_conn *c)
{
    return (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME) + c->host->offset_ns;
}

/* True: the trick was played, the method needs no answer. */
static bool play(struct fake_conn *c, struct pfl_rpc_request request, const char *method)
{
    static const uint8_t garbage[64] = {0xff, 0xff, 0xff, 0xff, 0xff};
    struct iovec iov = {(void *)(uintptr_t)garbage, sizeof(garbage)};

    if (c->is_probe || c->host->method == NULL || strcmp(c->host->method, method) != 0)
        return false;
    switch (c->host->trick) {
    case FAKE_SILENT:
        return true;
    case FAKE_DIES:
        pfl_stream_close(c->stream);
        return true;
    case FAKE_GARBAGE:
        return pfl_stream_writev(c->stream, &iov, 1, -1) == 0;
    case FAKE_FAILS:
        return pfl_rpc_host_reply_failure(&c->rpc, request) == 0;
    default:
        return false;
    }
}

static int reply(struct fake_conn *c, struct pfl_rpc_request request, unsigned flags,
                 const void *body, size_t len)
{
    struct iovec iov = {(void *)(uintptr_t)body, len};

    return pfl_rpc_host_reply(&c->rpc, request, flags, &iov, 1, -1);
}

static int end_session(struct fake_conn *c)
{
    if (!c->is_enable_pending)
        return 0;
    c->is_enable_pending = false;
    return reply(c, c->enable, PFL_RPC_SUCCESS, "\x08\x01", 2);
}

static int on_enable(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    c->is_probe = args.len == 2 && args.data[0] == 0x0a;
    c->has_session = true;
    if (play(c, request, "EnableTracing")) {
        c->has_session = false;
        return 0;
    }
    c->enable = request;
    c->is_enable_pending = true;
    return 0;
}

static int on_stats(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    (void)args;
    if (play(c, request, "GetTraceStats"))
        return 0;
    if (!c->has_session)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    return reply(c, request, PFL_RPC_SUCCESS, "\x0a\x00", 2);
}

static int on_start(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static int order;
    struct fake_conn *c = user;
    int rc;

    (void)args;
    if (play(c, request, "StartTracing"))
        return 0;
    c->host->started_order = order++;
    rc = pfl_rpc_host_reply_empty(&c->rpc, request);
    if (rc == 0 && c->host->trick == FAKE_ENDS)
        rc = end_session(c);
    return rc;
}

static int on_flush(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    (void)args;
    if (play(c, request, "Flush"))
        return 0;
    if (c->notes_len < NOTES_MAX && c->host->trick != FAKE_NO_NOTES) {
        c->notes[c->notes_len][0] = now_ns(c);
        c->notes[c->notes_len++][1] = now_ns(c);
    }
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_disable(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;
    int rc;

    (void)args;
    if (play(c, request, "DisableTracing"))
        return 0;
    c->host->is_flight_over = c->host->is_flight_over || c->holds_flight;
    rc = pfl_rpc_host_reply_empty(&c->rpc, request);
    return rc != 0 ? rc : end_session(c);
}

/* An empty answer to who observes, when it waits for one. */
static int tell_on(struct fake_conn *c)
{
    if (!c->is_observe_pending)
        return 0;
    c->is_observe_pending = false;
    return reply(c, c->observe, PFL_RPC_SUCCESS, "", 0);
}

/* One packet in one slice. */
static int send_packet(struct fake_conn *c, struct pfl_rpc_request request, const uint8_t *packet,
                       size_t len)
{
    uint8_t head[32];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    struct iovec iov[3] = {{0}};

    pfl_writer_field_header(&w, 2, 1 + pfl_varint_size(len) + len + 2);
    pfl_writer_field_header(&w, 1, len);
    iov[0] = (struct iovec){head, sizeof(head) - w.left};
    iov[1] = (struct iovec){(void *)(uintptr_t)packet, len};
    iov[2] = (struct iovec){(void *)(uintptr_t) "\x10\x01", 2};
    return pfl_rpc_host_reply(&c->rpc, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, iov, 3, -1);
}

static int send_note(struct fake_conn *c, struct pfl_rpc_request request, int64_t ns,
                     const char *event)
{
    uint8_t packet[32];
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_varint(&w, 8, (uint64_t)ns);
    pfl_writer_field_bytes(&w, 69, event, 2);
    pfl_writer_field_varint(&w, 10, 1);
    return send_packet(c, request, packet, sizeof(packet) - w.left);
}

static int read_probe(struct fake_conn *c, struct pfl_rpc_request request)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < c->notes_len; i++) {
        rc = send_note(c, request, c->notes[i][0], "\x48\x01");
        if (rc == 0)
            rc = send_note(c, request, c->notes[i][1], "\x18\x01");
    }
    return rc != 0 ? rc : reply(c, request, PFL_RPC_SUCCESS, "", 0);
}

static int on_read(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;
    struct fake_host *h = c->host;
    uint8_t packet[1024] = {0};
    int rc = 0;

    (void)args;
    if (c->is_probe)
        return read_probe(c, request);
    if (play(c, request, "ReadBuffers"))
        return 0;
    for (unsigned i = 0; rc == 0 && i < h->packets; i++) {
        struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

        pfl_writer_field_varint(&w, 8, (uint64_t)now_ns(c));
        pfl_writer_field_varint(&w, FAKE_HOST_VALUE, ++h->value);
        if (h->clears_every != 0)
            pfl_writer_field_varint(&w, 13, h->value % h->clears_every == 1 ? 3 : 2);
        pfl_writer_field_varint(&w, 10, 2);
        pfl_writer_field_bytes(&w, 900, packet + 512, h->packet_bytes);
        rc = send_packet(c, request, packet, sizeof(packet) - w.left);
        if (h->trick == FAKE_HALF && i == h->packets / 2) {
            pfl_stream_close_after_flush(c->stream, 1000);
            return 0;
        }
    }
    if (rc == 0 && h->last.len != 0)
        rc = send_packet(c, request, h->last.data, h->last.len);
    if (rc == 0)
        rc = reply(c, request, PFL_RPC_SUCCESS, "", 0);
    return rc != 0 ? rc : tell_on(c);
}

static int on_free(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;
    int rc;

    (void)args;
    if (play(c, request, "FreeBuffers"))
        return 0;
    c->host->was_flight_freed = c->host->was_flight_freed || c->holds_flight;
    c->holds_flight = false;
    c->has_session = false;
    c->notes_len = 0;
    rc = pfl_rpc_host_reply_empty(&c->rpc, request);
    return rc != 0 ? rc : end_session(c);
}

/* A service's state in many replies: as much of it as the host is to send. */
static int send_filler(struct fake_conn *c, struct pfl_rpc_request request)
{
    static uint8_t filler[FILLER_BYTES];
    static uint8_t state[FILLER_BYTES + 16];
    static uint8_t body[FILLER_BYTES + 32];
    struct pfl_writer t = pfl_writer_of(state, sizeof(state));
    struct pfl_writer w = pfl_writer_of(body, sizeof(body));
    int rc = 0;

    pfl_writer_field_bytes(&t, TRACING_SERVICE_STATE__PRODUCERS, filler, sizeof(filler));
    pfl_writer_field_bytes(&w, 1, state, sizeof(state) - t.left);
    for (uint64_t sent = 0; rc == 0 && sent < c->host->state_bytes; sent += FILLER_BYTES)
        rc = reply(c, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, body, sizeof(body) - w.left);
    return rc;
}

/* Sessions that were left running. */

static int on_query(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const char *const states[2] = {"STARTED", "DISABLED"};
    struct fake_conn *c = user;
    bool is_stopped = c->host->stops_flight && c->has_session;
    bool is_stopping = c->host->is_flight_over && c->host->looks_until_over != 0;
    const char *name = states[is_stopped || (c->host->is_flight_over && !is_stopping)];
    uint8_t session[64];
    uint8_t state[96];
    uint8_t body[128];
    struct pfl_writer s = pfl_writer_of(session, sizeof(session));
    struct pfl_writer t = pfl_writer_of(state, sizeof(state));
    struct pfl_writer w = pfl_writer_of(body, sizeof(body));

    (void)args;
    if (play(c, request, "QueryServiceState"))
        return 0;
    if (send_filler(c, request) != 0)
        return PFL_ECLOSED;
    c->host->looks_until_over -= is_stopping;
    if (c->host->kills_flight && c->has_session)
        c->host->has_flight = false;
    pfl_writer_field_bytes(&s, 3, name, strlen(name));
    pfl_writer_field_bytes(&s, 4, "flight", 6);
    if (c->host->tells_triggers)
        pfl_writer_field_bytes(&s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS,
                               "\x0a\x04"
                               "boom",
                               6);
    if (c->host->has_flight)
        pfl_writer_field_bytes(&t, 6, session, sizeof(session) - s.left);
    pfl_writer_field_bytes(&w, 1, state, sizeof(state) - t.left);
    return reply(c, request, PFL_RPC_SUCCESS, body, sizeof(body) - w.left);
}

static int on_attach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    (void)args;
    if (play(c, request, "Attach"))
        return 0;
    if (!c->host->has_flight || c->host->is_flight_held)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    c->host->is_flight_held = true;
    c->holds_flight = true;
    c->has_session = true;
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_detach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    (void)args;
    if (play(c, request, "Detach"))
        return 0;
    if (!c->has_session)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    c->has_session = false;
    c->holds_flight = false;
    c->is_enable_pending = false;
    c->host->has_flight = true;
    c->host->is_flight_held = false;
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_clone(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct fake_conn *c = user;

    (void)args;
    if (play(c, request, "CloneSession"))
        return 0;
    if (c->has_session || !c->host->has_flight || c->host->refuses_clones)
        return reply(c, request, PFL_RPC_SUCCESS, "\x12\x02no", 4);
    c->host->clones++;
    c->has_session = true;
    return reply(c, request, PFL_RPC_SUCCESS, "\x08\x01", 2);
}

static int on_observe(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    /* events { clone_trigger_hit { trigger_name: "boom" } } */
    static const char hit[] = "\x0a\x08\x1a\x06\x12\x04"
                              "boom";
    struct fake_conn *c = user;

    (void)args;
    c->is_observe_pending = c->host->trick == FAKE_TELLS_ON;
    c->observe = request;
    if (play(c, request, "ObserveEvents") || !c->host->raises_trigger)
        return 0;
    return reply(c, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, hit, sizeof(hit) - 1);
}

static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", on_enable}, {"GetTraceStats", on_stats},     {"StartTracing", on_start},
    {"Flush", on_flush},          {"DisableTracing", on_disable},  {"ReadBuffers", on_read},
    {"FreeBuffers", on_free},     {"QueryServiceState", on_query}, {"Attach", on_attach},
    {"Detach", on_detach},        {"CloneSession", on_clone},      {"ObserveEvents", on_observe},
};
static const struct pfl_rpc_service service = {"ConsumerPort", methods,
                                               sizeof(methods) / sizeof(methods[0])};

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    return pfl_stream_writev(((struct fake_conn *)user)->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct fake_conn *c = user;

    if (pfl_rpc_host_feed(&c->rpc, data) != 0)
        pfl_stream_close(c->stream);
}

static void on_eof(void *user)
{
    pfl_stream_close(((struct fake_conn *)user)->stream);
}

static void on_closed(void *user, int err)
{
    struct fake_conn *c = user;

    (void)err;
    c->host->was_flight_freed = c->host->was_flight_freed || c->holds_flight;
    for (unsigned i = 0; i < c->host->conns_len; i++)
        if (c->host->conns[i] == c)
            c->host->conns[i] = NULL;
    pfl_listener_release(c->host->listener);
    pfl_rpc_host_fini(&c->rpc);
    pfl_mem_free(c);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void on_accept(void *user, int fd)
{
    struct fake_host *h = user;
    struct fake_conn *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_rpc_host_conf rpc = {
        .services = &service, .services_len = 1, .user = c, .send = send_frame};
    struct pfl_stream_conf conf = {.loop = h->loop,
                                   .ops = &ops,
                                   .user = c,
                                   .queue_max_bytes = 64u << 20,
                                   .queue_low_bytes = 1};

    if (c == NULL || h->conns_len == sizeof(h->conns) / sizeof(h->conns[0]) ||
        pfl_fdsock_open(&conf, fd, &c->stream) != 0) {
        pfl_mem_free(c);
        close(fd);
        pfl_listener_release(h->listener);
        return;
    }
    c->host = h;
    pfl_rpc_host_init(&c->rpc, &rpc);
    h->conns[h->conns_len++] = c;
}

int fake_host_open(struct fake_host *self, uv_loop_t *loop)
{
    static unsigned serial;
    struct pfl_listener_conf conf = {
        .loop = loop,
        .address = self->address,
        .max_connections = 16,
        .mode = -1,
        .on_accept = on_accept,
        .user = self,
    };

    self->loop = loop;
    self->started_order = -1;
    snprintf(self->address, sizeof(self->address), "@perfleet-test-%d-%u", (int)getpid(), serial++);
    return pfl_listener_open(&conf, &self->listener);
}

void fake_host_drop(struct fake_host *self)
{
    for (unsigned i = 0; i < self->conns_len; i++)
        if (self->conns[i] != NULL)
            pfl_stream_close(self->conns[i]->stream);
}

void fake_host_close(struct fake_host *self)
{
    if (self->is_closed || self->listener == NULL)
        return;
    self->is_closed = true;
    fake_host_drop(self);
    pfl_listener_close(self->listener);
}
