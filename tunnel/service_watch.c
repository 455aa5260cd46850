/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the service: see service_watch.h.
 *
 *     connect -> bind -> QueryServiceState{sessions only, figures}
 *                          |-- with figures: done
 *                          `-- without: QueryServiceState{} -> producers counted: done
 *
 * Failures: nobody listens, no answer in time, too much of it, nonsense: the service is not known,
 * and the connection is closed. Nothing is logged: whoever scrapes sees it. Ownership: the stream
 * until its on_closed, the rpc client until then too, the timer until close. Limits: those of the
 * header; one question at a time.
 */
#include "tunnel/service_watch.h"

#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/mem.h"
#include "proto/rpc_client.h"

#define QUEUE_BYTES (64u * 1024)

struct pfl_service_watch {
    struct pfl_service_watch_conf conf;
    struct pfl_service_view view; /* of the last question */
    struct pfl_service_view next; /* of this one */
    struct pfl_stream *stream;    /* owned; NULL: no question is open */
    struct pfl_rpc_client *rpc;   /* owned, as long as the stream */
    size_t answer_bytes;
    uint64_t fresh_until_ms;
    uv_timer_t timer;
    bool is_whole; /* everything was answered */
    bool is_timer_open;
    bool is_closing;
};

static void free_if_gone(struct pfl_service_watch *w)
{
    if (w->is_closing && w->stream == NULL && !w->is_timer_open)
        pfl_mem_free(w);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_service_watch *w = handle->data;

    w->is_timer_open = false;
    free_if_gone(w);
}

/* ---- one question ---- */

static int on_counted(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_service_watch *w = user;
    int rc = reply->success ? pfl_service_view_feed(&w->next, reply->body) : PFL_EPROTO;

    if (rc == 0 && !reply->has_more) {
        w->is_whole = true;
        pfl_stream_close(w->stream);
    }
    return rc;
}

static int on_state(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_service_watch *w = user;
    int rc = reply->success ? pfl_service_view_feed(&w->next, reply->body) : PFL_EPROTO;

    if (rc != 0 || reply->has_more)
        return rc;
    if (w->next.has_figures) {
        w->is_whole = true;
        pfl_stream_close(w->stream);
        return 0;
    }
    w->next = (struct pfl_service_view){0};
    return pfl_rpc_client_invoke(w->rpc, "QueryServiceState", pfl_span_of(NULL, 0), -1, on_counted,
                                 w);
}

static int on_bound(void *user, bool is_bound)
{
    struct pfl_service_watch *w = user;
    uint8_t args[16];
    struct pfl_writer writer = pfl_writer_of(args, sizeof(args));

    if (!is_bound)
        return PFL_EPROTO;
    pfl_writer_field_varint(&writer, 1, 1);
    pfl_writer_field_varint(&writer, PFL_FIGURES_FIELD, 1);
    return pfl_rpc_client_invoke(w->rpc, "QueryServiceState",
                                 pfl_span_of(args, sizeof(args) - writer.left), -1, on_state, w);
}

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_service_watch *w = user;

    return pfl_stream_writev(w->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_service_watch *w = user;

    w->answer_bytes += data.len;
    if (w->is_whole)
        return;
    if (w->answer_bytes > PFL_SERVICE_WATCH_ANSWER_BYTES || pfl_rpc_client_feed(w->rpc, data) != 0)
        pfl_stream_close(w->stream);
}

static void on_eof(void *user)
{
    struct pfl_service_watch *w = user;

    pfl_stream_close(w->stream);
}

static void end_question(struct pfl_service_watch *w)
{
    w->next.is_known = w->is_whole;
    w->view = w->is_whole ? w->next : (struct pfl_service_view){0};
    w->fresh_until_ms = uv_now(w->conf.loop) + PFL_SERVICE_WATCH_FRESH_MS;
}

static void on_closed(void *user, int err)
{
    struct pfl_service_watch *w = user;

    (void)err;
    w->stream = NULL;
    pfl_rpc_client_free(w->rpc);
    w->rpc = NULL;
    if (w->is_closing) {
        free_if_gone(w);
        return;
    }
    (void)uv_timer_stop(&w->timer);
    end_question(w);
    w->conf.on_done(w->conf.user);
}

static void on_timeout(uv_timer_t *timer)
{
    struct pfl_service_watch *w = timer->data;

    if (w->stream != NULL)
        pfl_stream_close(w->stream);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

/* Nothing is open when it fails. */
static int connect_service(struct pfl_service_watch *w)
{
    const struct pfl_stream_conf stream = {
        .loop = w->conf.loop, .ops = &ops, .user = w, .queue_max_bytes = QUEUE_BYTES};
    const struct pfl_rpc_client_conf rpc = {.user = w, .send = send_frame};
    int rc = pfl_rpc_client_new(&rpc, &w->rpc);
    int fd = -1;

    if (rc == 0)
        rc = pfl_fdsock_connect_unix(w->conf.socket, &fd);
    if (rc == 0)
        rc = pfl_fdsock_open(&stream, fd, &w->stream);
    if (rc == 0)
        return 0;
    pfl_rpc_client_free(w->rpc);
    w->rpc = NULL;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

bool pfl_service_watch_ask(struct pfl_service_watch *self)
{
    if (self->stream != NULL)
        return false;
    if (uv_now(self->conf.loop) < self->fresh_until_ms)
        return true;
    self->next = (struct pfl_service_view){0};
    self->is_whole = false;
    self->answer_bytes = 0;
    if (connect_service(self) != 0) {
        end_question(self);
        return true;
    }
    (void)uv_timer_start(&self->timer, on_timeout, PFL_SERVICE_WATCH_TIMEOUT_MS, 0);
    if (pfl_rpc_client_bind(self->rpc, "ConsumerPort", on_bound, self) != 0)
        pfl_stream_close(self->stream);
    return false;
}

/* ---- the watch ---- */

int pfl_service_watch_open(const struct pfl_service_watch_conf *conf,
                           struct pfl_service_watch **ret_watch)
{
    struct pfl_service_watch *w = pfl_mem_zalloc(sizeof(*w));

    if (w == NULL)
        return PFL_ENOMEM;
    w->conf = *conf;
    (void)uv_timer_init(conf->loop, &w->timer);
    w->timer.data = w;
    w->is_timer_open = true;
    *ret_watch = w;
    return 0;
}

const struct pfl_service_view *pfl_service_watch_get(const struct pfl_service_watch *self)
{
    return &self->view;
}

void pfl_service_watch_close(struct pfl_service_watch *self)
{
    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    if (self->stream != NULL)
        pfl_stream_close(self->stream);
}
