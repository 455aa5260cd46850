/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream to a host's consumer socket that outlives connections, as a pfl_stream: see client.h.
 *
 *     WAITING -> ASKING -> CARRIED        any -> CLOSING
 *        ^----------+---------+
 *
 * Happy path: when the client is connected, CONNECT with our offer (proto/resume.h); the answer's
 * offer attaches; bytes pass straight to on_data, and what comes while reading is stopped is held.
 * Failures: a leg that is lost, or a host that is not there for the moment, leads back to WAITING,
 * until give_up_ms without a leg; a refusal, an offer that cannot be true or a killed stream break
 * it. Ownership: the resume state; the leg belongs to the connection's h2 until its on_closed.
 * Limits: out: queue_max_bytes and the host's window; in: PFL_TUNNEL_DATA_WINDOW_BYTES.
 */
#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/io/stream_impl.h"
#include "base/mem.h"
#include "proto/h2_call.h"
#include "proto/identity.h"
#include "proto/tunnel_offer.h"
#include "tunnel/backoff.h"
#include "tunnel/client_impl.h"

#define DELIVER_BYTES  (64u * 1024)
#define PATH_MAX_BYTES 160u

enum state { STATE_WAITING, STATE_ASKING, STATE_CARRIED, STATE_CLOSING };

struct client_stream {
    struct pfl_stream base;
    struct pfl_list node; /* in the client's list */
    struct pfl_tunnel_client *client;
    uv_loop_t *loop;
    enum state state;
    struct pfl_resume resume;
    struct pfl_resume_offer told; /* ours, of this leg */
    struct pfl_h2_stream *leg;    /* borrowed until its on_closed */
    uv_timer_t retry;             /* the next attempt while WAITING; the end of close_after_flush */
    uv_timer_t kick;              /* what is due to the owner, from the loop */
    unsigned timers;
    struct pfl_backoff backoff;
    uint64_t lost_ms; /* since when there is no leg */
    uint64_t ttl_ms;
    size_t queue_max_bytes;
    size_t queue_low_bytes;
    uint64_t delivered_bytes;
    unsigned resumes;
    unsigned status; /* of the answer to this leg's CONNECT */
    int close_err;
    bool was_opened;    /* the host has it */
    bool is_taken_over; /* begun from a ticket: the first answer's credit may lie behind ours */
    bool is_reading;
    bool is_ready_told;
    bool is_eof_told;
    bool is_above;    /* the queue was above queue_low_bytes */
    bool is_flushing; /* close_after_flush: nothing is delivered any more */
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES];
    char error[256];
};

static const struct pfl_stream_vtable vtable;

static struct client_stream *self_of(struct pfl_stream *s)
{
    assert(s->vtable == &vtable);
    return PFL_CONTAINER_OF(s, struct client_stream, base);
}

static const struct client_stream *self_of_const(const struct pfl_stream *s)
{
    assert(s->vtable == &vtable);
    return PFL_CONTAINER_OF(s, const struct client_stream, base);
}

static uint64_t random_number(void)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        number = uv_hrtime();
    return number;
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct client_stream *s = handle->data;
    struct pfl_tunnel_client *client = s->client;

    if (--s->timers != 0)
        return;
    s->base.ops->on_closed(s->base.user, s->close_err);
    pfl_list_remove(&s->node);
    pfl_resume_fini(&s->resume);
    pfl_mem_free(s);
    pfl_tunnel_client_on_stream_gone(client);
}

static void drop_leg(struct client_stream *s, enum pfl_h2_code code)
{
    struct pfl_h2_stream *leg = s->leg;

    if (leg == NULL)
        return;
    s->leg = NULL;
    pfl_h2_stream_set_user(leg, NULL, NULL);
    pfl_h2_stream_reset(leg, code);
}

static void begin_close(struct client_stream *s, int err, const char *why)
{
    if (s->state == STATE_CLOSING)
        return;
    s->state = STATE_CLOSING;
    s->close_err = err;
    (void)snprintf(s->error, sizeof(s->error), "%s", why);
    uv_close((uv_handle_t *)&s->retry, on_timer_closed);
    uv_close((uv_handle_t *)&s->kick, on_timer_closed);
}

/* Best effort: without a connection the time-to-live does it. */
static void kill_at_host(struct client_stream *s)
{
    struct pfl_h2 *h2 = pfl_tunnel_client_get_h2(s->client);
    char path[PATH_MAX_BYTES];
    struct pfl_h2_call_conf call = {.method = "DELETE", .path = path, .body_max_bytes = 4096};

    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s/streams/%s", s->host, s->id);
    if (h2 != NULL && s->was_opened && pfl_h2_call_start(h2, &call, NULL) != 0)
        return;
}

static void break_stream(struct client_stream *s, int err, const char *why)
{
    if (s->state == STATE_CLOSING)
        return;
    drop_leg(s, PFL_H2_CANCEL);
    begin_close(s, err, why);
}

/* ---- legs ---- */

static void ask(struct client_stream *s);

static void on_retry(uv_timer_t *timer)
{
    struct client_stream *s = timer->data;

    if (uv_now(s->loop) - s->lost_ms >= s->client->conf.give_up_ms)
        break_stream(s, PFL_ETIMEOUT, "the host could not be reached again in time");
    else
        ask(s);
}

/* There is no leg: try again after a while. */
static void wait_for_leg(struct client_stream *s)
{
    s->state = STATE_WAITING;
    (void)uv_timer_start(&s->retry, on_retry, pfl_backoff_next(&s->backoff, random_number()), 0);
}

static void lose_leg(struct client_stream *s)
{
    if (s->resume.is_attached || s->lost_ms == 0)
        s->lost_ms = uv_now(s->loop);
    pfl_resume_detach(&s->resume);
    if (s->is_flushing)
        break_stream(s, PFL_ECLOSED, "the connection was lost while the stream was closed");
    else
        wait_for_leg(s);
}

static void send_credit(struct client_stream *s)
{
    uint32_t credit = s->leg != NULL ? pfl_resume_take_credit(&s->resume) : 0;

    if (credit != 0)
        pfl_h2_stream_credit(s->leg, credit);
}

static void on_kick(uv_timer_t *timer);

static void kick(struct client_stream *s)
{
    if (s->state != STATE_CLOSING)
        (void)uv_timer_start(&s->kick, on_kick, 0, 0);
}

static bool may_deliver(const struct client_stream *s)
{
    return s->state != STATE_CLOSING && (s->is_reading || s->is_flushing);
}

static void deliver(struct client_stream *s, struct pfl_span data)
{
    s->delivered_bytes += data.len;
    if (!s->is_flushing)
        s->base.ops->on_data(s->base.user, data);
}

static void tell_eof(struct client_stream *s)
{
    if (!may_deliver(s) || s->is_eof_told || !s->resume.is_in_ended ||
        pfl_resume_held(&s->resume) != 0)
        return;
    s->is_eof_told = true;
    send_credit(s);
    if (s->is_flushing)
        break_stream(s, 0, "");
    else if (s->base.ops->on_eof != NULL)
        s->base.ops->on_eof(s->base.user);
}

/* What is due to the owner, from the loop. */
static void on_kick(uv_timer_t *timer)
{
    struct client_stream *s = timer->data;

    while (may_deliver(s) && pfl_resume_held(&s->resume) != 0) {
        struct pfl_span piece = pfl_resume_peek(&s->resume, DELIVER_BYTES);

        deliver(s, piece);
        pfl_resume_use(&s->resume, piece.len);
    }
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

/* ---- the leg's callbacks ---- */

static void attach(struct client_stream *s, const struct pfl_h2_head *head)
{
    struct pfl_resume_offer offer;

    if (!pfl_tunnel_offer_read(head, &offer)) {
        break_stream(s, PFL_EPROTO, "the host's answer makes no sense");
        return;
    }
    if (s->is_taken_over && offer.received == s->resume.out.end)
        offer.credited = offer.received;
    if (pfl_resume_attach(&s->resume, &offer, &s->told) != 0) {
        break_stream(s, PFL_EPROTO, "the host's account of this stream is not ours");
        return;
    }
    s->state = STATE_CARRIED;
    s->resumes += s->was_opened;
    s->was_opened = true;
    s->is_taken_over = false;
    s->backoff.failures = 0;
    pfl_h2_stream_wake(s->leg);
    kick(s);
    if (s->is_ready_told)
        return;
    s->is_ready_told = true;
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

/* A host that is not there is, after we had it, one that is not back yet. */
static bool is_passing(const struct client_stream *s, unsigned status)
{
    return s->was_opened && (status == 404 || status == 429 || status == 502 || status == 503);
}

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct client_stream *s = user;
    unsigned status = pfl_h2_head_get_status(head);
    const char *problem = pfl_h2_head_get(head, PFL_TUNNEL_H_PROBLEM);
    char why[sizeof(s->error)];

    if (s->state != STATE_ASKING)
        return;
    if (status == 200) {
        attach(s, head);
        return;
    }
    if (is_passing(s, status)) {
        drop_leg(s, PFL_H2_CANCEL);
        lose_leg(s);
        return;
    }
    if (problem != NULL)
        (void)snprintf(why, sizeof(why), "%.200s", problem);
    else
        (void)snprintf(why, sizeof(why), "the relay refused the stream (status %u)", status);
    break_stream(s, err_of_status(status), why);
}

static void on_data(void *user, struct pfl_span data)
{
    struct client_stream *s = user;
    int rc;

    if (s->state != STATE_CARRIED)
        return;
    if (!may_deliver(s) || pfl_resume_held(&s->resume) != 0) {
        rc = pfl_resume_feed(&s->resume, data);
    } else {
        rc = pfl_resume_pass(&s->resume, data.len);
        if (rc == 0)
            deliver(s, data);
    }
    if (rc != 0)
        break_stream(s, rc, "the host sent more than it may");
    else
        send_credit(s);
}

static void on_end(void *user)
{
    struct client_stream *s = user;

    if (s->state != STATE_CARRIED)
        return;
    pfl_resume_feed_end(&s->resume);
    send_credit(s);
    tell_eof(s);
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct client_stream *s = user;
    size_t len;

    if (s->state != STATE_CARRIED)
        return 0;
    len = pfl_resume_pull(&s->resume, dst, room, ret_is_end);
    if (s->is_above && pfl_replay_unsent(&s->resume.out) <= s->queue_low_bytes)
        kick(s);
    return len;
}

static void on_credit(void *user, uint32_t bytes)
{
    struct client_stream *s = user;

    if (s->state != STATE_CARRIED)
        return;
    if (pfl_resume_on_credit(&s->resume, bytes) != 0)
        break_stream(s, PFL_EPROTO, "the host credits what it was not sent");
    else
        pfl_h2_stream_wake(s->leg);
}

static void on_leg_closed(void *user, uint32_t code)
{
    struct client_stream *s = user;

    s->leg = NULL;
    if (s->state == STATE_CLOSING || s->state == STATE_WAITING)
        return;
    if (code == PFL_H2_CANCEL)
        break_stream(s, PFL_ECLOSED, "the stream was killed at the other side");
    else if (s->resume.is_in_ended && s->resume.is_end_sent && pfl_resume_held(&s->resume) == 0)
        pfl_resume_detach(&s->resume); /* all is said; the owner closes */
    else
        lose_leg(s);
}

static const struct pfl_h2_stream_ops leg_ops = {
    .on_response = on_response,
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_credit = on_credit,
    .on_closed = on_leg_closed,
};

/* ---- asking ---- */

static void ask(struct client_stream *s)
{
    struct pfl_h2 *h2 = pfl_tunnel_client_get_h2(s->client);
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 1];
    struct pfl_tunnel_offer_text text;
    char path[PATH_MAX_BYTES];
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = path,
        .protocol = PFL_TUNNEL_PROTOCOL,
        .fields = fields,
        .ops = &leg_ops,
        .user = s,
    };

    if (h2 == NULL || pfl_h2_is_going(h2)) {
        wait_for_leg(s);
        return;
    }
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s/consumer", s->host);
    pfl_resume_get_offer(&s->resume, &s->told);
    fields[0] = (struct pfl_h2_field){PFL_TUNNEL_H_STREAM, s->id};
    pfl_tunnel_offer_write(&s->told, s->ttl_ms, &text, fields + 1);
    /* The account of what was received makes it a resume. */
    request.fields_len = s->was_opened ? PFL_TUNNEL_OFFER_FIELDS + 1 : PFL_TUNNEL_OFFER_FIELDS - 1;
    if (pfl_h2_request(h2, &request, &s->leg) != 0) {
        wait_for_leg(s);
        return;
    }
    if (!s->is_flushing)
        (void)uv_timer_stop(&s->retry);
    s->state = STATE_ASKING;
}

void pfl_tunnel_stream_on_up(struct pfl_list *node)
{
    struct client_stream *s = PFL_CONTAINER_OF(node, struct client_stream, node);

    if (s->state == STATE_WAITING && !(s->is_eof_told && s->resume.is_end_sent))
        ask(s);
}

void pfl_tunnel_stream_on_client_close(struct pfl_list *node)
{
    struct client_stream *s = PFL_CONTAINER_OF(node, struct client_stream, node);

    break_stream(s, PFL_ECLOSED, "the connection to the relay was closed");
}

/* ---- the table ---- */

static int stream_writev(struct pfl_stream *stream, const struct iovec *iov, int iov_len, int fd)
{
    struct client_stream *s = self_of(stream);
    size_t len;

    if (s->state == STATE_CLOSING || s->resume.is_out_ended)
        return PFL_ESTATE;
    if (fd >= 0 || !pfl_stream_sum_iov(iov, iov_len, &len))
        return PFL_EINVAL;
    if (len > s->queue_max_bytes || pfl_replay_unsent(&s->resume.out) > s->queue_max_bytes - len)
        return PFL_ELIMIT;
    for (int i = 0; i < iov_len; i++) {
        int rc = pfl_resume_write(&s->resume, pfl_span_of(iov[i].iov_base, iov[i].iov_len));

        if (rc != 0) { /* part of it may be in: the stream is of no use any more */
            break_stream(s, rc, pfl_err_str(rc));
            return rc;
        }
    }
    s->is_above |= pfl_replay_unsent(&s->resume.out) > s->queue_low_bytes;
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
    return 0;
}

static size_t stream_queued_bytes(const struct pfl_stream *stream)
{
    return pfl_replay_unsent(&self_of_const(stream)->resume.out);
}

static void stream_read_stop(struct pfl_stream *stream)
{
    self_of(stream)->is_reading = false;
}

static void stream_read_start(struct pfl_stream *stream)
{
    struct client_stream *s = self_of(stream);

    if (s->is_reading)
        return;
    s->is_reading = true;
    kick(s);
}

static void stream_shutdown(struct pfl_stream *stream)
{
    struct client_stream *s = self_of(stream);

    pfl_resume_end(&s->resume);
    if (s->leg != NULL)
        pfl_h2_stream_wake(s->leg);
}

static void stream_close(struct pfl_stream *stream)
{
    struct client_stream *s = self_of(stream);
    bool has_leg = s->leg != NULL;

    if (s->state == STATE_CLOSING)
        return;
    if (!has_leg && !(s->is_eof_told && s->resume.is_end_sent))
        kill_at_host(s);
    break_stream(s, 0, "");
}

static void on_flush_timeout(uv_timer_t *timer)
{
    struct client_stream *s = timer->data;
    bool is_left = pfl_replay_unsent(&s->resume.out) != 0;

    break_stream(s, is_left ? PFL_ETIMEOUT : 0, "");
}

static void stream_close_after_flush(struct pfl_stream *stream, uint64_t timeout_ms)
{
    struct client_stream *s = self_of(stream);

    if (s->state == STATE_CLOSING || s->is_flushing)
        return;
    s->is_flushing = true;
    stream_shutdown(stream);
    (void)uv_timer_start(&s->retry, on_flush_timeout, timeout_ms, 0);
    kick(s);
}

static int stream_get_errno(const struct pfl_stream *stream)
{
    (void)stream;
    return 0;
}

static const struct pfl_stream_vtable vtable = {
    .writev = stream_writev,
    .queued_bytes = stream_queued_bytes,
    .read_stop = stream_read_stop,
    .read_start = stream_read_start,
    .shutdown = stream_shutdown,
    .close = stream_close,
    .close_after_flush = stream_close_after_flush,
    .get_errno = stream_get_errno,
};

/* ---- opening and leaving ---- */

static int choose_id(struct client_stream *s)
{
    uint8_t bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return PFL_EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(s->id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void take_ticket(struct client_stream *s, const struct pfl_tunnel_ticket *ticket)
{
    memcpy(s->id, ticket->id, sizeof(s->id));
    s->resume.in.base = s->resume.in.next = s->resume.in.end = ticket->received;
    s->resume.out.base = s->resume.out.next = s->resume.out.end = ticket->sent;
    s->was_opened = true;
    s->is_taken_over = true;
}

static void start_timers(struct client_stream *s)
{
    (void)uv_timer_init(s->loop, &s->retry);
    (void)uv_timer_init(s->loop, &s->kick);
    s->retry.data = s;
    s->kick.data = s;
    s->timers = 2;
    (void)uv_timer_start(&s->retry, on_retry, 0, 0);
}

int pfl_tunnel_client_connect(struct pfl_tunnel_client *self,
                              const struct pfl_tunnel_target *target,
                              const struct pfl_stream_conf *conf, struct pfl_stream **ret_stream)
{
    struct client_stream *s;

    if (self->is_closing || strlen(target->host) >= PFL_IDENTITY_NAME_BYTES)
        return PFL_EINVAL;
    s = pfl_mem_zalloc(sizeof(*s));
    if (s == NULL)
        return PFL_ENOMEM;
    s->base = (struct pfl_stream){.vtable = &vtable, .ops = conf->ops, .user = conf->user};
    s->client = self;
    s->loop = conf->loop;
    s->lost_ms = uv_now(conf->loop);
    s->ttl_ms = target->ttl_ms != 0 ? target->ttl_ms : PFL_TUNNEL_TTL_DEFAULT_MS;
    s->queue_max_bytes = conf->queue_max_bytes;
    s->queue_low_bytes = conf->queue_low_bytes;
    s->is_reading = true;
    memcpy(s->host, target->host, strlen(target->host) + 1);
    pfl_resume_init(&s->resume, conf->queue_max_bytes + PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                    PFL_TUNNEL_DATA_WINDOW_BYTES);
    if (target->ticket != NULL) {
        take_ticket(s, target->ticket);
    } else if (choose_id(s) != 0) {
        pfl_mem_free(s);
        return PFL_EIO;
    }
    start_timers(s);
    pfl_list_append(&self->streams, &s->node);
    *ret_stream = &s->base;
    return 0;
}

const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream)
{
    return self_of_const(stream)->error;
}

void pfl_tunnel_stream_get_stats(const struct pfl_stream *stream,
                                 struct pfl_tunnel_stream_stats *ret_stats)
{
    const struct client_stream *s = self_of_const(stream);

    *ret_stats = (struct pfl_tunnel_stream_stats){
        .received_bytes = s->resume.in.end,
        .delivered_bytes = s->delivered_bytes,
        .sent_bytes = s->resume.out.next,
        .resumes = s->resumes,
        .is_attached = s->resume.is_attached,
    };
    memcpy(ret_stats->id, s->id, sizeof(s->id));
}

int pfl_tunnel_stream_leave(struct pfl_stream *stream, struct pfl_tunnel_ticket *ret_ticket)
{
    struct client_stream *s = self_of(stream);

    if (s->state != STATE_CARRIED || pfl_resume_held(&s->resume) != 0 ||
        pfl_replay_unsent(&s->resume.out) != 0 || s->resume.is_out_ended || s->resume.is_in_ended)
        return PFL_ESTATE;
    *ret_ticket = (struct pfl_tunnel_ticket){
        .received = s->resume.in.end,
        .sent = s->resume.out.end,
    };
    memcpy(ret_ticket->id, s->id, sizeof(s->id));
    drop_leg(s, PFL_H2_DETACH);
    begin_close(s, 0, "");
    return 0;
}
