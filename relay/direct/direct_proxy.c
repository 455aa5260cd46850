/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards between two streams: see direct_proxy.h.
 *
 * Happy path: data of one side is written to the other; above the high-water mark reading stops
 * until the other's on_writable. The end of one direction is passed on as a half-close; when both
 * directions have ended both streams are closed.
 * Failures: if one side breaks, the other is closed after its queue has been sent. A side that is
 * silent after the other has finished is closed after half_closed_timeout_ms.
 * Ownership: owns both streams until their on_closed, and the timer; the last of the three frees.
 * Limits: PFL_DIRECT_PROXY_QUEUE_BYTES queued each way.
 */
#include "relay/direct/direct_proxy.h"

#include <assert.h>
#include <stdio.h>

#include "base/io/fdsock.h"
#include "base/mem.h"

#define FLUSH_TIMEOUT_MS 60000u
#define PACE_MS          10u

enum { REMOTE, LOCAL, SIDES };

struct side {
    struct pfl_direct_proxy *direct_proxy;
    struct pfl_stream *stream; /* owned; NULL once closed */
    struct side *other;
    uint64_t bytes_in;
    int err;
    bool has_eof;
    bool is_stopped;
};

struct pfl_direct_proxy {
    struct side sides[SIDES];
    uv_timer_t timer; /* after the first half-close */
    uv_timer_t pace;  /* while the bucket is empty */
    struct pfl_input_turn local_turn;
    struct pfl_gate *gate;           /* owned; NULL: no role */
    struct pfl_token_bucket *bucket; /* borrowed; NULL: no limit */
    void (*on_judged)(void *user, enum pfl_method method, const char *why);
    uint64_t half_closed_timeout_ms;
    uint64_t moved_at_tick;
    void (*on_ended)(void *user, const struct pfl_direct_proxy_stats *stats);
    void *user;
    unsigned timers; /* open */
    bool is_paced;
    bool is_ending;
    bool is_idle_end;
    char remote_words[PFL_DIRECT_PROXY_WORDS_BYTES];
};

static size_t get_queued(const struct side *s)
{
    return s->stream != NULL ? pfl_stream_queued_bytes(s->stream) : 0;
}

void pfl_direct_proxy_get_stats(const struct pfl_direct_proxy *self,
                                struct pfl_direct_proxy_stats *ret_stats)
{
    *ret_stats = (struct pfl_direct_proxy_stats){
        .bytes_to_local = self->sides[REMOTE].bytes_in,
        .bytes_to_remote = self->sides[LOCAL].bytes_in,
        .queued_to_local = get_queued(&self->sides[LOCAL]),
        .queued_to_remote = get_queued(&self->sides[REMOTE]),
        .remote_err = self->sides[REMOTE].err,
        .local_err = self->sides[LOCAL].err,
        .remote_words = self->remote_words,
        .is_idle_end = self->is_idle_end,
    };
}

static void finish_if_gone(struct pfl_direct_proxy *f)
{
    struct pfl_direct_proxy_stats stats;

    if (f->timers != 0 || f->sides[REMOTE].stream != NULL || f->sides[LOCAL].stream != NULL)
        return;
    pfl_direct_proxy_get_stats(f, &stats);
    f->on_ended(f->user, &stats);
    pfl_input_turn_leave(&f->local_turn);
    pfl_gate_free(f->gate);
    pfl_mem_free(f);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_direct_proxy *f = handle->data;

    f->timers--;
    finish_if_gone(f);
}

/* Ends the open sides, after their queues are sent. */
static void begin_end(struct pfl_direct_proxy *f)
{
    if (f->is_ending)
        return;
    f->is_ending = true;
    uv_close((uv_handle_t *)&f->timer, on_timer_closed);
    uv_close((uv_handle_t *)&f->pace, on_timer_closed);
    for (int i = 0; i < SIDES; i++) {
        if (f->sides[i].stream != NULL)
            pfl_stream_close_after_flush(f->sides[i].stream, FLUSH_TIMEOUT_MS);
    }
}

/* Received bytes that were sent again: a slow reader is not an idle one. */
static uint64_t count_moved(const struct pfl_direct_proxy *f)
{
    uint64_t moved = 0;

    for (int i = 0; i < SIDES; i++) {
        moved += f->sides[i].bytes_in;
        if (f->sides[i].stream != NULL)
            moved -= pfl_stream_queued_bytes(f->sides[i].stream);
    }
    return moved;
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_direct_proxy *f = timer->data;
    uint64_t moved = count_moved(f);

    if (moved == f->moved_at_tick) {
        f->is_idle_end = true;
        begin_end(f);
    }
    f->moved_at_tick = moved;
}

/* ---- bytes ---- */

static int send_to(struct side *to, struct pfl_span data)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data.data, .iov_len = data.len};

    return to->stream != NULL ? pfl_stream_writev(to->stream, &iov, 1, -1) : 0;
}

static int to_service(void *user, struct pfl_span bytes)
{
    struct pfl_direct_proxy *f = user;

    return send_to(&f->sides[LOCAL], bytes);
}

static int to_operator(void *user, struct pfl_span bytes)
{
    struct pfl_direct_proxy *f = user;

    return send_to(&f->sides[REMOTE], bytes);
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct pfl_direct_proxy *f = user;

    if (f->on_judged != NULL)
        f->on_judged(f->user, method, why);
}

static int pass(struct side *from, struct pfl_span data)
{
    struct pfl_direct_proxy *f = from->direct_proxy;

    if (f->gate == NULL)
        return send_to(from->other, data);
    return from == &f->sides[REMOTE] ? pfl_gate_from_operator(f->gate, data)
                                     : pfl_gate_from_service(f->gate, data);
}

static bool may_read(const struct side *from)
{
    return !from->is_stopped &&
           !(from->direct_proxy->is_paced && from == &from->direct_proxy->sides[LOCAL]);
}

static void read_on(struct side *from)
{
    if (from->stream != NULL && may_read(from))
        pfl_stream_read_start(from->stream);
}

static void on_pace(uv_timer_t *timer)
{
    struct pfl_direct_proxy *f = timer->data;

    if (pfl_token_bucket_get(f->bucket, uv_now(timer->loop)) == 0)
        return;
    (void)uv_timer_stop(timer);
    f->is_paced = false;
    read_on(&f->sides[LOCAL]);
}

static void pace(struct pfl_direct_proxy *f, size_t len)
{
    if (f->bucket == NULL)
        return;
    pfl_token_bucket_take(f->bucket, len);
    if (pfl_token_bucket_get(f->bucket, uv_now(f->pace.loop)) != 0)
        return;
    f->is_paced = true;
    (void)uv_timer_start(&f->pace, on_pace, PACE_MS, PACE_MS);
}

static void on_data(void *user, struct pfl_span data)
{
    struct side *from = user;
    struct side *to = from->other;
    struct pfl_direct_proxy *f = from->direct_proxy;

    from->bytes_in += data.len;
    if (to->stream == NULL || f->is_ending)
        return;
    if (pass(from, data) != 0) {
        pfl_direct_proxy_close(f);
        return;
    }
    if (from == &f->sides[LOCAL])
        pace(f, data.len);
    from->is_stopped = pfl_stream_queued_bytes(to->stream) > PFL_DIRECT_PROXY_HIGH_BYTES;
    if (!may_read(from))
        pfl_stream_read_stop(from->stream);
}

static bool on_local_input(void *user)
{
    const struct side *from = user;

    return pfl_input_turn_begin(&from->direct_proxy->local_turn);
}

static void on_local_data(void *user, struct pfl_span data)
{
    const struct side *from = user;

    on_data(user, data);
    pfl_input_turn_end(&from->direct_proxy->local_turn);
}

static void on_writable(void *user)
{
    struct side *to = user;
    struct side *from = to->other;

    if (!from->is_stopped)
        return;
    from->is_stopped = false;
    read_on(from);
}

static void on_eof(void *user)
{
    struct side *from = user;
    struct pfl_direct_proxy *f = from->direct_proxy;

    from->has_eof = true;
    if (f->is_ending)
        return;
    if (from->other->has_eof) {
        begin_end(f);
        return;
    }
    if (from->other->stream != NULL)
        pfl_stream_shutdown(from->other->stream);
    f->moved_at_tick = count_moved(f);
    (void)uv_timer_start(&f->timer, on_tick, f->half_closed_timeout_ms, f->half_closed_timeout_ms);
}

static void on_closed(void *user, int err)
{
    struct side *side = user;
    struct pfl_direct_proxy *f = side->direct_proxy;

    if (side == &f->sides[REMOTE])
        (void)snprintf(f->remote_words, sizeof(f->remote_words), "%s",
                       pfl_stream_get_error(side->stream));
    side->stream = NULL;
    side->err = err;
    begin_end(f);
    finish_if_gone(f);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

static const struct pfl_stream_ops local_ops = {
    .on_input = on_local_input,
    .on_data = on_local_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

void pfl_direct_proxy_close(struct pfl_direct_proxy *self)
{
    begin_end(self);
    for (int i = 0; i < SIDES; i++) {
        if (self->sides[i].stream != NULL)
            pfl_stream_close(self->sides[i].stream);
    }
}

static int make_gate(struct pfl_direct_proxy *f, struct pfl_span role)
{
    struct pfl_gate_conf conf = {.role = role,
                                 .to_service = to_service,
                                 .to_operator = to_operator,
                                 .on_judged = on_judged,
                                 .user = f};

    return pfl_gate_new(&conf, &f->gate);
}

void pfl_direct_proxy_set_role(struct pfl_direct_proxy *self, struct pfl_span role)
{
    char why[PFL_JUDGE_WHY_BYTES];

    if (role.len == 0)
        return;
    if (self->gate == NULL || pfl_gate_set_role(self->gate, role, why) != 0)
        pfl_direct_proxy_close(self);
}

void pfl_direct_proxy_set_bucket(struct pfl_direct_proxy *self, struct pfl_token_bucket *bucket)
{
    self->bucket = bucket;
}

int pfl_direct_proxy_new(const struct pfl_direct_proxy_conf *conf, int local_fd,
                         struct pfl_direct_proxy **ret_forward)
{
    struct pfl_direct_proxy *f = pfl_mem_zalloc(sizeof(*f));
    struct pfl_stream_conf local_conf = {
        .loop = conf->loop,
        .ops = &local_ops,
        .queue_max_bytes = PFL_DIRECT_PROXY_QUEUE_BYTES,
        .queue_low_bytes = PFL_DIRECT_PROXY_LOW_BYTES,
    };
    int rc;

    assert(conf->half_closed_timeout_ms > 0);
    if (f == NULL)
        return PFL_ENOMEM;
    for (int i = 0; i < SIDES; i++) {
        f->sides[i].direct_proxy = f;
        f->sides[i].other = &f->sides[SIDES - 1 - i];
    }
    local_conf.user = &f->sides[LOCAL];
    rc = conf->role.len != 0 ? make_gate(f, conf->role) : 0;
    if (rc == 0)
        rc = pfl_fdsock_open(&local_conf, local_fd, &f->sides[LOCAL].stream);
    if (rc != 0) {
        pfl_gate_free(f->gate);
        pfl_mem_free(f);
        return rc;
    }
    f->sides[REMOTE].stream = conf->remote;
    pfl_stream_set_user(conf->remote, &ops, &f->sides[REMOTE]);
    f->half_closed_timeout_ms = conf->half_closed_timeout_ms;
    f->on_ended = conf->on_ended;
    f->user = conf->user;
    f->on_judged = conf->on_judged;
    f->bucket = conf->bucket;
    pfl_input_turn_join(&f->local_turn, conf->turns, conf->who);
    (void)uv_timer_init(conf->loop, &f->timer);
    (void)uv_timer_init(conf->loop, &f->pace);
    f->timer.data = f->pace.data = f;
    f->timers = 2;
    *ret_forward = f;
    return 0;
}
