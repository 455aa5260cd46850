/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell around consumers: listener, streams, and whose requests are read.
 *
 * Requests go to the rpc host, which calls the methods (consumer_methods.c); consumer_conn.c sends
 * what consumers read.
 *
 * The loop time of requests is counted per user (service/core/turns.h). Requests of a user above
 * its part wait until that is paid off, and its connections then take turns: the one whose subject
 * took least, and of these the one that has waited longest, is fed one piece, or its requests up to
 * one that took too long. A subject that takes little does not wait. So an operator's requests
 * delay none of others who come through the same agent.
 *
 * A consumer that breaks the protocol, or lets PFL_CONSUMER_QUEUE_BYTES of replies pile up, is
 * closed; its session ends with it. The port owns its connections until their on_closed.
 */
#include "service/port/consumer_port.h"
#include "service/control/registry.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/listener.h"
#include "base/io/subject.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/port/consumer_conn.h"
#include "service/port/peer.h"

/* More in the kernel means fewer copies into our queue. */
#define SEND_BUFFER_BYTES (1 << 20)
#define PIECE_BYTES       (16u * 1024)
#define UNFED_MAX_BYTES   (4u << 20) /* more than comes at a time */

struct pfl_consumer_port {
    struct pfl_port_conf conf;
    struct pfl_listener *listener; /* owned until closed */
    uv_timer_t turn;               /* runs while a user must wait */
    struct pfl_service_time feed;  /* the requests' time that is not counted yet */
    struct pfl_list conns;         /* owned */
    struct pfl_list held; /* borrowed: those whose user must wait, in the order of service */
    struct pfl_consumer_senders senders;
    unsigned handles_open; /* senders.idle, turn, listener */
    bool is_closing;
};

static void check_closed(struct pfl_consumer_port *port)
{
    void (*on_closed)(void *) = port->conf.on_closed;
    void *user = port->conf.user;

    if (!port->is_closing || port->handles_open != 0 || !pfl_list_is_empty(&port->conns))
        return;
    pfl_mem_free(port);
    if (on_closed != NULL)
        on_closed(user);
}

void pfl_consumer_port_send_observed(struct pfl_consumer_port *self)
{
    while (!pfl_list_is_empty(&self->senders.observers)) {
        struct pfl_consumer_conn *conn =
            PFL_CONTAINER_OF(self->senders.observers.next, struct pfl_consumer_conn, observing);

        pfl_list_remove(&conn->observing);
        pfl_consumer_conn_send_observed(conn);
    }
}

static void on_turn(uv_timer_t *timer);

static void begin_turn_in(struct pfl_consumer_port *port, uint64_t wait_ms)
{
    if (!uv_is_active((const uv_handle_t *)&port->turn) ||
        uv_timer_get_due_in(&port->turn) > wait_ms)
        (void)uv_timer_start(&port->turn, on_turn, wait_ms, 0);
}

static struct pfl_turns_who who_of(const struct pfl_consumer_conn *conn)
{
    return (struct pfl_turns_who){.user = conn->cred.who, .subject = conn->subject};
}

static uint64_t get_wait_ms(const struct pfl_consumer_conn *conn)
{
    return pfl_service_get_wait_ms(conn->service, who_of(conn));
}

/* Behind those that owe as much or less. */
static void hold(struct pfl_consumer_conn *conn, uint64_t wait_ms)
{
    struct pfl_list *after = conn->port->held.prev;

    pfl_stream_read_stop(conn->stream);
    conn->owed_ns = pfl_turns_get_owed_ns(&conn->service->turns, who_of(conn),
                                          pfl_service_now_ns(conn->service));
    while (after != &conn->port->held &&
           PFL_CONTAINER_OF(after, struct pfl_consumer_conn, held)->owed_ns > conn->owed_ns)
        after = after->prev;
    pfl_list_append(after->next, &conn->held);
    begin_turn_in(conn->port, wait_ms);
}

static bool is_held(const struct pfl_consumer_conn *conn)
{
    return conn->held.next != NULL;
}

/* Since the last frame. */
static void count_time(struct pfl_consumer_conn *conn)
{
    pfl_service_end_time(conn->service, who_of(conn), conn->port->feed);
    conn->port->feed = pfl_service_begin_time(conn->service);
}

/* Between two frames of a piece. */
static bool may_continue(void *user)
{
    struct pfl_consumer_conn *conn = user;

    count_time(conn);
    return get_wait_ms(conn) == 0;
}

/* One piece, whose time is its user's. */
static int feed_piece(struct pfl_consumer_conn *conn, struct pfl_span piece)
{
    int rc;

    conn->port->feed = pfl_service_begin_time(conn->service);
    rc = pfl_rpc_host_feed(&conn->rpc, piece);
    count_time(conn);
    return rc;
}

/* Piece by piece: after a request that took too long the rest waits. What is kept of a piece goes
 * before what follows it. */
static void feed(struct pfl_consumer_conn *conn, struct pfl_span data)
{
    int rc = 0;

    while (rc == 0 && (data.len != 0 || pfl_rpc_host_has_frames(&conn->rpc)) && !is_held(conn) &&
           !conn->is_closing) {
        size_t len = data.len < PIECE_BYTES ? data.len : PIECE_BYTES;
        uint64_t wait_ms = get_wait_ms(conn);

        if (wait_ms != 0) {
            hold(conn, wait_ms);
        } else {
            len = pfl_rpc_host_has_frames(&conn->rpc) ? 0 : len;
            rc = feed_piece(conn, pfl_span_of(data.data, len));
            if (len != 0)
                data = pfl_span_of(data.data + len, data.len - len);
        }
    }
    if (rc == 0 && data.len != 0 && !conn->is_closing)
        rc = pfl_buf_append(&conn->unfed, data.data, data.len);
    if (rc != 0)
        pfl_consumer_conn_fail(conn, rc);
    else
        pfl_consumer_conn_count_waiting(conn);
}

/* Its user need not wait any more. */
static void proceed(struct pfl_consumer_conn *conn)
{
    struct pfl_buf unfed = conn->unfed;

    pfl_list_remove(&conn->held);
    pfl_buf_init(&conn->unfed, UNFED_MAX_BYTES);
    feed(conn, pfl_buf_get(&unfed));
    pfl_buf_fini(&unfed);
    if (!is_held(conn) && !conn->is_closing)
        pfl_stream_read_start(conn->stream);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_consumer_conn *conn = user;

    if (!conn->is_closing)
        feed(conn, data);
}

/* Each connection whose user need not wait any more is served, once at most: one that waits again
 * is behind `last`. */
static void on_turn(uv_timer_t *timer)
{
    struct pfl_consumer_port *port = timer->data;
    const struct pfl_list *last = port->held.prev;
    uint64_t next_ms = 0;
    struct pfl_list *next = port->held.next;
    struct pfl_list *it = &port->held;

    while (it != last) {
        struct pfl_consumer_conn *conn;
        uint64_t wait_ms;

        it = next;
        next = it->next;
        conn = PFL_CONTAINER_OF(it, struct pfl_consumer_conn, held);
        wait_ms = get_wait_ms(conn);
        if (conn->is_closing)
            continue;
        if (wait_ms == 0)
            proceed(conn);
        else if (next_ms == 0 || wait_ms < next_ms)
            next_ms = wait_ms;
    }
    if (next_ms != 0)
        begin_turn_in(port, next_ms);
}

static void on_fd(void *user, int fd)
{
    struct pfl_consumer_conn *conn = user;

    pfl_closer_close(conn->fd, conn->cred.who);
    conn->fd = fd;
}

static void on_eof(void *user)
{
    struct pfl_consumer_conn *conn = user;

    conn->is_closing = true;
    pfl_stream_close(conn->stream);
}

static void on_writable(void *user)
{
    struct pfl_consumer_conn *conn = user;

    pfl_consumer_conn_count_waiting(conn);
    if (conn->read.readback != NULL || conn->queries_len != 0)
        pfl_consumer_conn_want_reading(conn);
}

static void free_conn(struct pfl_consumer_conn *conn)
{
    struct pfl_service *service = conn->service;

    pfl_rpc_host_fini(&conn->rpc);
    pfl_buf_fini(&conn->unfed);
    pfl_shares_give(&service->shares.peer_bytes, conn->cred.who, conn->held_bytes);
    if (conn->is_counted)
        pfl_service_give_connection(service, &service->shares.consumers, conn->cred.who);
    pfl_mem_free(conn);
}

static void on_closed(void *user, int err)
{
    struct pfl_consumer_conn *conn = user;
    struct pfl_consumer_port *port = conn->port;
    struct pfl_service_time begin = pfl_service_begin_time(conn->service);
    bool is_accepted = conn->is_accepted;

    (void)err;
    conn->is_closing = true;
    pfl_consumer_conn_stop_reading(conn);
    pfl_consumer_conn_free_queries(conn);
    pfl_registry_remove_consumer(conn->service, &conn->consumer);
    pfl_list_remove(&conn->observing);
    pfl_closer_close(conn->fd, conn->cred.who);
    pfl_list_remove(&conn->node);
    pfl_list_remove(&conn->held);
    pfl_service_end_time(conn->service, who_of(conn), begin); /* of its session's end */
    free_conn(conn);
    if (is_accepted)
        pfl_listener_release(port->listener);
    check_closed(port);
}

static const struct pfl_stream_ops stream_ops = {.on_data = on_data,
                                                 .on_fd = on_fd,
                                                 .on_eof = on_eof,
                                                 .on_writable = on_writable,
                                                 .on_closed = on_closed};

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_consumer_conn *conn = user;

    int rc;

    if (conn->is_closing)
        return PFL_ECLOSED;
    rc = pfl_stream_writev(conn->stream, iov, iov_len, fd);
    if (rc == 0)
        pfl_consumer_conn_count_waiting(conn);
    return rc;
}

static int take_share(struct pfl_consumer_conn *conn)
{
    conn->is_counted = pfl_service_take_connection(conn->service, &conn->service->shares.consumers,
                                                   conn->cred.who);
    if (conn->is_counted)
        return 0;
    pfl_log_warn("connection-refused",
                 "socket=consumer uid=%u reason=\"this user's share of connections, "
                 "or of the service's memory, is used up\"",
                 conn->cred.uid);
    return PFL_ELIMIT;
}

static int open_conn(struct pfl_consumer_port *port, int fd, bool is_accepted)
{
    struct pfl_consumer_conn *conn = pfl_mem_zalloc(sizeof(*conn));
    const struct pfl_rpc_host_conf rpc = {
        .services = &pfl_consumer_service,
        .services_len = 1,
        .user = conn,
        .send = send_frame,
        .may_continue = may_continue,
    };
    const struct pfl_stream_conf stream = {
        .loop = port->conf.loop,
        .ops = &stream_ops,
        .user = conn,
        .queue_max_bytes = PFL_CONSUMER_QUEUE_BYTES,
    };
    const int send_buffer_bytes = SEND_BUFFER_BYTES;
    int rc;

    if (conn == NULL)
        return PFL_ENOMEM;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof(send_buffer_bytes));
    conn->senders = &port->senders;
    conn->port = port;
    conn->service = port->conf.service;
    conn->fd = -1;
    conn->is_accepted = is_accepted;
    pfl_list_init(&conn->queries);
    pfl_buf_init(&conn->unfed, UNFED_MAX_BYTES);
    pfl_rpc_host_init(&conn->rpc, &rpc);
    rc = pfl_fdsock_get_cred(fd, &conn->cred);
    if (rc == 0) {
        conn->subject = pfl_subject_get(fd, conn->cred.who);
        rc = take_share(conn);
    }
    if (rc == 0)
        rc = pfl_fdsock_open(&stream, fd, &conn->stream);
    if (rc != 0) {
        free_conn(conn);
        return rc;
    }
    conn->consumer.uid = conn->cred.uid;
    conn->consumer.who = conn->cred.who;
    conn->consumer.subject = conn->subject != conn->cred.who ? conn->subject : 0;
    conn->consumer.is_privileged = port->conf.privileged_gid != NULL &&
                                   pfl_fdsock_is_peer_in_group(fd, *port->conf.privileged_gid);
    conn->consumer.ops = &pfl_consumer_conn_ops;
    conn->consumer.port = conn;
    pfl_registry_add_consumer(conn->service, &conn->consumer);
    pfl_list_append(&port->conns, &conn->node);
    return 0;
}

int pfl_consumer_port_adopt(struct pfl_consumer_port *self, int fd)
{
    int rc = open_conn(self, fd, false);

    if (rc != 0)
        pfl_fdsock_drop(fd);
    return rc;
}

static bool may_accept(void *user, int *fd)
{
    const struct pfl_consumer_port *port = user;

    return pfl_peer_may_connect(port->conf.service, "consumer", fd);
}

static void on_accept(void *user, int fd)
{
    struct pfl_consumer_port *port = user;
    int rc = open_conn(port, fd, true);

    if (rc == 0)
        return;
    pfl_fdsock_drop(fd);
    if (rc != PFL_ELIMIT)
        pfl_log_error("consumer-refused", "reason=\"%s\"", pfl_err_str(rc));
    pfl_listener_release(port->listener);
}

static void on_listener_closed(void *user)
{
    struct pfl_consumer_port *port = user;

    port->handles_open--;
    check_closed(port);
}

static void on_idle_closed(uv_handle_t *handle)
{
    struct pfl_consumer_senders *senders = handle->data;
    struct pfl_consumer_port *port = PFL_CONTAINER_OF(senders, struct pfl_consumer_port, senders);

    port->handles_open--;
    check_closed(port);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_consumer_port *port = handle->data;

    port->handles_open--;
    check_closed(port);
}

int pfl_consumer_port_open(const struct pfl_port_conf *conf, struct pfl_consumer_port **ret_port)
{
    struct pfl_consumer_port *port = pfl_mem_zalloc(sizeof(*port));
    const struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->address,
        .inherited_fd = conf->inherited_fd,
        .max_connections = conf->max_connections,
        .backlog = PFL_PORT_BACKLOG,
        .group = conf->group,
        .mode = conf->mode,
        .may_accept = may_accept,
        .on_accept = on_accept,
        .on_closed = on_listener_closed,
        .user = port,
    };
    int rc;

    if (port == NULL)
        return PFL_ENOMEM;
    port->conf = *conf;
    port->conf.address = NULL;
    pfl_list_init(&port->conns);
    pfl_list_init(&port->held);
    pfl_list_init(&port->senders.readers);
    pfl_list_init(&port->senders.observers);
    rc = pfl_listener_open(&listener, &port->listener);
    if (rc != 0) {
        pfl_mem_free(port);
        return rc;
    }
    (void)uv_idle_init(conf->loop, &port->senders.idle); /* cannot fail */
    port->senders.idle.data = &port->senders;
    (void)uv_timer_init(conf->loop, &port->turn); /* cannot fail */
    port->turn.data = port;
    port->handles_open = 3;
    *ret_port = port;
    return 0;
}

void pfl_consumer_port_get_queued(const struct pfl_consumer_port *self, uint64_t *ret_bytes,
                                  uint64_t *ret_longest_bytes)
{
    struct pfl_list *it;

    *ret_bytes = *ret_longest_bytes = 0;
    PFL_LIST_EACH (it, &self->conns) {
        size_t bytes =
            pfl_stream_queued_bytes(PFL_CONTAINER_OF(it, struct pfl_consumer_conn, node)->stream);

        *ret_bytes += bytes;
        if (bytes > *ret_longest_bytes)
            *ret_longest_bytes = bytes;
    }
}

void pfl_consumer_port_close(struct pfl_consumer_port *self)
{
    struct pfl_list *it;

    if (self->is_closing)
        return;
    self->is_closing = self->senders.is_closing = true;
    PFL_LIST_EACH (it, &self->conns) {
        struct pfl_consumer_conn *conn = PFL_CONTAINER_OF(it, struct pfl_consumer_conn, node);

        conn->is_closing = true;
        pfl_stream_close(conn->stream);
    }
    uv_close((uv_handle_t *)&self->senders.idle, on_idle_closed);
    uv_close((uv_handle_t *)&self->turn, on_handle_closed);
    pfl_listener_close(self->listener);
}
