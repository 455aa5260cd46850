/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream to a spool: see spool_stream_port.h.
 *
 * Happy path: bytes that arrive are appended, and the first whole frame is unpacked and given to
 * the owner; the next one when the owner resumes. Meanwhile nothing is read, and the host is held
 * back. Frames of a stream have a tenth of the loop, as some take long to unpack. Failures: a frame
 * that is too long or malformed breaks the stream (PFL_EPROTO). Ownership: the tunnel's stream
 * until its on_closed; then the timer is closed, and this is freed. Limits: those of the header.
 */
#include "collector/relay/spool_stream_port.h"

#include <stdio.h>

#include "base/mem.h"
#include "proto/ipc/frame.h"
#include "proto/unpack.h"

#define QUEUE_MAX_BYTES PFL_TUNNEL_CONTROL_WINDOW_BYTES
#define PATH_BYTES      128u
#define FRAME_TIMES     10u /* of the time that a frame took, before the next one */
#define NS_PER_MS       1000000u

struct pfl_spool_stream {
    struct pfl_spool_stream_conf conf;
    struct pfl_stream *stream; /* owned until its on_closed */
    struct pfl_buf in;         /* not yet given to the owner */
    uv_timer_t timer;          /* while it runs, no frame is unpacked */
    bool is_held;              /* the owner has a reply */
    bool is_closing;
    bool is_left; /* the owner closed it */
    int err;      /* why it was closed here */
};

static void fail(struct pfl_spool_stream *s, int err)
{
    s->err = err;
    s->is_closing = true;
    pfl_stream_close(s->stream);
}

/* 0: a frame; PFL_EAGAIN: none that is whole. */
static int take_frame(struct pfl_spool_stream *s, Perfleet__SpoolReply **ret_reply)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&s->in));
    uint32_t len = pfl_reader_u32(&r);
    struct pfl_span frame;
    int rc;

    if (r.failed)
        return PFL_EAGAIN;
    if (len > PFL_SPOOL_STREAM_FRAME_MAX_BYTES)
        return PFL_EPROTO;
    frame = pfl_reader_bytes(&r, len);
    if (r.failed)
        return PFL_EAGAIN;
    rc =
        pfl_proto_unpack(&perfleet__spool_reply__descriptor, frame, (ProtobufCMessage **)ret_reply);
    pfl_buf_consume(&s->in, PFL_FRAME_PREFIX_BYTES + len);
    return rc;
}

static void give_next(struct pfl_spool_stream *s);

static void on_timer(uv_timer_t *timer)
{
    give_next(timer->data);
}

/* The owner may close or resume in on_reply. */
static void give_next(struct pfl_spool_stream *s)
{
    Perfleet__SpoolReply *reply = NULL;
    uint64_t since_ns = uv_hrtime();
    uint64_t pause_ms;
    int rc;

    if (s->is_held || s->is_closing || uv_is_active((uv_handle_t *)&s->timer) != 0)
        return;
    rc = take_frame(s, &reply);
    pause_ms = (uv_hrtime() - since_ns) * FRAME_TIMES / NS_PER_MS;
    if (rc == 0 && pause_ms >= FRAME_TIMES)
        (void)uv_timer_start(&s->timer, on_timer, pause_ms, 0);
    if (rc == PFL_EAGAIN) {
        pfl_stream_read_start(s->stream);
    } else if (rc != 0) {
        fail(s, rc == PFL_ENOMEM ? PFL_ENOMEM : PFL_EPROTO);
    } else {
        s->is_held = true;
        pfl_stream_read_stop(s->stream);
        s->conf.on_reply(s->conf.user, reply);
    }
}

void pfl_spool_stream_resume(struct pfl_spool_stream *self)
{
    self->is_held = false;
    give_next(self);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_spool_stream *s = user;
    int rc;

    if (s->is_closing)
        return;
    rc = pfl_buf_append(&s->in, data.data, data.len);
    if (rc != 0)
        fail(s, rc);
    else
        give_next(s);
}

static void on_eof(void *user)
{
    struct pfl_spool_stream *s = user;

    if (!s->is_closing)
        fail(s, PFL_ECLOSED);
}

static void on_ready(void *user)
{
    struct pfl_spool_stream *s = user;

    if (!s->is_closing)
        s->conf.on_ready(s->conf.user);
}

static void on_timer_closed(uv_handle_t *timer)
{
    pfl_mem_free(timer->data);
}

static void on_closed(void *user, int err)
{
    struct pfl_spool_stream *s = user;
    const char *why = pfl_tunnel_stream_get_error(s->stream);

    if (s->err != 0)
        err = s->err;
    if (!s->is_left)
        s->conf.on_closed(s->conf.user, err, why[0] != '\0' ? why : pfl_err_str(err));
    pfl_buf_fini(&s->in);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_ready = on_ready,
    .on_closed = on_closed,
};

int pfl_spool_stream_open(const struct pfl_spool_stream_conf *conf,
                          struct pfl_spool_stream **ret_stream)
{
    struct pfl_spool_stream *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_h2_field field = {PFL_TUNNEL_H_FOR, conf->orderer};
    char path[PATH_BYTES];
    struct pfl_tunnel_place place = {.path = path,
                                     .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
                                     .fields = &field,
                                     .fields_len = conf->orderer != NULL ? 1 : 0};
    struct pfl_stream_conf stream = {.loop = conf->loop,
                                     .ops = &ops,
                                     .user = s,
                                     .queue_max_bytes = QUEUE_MAX_BYTES,
                                     .queue_low_bytes = QUEUE_MAX_BYTES / 2};
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    pfl_buf_init(&s->in, PFL_SPOOL_STREAM_HELD_MAX_BYTES);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s/spool", conf->host);
    rc = pfl_tunnel_client_dial(conf->client, &place, &stream, &s->stream);
    if (rc != 0) {
        pfl_mem_free(s);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &s->timer);
    s->timer.data = s;
    *ret_stream = s;
    return 0;
}

int pfl_spool_stream_send(struct pfl_spool_stream *self, const Perfleet__SpoolRequest *request)
{
    struct pfl_buf frame;
    struct pfl_span bytes;
    struct iovec iov;
    int rc;

    if (self->is_closing)
        return PFL_ESTATE;
    pfl_buf_init(&frame, PFL_FRAME_LARGE_MAX_BYTES);
    rc = pfl_frame_write(&request->base, &frame);
    if (rc == 0) {
        bytes = pfl_buf_get(&frame);
        iov = (struct iovec){(uint8_t *)(uintptr_t)bytes.data, bytes.len};
        rc = pfl_stream_writev(self->stream, &iov, 1, -1);
    }
    pfl_buf_fini(&frame);
    return rc;
}

void pfl_spool_stream_close(struct pfl_spool_stream *self)
{
    if (self == NULL || self->is_left)
        return;
    self->is_left = true;
    self->is_closing = true;
    pfl_stream_close(self->stream);
}
