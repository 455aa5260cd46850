/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmarks' blocking consumer: proto's rpc_client over a blocking socket.
 *
 * Happy path: connect, bind, then each call sends its request and reads until its last reply.
 * Replies to requests nobody waits for (EnableTracing's) are dropped.
 *
 * Failures: any of them prints one line and exits with 1.
 */
#include "tests/bench/bench_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/ipc/rpc_client.h"

#define READ_BYTES (256u * 1024u)

struct pfl_bench_client {
    int fd;
    struct pfl_rpc_client *rpc; /* owned */
    unsigned sleep_ms;
    size_t read_bytes;
    bool is_bound;
    bool is_done; /* the call being waited for has had its last reply */
    pfl_bench_body_cb cb;
    void *user;
    bool is_ended; /* the session of pfl_bench_client_enable_request */
    char error[256];
    size_t kept; /* bytes at the front of `room`: a frame that is not whole yet */
    uint8_t room[READ_BYTES + PFL_FRAME_PREFIX_BYTES + PFL_FRAME_PAYLOAD_MAX];
};

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, errno != 0 ? strerror(errno) : "failed");
    exit(1);
}

uint64_t pfl_bench_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void pfl_bench_sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&ts, NULL);
}

static int send_all(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_bench_client *self = user;

    (void)fd;
    for (int i = 0; i < iov_len; i++) {
        if (iov[i].iov_len == 0)
            continue;
        if (send(self->fd, iov[i].iov_base, iov[i].iov_len, MSG_NOSIGNAL) !=
            (ssize_t)iov[i].iov_len)
            return PFL_EIO;
    }
    return 0;
}

/* How many of the bytes in hand are whole frames. */
static size_t whole_frames(const uint8_t *data, size_t len)
{
    size_t pos = 0;

    while (len - pos >= PFL_FRAME_PREFIX_BYTES) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(data + pos, PFL_FRAME_PREFIX_BYTES));
        size_t payload = pfl_reader_u32(&r);

        if (payload > PFL_FRAME_PAYLOAD_MAX)
            fail("an oversized frame");
        if (payload > len - pos - PFL_FRAME_PREFIX_BYTES)
            break;
        pos += PFL_FRAME_PREFIX_BYTES + payload;
    }
    return pos;
}

static void pump(struct pfl_bench_client *self)
{
    size_t whole;
    ssize_t n;

    errno = 0;
    n = recv(self->fd, self->room + self->kept, self->read_bytes, 0);
    if (n <= 0)
        fail("the service closed the connection");
    self->kept += (size_t)n;
    whole = whole_frames(self->room, self->kept);
    if (whole != 0 && pfl_rpc_client_feed(self->rpc, pfl_span_of(self->room, whole)) != 0)
        fail("an impossible reply");
    self->kept -= whole;
    memmove(self->room, self->room + whole, self->kept);
    if (self->sleep_ms != 0)
        pfl_bench_sleep_ms(self->sleep_ms);
}

static int on_bound(void *user, bool is_bound)
{
    struct pfl_bench_client *self = user;

    if (!is_bound)
        fail("the service knows no ConsumerPort");
    self->is_bound = true;
    return 0;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_bench_client *self = user;

    if (!reply->success)
        fail("a request was refused");
    if (self->cb != NULL)
        self->cb(self->user, reply->body);
    self->is_done = !reply->has_more;
    return 0;
}

static int on_ignored(void *user, const struct pfl_rpc_reply *reply)
{
    (void)user;
    (void)reply;
    return 0;
}

struct pfl_bench_client *pfl_bench_client_new(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct pfl_bench_client *self = pfl_mem_zalloc(sizeof(*self));
    struct pfl_rpc_client_conf conf = {.user = self, .send = send_all};

    if (self == NULL || strlen(socket_path) >= sizeof(address.sun_path))
        fail("start");
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    self->read_bytes = READ_BYTES;
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(self->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        fail(socket_path);
    if (pfl_rpc_client_new(&conf, &self->rpc) != 0 ||
        pfl_rpc_client_bind(self->rpc, "ConsumerPort", on_bound, self) != 0)
        fail("bind");
    while (!self->is_bound)
        pump(self);
    return self;
}

void pfl_bench_client_free(struct pfl_bench_client *self)
{
    if (self == NULL)
        return;
    pfl_rpc_client_free(self->rpc);
    close(self->fd);
    pfl_mem_free(self);
}

void pfl_bench_client_send(struct pfl_bench_client *self, const char *method, struct pfl_span args)
{
    if (pfl_rpc_client_invoke(self->rpc, method, args, -1, on_ignored, self) != 0)
        fail(method);
}

void pfl_bench_client_call(struct pfl_bench_client *self, const char *method, struct pfl_span args,
                           pfl_bench_body_cb cb, void *user)
{
    self->cb = cb;
    self->user = user;
    self->is_done = false;
    if (pfl_rpc_client_invoke(self->rpc, method, args, -1, on_reply, self) != 0)
        fail(method);
    while (!self->is_done)
        pump(self);
}

void pfl_bench_client_slow_down(struct pfl_bench_client *self, unsigned sleep_ms, size_t bytes)
{
    self->sleep_ms = sleep_ms;
    self->read_bytes = sleep_ms != 0 && bytes < READ_BYTES ? bytes : READ_BYTES;
}

/* TraceConfig {buffers = 1 {size_kb 1, fill_policy 4, experimental_mode 8}, data_sources = 2
 * {config 1 {name 1, track_event_config 113 {enabled_categories 2}}}, compression = 47 {codec {}}}
 * in EnableTracingRequest {trace_config 1}. */
void pfl_bench_client_enable(struct pfl_bench_client *self,
                             const struct pfl_bench_session_conf *conf)
{
    uint8_t buffer[128], name[128], source[160], config[256], request[300], codec[4];
    struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));
    struct pfl_writer n = pfl_writer_of(name, sizeof(name));
    struct pfl_writer s = pfl_writer_of(source, sizeof(source));
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));
    struct pfl_writer r = pfl_writer_of(request, sizeof(request));
    struct pfl_writer z = pfl_writer_of(codec, sizeof(codec));

    pfl_writer_field_varint(&b, 1, conf->buffer_kb);
    pfl_writer_field_varint(&b, 4, conf->fill_policy);
    if (conf->experimental_mode != 0)
        pfl_writer_field_varint(&b, 8, conf->experimental_mode);
    pfl_writer_field_bytes(&n, 1, conf->data_source, strlen(conf->data_source));
    if (strcmp(conf->data_source, "track_event") == 0) /* the C SDK's events are off unless named */
        pfl_writer_field_bytes(&n, 113, "\x12\x01*", 3);
    pfl_writer_field_bytes(&s, 1, name, (size_t)(n.pos - name));
    pfl_writer_field_bytes(&c, 1, buffer, (size_t)(b.pos - buffer));
    pfl_writer_field_bytes(&c, 2, source, (size_t)(s.pos - source));
    if (conf->codec != 0) {
        pfl_writer_field_bytes(&z, conf->codec, "", 0);
        pfl_writer_field_bytes(&c, 47, codec, (size_t)(z.pos - codec));
    }
    pfl_writer_field_bytes(&r, 1, config, (size_t)(c.pos - config));
    if (b.failed || n.failed || s.failed || c.failed || r.failed)
        fail("a config that long");
    pfl_bench_client_send(self, "EnableTracing", pfl_span_of(request, (size_t)(r.pos - request)));
}

/* EnableTracingResponse {disabled 1, error 3} */
static int on_enabled(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_bench_client *self = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field field;

    self->is_ended = true;
    while (pfl_reader_field(&r, &field)) {
        if (field.id == 3)
            (void)snprintf(self->error, sizeof(self->error), "%.*s", (int)field.bytes.len,
                           (const char *)field.bytes.data);
    }
    return 0;
}

void pfl_bench_client_enable_request(struct pfl_bench_client *self, struct pfl_span request)
{
    self->is_ended = false;
    self->error[0] = '\0';
    if (pfl_rpc_client_invoke(self->rpc, "EnableTracing", request, -1, on_enabled, self) != 0)
        fail("EnableTracing");
}

const char *pfl_bench_client_wait_end(struct pfl_bench_client *self)
{
    while (!self->is_ended)
        pump(self);
    return self->error;
}

/* GetTraceStatsResponse {trace_stats 1 {buffer_stats 1 {bytes_written 1, chunks_written 2,
 * chunks_overwritten 3, chunks_discarded 18}}}; the first buffer only. */
static void on_stats(void *user, struct pfl_span body)
{
    struct pfl_bench_fill *fill = user;
    struct pfl_field field = {.id = 0};

    for (int level = 0; level < 2; level++) {
        struct pfl_reader r = pfl_reader_of(body);

        while (pfl_reader_field(&r, &field) && field.id != 1)
            continue;
        if (field.id != 1)
            return;
        body = field.bytes;
    }
    for (struct pfl_reader r = pfl_reader_of(body); pfl_reader_field(&r, &field);) {
        fill->bytes_written += field.id == 1 ? field.value : 0;
        fill->chunks_written += field.id == 2 ? field.value : 0;
        fill->chunks_lost += field.id == 3 || field.id == 18 ? field.value : 0;
    }
}

void pfl_bench_client_get_fill(struct pfl_bench_client *self, struct pfl_bench_fill *ret_fill)
{
    memset(ret_fill, 0, sizeof(*ret_fill));
    pfl_bench_client_call(self, "GetTraceStats", pfl_span_of(NULL, 0), on_stats, ret_fill);
}
