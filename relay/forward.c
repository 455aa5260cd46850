/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splicing two streams: see forward.h.
 *
 * Happy path: what one side delivers is written to the other; above the high-water mark the
 * deliverer is stopped until the other's on_writable. The end of one direction is passed on as a
 * half-close; when both directions have ended both streams are closed.
 * Failures: a side that breaks takes the other with it, after what is queued there has been sent.
 * A side that keeps quiet after the other has finished is closed after half_closed_timeout_ms.
 * Ownership: owns both streams until their on_closed, and the timer; the last of the three frees.
 * Limits: PFL_FORWARD_QUEUE_BYTES queued each way.
 */
#include "relay/forward.h"

#include <assert.h>

#include "base/io/fdsock.h"
#include "base/mem.h"

#define FLUSH_TIMEOUT_MS 60000u

enum { REMOTE, LOCAL, SIDES };

struct side {
    struct pfl_forward *forward;
    struct pfl_stream *stream; /* owned; NULL once closed */
    struct side *other;
    uint64_t bytes_in;
    int err;
    bool has_eof;
    bool is_stopped;
};

struct pfl_forward {
    struct side sides[SIDES];
    uv_timer_t timer; /* after the first half-close */
    uint64_t half_closed_timeout_ms;
    uint64_t moved_at_tick;
    void (*on_ended)(void *user, const struct pfl_forward_stats *stats);
    void *user;
    bool is_timer_closed;
    bool is_ending;
    bool is_idle_end;
};

static void finish_if_gone(struct pfl_forward *f)
{
    struct pfl_forward_stats stats = {
        .bytes_to_local = f->sides[REMOTE].bytes_in,
        .bytes_to_remote = f->sides[LOCAL].bytes_in,
        .remote_err = f->sides[REMOTE].err,
        .local_err = f->sides[LOCAL].err,
        .is_idle_end = f->is_idle_end,
    };

    if (!f->is_timer_closed || f->sides[REMOTE].stream != NULL || f->sides[LOCAL].stream != NULL)
        return;
    f->on_ended(f->user, &stats);
    pfl_mem_free(f);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_forward *f = handle->data;

    f->is_timer_closed = true;
    finish_if_gone(f);
}

/* Ends what is left of both sides, with what is queued there. */
static void begin_end(struct pfl_forward *f)
{
    if (f->is_ending)
        return;
    f->is_ending = true;
    uv_close((uv_handle_t *)&f->timer, on_timer_closed);
    for (int i = 0; i < SIDES; i++) {
        if (f->sides[i].stream != NULL)
            pfl_stream_close_after_flush(f->sides[i].stream, FLUSH_TIMEOUT_MS);
    }
}

/* Bytes that came in and are out again: a slow reader is not an idle one. */
static uint64_t count_moved(const struct pfl_forward *f)
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
    struct pfl_forward *f = timer->data;
    uint64_t moved = count_moved(f);

    if (moved == f->moved_at_tick) {
        f->is_idle_end = true;
        begin_end(f);
    }
    f->moved_at_tick = moved;
}

static void on_data(void *user, struct pfl_span data)
{
    struct side *from = user;
    struct side *to = from->other;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data.data, .iov_len = data.len};

    from->bytes_in += data.len;
    if (to->stream == NULL || from->forward->is_ending)
        return;
    if (pfl_stream_writev(to->stream, &iov, 1, -1) != 0) {
        pfl_forward_close(from->forward);
        return;
    }
    if (pfl_stream_queued_bytes(to->stream) <= PFL_FORWARD_HIGH_BYTES)
        return;
    from->is_stopped = true;
    pfl_stream_read_stop(from->stream);
}

static void on_writable(void *user)
{
    struct side *to = user;
    struct side *from = to->other;

    if (!from->is_stopped || from->stream == NULL)
        return;
    from->is_stopped = false;
    pfl_stream_read_start(from->stream);
}

static void on_eof(void *user)
{
    struct side *from = user;
    struct pfl_forward *f = from->forward;

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
    struct pfl_forward *f = side->forward;

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

void pfl_forward_close(struct pfl_forward *self)
{
    begin_end(self);
    for (int i = 0; i < SIDES; i++) {
        if (self->sides[i].stream != NULL)
            pfl_stream_close(self->sides[i].stream);
    }
}

int pfl_forward_new(const struct pfl_forward_conf *conf, int local_fd,
                    struct pfl_forward **ret_forward)
{
    struct pfl_forward *f = pfl_mem_zalloc(sizeof(*f));
    struct pfl_stream_conf local_conf = {
        .loop = conf->loop,
        .ops = &ops,
        .queue_max_bytes = PFL_FORWARD_QUEUE_BYTES,
        .queue_low_bytes = PFL_FORWARD_LOW_BYTES,
    };
    int rc;

    assert(conf->half_closed_timeout_ms > 0);
    if (f == NULL)
        return PFL_ENOMEM;
    for (int i = 0; i < SIDES; i++) {
        f->sides[i].forward = f;
        f->sides[i].other = &f->sides[SIDES - 1 - i];
    }
    local_conf.user = &f->sides[LOCAL];
    rc = pfl_fdsock_open(&local_conf, local_fd, &f->sides[LOCAL].stream);
    if (rc != 0) {
        pfl_mem_free(f);
        return rc;
    }
    f->sides[REMOTE].stream = conf->remote;
    pfl_stream_set_user(conf->remote, &ops, &f->sides[REMOTE]);
    f->half_closed_timeout_ms = conf->half_closed_timeout_ms;
    f->on_ended = conf->on_ended;
    f->user = conf->user;
    (void)uv_timer_init(conf->loop, &f->timer);
    f->timer.data = f;
    *ret_forward = f;
    return 0;
}
