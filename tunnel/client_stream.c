/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream to a host's consumer socket that outlives connections, as a pfl_stream: see client.h.
 * Its HTTP/2 streams are in client_connection.c.
 *
 * Happy path: opening starts a timer, which asks for the first HTTP/2 stream; writev fills the out
 * ring; read_start delivers what was held. Failures: see client_connection.c; closing without an
 * HTTP/2 stream sends the host a kill request, if there is a connection. Ownership: the resume
 * state, two timers; freed when both are closed. Limits: out: queue_max_bytes and the host's
 * window.
 */
#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "tunnel/client_stream_impl.h"

/* A host that lost its network is back soon, or never: one request a stream is little to ask. */
#define RETRY_MAX_MS 3000u

static const struct pfl_stream_vtable vtable;

static struct pfl_client_stream *self_of(struct pfl_stream *s)
{
    assert(s->vtable == &vtable);
    return PFL_CONTAINER_OF(s, struct pfl_client_stream, base);
}

static const struct pfl_client_stream *self_of_const(const struct pfl_stream *s)
{
    assert(s->vtable == &vtable);
    return PFL_CONTAINER_OF(s, const struct pfl_client_stream, base);
}

/* ---- the end ---- */

static void free_stream(struct pfl_client_stream *s)
{
    pfl_resume_fini(&s->resume);
    pfl_mem_free(s->place);
    pfl_mem_free(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_client_stream *s = handle->data;
    struct pfl_tunnel_way *way = s->way;

    if (--s->timers != 0)
        return;
    s->base.ops->on_closed(s->base.user, s->close_err);
    pfl_list_remove(&s->rider.node);
    pfl_decode_port_close(s->decoder);
    free_stream(s);
    pfl_tunnel_client_on_stream_gone(way);
}

void pfl_client_stream_begin_close(struct pfl_client_stream *s, int err, const char *why)
{
    if (s->state == STATE_CLOSING)
        return;
    s->state = STATE_CLOSING;
    s->close_err = err;
    (void)snprintf(s->error, sizeof(s->error), "%s", why);
    uv_close((uv_handle_t *)&s->retry, on_timer_closed);
    uv_close((uv_handle_t *)&s->kick, on_timer_closed);
}

void pfl_client_stream_break(struct pfl_client_stream *s, int err, const char *why)
{
    if (s->state == STATE_CLOSING)
        return;
    pfl_client_connection_drop(s, PFL_H2_CANCEL);
    pfl_client_stream_begin_close(s, err, why);
}

/* Best effort: without a connection the time-to-live does it. */
static void kill_at_host(struct pfl_client_stream *s)
{
    struct pfl_h2 *h2 = pfl_tunnel_way_get_h2(s->way);
    char path[PFL_CLIENT_PATH_BYTES];
    struct pfl_h2_call_conf call = {.method = "DELETE", .path = path, .body_max_bytes = 4096};

    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s/streams/%s", s->host, s->id);
    if (h2 != NULL && s->place == NULL && s->opened != PFL_CLIENT_NOT_OPENED &&
        pfl_h2_call_start(h2, &call, NULL) != 0)
        return;
}

/* ---- the table ---- */

static int stream_writev(struct pfl_stream *stream, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_client_stream *s = self_of(stream);
    size_t len;

    if (s->state == STATE_CLOSING || s->resume.is_out_ended)
        return PFL_ESTATE;
    if (fd >= 0 || !pfl_stream_sum_iov(iov, iov_len, &len))
        return PFL_EINVAL;
    if (len > s->queue_max_bytes || pfl_replay_unsent(&s->resume.out) > s->queue_max_bytes - len)
        return PFL_ELIMIT;
    for (int i = 0; i < iov_len; i++) {
        int rc = pfl_resume_write(&s->resume, pfl_span_of(iov[i].iov_base, iov[i].iov_len));

        if (rc != 0) { /* a part may be queued: the stream is unusable */
            pfl_client_stream_break(s, rc, pfl_err_str(rc));
            return rc;
        }
    }
    s->is_above |= pfl_replay_unsent(&s->resume.out) > s->queue_low_bytes;
    if (s->h2_stream != NULL)
        pfl_h2_stream_wake(s->h2_stream);
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
    struct pfl_client_stream *s = self_of(stream);

    if (s->is_reading)
        return;
    s->is_reading = true;
    pfl_client_connection_kick(s);
}

static void stream_shutdown(struct pfl_stream *stream)
{
    struct pfl_client_stream *s = self_of(stream);

    pfl_resume_end(&s->resume);
    if (s->h2_stream != NULL)
        pfl_h2_stream_wake(s->h2_stream);
}

static void stream_close(struct pfl_stream *stream)
{
    struct pfl_client_stream *s = self_of(stream);
    bool has_h2_stream = s->h2_stream != NULL;

    if (s->state == STATE_CLOSING)
        return;
    if (!has_h2_stream && !(s->is_eof_reported && s->resume.is_end_sent))
        kill_at_host(s);
    pfl_client_stream_break(s, 0, "");
}

static void on_flush_timeout(uv_timer_t *timer)
{
    struct pfl_client_stream *s = timer->data;
    bool is_left = pfl_replay_unsent(&s->resume.out) != 0;

    pfl_client_stream_break(s, is_left ? PFL_ETIMEOUT : 0, "");
}

static void stream_close_after_flush(struct pfl_stream *stream, uint64_t timeout_ms)
{
    struct pfl_client_stream *s = self_of(stream);

    if (s->state == STATE_CLOSING || s->is_flushing)
        return;
    s->is_flushing = true;
    stream_shutdown(stream);
    (void)uv_timer_start(&s->retry, on_flush_timeout, timeout_ms, 0);
    pfl_client_connection_kick(s);
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

static int choose_id(struct pfl_client_stream *s)
{
    uint8_t bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return PFL_EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(s->id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void take_ticket(struct pfl_client_stream *s, const struct pfl_tunnel_ticket *ticket)
{
    memcpy(s->id, ticket->id, sizeof(s->id));
    s->resume.in.base = s->resume.in.next = s->resume.in.end = ticket->received;
    s->resume.out.base = s->resume.out.next = s->resume.out.end = ticket->sent;
    s->opened = PFL_CLIENT_TAKEN_OVER;
}

static void start_timers(struct pfl_client_stream *s)
{
    (void)uv_timer_init(s->loop, &s->retry);
    (void)uv_timer_init(s->loop, &s->kick);
    s->retry.data = s;
    s->kick.data = s;
    s->timers = 2;
    (void)uv_timer_start(&s->retry, pfl_client_connection_on_retry, 0, 0);
}

static struct pfl_client_stream *new_stream(struct pfl_tunnel_client *client,
                                            const struct pfl_stream_conf *conf)
{
    struct pfl_client_stream *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->base = (struct pfl_stream){.vtable = &vtable, .ops = conf->ops, .user = conf->user};
    s->client = client;
    s->backoff.max_ms = RETRY_MAX_MS;
    if (client->conf.retry_max_ms != 0 && client->conf.retry_max_ms < RETRY_MAX_MS)
        s->backoff.max_ms = client->conf.retry_max_ms;
    s->loop = conf->loop;
    s->lost_ms = uv_now(conf->loop);
    s->queue_max_bytes = conf->queue_max_bytes;
    s->queue_low_bytes = conf->queue_low_bytes;
    s->is_reading = true;
    pfl_resume_init(&s->resume, conf->queue_max_bytes + PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                    PFL_TUNNEL_DATA_WINDOW_BYTES);
    return s;
}

/* Its first HTTP/2 stream is asked for from the loop. */
static struct pfl_stream *start_stream(struct pfl_client_stream *s)
{
    s->way = pfl_tunnel_client_take_way(s->client);
    start_timers(s);
    s->rider.ops = &pfl_client_connection_rider_ops;
    pfl_list_append(&s->client->streams, &s->rider.node);
    return &s->base;
}

int pfl_tunnel_client_connect(struct pfl_tunnel_client *self,
                              const struct pfl_tunnel_target *target,
                              const struct pfl_stream_conf *conf, struct pfl_stream **ret_stream)
{
    struct pfl_client_stream *s;

    if (self->is_closing || strlen(target->host) >= PFL_IDENTITY_NAME_BYTES)
        return PFL_EINVAL;
    s = new_stream(self, conf);
    if (s == NULL)
        return PFL_ENOMEM;
    s->ttl_ms = target->ttl_ms != 0 ? target->ttl_ms : PFL_TUNNEL_TTL_DEFAULT_MS;
    s->wants_zstd = target->wants_zstd && target->ticket == NULL;
    memcpy(s->host, target->host, strlen(target->host) + 1);
    if (target->ticket != NULL) {
        take_ticket(s, target->ticket);
    } else if (choose_id(s) != 0) {
        free_stream(s);
        return PFL_EIO;
    }
    *ret_stream = start_stream(s);
    return 0;
}

static bool is_place(const struct pfl_tunnel_place *place)
{
    if (strlen(place->path) >= PFL_CLIENT_PATH_BYTES || place->fields_len > PFL_TUNNEL_PLACE_FIELDS)
        return false;
    for (size_t i = 0; i < place->fields_len; i++) {
        if (strlen(place->fields[i].value) >= PFL_IDENTITY_NAME_BYTES)
            return false;
    }
    return true;
}

static struct pfl_client_place *copy_place(const struct pfl_tunnel_place *place)
{
    struct pfl_client_place *copy = pfl_mem_zalloc(sizeof(*copy));

    if (copy == NULL)
        return NULL;
    memcpy(copy->path, place->path, strlen(place->path) + 1);
    copy->protocol = place->protocol;
    copy->fields_len = place->fields_len;
    for (size_t i = 0; i < place->fields_len; i++) {
        memcpy(copy->values[i], place->fields[i].value, strlen(place->fields[i].value) + 1);
        copy->fields[i] = (struct pfl_h2_field){place->fields[i].name, copy->values[i]};
    }
    return copy;
}

int pfl_tunnel_client_dial(struct pfl_tunnel_client *self, const struct pfl_tunnel_place *place,
                           const struct pfl_stream_conf *conf, struct pfl_stream **ret_stream)
{
    struct pfl_client_stream *s;

    if (self->is_closing || !is_place(place))
        return PFL_EINVAL;
    s = new_stream(self, conf);
    if (s == NULL)
        return PFL_ENOMEM;
    s->place = copy_place(place);
    if (s->place == NULL) {
        free_stream(s);
        return PFL_ENOMEM;
    }
    *ret_stream = start_stream(s);
    return 0;
}

const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream)
{
    return self_of_const(stream)->error;
}

void pfl_tunnel_stream_get_stats(const struct pfl_stream *stream,
                                 struct pfl_tunnel_stream_stats *ret_stats)
{
    const struct pfl_client_stream *s = self_of_const(stream);

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
    struct pfl_client_stream *s = self_of(stream);

    if (s->state != STATE_CARRIED || s->place != NULL || s->decoder != NULL ||
        pfl_resume_held(&s->resume) != 0 || pfl_replay_unsent(&s->resume.out) != 0 ||
        s->resume.is_out_ended || s->resume.is_in_ended)
        return PFL_ESTATE;
    *ret_ticket = (struct pfl_tunnel_ticket){
        .received = s->resume.in.end,
        .sent = s->resume.out.end,
    };
    memcpy(ret_ticket->id, s->id, sizeof(s->id));
    pfl_client_connection_drop(s, PFL_H2_DETACH);
    pfl_client_stream_begin_close(s, 0, "");
    return 0;
}
