/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP for browsers on loopback: see http_port.h.
 *
 *     READING --whole--> HANDLED --begin--> SENDING --end--> SENT
 *                           +------------answer---------------^
 *
 * Happy path: accept; the kernel says whose program connected; bytes are kept until the request is
 * whole (http_request.h); the handler answers; our direction ends, and the browser's end, or the
 * timer, closes. Failures: a malformed request gets its status; a connection of another user is
 * closed at once; a browser that leaves while its request is handled is remembered until the
 * answer; one that takes nothing of a body in parts is closed. Ownership: the port owns the
 * listener and its exchanges; an exchange owns its stream, timer and bytes, and is freed when those
 * are closed and the handler is done with it; the last one frees the port. Limits: those of the
 * header; a request is limited in bytes and time, and the oldest connection without a whole request
 * is closed when there are too many.
 */
#include "consumer/http/http_port.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io/fdsock.h"
#include "base/io/listener.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/ui/ui_owner.h"

#define HEAD_BYTES        2048u
#define SOCKET_MODE       0666 /* the kernel says who connects */
#define SPARE_CONNECTIONS 16u  /* while the oldest is being closed */

enum state {
    STATE_READING,
    STATE_HANDLED, /* the handler has it */
    STATE_SENDING, /* the body comes in parts */
    STATE_SENT,
};

struct pfl_http_port {
    struct pfl_http_port_conf conf;
    struct pfl_listener *listener; /* owned; NULL once closed */
    uint16_t number;
    bool is_for_proxy;         /* on a socket of UNIX */
    struct pfl_list exchanges; /* oldest first */
    unsigned count;
    struct pfl_log_limit log;
    bool is_closing;
};

struct pfl_http_exchange {
    struct pfl_list node;
    struct pfl_http_port *port;    /* borrowed: outlives us */
    struct pfl_listener *listener; /* borrowed: lives until we release it */
    struct pfl_stream *stream;     /* owned; NULL once closed */
    uv_timer_t timer;
    struct pfl_buf in;
    enum state state;
    bool has_peer_ended;
    bool is_head_only;
    bool is_chunked;
    bool is_whole;        /* see on_gone */
    uint64_t given_bytes; /* to the queue */
    uint64_t taken_bytes; /* of them, by the browser, when the timer was last there */
    uint64_t left_bytes;  /* of a body of known length */
    const struct pfl_http_body_ops *ops; /* borrowed; static; NULL: no body in parts */
    void *user;
};

/* ---- the end ---- */

static void free_port_if_gone(struct pfl_http_port *p)
{
    void (*on_closed)(void *user) = p->conf.on_closed;
    void *user = p->conf.user;

    if (!p->is_closing || p->listener != NULL || !pfl_list_is_empty(&p->exchanges))
        return;
    pfl_log_limit_flush(&p->log, "browser-refused");
    pfl_mem_free(p);
    on_closed(user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_http_exchange *x = handle->data;
    struct pfl_http_port *p = x->port;

    if (x->ops != NULL)
        x->ops->on_gone(x->user, x->is_whole);
    pfl_list_remove(&x->node);
    p->count--;
    pfl_buf_fini(&x->in);
    pfl_listener_release(x->listener);
    pfl_mem_free(x);
    free_port_if_gone(p);
}

/* The stream is closed, and the handler is done with it; it is freed from the loop. */
static void free_later(struct pfl_http_exchange *x)
{
    uv_close((uv_handle_t *)&x->timer, on_timer_closed);
}

static uint64_t linger_ms(const struct pfl_http_exchange *x)
{
    return x->ops != NULL ? x->port->conf.long_linger_ms : PFL_HTTP_LINGER_MS;
}

static void on_late(uv_timer_t *timer);

static void wait_for_browser(struct pfl_http_exchange *x)
{
    x->taken_bytes = x->given_bytes - pfl_stream_queued_bytes(x->stream);
    (void)uv_timer_start(&x->timer, on_late, linger_ms(x), 0);
}

/* As long as a browser takes bytes from the queue it is not late, nor if it has all that there is
 * of a body in parts. */
static bool is_late(const struct pfl_http_exchange *x)
{
    size_t queued = x->stream != NULL ? pfl_stream_queued_bytes(x->stream) : 0;

    if (x->stream == NULL || (x->state != STATE_SENT && x->state != STATE_SENDING))
        return true;
    return x->given_bytes - queued == x->taken_bytes && (x->state == STATE_SENT || queued != 0);
}

static void on_late(uv_timer_t *timer)
{
    struct pfl_http_exchange *x = timer->data;

    if (!is_late(x)) {
        wait_for_browser(x);
        return;
    }
    x->has_peer_ended = false; /* not in order */
    if (x->stream != NULL)
        pfl_stream_close(x->stream);
}

static void on_listener_closed(void *user)
{
    struct pfl_http_port *p = user;

    p->listener = NULL;
    free_port_if_gone(p);
}

/* ---- the answer ---- */

static int give(struct pfl_http_exchange *x, const struct iovec *iov, int iov_len)
{
    int rc = pfl_stream_writev(x->stream, iov, iov_len, -1);

    for (int i = 0; rc == 0 && i < iov_len; i++)
        x->given_bytes += iov[i].iov_len;
    return rc;
}

/* 204 has no body, and says so by its status alone. */
static void format_length(const struct pfl_http_answer *answer, int64_t length, char *room,
                          size_t room_len)
{
    room[0] = '\0';
    if (answer->status == 204)
        return;
    if (length < 0)
        (void)snprintf(room, room_len, "Content-Type: %s\r\nTransfer-Encoding: chunked\r\n",
                       answer->type);
    else
        (void)snprintf(room, room_len, "Content-Type: %s\r\nContent-Length: %" PRId64 "\r\n",
                       answer->type, length);
}

static int send_head(struct pfl_http_exchange *x, const struct pfl_http_answer *answer,
                     int64_t length, struct pfl_span body)
{
    char head[HEAD_BYTES];
    char body_fields[256];
    struct iovec iov[2] = {{head, 0}, {(void *)(uintptr_t)body.data, body.len}};
    int len;

    format_length(answer, length, body_fields, sizeof(body_fields));
    len = snprintf(head, sizeof(head),
                   "HTTP/1.1 %u %s\r\n"
                   "%s"
                   "Cache-Control: no-store\r\n"
                   "X-Content-Type-Options: nosniff\r\n"
                   "Referrer-Policy: same-origin\r\n"
                   "Connection: close\r\n"
                   "%s\r\n",
                   answer->status, pfl_http_status_words(answer->status), body_fields,
                   answer->fields != NULL ? answer->fields : "");
    if (len < 0 || (size_t)len >= sizeof(head))
        return PFL_ELIMIT;
    iov[0].iov_len = (size_t)len;
    return give(x, iov, body.len != 0 && !x->is_head_only ? 2 : 1);
}

/* All is in the queue. */
static void finish(struct pfl_http_exchange *x)
{
    x->state = STATE_SENT;
    wait_for_browser(x);
    if (x->has_peer_ended)
        pfl_stream_close_after_flush(x->stream, linger_ms(x));
    else
        pfl_stream_shutdown(x->stream);
}

void pfl_http_exchange_answer(struct pfl_http_exchange *self, const struct pfl_http_answer *answer)
{
    self->state = STATE_SENT;
    if (self->stream == NULL) {
        free_later(self);
        return;
    }
    if (send_head(self, answer, (int64_t)answer->body.len, answer->body) == 0)
        finish(self);
    else
        pfl_stream_close(self->stream);
}

bool pfl_http_exchange_has_left(const struct pfl_http_exchange *self)
{
    return self->stream == NULL || self->has_peer_ended;
}

int pfl_http_exchange_begin(struct pfl_http_exchange *self, const struct pfl_http_answer *answer,
                            int64_t length, const struct pfl_http_body_ops *ops, void *user)
{
    if (self->stream == NULL) {
        self->state = STATE_SENT;
        free_later(self);
        return PFL_ECLOSED;
    }
    self->state = STATE_SENDING;
    self->ops = ops;
    self->user = user;
    self->is_chunked = length < 0;
    self->left_bytes = length > 0 ? (uint64_t)length : 0;
    if (send_head(self, answer, length, pfl_span_of(NULL, 0)) == 0)
        wait_for_browser(self);
    else
        pfl_stream_close(self->stream);
    return 0;
}

static int write_chunk(struct pfl_http_exchange *x, struct pfl_span part)
{
    static char end[] = "\r\n";
    char size[24];
    int len = snprintf(size, sizeof(size), "%zx\r\n", part.len);
    struct iovec iov[3] = {{size, (size_t)len}, {(void *)(uintptr_t)part.data, part.len}, {end, 2}};

    return give(x, iov, 3);
}

static int write_plain(struct pfl_http_exchange *x, struct pfl_span part)
{
    struct iovec iov = {(void *)(uintptr_t)part.data, part.len};
    int rc;

    if (part.len > x->left_bytes)
        return PFL_ECLOSED;
    rc = give(x, &iov, 1);
    if (rc == 0)
        x->left_bytes -= part.len;
    return rc;
}

int pfl_http_exchange_write(struct pfl_http_exchange *self, struct pfl_span part)
{
    int rc;

    if (self->stream == NULL || self->state != STATE_SENDING)
        return PFL_ECLOSED;
    if (pfl_stream_get_errno(self->stream) != 0) /* it takes all, and is about to close */
        return PFL_ECLOSED;
    if (part.len == 0 || self->is_head_only)
        return 0;
    rc = self->is_chunked ? write_chunk(self, part) : write_plain(self, part);
    return rc == 0 || rc == PFL_ELIMIT ? rc : PFL_ECLOSED;
}

void pfl_http_exchange_end(struct pfl_http_exchange *self)
{
    static char last[] = "0\r\n\r\n";
    struct iovec iov = {last, sizeof(last) - 1};
    int rc = 0;

    if (self->stream == NULL || self->state != STATE_SENDING)
        return;
    if (!self->is_head_only && self->is_chunked)
        rc = give(self, &iov, 1);
    if (rc == 0 && (self->is_head_only || self->left_bytes == 0))
        finish(self);
    else
        pfl_stream_close(self->stream);
}

void pfl_http_exchange_break(struct pfl_http_exchange *self)
{
    if (self->stream != NULL)
        pfl_stream_close(self->stream);
}

static void refuse(struct pfl_http_exchange *x, unsigned status)
{
    char words[64];
    int len = snprintf(words, sizeof(words), "%u %s\n", status, pfl_http_status_words(status));

    pfl_http_exchange_answer(x, &(struct pfl_http_answer){.status = status,
                                                          .type = "text/plain; charset=utf-8",
                                                          .body = pfl_span_of(words, (size_t)len)});
}

/* ---- one connection ---- */

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_http_exchange *x = user;
    struct pfl_http_port *p = x->port;
    struct pfl_http_request request;
    unsigned status;
    int rc;

    if (x->state != STATE_READING || p->is_closing)
        return;
    rc = pfl_buf_append(&x->in, data.data, data.len);
    if (rc != 0) {
        refuse(x, rc == PFL_ELIMIT ? 413 : 503);
        return;
    }
    status = pfl_http_request_parse((char *)x->in.data + x->in.start, x->in.len,
                                    p->conf.body_max_bytes, &request);
    if (status == 0)
        return;
    if (status != 200) {
        refuse(x, status);
        return;
    }
    (void)uv_timer_stop(&x->timer);
    x->state = STATE_HANDLED;
    x->is_head_only = strcmp(request.method, "HEAD") == 0;
    p->conf.on_request(p->conf.user, x, &request);
}

static void on_eof(void *user)
{
    struct pfl_http_exchange *x = user;

    x->has_peer_ended = true;
    if (x->state == STATE_READING || x->state == STATE_SENDING)
        pfl_stream_close(x->stream);
    else if (x->state == STATE_SENT)
        pfl_stream_close_after_flush(x->stream, linger_ms(x));
}

static void on_writable(void *user)
{
    struct pfl_http_exchange *x = user;

    if (x->state == STATE_SENDING && x->ops != NULL)
        x->ops->on_writable(x->user);
}

static void on_stream_closed(void *user, int err)
{
    struct pfl_http_exchange *x = user;

    x->is_whole = err == 0 && x->state == STATE_SENT && x->has_peer_ended;
    x->stream = NULL;
    if (x->state != STATE_HANDLED)
        free_later(x);
}

static const struct pfl_stream_ops stream_ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_closed = on_stream_closed,
};

/* ---- accepting ---- */

/* A browser opens connections before it needs them. */
static void end_oldest_reading(struct pfl_http_port *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->exchanges) {
        struct pfl_http_exchange *x = PFL_CONTAINER_OF(it, struct pfl_http_exchange, node);

        if (x->state != STATE_READING || x->stream == NULL)
            continue;
        pfl_stream_close(x->stream);
        return;
    }
}

static int open_exchange(struct pfl_http_port *p, int fd)
{
    struct pfl_http_exchange *x = pfl_mem_zalloc(sizeof(*x));
    struct pfl_stream_conf conf = {
        .loop = p->conf.loop,
        .ops = &stream_ops,
        .user = x,
        .queue_max_bytes = PFL_HTTP_ANSWER_MAX_BYTES + HEAD_BYTES,
        .queue_low_bytes = PFL_HTTP_QUEUE_LOW_BYTES,
    };
    int rc;

    if (x == NULL)
        return PFL_ENOMEM;
    rc = pfl_fdsock_open(&conf, fd, &x->stream);
    if (rc != 0) {
        pfl_mem_free(x);
        return rc;
    }
    x->port = p;
    x->listener = p->listener;
    pfl_buf_init(&x->in, PFL_HTTP_HEAD_MAX_BYTES + p->conf.body_max_bytes + 1);
    (void)uv_timer_init(p->conf.loop, &x->timer);
    x->timer.data = x;
    (void)uv_timer_start(&x->timer, on_late, PFL_HTTP_REQUEST_TIMEOUT_MS, 0);
    pfl_list_append(&p->exchanges, &x->node);
    p->count++;
    return 0;
}

/* A socket of UNIX says itself who connected. */
static bool is_peer_of_proxy(const struct pfl_http_port *p, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0 || peer.uid == p->conf.proxy_uid);
}

static bool is_peer_ours(const struct pfl_http_port *p, int fd)
{
    return p->is_for_proxy ? is_peer_of_proxy(p, fd) : p->conf.is_peer_ours(fd, p->number);
}

static void on_accept(void *user, int fd)
{
    struct pfl_http_port *p = user;
    const char *why = NULL;

    if (!is_peer_ours(p, fd))
        why = "other users' programs have no access here";
    else if (open_exchange(p, fd) != 0)
        why = "out of memory";
    if (why == NULL) {
        if (p->count > PFL_HTTP_MAX_CONNECTIONS)
            end_oldest_reading(p);
        return;
    }
    if (pfl_log_limit_take(&p->log, "browser-refused", uv_now(p->conf.loop)))
        pfl_log_warn("browser-refused", "reason=\"%s\"", why);
    pfl_fdsock_drop(fd);
    pfl_listener_release(p->listener);
}

int pfl_http_port_open(const struct pfl_http_port_conf *conf, struct pfl_http_port **ret_port)
{
    struct pfl_http_port *p = pfl_mem_zalloc(sizeof(*p));
    char address[32];
    struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->socket != NULL ? conf->socket : address,
        .is_tcp = conf->socket == NULL,
        .max_connections = PFL_HTTP_MAX_CONNECTIONS + SPARE_CONNECTIONS,
        .mode = conf->socket != NULL ? SOCKET_MODE : -1,
        .on_accept = on_accept,
        .on_closed = on_listener_closed,
        .user = p,
    };
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->is_for_proxy = conf->socket != NULL;
    if (p->conf.long_linger_ms == 0)
        p->conf.long_linger_ms = PFL_HTTP_LONG_LINGER_MS;
    if (p->conf.is_peer_ours == NULL)
        p->conf.is_peer_ours = pfl_ui_owner_is_ours;
    pfl_list_init(&p->exchanges);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", conf->port);
    rc = pfl_listener_open(&listener, &p->listener);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    p->number = pfl_listener_get_port(p->listener);
    *ret_port = p;
    return 0;
}

uint16_t pfl_http_port_get_number(const struct pfl_http_port *self)
{
    return self->number;
}

void pfl_http_port_close(struct pfl_http_port *self)
{
    struct pfl_list *it;

    if (self->is_closing)
        return;
    self->is_closing = true;
    if (self->listener != NULL)
        pfl_listener_close(self->listener);
    PFL_LIST_EACH (it, &self->exchanges) {
        struct pfl_http_exchange *x = PFL_CONTAINER_OF(it, struct pfl_http_exchange, node);

        if (x->stream != NULL)
            pfl_stream_close(x->stream);
    }
}
