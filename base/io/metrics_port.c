/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics listeners: see metrics_port.h.
 *
 * Happy path: accept; over TLS both sides show certificates and the owner decides; one request is
 * read (metrics_request.h) and answered with its length, at once or when the owner has fresh
 * figures; then our direction ends. The peer's end, or the timer, closes. Failures: a status for
 * requests that can be answered, otherwise the connection ends; logged (limited). Ownership: the
 * port owns listeners, TLS conf and connections; a connection owns its stream and timer; the last
 * of them frees the port. Limits: those of the header. (Over TLS, excess connections wait
 * after their handshakes; those of one certificate beyond PFL_METRICS_PORT_MAX_OF_ONE are closed;
 * the oldest one of the certificate with most connections is closed for a certificate with fewer.)
 * A text of PFL_METRICS_MAX_BYTES; a request of PFL_METRICS_REQUEST_MAX_BYTES.
 */
#include "base/io/metrics_port.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/io/handshake_queue.h"
#include "base/io/listener.h"
#include "base/io/loop_watch.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics_request.h"
#include "base/shares.h"

/* The text as TLS records, and an answer's head. */
#define QUEUE_MAX_BYTES (PFL_METRICS_MAX_BYTES + PFL_METRICS_MAX_BYTES / 128)
#define SOCKET_MODE     0660
#define NS_PER_S        1e9

struct pfl_metrics_port {
    struct pfl_metrics_port_conf conf;
    struct pfl_tls_conf *tls;               /* a counted reference; NULL: no TLS */
    struct pfl_listener *tls_listener;      /* owned; NULL: none, or closed */
    struct pfl_listener *unix_listener;     /* the same */
    struct pfl_list connections;            /* owned */
    struct pfl_handshake_queue *handshakes; /* borrowed, or `own` */
    struct pfl_handshake_queue *own;        /* owned; NULL: those of the process */
    unsigned served;                        /* over TLS, with the handshake done */
    struct pfl_loop_watch watch;
    bool is_watching; /* until it is closed */
    uint64_t scrapes;
    struct pfl_log_limit log;
    bool is_closing;
};

/* Of the port's slots for connections over TLS. */
enum slot {
    SLOT_NONE,
    SLOT_QUEUED, /* the certificate was shown: waits until others are done */
    SLOT_TAKEN,  /* counted in `served` */
};

enum request {
    REQUEST_READING,
    REQUEST_WAITING, /* for the owner's figures to be fresh */
    REQUEST_ANSWERED,
};

struct scraper {
    struct pfl_list node;
    struct pfl_metrics_port *port; /* borrowed: outlives us */
    struct pfl_listener *listener; /* borrowed: lives until we release it */
    struct pfl_stream *stream;     /* owned; NULL once closed */
    bool is_tls;
    bool is_ended; /* the peer sends no more */
    enum request request;
    enum slot slot;
    uint64_t who; /* the certificate's share, from then on: base/shares.h */
    uv_timer_t timer;
    size_t head_len;
    uint8_t head[PFL_METRICS_REQUEST_MAX_BYTES];
};

static const char *const alpn[] = {"http/1.1", NULL};

/* ---- the end ---- */

static void free_if_gone(struct pfl_metrics_port *p)
{
    if (!p->is_closing || p->tls_listener != NULL || p->unix_listener != NULL || p->is_watching ||
        !pfl_list_is_empty(&p->connections))
        return;
    pfl_tls_conf_unref(p->tls);
    pfl_mem_free(p);
}

static void serve_next(struct pfl_metrics_port *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->connections) {
        struct scraper *s = PFL_CONTAINER_OF(it, struct scraper, node);

        if (s->slot != SLOT_QUEUED || s->stream == NULL)
            continue;
        s->slot = SLOT_TAKEN;
        p->served++;
        pfl_stream_read_start(s->stream);
        return;
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct scraper *s = handle->data;
    struct pfl_metrics_port *p = s->port;

    pfl_listener_release(s->listener);
    pfl_list_remove(&s->node);
    if (s->slot == SLOT_TAKEN) {
        p->served--;
        serve_next(p);
    }
    pfl_mem_free(s);
    free_if_gone(p);
}

static void on_timer(uv_timer_t *timer)
{
    struct scraper *s = timer->data;

    pfl_stream_close(s->stream);
}

static void tell(struct scraper *s, const char *reason)
{
    const struct pfl_tls_identity *id = s->is_tls ? pfl_tls_stream_get_identity(s->stream) : NULL;

    if (pfl_log_limit_take(&s->port->log, "scraper-refused", uv_now(s->port->conf.loop)))
        pfl_log_warn("scraper-refused", "uri=%s reason=%s",
                     id != NULL ? pfl_log_quote_str(id->uri) : "unix",
                     pfl_log_quote_reason(reason));
}

/* ---- figures of ours ---- */

static void collect_own(struct pfl_metrics_port *p, struct pfl_metrics *m)
{
    struct pfl_loop_look look;

    pfl_loop_watch_look(&p->watch, &look);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "process_cpu_seconds_total",
                       "Processor time of the process, user and system.",
                       (double)look.cpu_ns / NS_PER_S);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_loop_busy_seconds_total",
                       "Time in which the loop did not wait.", (double)look.busy_ns / NS_PER_S);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_loop_longest_turn_seconds",
                       "Longest turn of the loop since the last scrape.",
                       (double)look.longest_ns / NS_PER_S);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_scrapes_total",
                       "Answers with figures, this one among them.", (double)p->scrapes);
    if (p->handshakes != NULL)
        pfl_handshake_queue_collect(p->handshakes, m);
}

/* ---- the answer ---- */

static void send_answer(struct scraper *s, unsigned status, struct pfl_span body)
{
    char head[320];
    struct iovec iov[2];
    int len = snprintf(head, sizeof(head),
                       "HTTP/1.1 %u %s\r\n"
                       "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                       "Content-Length: %zu\r\n"
                       "%s"
                       "Cache-Control: no-store\r\n"
                       "Connection: close\r\n\r\n",
                       status, pfl_metrics_request_words(status), body.len,
                       status == 405 ? "Allow: GET\r\n" : "");

    s->request = REQUEST_ANSWERED;
    iov[0] = (struct iovec){head, (size_t)len};
    iov[1] = (struct iovec){(void *)(uintptr_t)body.data, body.len};
    if (pfl_stream_writev(s->stream, iov, body.len != 0 ? 2 : 1, -1) != 0)
        pfl_stream_close(s->stream);
    else if (s->is_ended)
        pfl_stream_close_after_flush(s->stream, PFL_METRICS_PORT_LIFETIME_MS);
    else
        pfl_stream_shutdown(s->stream);
}

static void send_words(struct scraper *s, unsigned status)
{
    char words[64];
    int len = snprintf(words, sizeof(words), "%u %s\n", status, pfl_metrics_request_words(status));

    send_answer(s, status, pfl_span_of(words, (size_t)len));
}

static const struct pfl_tls_identity *get_identity(const struct scraper *s)
{
    return s->is_tls ? pfl_tls_stream_get_identity(s->stream) : NULL;
}

static void send_figures(struct scraper *s)
{
    struct pfl_metrics_port *p = s->port;
    const struct pfl_tls_identity *id = get_identity(s);
    struct pfl_metrics m;
    struct pfl_span text;
    int rc;

    if (id != NULL && pfl_tls_conf_is_revoked(p->tls, id)) { /* by a list that came since */
        tell(s, "its certificate was revoked");
        pfl_stream_close(s->stream);
        return;
    }
    p->scrapes++;
    pfl_metrics_init(&m, PFL_METRICS_MAX_BYTES - 4096);
    p->conf.collect(p->conf.user, id, &m);
    collect_own(p, &m);
    rc = pfl_metrics_get(&m, &text);
    if (rc == 0) {
        send_answer(s, 200, text);
    } else {
        tell(s, pfl_err_str(rc));
        send_words(s, 500);
    }
    pfl_metrics_fini(&m);
}

/* Now, or when the owner says that it knows what there is to know. */
static void refresh(struct scraper *s)
{
    struct pfl_metrics_port *p = s->port;

    if (p->conf.refresh != NULL && !p->conf.refresh(p->conf.user, get_identity(s)))
        s->request = REQUEST_WAITING;
    else
        send_figures(s);
}

void pfl_metrics_port_proceed(struct pfl_metrics_port *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->connections) {
        struct scraper *s = PFL_CONTAINER_OF(it, struct scraper, node);

        if (s->request != REQUEST_WAITING || self->is_closing || s->stream == NULL)
            continue;
        s->request = REQUEST_READING;
        refresh(s);
    }
}

/* ---- one connection ---- */

/* After the answer the rest is dropped, so that the peer gets to read it. */
static void on_data(void *user, struct pfl_span data)
{
    struct scraper *s = user;
    size_t room = sizeof(s->head) - s->head_len;
    size_t len = data.len < room ? data.len : room;
    unsigned status;

    if (s->request != REQUEST_READING || s->port->is_closing)
        return;
    memcpy(s->head + s->head_len, data.data, len);
    s->head_len += len;
    status = pfl_metrics_request_judge(pfl_span_of(s->head, s->head_len));
    if (status == 200)
        refresh(s);
    else if (status != 0)
        send_words(s, status);
}

static void on_eof(void *user)
{
    struct scraper *s = user;

    s->is_ended = true;
    if (s->request == REQUEST_ANSWERED)
        pfl_stream_close_after_flush(s->stream, PFL_METRICS_PORT_LIFETIME_MS);
    else if (s->request == REQUEST_READING) /* after the request, the peer still gets the answer */
        pfl_stream_close(s->stream);
}

static unsigned count_served(const struct scraper *const *served, unsigned len, uint64_t who)
{
    unsigned count = 0;

    for (unsigned i = 0; i < len; i++)
        count += served[i]->who == who;
    return count;
}

/* The oldest served connection of the certificate with most of them; NULL: none has more than
 * `who`. */
static struct scraper *find_greediest(struct pfl_metrics_port *p, uint64_t who)
{
    struct scraper *served[PFL_METRICS_PORT_MAX_CONNECTIONS];
    const struct scraper *const *all = (const struct scraper *const *)served;
    struct scraper *greediest = NULL;
    unsigned len = 0;
    unsigned most;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->connections) {
        struct scraper *s = PFL_CONTAINER_OF(it, struct scraper, node);

        if (s->slot == SLOT_TAKEN)
            served[len++] = s;
    }
    most = count_served(all, len, who) + 1; /* with this one */
    for (unsigned i = 0; i < len; i++) {
        unsigned count = count_served(all, len, served[i]->who);

        if (count > most) {
            most = count;
            greediest = served[i];
        }
    }
    return greediest;
}

/* Of a certificate, with a slot or waiting for one. */
static unsigned count_connections(const struct pfl_metrics_port *p, uint64_t who)
{
    const struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &p->connections) {
        const struct scraper *s = PFL_CONTAINER_OF(it, struct scraper, node);

        count += s->slot != SLOT_NONE && s->who == who;
    }
    return count;
}

/* False: there is no slot, and no certificate has more of them than this one's. */
static bool make_place(struct scraper *s)
{
    struct pfl_metrics_port *p = s->port;
    struct scraper *goes;

    if (p->served < PFL_METRICS_PORT_MAX_CONNECTIONS)
        return true;
    goes = find_greediest(p, s->who);
    if (goes == NULL)
        return false;
    goes->slot = SLOT_NONE;
    p->served--;
    if (goes->stream != NULL) {
        tell(goes, "another certificate's scraper took its place: it had the most");
        pfl_stream_close(goes->stream);
    }
    return true;
}

static void on_ready(void *user)
{
    struct scraper *s = user;
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(s->stream);
    const char *why = s->port->conf.refuse(s->port->conf.user, id);

    s->who = pfl_shares_hash(id->uri, strlen(id->uri));
    if (why == NULL && count_connections(s->port, s->who) >= PFL_METRICS_PORT_MAX_OF_ONE)
        why = "its certificate has as many connections as it may";
    if (why != NULL) {
        tell(s, why);
        pfl_stream_close(s->stream);
        return;
    }
    s->slot = make_place(s) ? SLOT_TAKEN : SLOT_QUEUED;
    if (s->slot == SLOT_TAKEN)
        s->port->served++;
    else
        pfl_stream_read_stop(s->stream);
}

static void on_stream_closed(void *user, int err)
{
    struct scraper *s = user;
    const char *words = s->is_tls ? pfl_tls_stream_get_error(s->stream) : "";

    if (err != 0 && s->request != REQUEST_ANSWERED && !s->port->is_closing)
        tell(s, words[0] != '\0' ? words : pfl_err_str(err));
    s->stream = NULL;
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static const struct pfl_stream_ops stream_ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_ready = on_ready,
    .on_closed = on_stream_closed,
};

static int open_stream(struct scraper *s, int fd)
{
    struct pfl_stream_conf conf = {
        .loop = s->port->conf.loop,
        .ops = &stream_ops,
        .user = s,
        .queue_max_bytes = QUEUE_MAX_BYTES,
        .queue_low_bytes = 0,
    };
    struct pfl_tls_handshake handshake = {.conf = s->port->tls,
                                          .timeout_ms = PFL_METRICS_PORT_LIFETIME_MS,
                                          .queue = s->port->handshakes};

    return s->is_tls ? pfl_tls_stream_open(&conf, &handshake, fd, &s->stream)
                     : pfl_fdsock_open(&conf, fd, &s->stream);
}

static void take(struct pfl_metrics_port *p, struct pfl_listener *listener, int fd)
{
    struct scraper *s = pfl_mem_zalloc(sizeof(*s));

    if (s != NULL) {
        s->port = p;
        s->listener = listener;
        s->is_tls = listener == p->tls_listener;
    }
    if (s == NULL || open_stream(s, fd) != 0) {
        pfl_mem_free(s);
        pfl_fdsock_drop(fd);
        pfl_listener_release(listener);
        return;
    }
    pfl_list_append(&p->connections, &s->node);
    (void)uv_timer_init(p->conf.loop, &s->timer);
    s->timer.data = s;
    (void)uv_timer_start(&s->timer, on_timer, PFL_METRICS_PORT_LIFETIME_MS, 0);
}

static void on_accept_tls(void *user, int fd)
{
    struct pfl_metrics_port *p = user;

    take(p, p->tls_listener, fd);
}

static void on_accept_unix(void *user, int fd)
{
    struct pfl_metrics_port *p = user;

    take(p, p->unix_listener, fd);
}

/* ---- the port ---- */

static void on_tls_listener_closed(void *user)
{
    struct pfl_metrics_port *p = user;

    p->tls_listener = NULL;
    free_if_gone(p);
}

static void on_unix_listener_closed(void *user)
{
    struct pfl_metrics_port *p = user;

    p->unix_listener = NULL;
    free_if_gone(p);
}

static void on_watch_closed(void *user)
{
    struct pfl_metrics_port *p = user;

    p->is_watching = false;
    free_if_gone(p);
}

static int load_tls(struct pfl_metrics_port *p, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc = pfl_tls_conf_new(&p->conf.files, why, sizeof(why), ret_tls);

    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
    return rc;
}

static int open_queue(struct pfl_metrics_port *p)
{
    int rc = 0;

    if (p->conf.handshakes == NULL)
        rc = pfl_handshake_queue_open(p->conf.loop, PFL_PENDING_HANDSHAKES_PER_PEER, 0, &p->own);
    p->handshakes = p->own != NULL ? p->own : p->conf.handshakes;
    return rc;
}

static int open_tls(struct pfl_metrics_port *p)
{
    struct pfl_listener_conf listener = {
        .loop = p->conf.loop,
        .address = p->conf.listen_address,
        .is_tcp = true,
        .mode = -1,
        .on_accept = on_accept_tls,
        .on_closed = on_tls_listener_closed,
        .user = p,
    };
    int rc;

    if (p->conf.listen_address == NULL)
        return 0;
    rc = load_tls(p, &p->tls);
    if (rc == 0)
        rc = open_queue(p);
    if (rc != 0)
        return rc;
    listener.max_connections =
        PFL_METRICS_PORT_MAX_CONNECTIONS + pfl_handshake_queue_get_max(p->handshakes);
    rc = pfl_listener_open(&listener, &p->tls_listener);
    if (rc == 0)
        pfl_log_info("metrics-offered", "address=%s port=%u",
                     pfl_log_quote_str(p->conf.listen_address),
                     pfl_listener_get_port(p->tls_listener));
    return rc;
}

static int open_unix(struct pfl_metrics_port *p)
{
    struct pfl_listener_conf listener = {
        .loop = p->conf.loop,
        .address = p->conf.socket_path,
        .max_connections = PFL_METRICS_PORT_MAX_CONNECTIONS,
        .mode = SOCKET_MODE,
        .on_accept = on_accept_unix,
        .on_closed = on_unix_listener_closed,
        .user = p,
    };
    int rc;

    if (p->conf.socket_path == NULL)
        return 0;
    if (p->conf.socket_path[0] == '@') {
        pfl_log_error("listen-failed", "address=%s reason=\"an abstract socket has no mode\"",
                      pfl_log_quote_str(p->conf.socket_path));
        return PFL_EINVAL;
    }
    rc = pfl_listener_open(&listener, &p->unix_listener);
    if (rc == 0)
        pfl_log_info("metrics-offered", "socket=%s", pfl_log_quote_str(p->conf.socket_path));
    return rc;
}

int pfl_metrics_port_open(const struct pfl_metrics_port_conf *conf,
                          struct pfl_metrics_port **ret_port)
{
    struct pfl_metrics_port *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->conf.files.is_server = true;
    p->conf.files.alpn = alpn;
    pfl_list_init(&p->connections);
    pfl_loop_watch_start(&p->watch, p->conf.loop);
    p->is_watching = true;
    rc = open_tls(p);
    if (rc == 0)
        rc = open_unix(p);
    if (rc != 0) {
        pfl_metrics_port_close(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

uint16_t pfl_metrics_port_get_number(const struct pfl_metrics_port *self)
{
    return self->tls_listener != NULL ? pfl_listener_get_port(self->tls_listener) : 0;
}

void pfl_metrics_port_reload(struct pfl_metrics_port *self)
{
    struct pfl_tls_conf *fresh = NULL;

    if (self == NULL || self->tls == NULL || load_tls(self, &fresh) != 0)
        return;
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
}

void pfl_metrics_port_close(struct pfl_metrics_port *self)
{
    struct pfl_list *it;

    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    (void)pfl_loop_watch_close(&self->watch, on_watch_closed, self);
    pfl_handshake_queue_close(self->own);
    if (self->tls_listener != NULL)
        pfl_listener_close(self->tls_listener);
    if (self->unix_listener != NULL)
        pfl_listener_close(self->unix_listener);
    PFL_LIST_EACH (it, &self->connections) {
        struct scraper *s = PFL_CONTAINER_OF(it, struct scraper, node);

        if (s->stream != NULL)
            pfl_stream_close(s->stream);
    }
}
