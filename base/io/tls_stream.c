/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a pfl_stream: a plain socket stream with a tls_engine on top. See tls_stream.h.
 *
 * Happy path: bytes of the socket go through the engine into one buffer that all streams share and
 * from there to on_data; writes are encrypted record by record into another shared buffer and sent.
 * A stream keeps the engine's partial record and the socket's bounded queue. `held` keeps at most
 * one read's worth of bytes: those that arrive while reading is stopped during on_ready (a timer
 * continues), or while a server's handshake waits for its turn (handshake_queue.h); then its input,
 * and what is sent to it, have turns (input_turns.h). Failures: the
 * engine's alert is sent, then the socket closes; on_closed reports the error when socket and timer
 * are both closed.
 */
#include "base/io/tls_stream.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io/fdsock.h"
#include "base/io/handshake_deadline.h"
#include "base/io/handshake_queue.h"
#include "base/io/input_turns.h"
#include "base/io/stream_impl.h"
#include "base/io/tls_engine.h"
#include "base/mem.h"
#include "base/shares.h"

#define PLAIN_BYTES    (160u * 1024)
#define OUT_BYTES      (2u * PFL_TLS_OUT_BYTES)
#define HELD_MAX_BYTES (256u * 1024)
/* Of a client to whom nothing was said yet: a record, and room. */
#define HELLO_MAX_BYTES  (17u * 1024)
#define ALERT_TIMEOUT_MS 500u
/* A certificate is looked at when it ends, and so often, as the clock may be set. */
#define VALIDITY_LOOK_S 60

enum eof {
    EOF_NONE,
    EOF_DUE, /* the peer's close_notify came while reading was stopped */
    EOF_REPORTED,
};

struct tls_stream {
    struct pfl_stream base;
    struct pfl_stream *sock; /* owned until its on_closed; then NULL */
    struct pfl_tls_engine *engine;
    uv_timer_t timer; /* the handshake's deadline; later the kick after read_start, or the look */
    struct pfl_buf held;
    struct pfl_handshake_queue *queue; /* borrowed; NULL once the stream is not in it any more */
    struct pfl_handshake_turn turn;
    struct pfl_input_turns *turns; /* borrowed until it is ready; NULL: a client, or none */
    struct pfl_input_turn input;   /* from then on */
    struct pfl_input_turn output;  /* the same part: whatever is left of it for sending */
    struct pfl_input_turn *now;    /* the one whose work is being done; NULL: neither's */
    size_t queue_max_bytes;
    struct pfl_handshake_deadline deadline;
    int close_err;
    int close_errno;
    bool is_timer_closed;
    bool is_closing; /* nothing but on_closed is called any more */
    bool is_reading;
    bool is_kick_due; /* the timer is the kick */
    enum eof eof;
    bool is_shutdown_wanted;
    char error[640];
};

/* One loop, one thread: shared by all streams, used up before a callback that may write. */
static uint8_t plain_buffer[PLAIN_BYTES];
static uint8_t out_buffer[OUT_BYTES];
static uint8_t record_buffer[PFL_TLS_RECORD_BYTES];

static const struct pfl_stream_vtable vtable;

static struct tls_stream *self_of(struct pfl_stream *s)
{
    return PFL_CONTAINER_OF(s, struct tls_stream, base);
}

static const struct tls_stream *self_of_const(const struct pfl_stream *s)
{
    return PFL_CONTAINER_OF(s, const struct tls_stream, base);
}

/* ---- the end ---- */

static void finish_if_gone(struct tls_stream *t)
{
    if (t->sock != NULL || !t->is_timer_closed)
        return;
    t->base.ops->on_closed(t->base.user, t->close_err);
    pfl_input_turn_leave(&t->input);
    pfl_input_turn_leave(&t->output);
    pfl_tls_engine_free(t->engine);
    pfl_buf_fini(&t->held);
    pfl_mem_free(t);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct tls_stream *t = handle->data;

    t->is_timer_closed = true;
    finish_if_gone(t);
}

static void leave_queue(struct tls_stream *t)
{
    if (t->queue != NULL)
        pfl_handshake_queue_remove(t->queue, &t->turn);
    t->queue = NULL;
}

static void begin_close(struct tls_stream *t, int err)
{
    if (t->is_closing)
        return;
    leave_queue(t);
    t->is_closing = true;
    t->close_err = err;
    uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}

/* Sends what is in `out`. Failure closes. */
static void send_out(struct tls_stream *t, struct pfl_writer *out)
{
    struct iovec iov = {.iov_base = out_buffer, .iov_len = (size_t)(out->pos - out_buffer)};
    int rc;

    *out = pfl_writer_of(out_buffer, sizeof(out_buffer));
    if (iov.iov_len == 0 || t->sock == NULL)
        return;
    rc = pfl_stream_writev(t->sock, &iov, 1, -1);
    if (rc == 0 || rc == PFL_ESTATE)
        return;
    begin_close(t, rc);
    pfl_stream_close(t->sock);
}

/* Breaks the stream for a reason of the peer's or the protocol's; an alert may still go out. */
static void break_stream(struct tls_stream *t, int err, const char *words)
{
    if (t->is_closing)
        return;
    (void)snprintf(t->error, sizeof(t->error), "%s", words);
    begin_close(t, err);
    if (t->sock != NULL)
        pfl_stream_close_after_flush(t->sock, ALERT_TIMEOUT_MS);
}

/* ---- the peer's certificate ends ---- */

/* Sends nothing more, not even queued bytes, to a peer whose certificate expired. */
static void watch_validity(uv_timer_t *timer)
{
    struct tls_stream *t = timer->data;
    const struct pfl_tls_identity *id = pfl_tls_engine_get_identity(t->engine);
    int64_t end_s = id->not_after_s;
    int64_t left_s = end_s - (int64_t)(pfl_clock_now_ns(PFL_CLOCK_REALTIME) / 1000000000u);

    if (t->is_closing || end_s == 0) /* no certificate was asked for */
        return;
    if (t->queue != NULL && !pfl_handshake_queue_keep(t->queue, &t->turn, id->uri))
        t->queue = NULL;
    if (left_s >= 0) {
        left_s = left_s < VALIDITY_LOOK_S ? left_s + 1 : VALIDITY_LOOK_S;
        (void)uv_timer_start(timer, watch_validity, (uint64_t)left_s * 1000, 0);
        return;
    }
    (void)snprintf(t->error, sizeof(t->error), "%s", pfl_err_str(PFL_EEXPIRED));
    begin_close(t, PFL_EEXPIRED);
    if (t->sock != NULL)
        pfl_stream_close(t->sock);
}

/* ---- receiving ---- */

static void report_eof(struct tls_stream *t)
{
    if (t->is_closing || t->eof == EOF_REPORTED || !pfl_tls_engine_has_peer_closed(t->engine))
        return;
    if (!t->is_reading) {
        t->eof = EOF_DUE;
        return;
    }
    t->eof = EOF_REPORTED;
    if (t->base.ops->on_eof != NULL)
        t->base.ops->on_eof(t->base.user);
}

static void send_close_notify(struct tls_stream *t)
{
    struct pfl_writer out = pfl_writer_of(out_buffer, sizeof(out_buffer));

    pfl_tls_engine_close_notify(t->engine, &out);
    send_out(t, &out);
}

/* Those without a certificate are one. */
static void take_turns(struct tls_stream *t)
{
    const char *uri = pfl_tls_engine_get_identity(t->engine)->uri;
    uint64_t who = pfl_shares_hash(uri, strlen(uri));

    pfl_input_turn_join(&t->input, t->turns, who);
    pfl_input_turn_join(&t->output, t->turns, who);
}

static void handle_ready(struct tls_stream *t)
{
    take_turns(t);
    if (pfl_tls_engine_get_identity(t->engine)->not_after_s == 0)
        leave_queue(t);
    watch_validity(&t->timer);
    if (t->is_closing)
        return;
    if (t->is_shutdown_wanted) {
        send_close_notify(t);
        pfl_stream_shutdown(t->sock);
    }
    if (t->base.ops->on_ready != NULL)
        t->base.ops->on_ready(t->base.user);
}

static void on_handshake_timeout(uv_timer_t *timer);

static void note_progress(struct tls_stream *t, bool is_answered)
{
    if (!pfl_handshake_deadline_on_bytes(&t->deadline, is_answered))
        return;
    uv_update_time(t->timer.loop); /* a turn with many handshakes in it takes seconds */
    (void)uv_timer_start(&t->timer, on_handshake_timeout, t->deadline.timeout_ms, 0);
}

/* One pass through the engine and its callbacks; takes bytes off `cipher`. */
static void process_some(struct tls_stream *t, struct pfl_span *cipher)
{
    struct pfl_writer plain = pfl_writer_of(plain_buffer, sizeof(plain_buffer));
    struct pfl_writer out = pfl_writer_of(out_buffer, sizeof(out_buffer));
    bool was_ready = pfl_tls_engine_is_ready(t->engine);
    int rc = pfl_tls_engine_feed(t->engine, cipher, &plain, &out);
    size_t len = (size_t)(plain.pos - plain_buffer);

    if (t->queue != NULL && !was_ready)
        pfl_handshake_queue_end(t->queue, &t->turn);
    if (!was_ready && rc == 0)
        note_progress(t, out.pos != out_buffer);
    send_out(t, &out);
    if (!t->is_closing && !was_ready && pfl_tls_engine_is_ready(t->engine))
        handle_ready(t);
    if (!t->is_closing && len != 0)
        t->base.ops->on_data(t->base.user, pfl_span_of(plain_buffer, len));
    if (rc != 0)
        break_stream(t, rc, pfl_tls_engine_get_error(t->engine));
}

static bool is_held_back(const struct tls_stream *t)
{
    return !t->is_reading && pfl_tls_engine_is_ready(t->engine);
}

/* False: the handshake waits for its turn. */
static bool may_proceed(struct tls_stream *t)
{
    return t->queue == NULL || pfl_tls_engine_is_ready(t->engine) ||
           pfl_handshake_queue_begin(t->queue, &t->turn);
}

/* While a peer's handshake waits, reading continues, so that its end is detected, as long as its
 * bytes are valid. */
static void hold(struct tls_stream *t, struct pfl_span cipher)
{
    int rc = 0;

    if (cipher.len != 0)
        rc = pfl_buf_append(&t->held, cipher.data, cipher.len);
    if (rc == 0 && t->queue != NULL && !t->deadline.has_answered && t->held.len > HELLO_MAX_BYTES)
        rc = PFL_EPROTO;
    if (rc != 0) {
        break_stream(t, rc, pfl_err_str(rc));
        return;
    }
    if ((is_held_back(t) || t->held.len > HELLO_MAX_BYTES) && t->sock != NULL)
        pfl_stream_read_stop(t->sock);
}

static void process(struct tls_stream *t, struct pfl_span cipher)
{
    while (t->held.len == 0 && cipher.len != 0 && !t->is_closing && !is_held_back(t) &&
           may_proceed(t))
        process_some(t, &cipher);
    if (t->is_closing)
        return;
    hold(t, cipher);
    if (!t->is_closing)
        report_eof(t);
}

/* The held bytes first, then the socket. */
static void proceed(void *user)
{
    struct tls_stream *t = user;
    struct pfl_buf held = t->held;

    pfl_buf_init(&t->held, HELD_MAX_BYTES);
    process(t, pfl_buf_get(&held));
    pfl_buf_fini(&held);
    if (!t->is_closing && !is_held_back(t) && t->held.len == 0 && t->sock != NULL)
        pfl_stream_read_start(t->sock);
}

static void on_evicted(void *user)
{
    struct tls_stream *t = user;

    break_stream(t, PFL_ELIMIT,
                 "the TLS handshake gave way to a newer one: too many are unfinished");
    if (t->sock != NULL)
        pfl_stream_close(t->sock);
}

static void end_work(struct tls_stream *t)
{
    pfl_input_turn_end(t->now);
    t->now = NULL;
}

/* After read_start. */
static void on_kick(uv_timer_t *timer)
{
    struct tls_stream *t = timer->data;

    t->is_kick_due = false;
    watch_validity(timer);
    (void)pfl_input_turn_begin(&t->input); /* it was received already */
    t->now = &t->input;
    proceed(t);
    end_work(t);
}

static void on_handshake_timeout(uv_timer_t *timer)
{
    struct tls_stream *t = timer->data;
    char words[96];

    if (pfl_handshake_deadline_take_grace(&t->deadline)) {
        (void)uv_timer_start(timer, on_handshake_timeout, 1, 0);
        return;
    }
    (void)snprintf(words, sizeof(words), "the TLS handshake was not done within %llu ms",
                   (unsigned long long)t->deadline.timeout_ms);
    break_stream(t, PFL_ETIMEOUT, words);
}

/* ---- the socket's callbacks ---- */

static bool on_sock_input(void *user)
{
    struct tls_stream *t = user;

    if (!t->is_closing && !pfl_input_turn_begin(&t->input))
        return false;
    return t->is_closing || t->base.ops->on_input == NULL || t->base.ops->on_input(t->base.user);
}

static void on_sock_data(void *user, struct pfl_span data)
{
    struct tls_stream *t = user;

    if (t->is_closing)
        return;
    t->now = &t->input;
    process(t, data);
    end_work(t); /* also of what brought the owner nothing */
}

static void on_sock_eof(void *user)
{
    struct tls_stream *t = user;

    if (t->is_closing || pfl_tls_engine_has_peer_closed(t->engine))
        return;
    break_stream(t, PFL_ECLOSED,
                 pfl_tls_engine_is_ready(t->engine)
                     ? "the peer's connection was cut (it ended without a goodbye)"
                     : "the peer closed the connection during the TLS handshake");
}

static void on_sock_writable(void *user)
{
    struct tls_stream *t = user;

    if (t->is_closing || !pfl_tls_engine_is_ready(t->engine) || t->base.ops->on_writable == NULL)
        return;
    if (!pfl_input_turn_go_on(&t->output)) {
        pfl_fdsock_call_writable(t->sock);
        return;
    }
    t->now = &t->output;
    t->base.ops->on_writable(t->base.user);
    end_work(t);
}

static void on_sock_closed(void *user, int err)
{
    struct tls_stream *t = user;

    t->close_errno = pfl_stream_get_errno(t->sock);
    t->sock = NULL;
    if (t->is_closing && t->close_err == 0)
        t->close_err = err; /* a close_after_flush that could not send all */
    begin_close(t, err);
    finish_if_gone(t);
}

static const struct pfl_stream_ops sock_ops = {
    .on_input = on_sock_input,
    .on_data = on_sock_data,
    .on_eof = on_sock_eof,
    .on_writable = on_sock_writable,
    .on_closed = on_sock_closed,
};

/* ---- the table ---- */

static int write_records(struct tls_stream *t, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_writer out = pfl_writer_of(out_buffer, sizeof(out_buffer));
    size_t queued;
    size_t max = pfl_tls_engine_get_record_bytes(t->engine);
    size_t skip = 0;
    size_t len;

    if (t->is_closing || t->is_shutdown_wanted || !pfl_tls_engine_is_ready(t->engine))
        return PFL_ESTATE;
    if (fd >= 0 || !pfl_stream_sum_iov(iov, iov_len, &len))
        return PFL_EINVAL;
    queued = pfl_stream_queued_bytes(t->sock);
    if (len > t->queue_max_bytes || queued > t->queue_max_bytes - len)
        return PFL_ELIMIT;
    while (iov_len > 0 && !t->is_closing) {
        size_t n = pfl_stream_gather(record_buffer, max, &iov, &iov_len, &skip);
        int rc = pfl_tls_engine_write(t->engine, pfl_span_of(record_buffer, n), &out);

        if (rc != 0) {
            break_stream(t, rc, pfl_tls_engine_get_error(t->engine));
            return rc;
        }
        if (out.left < 2 * PFL_TLS_RECORD_BYTES)
            send_out(t, &out);
    }
    send_out(t, &out);
    return t->is_closing ? t->close_err : 0;
}

static int tls_writev(struct pfl_stream *stream, const struct iovec *iov, int iov_len, int fd)
{
    struct tls_stream *t = self_of(stream);
    int rc;

    if (t->now == NULL)
        t->output.since_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    rc = write_records(t, iov, iov_len, fd);
    if (t->now == NULL)
        pfl_input_turn_end(&t->output);
    return rc;
}

static bool tls_may_go_on(struct pfl_stream *stream)
{
    struct tls_stream *t = self_of(stream);

    if (t->is_closing)
        return true;
    if (t->now != NULL)
        pfl_input_turn_end(t->now);
    if (pfl_input_turn_go_on(t->now != NULL ? t->now : &t->output))
        return true;
    pfl_fdsock_call_writable(t->sock);
    return false;
}

static size_t tls_queued_bytes(const struct pfl_stream *stream)
{
    const struct tls_stream *t = self_of_const(stream);

    return t->sock != NULL ? pfl_stream_queued_bytes(t->sock) : 0;
}

static void tls_read_stop(struct pfl_stream *stream)
{
    struct tls_stream *t = self_of(stream);

    t->is_reading = false;
    if (t->is_closing || !pfl_tls_engine_is_ready(t->engine))
        return;
    pfl_stream_read_stop(t->sock);
    if (!t->is_kick_due)
        return;
    t->is_kick_due = false;
    watch_validity(&t->timer);
}

static void tls_read_start(struct pfl_stream *stream)
{
    struct tls_stream *t = self_of(stream);

    if (t->is_reading || t->is_closing)
        return;
    t->is_reading = true;
    if (!pfl_tls_engine_is_ready(t->engine))
        return;
    if (t->held.len != 0 || t->eof == EOF_DUE) {
        t->is_kick_due = true;
        (void)uv_timer_start(&t->timer, on_kick, 0, 0);
    } else {
        pfl_stream_read_start(t->sock);
    }
}

static void tls_shutdown(struct pfl_stream *stream)
{
    struct tls_stream *t = self_of(stream);

    if (t->is_closing || t->is_shutdown_wanted)
        return;
    t->is_shutdown_wanted = true;
    if (!pfl_tls_engine_is_ready(t->engine))
        return;
    send_close_notify(t);
    if (!t->is_closing)
        pfl_stream_shutdown(t->sock);
}

static void tls_close(struct pfl_stream *stream)
{
    struct tls_stream *t = self_of(stream);

    begin_close(t, 0);
    if (t->sock != NULL)
        pfl_stream_close(t->sock);
}

static void tls_close_after_flush(struct pfl_stream *stream, uint64_t timeout_ms)
{
    struct tls_stream *t = self_of(stream);

    if (t->is_closing)
        return;
    send_close_notify(t);
    begin_close(t, 0);
    pfl_stream_close_after_flush(t->sock, timeout_ms);
}

static int tls_get_errno(const struct pfl_stream *stream)
{
    const struct tls_stream *t = self_of_const(stream);

    return t->sock != NULL ? pfl_stream_get_errno(t->sock) : t->close_errno;
}

static const struct pfl_stream_vtable vtable = {
    .writev = tls_writev,
    .queued_bytes = tls_queued_bytes,
    .read_stop = tls_read_stop,
    .read_start = tls_read_start,
    .shutdown = tls_shutdown,
    .close = tls_close,
    .close_after_flush = tls_close_after_flush,
    .get_errno = tls_get_errno,
    .get_error = pfl_tls_stream_get_error,
    .may_go_on = tls_may_go_on,
};

const struct pfl_tls_identity *pfl_tls_stream_get_identity(const struct pfl_stream *self)
{
    assert(self->vtable == &vtable);
    return pfl_tls_engine_get_identity(self_of_const(self)->engine);
}

const char *pfl_tls_stream_get_alpn(const struct pfl_stream *self)
{
    assert(self->vtable == &vtable);
    return pfl_tls_engine_get_alpn(self_of_const(self)->engine);
}

const char *pfl_tls_stream_get_version(const struct pfl_stream *self)
{
    assert(self->vtable == &vtable);
    return pfl_tls_engine_get_version(self_of_const(self)->engine);
}

const char *pfl_tls_stream_get_error(const struct pfl_stream *self)
{
    assert(self->vtable == &vtable);
    return self_of_const(self)->error;
}

/* The client's first flight. The stream is not open yet: nothing is reported by callbacks. */
static int start(struct tls_stream *t)
{
    struct pfl_writer out = pfl_writer_of(out_buffer, sizeof(out_buffer));
    struct iovec iov = {.iov_base = out_buffer};
    int rc = pfl_tls_engine_start(t->engine, &out);

    if (rc != 0)
        return rc;
    iov.iov_len = (size_t)(out.pos - out_buffer);
    return pfl_stream_writev(t->sock, &iov, 1, -1);
}

static int enter_queue(struct tls_stream *t, struct pfl_handshake_queue *queue, int fd)
{
    int rc = 0;

    t->turn = (struct pfl_handshake_turn){.on_turn = proceed, .on_evicted = on_evicted, .user = t};
    if (queue != NULL)
        rc = pfl_handshake_queue_add(queue, &t->turn, fd);
    t->queue = rc == 0 ? queue : NULL;
    t->turns = queue != NULL ? pfl_handshake_queue_get_turns(queue) : NULL;
    return rc;
}

int pfl_tls_stream_open(const struct pfl_stream_conf *conf,
                        const struct pfl_tls_handshake *handshake, int fd,
                        struct pfl_stream **ret_stream)
{
    struct tls_stream *t = pfl_mem_zalloc(sizeof(*t));
    struct pfl_stream_conf sock_conf = *conf;
    int rc;

    if (t == NULL)
        return PFL_ENOMEM;
    t->base = (struct pfl_stream){.vtable = &vtable, .ops = conf->ops, .user = conf->user};
    t->queue_max_bytes = conf->queue_max_bytes;
    t->deadline.timeout_ms = handshake->timeout_ms;
    t->is_reading = true;
    pfl_buf_init(&t->held, HELD_MAX_BYTES);
    sock_conf.ops = &sock_ops;
    sock_conf.user = t;
    sock_conf.queue_max_bytes =
        conf->queue_max_bytes + conf->queue_max_bytes / 128 + PFL_TLS_OUT_BYTES;
    if (handshake->queue != NULL)
        sock_conf.turn_max_bytes = PFL_INPUT_TURN_BYTES;
    rc = enter_queue(t, handshake->queue, fd);
    if (rc == 0)
        rc = pfl_tls_engine_new(handshake->conf, handshake->expected_uri, &t->engine);
    if (rc == 0)
        rc = pfl_fdsock_open(&sock_conf, fd, &t->sock);
    if (rc != 0) {
        leave_queue(t);
        pfl_tls_engine_free(t->engine);
        pfl_mem_free(t);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &t->timer);
    t->timer.data = t;
    (void)uv_timer_start(&t->timer, on_handshake_timeout, handshake->timeout_ms, 0);
    rc = start(t);
    if (rc != 0)
        break_stream(t, rc, pfl_tls_engine_get_error(t->engine));
    *ret_stream = &t->base;
    return 0;
}
