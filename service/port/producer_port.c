/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell around producers: listener, streams, descriptors.
 *
 * accept: read the peer's credentials, open a stream, wait. Bytes go to the rpc host, which calls
 * the methods (producer_methods.c); a descriptor waits in the connection's one slot until a method
 * takes it. The end of the stream, by either side, removes the producer from the service.
 *
 * Producers of one user share a part of each loop turn (fair_turn.h), so that their queued data
 * does not delay other users. When the part is used up between two frames of a read, the rest is
 * kept in the connection, which is not read until its turn has come for them. The ends of their
 * connections take turns likewise. A producer that lets PFL_PRODUCER_QUEUE_BYTES pile up unread, or
 * breaks the protocol, is closed without an effect on others. The port owns its connections until
 * their on_closed.
 */
#include "service/port/producer_port.h"
#include "service/control/registry.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/fair_turn.h"
#include "base/io/fdsock.h"
#include "base/io/listener.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/port/input_batching.h"
#include "service/port/network.h"
#include "service/port/producer_conn.h"

#define STEP_NS       500000u /* of one CommitData in a turn: shorter steps would cost more turns */
#define ANSWERS_BYTES 4096u

struct pfl_producer_port {
    struct pfl_port_conf conf;
    struct pfl_rpc_service services[2]; /* ProducerPort, RelayPort */
    struct pfl_listener *listener;      /* owned until closed */
    struct pfl_list conns;              /* owned */
    struct pfl_input_batching gather;
    struct pfl_fair_turn fair_turn;
    struct pfl_list resumed;            /* borrowed pfl_producer_conn.resumed */
    uv_idle_t resumes;                  /* turns the loop while there are some */
    uint64_t step_begin_ns;             /* of what is handled */
    uint64_t input_ns;                  /* the wake-up is charged to its user up to here */
    uv_check_t turn_ends;               /* keeps no loop running */
    struct pfl_producer_conn *answered; /* whose input is handled: `answers` are for it */
    size_t answers_len;
    uint8_t answers[ANSWERS_BYTES]; /* sent together when its input is handled */
    unsigned handles_open;          /* resumes, turn_ends, listener */
    bool is_closing;
};

static void check_closed(struct pfl_producer_port *port)
{
    void (*on_closed)(void *) = port->conf.on_closed;
    void *user = port->conf.user;

    if (!port->is_closing || port->handles_open != 0 || !pfl_list_is_empty(&port->conns))
        return;
    pfl_mem_free(port);
    if (on_closed != NULL)
        on_closed(user);
}

/* ---- answers ---- */

static int send_answers(struct pfl_producer_conn *conn)
{
    struct pfl_producer_port *port = conn->port;
    const struct iovec iov = {.iov_base = port->answers, .iov_len = port->answers_len};

    if (port->answered != conn || port->answers_len == 0)
        return 0;
    port->answers_len = 0;
    return conn->is_closing ? PFL_ECLOSED : pfl_stream_writev(conn->stream, &iov, 1, -1);
}

/* Does the frame wait for the end of the input that is handled? */
static bool gather_answer(struct pfl_producer_conn *conn, const struct iovec *iov, int iov_len)
{
    struct pfl_producer_port *port = conn->port;
    size_t len = 0;

    for (int i = 0; i < iov_len; i++)
        len += iov[i].iov_len;
    if (port->answered != conn || len > sizeof(port->answers) - port->answers_len)
        return false;
    for (int i = 0; i < iov_len; i++) {
        memcpy(port->answers + port->answers_len, iov[i].iov_base, iov[i].iov_len);
        port->answers_len += iov[i].iov_len;
    }
    return true;
}

void pfl_producer_conn_fail(struct pfl_producer_conn *conn, const char *why)
{
    if (conn->is_closing)
        return;
    (void)send_answers(conn);
    conn->is_closing = true;
    pfl_log_warn("producer-disconnected", "producer=%s uid=%u pid=%lld reason=\"%s\"",
                 pfl_log_quote_str(conn->producer != NULL ? conn->producer->name : NULL),
                 conn->peer.uid, (long long)conn->peer.pid, why);
    pfl_stream_close(conn->stream);
}

/* Of a frame, for its rest; and of commands, for the peer. */
static void count_waiting(struct pfl_producer_conn *conn)
{
    uint64_t bytes = conn->rpc.reader.partial.capacity + pfl_stream_queued_bytes(conn->stream);

    if (bytes == conn->held_bytes || conn->is_closing)
        return;
    if (!pfl_shares_set(&conn->service->shares.peer_bytes, conn->peer.who, &conn->held_bytes,
                        bytes))
        pfl_producer_conn_fail(conn, "its user's share of the service's memory is used up");
}

/* A commit waits for the copier. */
static bool awaits_copy(struct pfl_producer_conn *conn)
{
    const struct pfl_producer *producer = conn->producer;

    return producer != NULL && !conn->is_closed &&
           (producer->copy.state == PFL_COPY_JOB_WAITS ||
            producer->copy.state == PFL_COPY_JOB_ASKED);
}

static bool on_input(void *user)
{
    struct pfl_producer_conn *conn = user;
    struct pfl_producer_port *port = conn->port;

    if (conn->resumed.next != NULL || pfl_rpc_host_has_frames(&conn->rpc))
        return false;
    if (!pfl_fair_turn_may(&port->fair_turn, conn->peer.who, &conn->turn)) {
        if (conn->turn.state == PFL_FAIR_TURN_WAITING)
            pfl_stream_read_stop(conn->stream);
        return false;
    }
    port->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    if (!pfl_input_batching_begin(&port->gather, port->input_ns))
        return true;
    (void)sched_yield();
    port->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    pfl_input_batching_end(&port->gather, port->input_ns);
    return true;
}

/* The read of the socket is a part of it. */
static void count_time(struct pfl_producer_port *port, uint64_t who)
{
    uint64_t begin_ns = port->input_ns;

    port->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    pfl_fair_turn_take(&port->fair_turn, who, port->input_ns - begin_ns);
}

/* Between two frames of a read. */
static bool may_continue(void *user)
{
    struct pfl_producer_conn *conn = user;

    count_time(conn->port, conn->peer.who);
    return pfl_fair_turn_has_time(&conn->port->fair_turn, conn->peer.who);
}

bool pfl_producer_conn_may_continue(const struct pfl_producer_conn *conn)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - conn->port->step_begin_ns < STEP_NS;
}

/* What is kept has its turn before more is read. */
static void wait_if_kept(struct pfl_producer_conn *conn)
{
    if (conn->is_closing)
        return;
    if (pfl_rpc_host_has_frames(&conn->rpc)) {
        pfl_stream_read_stop(conn->stream);
        conn->awaits_copy = awaits_copy(conn);
        if (conn->awaits_copy)
            pfl_fair_turn_leave(&conn->turn);
        else
            pfl_fair_turn_wait(&conn->port->fair_turn, conn->peer.who, &conn->turn);
    } else {
        pfl_stream_read_start(conn->stream);
    }
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_producer_conn *conn = user;
    int rc;

    if (conn->is_closing)
        return;
    conn->port->answered = conn;
    conn->port->step_begin_ns = conn->port->input_ns;
    rc = pfl_rpc_host_feed(&conn->rpc, data);
    if (!conn->is_closing) {
        int sent = send_answers(conn); /* also to what came before a failure */

        rc = rc == 0 ? sent : rc;
    }
    conn->port->answered = NULL;
    conn->port->answers_len = 0;
    count_time(conn->port, conn->peer.who);
    if (rc == PFL_ELIMIT)
        pfl_producer_conn_fail(conn, "it does not read its socket");
    else if (rc != 0)
        pfl_producer_conn_fail(conn, pfl_err_str(rc));
    else
        count_waiting(conn);
    wait_if_kept(conn);
}

static void on_writable(void *user)
{
    count_waiting(user);
}

static void on_fd(void *user, int fd)
{
    struct pfl_producer_conn *conn = user;

    pfl_closer_close(conn->fd, (uint32_t)conn->peer.who);
    conn->fd = fd;
}

static void on_eof(void *user)
{
    struct pfl_producer_conn *conn = user;

    conn->is_closing = true;
    pfl_stream_close(conn->stream);
}

static void free_conn(struct pfl_producer_conn *conn)
{
    struct pfl_service *service = conn->service;

    pfl_rpc_host_fini(&conn->rpc);
    pfl_shares_give(&service->shares.peer_bytes, conn->peer.who, conn->held_bytes);
    if (conn->is_counted)
        pfl_service_give_connection(service, &service->shares.producers, conn->peer.who);
    pfl_mem_free(conn);
}

/* Its end, which may cost: instances, data sources, memory. */
static void leave(struct pfl_producer_conn *conn)
{
    struct pfl_producer_port *port = conn->port;
    bool is_accepted = conn->is_accepted;

    pfl_fair_turn_leave(&conn->turn);
    pfl_list_remove(&conn->resumed);
    if (conn->producer != NULL) {
        pfl_log_debug("producer-left", "id=%u name=%s", conn->producer->id,
                      pfl_log_quote_str(conn->producer->name));
        conn->producer->is_counted = conn->is_counted;
        if (!pfl_registry_remove_producer(conn->service, conn->producer))
            conn->is_counted = false;
    }
    if (conn->relay != NULL)
        pfl_remote_machines_leave(&conn->service->relays, conn->relay,
                                  conn->service->sessions_len != 0);
    pfl_closer_close(conn->fd, (uint32_t)conn->peer.who);
    pfl_list_remove(&conn->node);
    free_conn(conn);
    if (is_accepted)
        pfl_listener_release(port->listener);
    check_closed(port);
}

static void on_resume(uv_idle_t *handle);

/* As long as its user's part has time; the other ends wait. */
static void on_closed(void *user, int err)
{
    struct pfl_producer_conn *conn = user;
    struct pfl_producer_port *port = conn->port;
    uint64_t who = conn->peer.who;
    uint64_t begin_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);

    (void)err;
    conn->is_closing = true;
    conn->is_closed = true;
    conn->has_commands = false;
    pfl_fair_turn_leave(&conn->turn);
    pfl_list_remove(&conn->resumed);
    if (port->is_closing) {
        leave(conn);
    } else if (pfl_fair_turn_has_time(&port->fair_turn, who)) {
        leave(conn);
        pfl_fair_turn_charge(&port->fair_turn, who,
                             pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - begin_ns);
    } else {
        pfl_fair_turn_wait(&port->fair_turn, who, &conn->turn);
        (void)uv_idle_start(&port->resumes, on_resume); /* the loop does not block */
    }
}

static void on_released(struct pfl_fair_turn_conn *turn)
{
    struct pfl_producer_conn *conn = PFL_CONTAINER_OF(turn, struct pfl_producer_conn, turn);

    if (conn->is_closed || pfl_rpc_host_has_frames(&conn->rpc))
        pfl_list_append(&conn->port->resumed, &conn->resumed);
    else
        pfl_stream_read_start(conn->stream);
}

void pfl_producer_conn_go_on(struct pfl_producer_conn *conn)
{
    if (!conn->awaits_copy)
        return;
    conn->awaits_copy = false;
    if (conn->is_closed || conn->resumed.next != NULL)
        return;
    pfl_list_append(&conn->port->resumed, &conn->resumed);
    (void)uv_idle_start(&conn->port->resumes, on_resume);
}

static void on_turn_end(uv_check_t *handle)
{
    struct pfl_producer_port *port = handle->data;

    pfl_fair_turn_end(&port->fair_turn, on_released);
    if (!pfl_list_is_empty(&port->resumed))
        (void)uv_idle_start(&port->resumes, on_resume);
    else
        (void)uv_idle_stop(&port->resumes);
}

/* Those whose turn has no time left are in the queue again until the end of a turn. */
static void on_resume(uv_idle_t *handle)
{
    struct pfl_producer_port *port = handle->data;

    while (!pfl_list_is_empty(&port->resumed)) {
        struct pfl_producer_conn *conn =
            PFL_CONTAINER_OF(port->resumed.next, struct pfl_producer_conn, resumed);
        uint64_t who = conn->peer.who;

        pfl_list_remove(&conn->resumed);
        if (!pfl_fair_turn_may(&port->fair_turn, who, &conn->turn))
            continue;
        port->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
        if (conn->is_closed) {
            leave(conn);
            count_time(port, who);
        } else {
            on_data(conn, (struct pfl_span){0});
        }
    }
}

static const struct pfl_stream_ops stream_ops = {.on_input = on_input,
                                                 .on_data = on_data,
                                                 .on_fd = on_fd,
                                                 .on_eof = on_eof,
                                                 .on_writable = on_writable,
                                                 .on_closed = on_closed};

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_producer_conn *conn = user;
    int rc;

    if (conn->is_closing)
        return PFL_ECLOSED;
    if (fd < 0 && gather_answer(conn, iov, iov_len))
        return 0;
    rc = send_answers(conn);
    if (rc == 0)
        rc = pfl_stream_writev(conn->stream, iov, iov_len, fd);
    if (rc == 0)
        count_waiting(conn);
    return rc;
}

static void on_peer_identity(void *user, const struct pfl_rpc_peer_identity *identity)
{
    struct pfl_producer_conn *conn = user;

    pfl_peer_identify(&conn->peer, identity);
}

static int take_share(struct pfl_producer_conn *conn)
{
    conn->is_counted = pfl_service_take_connection(conn->service, &conn->service->shares.producers,
                                                   conn->peer.who);
    if (conn->is_counted)
        return 0;
    pfl_log_warn("connection-refused",
                 "socket=producer uid=%u reason=\"this user's share of connections, "
                 "or of the service's memory, is used up\"",
                 conn->peer.uid);
    return PFL_ELIMIT;
}

/* `ret_who` is set as soon as it is known. */
static int open_conn(struct pfl_producer_port *port, int fd, bool is_accepted, uint64_t *ret_who)
{
    struct pfl_producer_conn *conn = pfl_mem_zalloc(sizeof(*conn));
    const struct pfl_rpc_host_conf rpc = {
        .services = port->services,
        .services_len = port->conf.has_relay ? 2 : 1,
        .user = conn,
        .send = send_frame,
        .on_peer_identity = on_peer_identity,
        .may_continue = may_continue,
    };
    const struct pfl_stream_conf stream = {
        .loop = port->conf.loop,
        .ops = &stream_ops,
        .user = conn,
        .queue_max_bytes = PFL_PRODUCER_QUEUE_BYTES,
        .turn_max_bytes = PFL_PRODUCER_TURN_BYTES,
    };
    int rc;

    if (conn == NULL)
        return PFL_ENOMEM;
    conn->port = port;
    conn->service = port->conf.service;
    conn->fd = -1;
    conn->is_accepted = is_accepted;
    pfl_rpc_host_init(&conn->rpc, &rpc);
    rc = pfl_peer_read(&conn->peer, fd);
    conn->peer.is_privileged = rc == 0 && !conn->peer.is_network &&
                               port->conf.privileged_gid != NULL &&
                               pfl_fdsock_is_peer_in_group(fd, *port->conf.privileged_gid);
    *ret_who = conn->peer.who;
    if (rc == 0)
        rc = take_share(conn);
    if (rc == 0)
        rc = pfl_fdsock_open(&stream, fd, &conn->stream);
    if (rc != 0) {
        free_conn(conn);
        return rc;
    }
    if (conn->peer.is_network)
        pfl_network_tune(fd);
    pfl_list_append(&port->conns, &conn->node);
    return 0;
}

int pfl_producer_port_adopt(struct pfl_producer_port *self, int fd)
{
    uint64_t who;
    int rc = open_conn(self, fd, false, &who);

    if (rc != 0)
        pfl_fdsock_drop(fd);
    return rc;
}

static bool may_accept(void *user, int *fd)
{
    const struct pfl_producer_port *port = user;

    return pfl_peer_may_connect(port->conf.service, "producer", fd);
}

static void on_accept(void *user, int fd)
{
    struct pfl_producer_port *port = user;
    uint64_t begin_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    uint64_t who = 0;
    int rc = open_conn(port, fd, true, &who);

    if (rc != 0) {
        pfl_fdsock_drop(fd);
        if (rc != PFL_ELIMIT)
            pfl_log_error("producer-refused", "reason=\"%s\"", pfl_err_str(rc));
        pfl_listener_release(port->listener);
    }
    pfl_fair_turn_charge(&port->fair_turn, who, pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - begin_ns);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_producer_port *port = handle->data;

    port->handles_open--;
    check_closed(port);
}

static void on_listener_closed(void *user)
{
    struct pfl_producer_port *port = user;

    port->handles_open--;
    check_closed(port);
}

int pfl_producer_port_open(const struct pfl_port_conf *conf, struct pfl_producer_port **ret_port)
{
    struct pfl_producer_port *port = pfl_mem_zalloc(sizeof(*port));
    struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->address,
        .is_tcp = conf->family == PFL_SOCKET_TCP,
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
    port->fair_turn.part_ns = PFL_PRODUCER_TURN_NS;
    port->services[0] = pfl_producer_service;
    port->services[1] = pfl_relay_service;
    pfl_list_init(&port->conns);
    pfl_list_init(&port->resumed);
    rc = conf->family == PFL_SOCKET_VSOCK && conf->inherited_fd == 0
             ? pfl_network_listen_vsock(conf->address, &listener.inherited_fd)
             : 0;
    if (rc == 0)
        rc = pfl_listener_open(&listener, &port->listener);
    if (rc != 0) {
        if (listener.inherited_fd != conf->inherited_fd)
            (void)close(listener.inherited_fd);
        pfl_mem_free(port);
        return rc;
    }
    (void)uv_check_init(conf->loop, &port->turn_ends);
    port->turn_ends.data = port;
    (void)uv_check_start(&port->turn_ends, on_turn_end);
    uv_unref((uv_handle_t *)&port->turn_ends);
    (void)uv_idle_init(conf->loop, &port->resumes); /* cannot fail */
    port->resumes.data = port;
    port->handles_open = 3;
    if (conf->family != PFL_SOCKET_UNIX)
        pfl_log_info("listening-on-network", "address=%s port=%u relays=%s",
                     pfl_log_quote_str(conf->address), pfl_listener_get_port(port->listener),
                     conf->has_relay ? "yes" : "no");
    *ret_port = port;
    return 0;
}

uint16_t pfl_producer_port_get_tcp_port(const struct pfl_producer_port *self)
{
    return pfl_listener_get_port(self->listener);
}

void pfl_producer_port_close(struct pfl_producer_port *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->conns) {
        struct pfl_producer_conn *conn = PFL_CONTAINER_OF(it, struct pfl_producer_conn, node);

        if (conn->is_closed) {
            leave(conn);
            continue;
        }
        conn->is_closing = true;
        pfl_stream_close(conn->stream);
    }
    uv_close((uv_handle_t *)&self->resumes, on_handle_closed);
    uv_close((uv_handle_t *)&self->turn_ends, on_handle_closed);
    pfl_listener_close(self->listener);
}
