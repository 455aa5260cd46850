/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 over a stream: see link.h.
 *
 * Happy path: received bytes are fed to the h2; the h2's output is drained into a scratch buffer
 * that all links share and written, until the queue is above its mark; on_writable continues. Calls
 * on the h2 from elsewhere wake the link: it drains from a timer in the next turn of the loop. Both
 * end when the peer has had its part of a turn: of what was read the rest is held, reading stops,
 * and on_writable continues.
 * Failures: broken protocol, a broken stream, silence. The reason is kept, the stream is closed
 * after its queue (the GOAWAY) is sent, and on_closed is called when stream and timers are closed.
 * Ownership: owns the stream and the h2. Limits: the queue; ping after quiet_ms of silence.
 */
#include "tunnel/link.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"

#define SCRATCH_BYTES    (6u * PFL_H2_DRAIN_BYTES)
#define CLOSE_TIMEOUT_MS 1000u
/* Requests that are taken before the time is looked at: some 20 of the shortest. */
#define FEED_BYTES 256u
/* The same of answers and streams, in which each piece costs: a record of TLS. */
#define FEED_ANSWERS_BYTES (16u * 1024)
#define HELD_MAX_BYTES     (256u * 1024)

struct pfl_tunnel_link {
    struct pfl_tunnel_link_conf conf;
    struct pfl_h2 *h2;         /* owned */
    struct pfl_stream *stream; /* owned; NULL once closed */
    struct pfl_buf held;       /* received, for one of the next turns; then nothing is read */
    uv_timer_t wake;
    uv_timer_t tick;
    unsigned timers; /* open */
    uint64_t received_ms;
    int err;
    bool is_close_wanted;
    bool is_closing;
    char why[640];
};

/* One loop, one thread: used up before anything else runs. */
static uint8_t scratch[SCRATCH_BYTES];

static void finish_if_gone(struct pfl_tunnel_link *l)
{
    if (l->stream != NULL || l->timers != 0)
        return;
    l->conf.on_closed(l->conf.user, l->err, l->why);
    pfl_buf_fini(&l->held);
    pfl_mem_free(l);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_tunnel_link *l = handle->data;

    l->timers--;
    finish_if_gone(l);
}

static void begin_close(struct pfl_tunnel_link *l, int err, const char *why)
{
    if (l->is_closing)
        return;
    l->is_closing = true;
    l->err = err;
    (void)snprintf(l->why, sizeof(l->why), "%s", why);
    uv_close((uv_handle_t *)&l->wake, on_timer_closed);
    uv_close((uv_handle_t *)&l->tick, on_timer_closed);
    if (l->stream != NULL)
        pfl_stream_close_after_flush(l->stream, CLOSE_TIMEOUT_MS);
}

/* One scratch full of the h2's bytes into the stream. False: there was nothing, or it broke. */
static bool drain_some(struct pfl_tunnel_link *l)
{
    struct pfl_writer out = pfl_writer_of(scratch, sizeof(scratch));
    int rc = pfl_h2_drain(l->h2, &out);
    struct iovec iov = {.iov_base = scratch, .iov_len = (size_t)(out.pos - scratch)};

    if (rc == 0 && iov.iov_len != 0)
        rc = pfl_stream_writev(l->stream, &iov, 1, -1);
    if (rc != 0) {
        begin_close(l, rc, "the connection could not take what was to be sent");
        return false;
    }
    return iov.iov_len != 0;
}

/* The peer still gets the reason. */
static void end(struct pfl_tunnel_link *l, int err, const char *why)
{
    if (!l->is_closing && pfl_stream_queued_bytes(l->stream) < PFL_TUNNEL_QUEUE_HIGH_BYTES)
        (void)drain_some(l);
    begin_close(l, err, why);
}

static void pump(struct pfl_tunnel_link *l)
{
    while (!l->is_closing && pfl_stream_queued_bytes(l->stream) < PFL_TUNNEL_QUEUE_HIGH_BYTES &&
           pfl_stream_may_go_on(l->stream)) {
        if (!drain_some(l))
            break;
    }
    if (l->is_close_wanted)
        end(l, 0, "");
    if (!l->is_closing && pfl_h2_is_over(l->h2))
        begin_close(l, PFL_ECLOSED, "the other side ended the connection");
}

static void on_wake_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

static void on_wake(void *user)
{
    struct pfl_tunnel_link *l = user;

    if (!l->is_closing && uv_is_active((uv_handle_t *)&l->wake) == 0)
        (void)uv_timer_start(&l->wake, on_wake_timer, 0, 0);
}

static const char *words_of(int err)
{
    switch (err) {
    case PFL_ELIMIT:
        return "the other side floods the connection";
    case PFL_ENOMEM:
        return "out of memory";
    default:
        return "the other side broke the tunnel's protocol";
    }
}

/* Piece by piece, as a request, or the head of an answer, may cost much. */
static int feed(struct pfl_tunnel_link *l, struct pfl_span *data)
{
    size_t max = l->conf.h2.is_answering ? FEED_BYTES : FEED_ANSWERS_BYTES;
    int rc = 0;

    while (rc == 0 && data->len != 0) {
        size_t len = data->len > max ? max : data->len;

        rc = pfl_h2_feed(l->h2, pfl_span_of(data->data, len));
        *data = pfl_span_of(data->data + len, data->len - len);
        if (data->len != 0 && !pfl_stream_may_go_on(l->stream))
            break;
    }
    return rc;
}

static void take(struct pfl_tunnel_link *l, struct pfl_span data)
{
    int rc = feed(l, &data);

    pump(l);
    if (rc == 0 && data.len != 0 && !l->is_closing) {
        pfl_stream_read_stop(l->stream);
        rc = pfl_buf_append(&l->held, data.data, data.len);
    }
    if (rc != 0)
        end(l, rc, words_of(rc));
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_tunnel_link *l = user;

    if (l->is_closing)
        return;
    l->received_ms = uv_now(l->conf.loop);
    take(l, data);
}

static void take_held(struct pfl_tunnel_link *l)
{
    struct pfl_buf held = l->held;

    if (held.len == 0 || l->is_closing)
        return;
    pfl_buf_init(&l->held, HELD_MAX_BYTES);
    take(l, pfl_buf_get(&held));
    pfl_buf_fini(&held);
    if (l->held.len == 0 && !l->is_closing)
        pfl_stream_read_start(l->stream);
}

static void on_eof(void *user)
{
    begin_close(user, PFL_ECLOSED, PFL_TUNNEL_LINK_ENDED);
}

static void on_writable(void *user)
{
    pump(user);
    take_held(user);
}

static void on_stream_closed(void *user, int err)
{
    struct pfl_tunnel_link *l = user;
    const char *words = pfl_stream_get_error(l->stream);

    l->stream = NULL;
    begin_close(l, err != 0 ? err : PFL_ECLOSED, "the connection was lost");
    /* What broke the stream comes before what followed from it. A relay that refuses an agent under
     * TLS 1.3 does so here. */
    if (words[0] != '\0')
        (void)snprintf(l->why, sizeof(l->why), "%s", words);
    pfl_h2_free(l->h2);
    l->h2 = NULL;
    finish_if_gone(l);
}

static const struct pfl_stream_ops stream_ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_closed = on_stream_closed,
};

static void on_tick(uv_timer_t *timer)
{
    struct pfl_tunnel_link *l = timer->data;
    uint64_t quiet_ms = uv_now(l->conf.loop) - l->received_ms;

    if (quiet_ms >= PFL_TUNNEL_SILENCE_FACTOR * l->conf.quiet_ms) {
        begin_close(l, PFL_ETIMEOUT, "the other side has been silent for too long");
        return;
    }
    if (quiet_ms >= l->conf.quiet_ms && pfl_h2_ping(l->h2) != 0)
        begin_close(l, PFL_ENOMEM, words_of(PFL_ENOMEM));
}

static void start_timers(struct pfl_tunnel_link *l)
{
    (void)uv_timer_init(l->conf.loop, &l->wake);
    (void)uv_timer_init(l->conf.loop, &l->tick);
    l->wake.data = l;
    l->tick.data = l;
    l->timers = 2;
    (void)uv_timer_start(&l->wake, on_wake_timer, 0, 0);
    (void)uv_timer_start(&l->tick, on_tick, l->conf.quiet_ms, l->conf.quiet_ms);
}

int pfl_tunnel_link_open(const struct pfl_tunnel_link_conf *conf, struct pfl_tunnel_link **ret_link)
{
    struct pfl_tunnel_link *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_h2_conf h2 = conf->h2;
    int rc;

    if (l == NULL)
        return PFL_ENOMEM;
    l->conf = *conf;
    h2.on_wake = on_wake;
    h2.wake_user = l;
    rc = pfl_h2_new(&h2, &l->h2);
    if (rc != 0) {
        pfl_mem_free(l);
        return rc;
    }
    pfl_buf_init(&l->held, HELD_MAX_BYTES);
    l->stream = conf->stream;
    l->received_ms = uv_now(conf->loop);
    pfl_stream_set_user(l->stream, &stream_ops, l);
    start_timers(l);
    *ret_link = l;
    return 0;
}

struct pfl_h2 *pfl_tunnel_link_get_h2(struct pfl_tunnel_link *self)
{
    return self->h2;
}

size_t pfl_tunnel_link_get_queued_bytes(const struct pfl_tunnel_link *self)
{
    return self->stream != NULL ? pfl_stream_queued_bytes(self->stream) : 0;
}

void pfl_tunnel_link_close(struct pfl_tunnel_link *self)
{
    self->is_close_wanted = true;
    on_wake(self);
}
