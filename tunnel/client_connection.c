/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection's side of an operator's stream: see client.h and client_stream.c.
 *
 *     WAITING -> ASKING -> CARRIED        any -> CLOSING
 *        ^----------+---------+
 *
 * Happy path: when the client is connected, CONNECT with our offer (proto/tunnel/resume.h); the
 * answer's offer attaches; bytes pass straight to on_data, and are held while reading is stopped.
 * Failures: a lost HTTP/2 stream, or a host that is temporarily not connected, leads back to
 * WAITING, until give_up_ms without an HTTP/2 stream; a refusal, an impossible offer or a killed
 * stream break it. Ownership: the HTTP/2 stream belongs to the connection's h2 until its on_closed.
 * Limits: holds PFL_TUNNEL_DATA_WINDOW_BYTES; delivers at most DELIVER_BYTES per callback and about
 * TURN_BYTES per loop turn, of which decoding has some DECODE_TURN_NS.
 */
#include <stdio.h>
#include <sys/random.h>

#include "proto/h2/problem.h"
#include "tunnel/client_stream_impl.h"

/* More than is decoded on the loop: so many wait. */
#define DELIVER_BYTES (2 * PFL_DECODE_AT_ONCE_BYTES)
#define TURN_BYTES    (4u << 20)
/* Longer than an honest host's takes that is decoded on the loop. */
#define DECODE_TURN_NS 4000000u
#define PROBLEM_BYTES  201u

static uint64_t random_number(void)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        number = uv_hrtime();
    return number;
}

void pfl_client_connection_drop(struct pfl_client_stream *s, enum pfl_h2_code code)
{
    struct pfl_h2_stream *h2_stream = s->h2_stream;

    if (h2_stream == NULL)
        return;
    s->h2_stream = NULL;
    pfl_h2_stream_set_user(h2_stream, NULL, NULL);
    pfl_h2_stream_reset(h2_stream, code);
}

/* ---- HTTP/2 streams ---- */

void pfl_client_connection_on_retry(uv_timer_t *timer)
{
    struct pfl_client_stream *s = timer->data;

    if (uv_now(s->loop) - s->lost_ms >= s->client->conf.give_up_ms)
        pfl_client_stream_break(s, PFL_ETIMEOUT, "the host could not be reached again in time");
    else
        pfl_client_connection_ask(s);
}

/* There is no HTTP/2 stream: try again after a while. */
static void wait_for_h2_stream(struct pfl_client_stream *s)
{
    s->state = STATE_WAITING;
    (void)uv_timer_start(&s->retry, pfl_client_connection_on_retry,
                         pfl_backoff_next(&s->backoff, random_number()), 0);
}

static void lose_h2_stream(struct pfl_client_stream *s)
{
    if (s->resume.is_attached || s->lost_ms == 0)
        s->lost_ms = uv_now(s->loop);
    pfl_resume_detach(&s->resume);
    if (s->is_flushing)
        pfl_client_stream_break(s, PFL_ECLOSED,
                                "the connection was lost while the stream was closed");
    else if (s->place != NULL && s->opened != PFL_CLIENT_NOT_OPENED)
        pfl_client_stream_break(s, PFL_ECLOSED, "the connection that carried the stream was lost");
    else
        wait_for_h2_stream(s);
}

static void send_credit(struct pfl_client_stream *s)
{
    uint32_t credit = s->h2_stream != NULL ? pfl_resume_take_credit(&s->resume) : 0;

    if (credit != 0)
        pfl_h2_stream_credit(s->h2_stream, credit);
}

static void on_kick(uv_timer_t *timer);

void pfl_client_connection_kick(struct pfl_client_stream *s)
{
    if (s->state != STATE_CLOSING)
        (void)uv_timer_start(&s->kick, on_kick, 0, 0);
}

static bool may_deliver(const struct pfl_client_stream *s)
{
    return s->state != STATE_CLOSING && (s->is_reading || s->is_flushing);
}

static void deliver(struct pfl_client_stream *s, struct pfl_span data)
{
    s->delivered_bytes += data.len;
    if (!s->is_flushing)
        s->base.ops->on_data(s->base.user, data);
}

static bool has_more(const struct pfl_client_stream *s)
{
    return pfl_resume_held(&s->resume) != 0 ||
           (s->decoder != NULL && !pfl_decode_port_is_idle(s->decoder));
}

static void tell_eof(struct pfl_client_stream *s)
{
    if (!may_deliver(s) || s->is_eof_reported || !s->resume.is_in_ended || has_more(s))
        return;
    s->is_eof_reported = true;
    send_credit(s);
    if (s->is_flushing)
        pfl_client_stream_break(s, 0, "");
    else if (s->base.ops->on_eof != NULL)
        s->base.ops->on_eof(s->base.user);
}

/* One piece of the held bytes, as far as they are decoded. */
static int deliver_some(struct pfl_client_stream *s, uint64_t *decoding_ns, bool *ret_is_more)
{
    struct pfl_span held = pfl_resume_peek(&s->resume, DELIVER_BYTES);
    struct pfl_span rest = held;
    uint64_t begin_ns;
    struct pfl_span piece;
    int rc;

    *ret_is_more = true;
    if (s->decoder == NULL) {
        deliver(s, held);
        pfl_resume_use(&s->resume, held.len);
        return 0;
    }
    begin_ns = uv_hrtime();
    rc = pfl_decode_port_next(s->decoder, &rest, &piece);
    *decoding_ns += uv_hrtime() - begin_ns;
    *ret_is_more = rest.len != held.len || piece.len != 0;
    pfl_resume_use(&s->resume, held.len - rest.len);
    if (rc == 0 && piece.len != 0)
        deliver(s, piece);
    return rc;
}

/* Runs pending callbacks to the owner, from the loop. */
static void on_kick(uv_timer_t *timer)
{
    struct pfl_client_stream *s = timer->data;
    uint64_t turn_end = s->delivered_bytes + TURN_BYTES;
    uint64_t decoding_ns = 0;
    bool is_more = true;
    int rc = 0;

    while (rc == 0 && is_more && may_deliver(s) && has_more(s)) {
        rc = deliver_some(s, &decoding_ns, &is_more);
        if ((s->delivered_bytes >= turn_end || decoding_ns >= DECODE_TURN_NS) &&
            s->state != STATE_CLOSING) {
            /* Few bytes may expand to many, or take long; and pending callbacks are due in this
             * turn. */
            (void)uv_timer_start(timer, on_kick, 1, 0);
            break;
        }
    }
    if (rc != 0)
        pfl_client_stream_break(s, rc == PFL_EPARSE ? PFL_EPROTO : rc,
                                rc == PFL_EPARSE ? "what the host sent cannot be decoded"
                                                 : pfl_err_str(rc));
    if (s->state == STATE_CLOSING)
        return;
    send_credit(s);
    tell_eof(s);
    if (s->state == STATE_CLOSING || !s->is_above ||
        pfl_replay_unsent(&s->resume.out) > s->queue_low_bytes)
        return;
    s->is_above = false;
    if (s->base.ops->on_writable != NULL && !s->is_flushing)
        s->base.ops->on_writable(s->base.user);
}

/* ---- the HTTP/2 stream's callbacks ---- */

static void on_decoded(void *user)
{
    pfl_client_connection_kick(user);
}

/* The first answer says how the bytes come; later ones say the same. */
static bool choose_encoding(struct pfl_client_stream *s, const struct pfl_h2_head *head)
{
    const char *encoding = pfl_h2_head_get(head, PFL_TUNNEL_H_ENCODING);
    struct pfl_decode_port_conf conf = {.worker = s->client->worker,
                                        .pool = &s->client->decode_pool,
                                        .on_ready = on_decoded,
                                        .user = s};

    if (s->opened != PFL_CLIENT_NOT_OPENED || encoding == NULL)
        return true;
    return s->wants_zstd && strcmp(encoding, PFL_TUNNEL_ENCODING_ZSTD) == 0 &&
           pfl_decode_port_new(&conf, &s->decoder) == 0;
}

static void attach(struct pfl_client_stream *s, const struct pfl_h2_head *head)
{
    /* With one life nothing was before; HTTP/2's window is what limits it. */
    struct pfl_resume_offer offer = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};

    if ((s->place == NULL && !pfl_tunnel_offer_read(head, &offer)) || !choose_encoding(s, head)) {
        pfl_client_stream_break(s, PFL_EPROTO, "the host's answer makes no sense");
        return;
    }
    if (s->opened == PFL_CLIENT_TAKEN_OVER && offer.received == s->resume.out.end)
        offer.credited = offer.received;
    if (pfl_resume_attach(&s->resume, &offer, &s->sent_offer) != 0) {
        pfl_client_stream_break(s, PFL_EPROTO, "the host's account of this stream is not ours");
        return;
    }
    s->state = STATE_CARRIED;
    s->resumes += s->opened != PFL_CLIENT_NOT_OPENED;
    s->opened = PFL_CLIENT_OPENED;
    s->backoff.failures = 0;
    pfl_h2_stream_wake(s->h2_stream);
    pfl_client_connection_kick(s);
    if (s->is_ready_reported)
        return;
    s->is_ready_reported = true;
    if (s->base.ops->on_ready != NULL && !s->is_flushing)
        s->base.ops->on_ready(s->base.user);
}

static int err_of_status(unsigned status)
{
    switch (status) {
    case 403:
        return PFL_EPERM;
    case 404:
    case 410:
        return PFL_ENOENT;
    case 429:
        return PFL_EAGAIN;
    case 503:
        return PFL_ECLOSED;
    default:
        return PFL_EPROTO;
    }
}

/* A host that was connected before and is not now is expected back. */
static bool is_passing(const struct pfl_client_stream *s, unsigned status)
{
    return s->opened != PFL_CLIENT_NOT_OPENED &&
           (status == 404 || status == 429 || status == 502 || status == 503);
}

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct pfl_client_stream *s = user;
    unsigned status = pfl_h2_head_get_status(head);
    char problem[PROBLEM_BYTES];
    char why[sizeof(s->error)];

    if (s->state != STATE_ASKING)
        return;
    if (status == 200) {
        attach(s, head);
        return;
    }
    if (is_passing(s, status)) {
        pfl_client_connection_drop(s, PFL_H2_CANCEL);
        lose_h2_stream(s);
        return;
    }
    pfl_problem_get(head, problem, sizeof(problem));
    if (problem[0] != '\0')
        (void)snprintf(why, sizeof(why), "%s", problem);
    else
        (void)snprintf(why, sizeof(why), "the relay refused the stream (status %u)", status);
    pfl_client_stream_break(s, err_of_status(status), why);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_client_stream *s = user;
    int rc;

    if (s->state != STATE_CARRIED)
        return;
    if (s->decoder != NULL || !may_deliver(s) || pfl_resume_held(&s->resume) != 0) {
        rc = pfl_resume_feed(&s->resume, data);
        if (s->decoder != NULL && may_deliver(s))
            pfl_client_connection_kick(s);
    } else {
        rc = pfl_resume_pass(&s->resume, data.len);
        if (rc == 0)
            deliver(s, data);
    }
    if (rc != 0)
        pfl_client_stream_break(s, rc, "the host sent more than it may");
    else
        send_credit(s);
}

static void on_end(void *user)
{
    struct pfl_client_stream *s = user;

    if (s->state != STATE_CARRIED)
        return;
    pfl_resume_feed_end(&s->resume);
    send_credit(s);
    tell_eof(s);
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct pfl_client_stream *s = user;
    size_t len;

    if (s->state != STATE_CARRIED)
        return 0;
    len = pfl_resume_pull(&s->resume, dst, room, ret_is_end);
    if (s->is_above && pfl_replay_unsent(&s->resume.out) <= s->queue_low_bytes)
        pfl_client_connection_kick(s);
    return len;
}

static void on_credit(void *user, uint32_t bytes)
{
    struct pfl_client_stream *s = user;

    if (s->state != STATE_CARRIED)
        return;
    if (pfl_resume_on_credit(&s->resume, bytes) != 0)
        pfl_client_stream_break(s, PFL_EPROTO, "the host credits what it was not sent");
    else
        pfl_h2_stream_wake(s->h2_stream);
}

static void on_h2_stream_closed(void *user, uint32_t code)
{
    struct pfl_client_stream *s = user;

    s->h2_stream = NULL;
    if (s->state == STATE_CLOSING || s->state == STATE_WAITING)
        return;
    if (code == PFL_H2_CANCEL)
        pfl_client_stream_break(s, PFL_ECLOSED,
                                "the stream was killed at the other side: its agent was "
                                "stopped, or it was ended there");
    else if (s->resume.is_in_ended && s->resume.is_end_sent && pfl_resume_held(&s->resume) == 0)
        pfl_resume_detach(&s->resume); /* both directions are complete; the owner closes */
    else
        lose_h2_stream(s);
}

static const struct pfl_h2_stream_ops h2_stream_ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_credit = on_credit,
    .on_closed = on_h2_stream_closed,
};

/* ---- asking ---- */

static int ask_place(struct pfl_client_stream *s, struct pfl_h2 *h2)
{
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = s->place->path,
        .protocol = s->place->protocol,
        .fields = s->place->fields,
        .fields_len = s->place->fields_len,
        .ops = &h2_stream_ops,
        .user = s,
    };

    return pfl_h2_request(h2, &request, &s->h2_stream);
}

static int ask_host(struct pfl_client_stream *s, struct pfl_h2 *h2)
{
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 2];
    struct pfl_tunnel_offer_text text;
    char path[PFL_CLIENT_PATH_BYTES];
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = path,
        .protocol = PFL_TUNNEL_PROTOCOL,
        .fields = fields,
        .ops = &h2_stream_ops,
        .user = s,
    };

    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s/consumer", s->host);
    fields[0] = (struct pfl_h2_field){PFL_TUNNEL_H_STREAM, s->id};
    pfl_tunnel_offer_write(&s->sent_offer, s->ttl_ms, &text, fields + 1);
    /* The number of received bytes makes it a resume. */
    request.fields_len = s->opened != PFL_CLIENT_NOT_OPENED ? PFL_TUNNEL_OFFER_FIELDS + 1
                                                            : PFL_TUNNEL_OFFER_FIELDS - 1;
    if (s->opened == PFL_CLIENT_NOT_OPENED && s->wants_zstd)
        fields[request.fields_len++] =
            (struct pfl_h2_field){PFL_TUNNEL_H_ACCEPT, PFL_TUNNEL_ENCODING_ZSTD};
    return pfl_h2_request(h2, &request, &s->h2_stream);
}

void pfl_client_connection_ask(struct pfl_client_stream *s)
{
    struct pfl_h2 *h2 = pfl_tunnel_way_get_h2(s->way);

    if (h2 == NULL || pfl_h2_is_going(h2)) {
        wait_for_h2_stream(s);
        return;
    }
    pfl_resume_get_offer(&s->resume, &s->sent_offer);
    if ((s->place != NULL ? ask_place(s, h2) : ask_host(s, h2)) != 0) {
        wait_for_h2_stream(s);
        return;
    }
    if (!s->is_flushing)
        (void)uv_timer_stop(&s->retry);
    s->state = STATE_ASKING;
}

static void on_up(struct pfl_tunnel_rider *rider, const struct pfl_tunnel_way *way)
{
    struct pfl_client_stream *s = PFL_CONTAINER_OF(rider, struct pfl_client_stream, rider);

    if (s->way == way && s->state == STATE_WAITING &&
        !(s->is_eof_reported && s->resume.is_end_sent))
        pfl_client_connection_ask(s);
}

static void on_client_close(struct pfl_tunnel_rider *rider)
{
    struct pfl_client_stream *s = PFL_CONTAINER_OF(rider, struct pfl_client_stream, rider);

    pfl_client_stream_break(s, PFL_ECLOSED, "the connection to the relay was closed");
}

const struct pfl_tunnel_rider_ops pfl_client_connection_rider_ops = {
    .on_up = on_up,
    .on_client_close = on_client_close,
};
