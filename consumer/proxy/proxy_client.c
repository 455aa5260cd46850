/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the local socket and its connection to the host.
 *
 *     client --requests--> rpc host | forward | consumer connection --requests--> host
 *            <--replies---          |         |                     <--replies---
 *
 * Happy path: the client is read once the host is bound; each request is forwarded by its method's
 * name, each reply is returned unchanged. EnableTracing with a descriptor is forwarded without
 * write_into_file, and a file pull writes the file here; the client is notified of the session's
 * end when its file is complete. Failures: if a side closes or breaks the protocol, the other is
 * closed. If a client disconnects while its file is written, its session is stopped and the rest
 * read first. A client that detaches leaves its object behind, and a client that attaches becomes
 * its guest: it uses the owner's connection, and its end ends the session. Ownership: both streams,
 * pending requests, the pull. Limits: reading the host stops while its client does not read.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/proxy/proxy_impl.h"

#define LEAVE_TIMEOUT_MS 15000u

static void close_client(struct pfl_proxy_client *c);
static void leave(struct pfl_proxy_client *c);

static void free_requests(struct pfl_proxy_client *c)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &c->requests) {
        pfl_list_remove(it);
        pfl_mem_free(PFL_CONTAINER_OF(it, struct pfl_proxy_request, node));
    }
}

void pfl_proxy_client_check_closed(struct pfl_proxy_client *c)
{
    struct pfl_proxy *proxy = c->proxy;

    if (!c->is_closing || c->stream != NULL || c->conn != NULL || c->has_pull || c->has_timer ||
        !pfl_proxy_clone_is_closed(c))
        return;
    pfl_closer_close(c->fd, geteuid());
    free_requests(
        c); /* not before: replies that were read together with the last one still use them */
    pfl_rpc_host_fini(&c->rpc);
    pfl_buf_fini(&c->end_body);
    pfl_buf_fini(&c->config);
    pfl_list_remove(&c->node);
    if (proxy->conf.on_client_gone != NULL)
        proxy->conf.on_client_gone(proxy->conf.user, c->why);
    pfl_proxy_release(proxy);
    pfl_mem_free(c);
    proxy->on_client_freed(proxy);
}

static void on_pull_closed(void *user)
{
    struct pfl_proxy_client *c = user;

    c->has_pull = false;
    pfl_proxy_client_check_closed(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_proxy_client *c = handle->data;

    c->has_timer = false;
    pfl_proxy_client_check_closed(c);
}

void pfl_proxy_client_part(struct pfl_proxy_client *owner, struct pfl_proxy_client *guest)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    owner->guest = NULL;
    owner->has_end_request = false;
    guest->owner = NULL;
    PFL_LIST_EACH_SAFE (it, tmp, &guest->requests) {
        struct pfl_proxy_request *f = PFL_CONTAINER_OF(it, struct pfl_proxy_request, node);

        if (f->conn != owner->conn)
            continue; /* asked before it was a guest */
        pfl_list_remove(it);
        f->is_orphan = true;
        f->client = owner;
        pfl_list_append(&owner->requests, it);
    }
}

static void close_client(struct pfl_proxy_client *c)
{
    struct pfl_proxy_client *guest = c->guest;
    struct pfl_proxy_client *owner = c->owner;

    if (c->is_closing)
        return;
    c->is_closing = true;
    if (owner != NULL) {
        pfl_proxy_client_part(owner, c);
        leave(owner); /* an attached client that leaves ends the session */
    }
    if (guest != NULL) {
        pfl_proxy_client_part(c, guest);
        close_client(guest);
    }
    pfl_proxy_clone_close(c);
    if (c->has_pull) {
        pfl_proxy_clone_on_source_lost(c);
        pfl_file_pull_close(&c->pull, on_pull_closed);
    }
    if (c->stream != NULL)
        pfl_stream_close_after_flush(c->stream, LEAVE_TIMEOUT_MS);
    if (c->conn != NULL)
        pfl_host_conn_close(c->conn);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void pfl_proxy_client_fail(struct pfl_proxy_client *c, const char *why)
{
    if (c->why[0] == '\0')
        snprintf(c->why, sizeof(c->why), "%s", why);
    close_client(c);
}

static void on_leave_timeout(uv_timer_t *timer)
{
    pfl_proxy_client_fail(
        timer->data, "the host did not end the session of a client that left; its file may lack "
                     "the end");
}

static void stop_session(struct pfl_proxy_client *c)
{
    if (c->conn != NULL &&
        pfl_host_conn_invoke(c->conn, "DisableTracing", pfl_span_of(NULL, 0), NULL, NULL) != 0)
        pfl_proxy_client_fail(c, "the session cannot be stopped");
}

/* The client disconnected, or is to be closed: the rest for its file is read first. */
static void leave(struct pfl_proxy_client *c)
{
    if (c->is_closing || c->is_leaving)
        return;
    if (!c->has_pull || c->pull.phase == PFL_FILE_PULL_OVER || c->conn == NULL) {
        close_client(c);
        return;
    }
    c->is_leaving = true;
    c->key[0] = '\0';
    uv_timer_start(&c->timer, on_leave_timeout, LEAVE_TIMEOUT_MS, 0);
    if (!c->has_session_ended)
        stop_session(c);
}

void pfl_proxy_client_close(struct pfl_list *at)
{
    leave(PFL_CONTAINER_OF(at, struct pfl_proxy_client, node));
}

/* Towards the client. */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_proxy_client *c = user;
    int rc;

    if (c->stream == NULL || c->is_leaving)
        return 0;
    rc = pfl_stream_writev(c->stream, iov, iov_len, fd);
    if (rc == 0 && !c->is_held_back && c->conn != NULL &&
        pfl_stream_queued_bytes(c->stream) > PFL_PROXY_QUEUE_HIGH_BYTES) {
        c->is_held_back = true;
        pfl_host_conn_read_stop(c->conn);
    }
    return rc;
}

static void on_writable(void *user)
{
    struct pfl_proxy_client *c = user;

    if (!c->is_held_back || c->conn == NULL)
        return;
    c->is_held_back = false;
    pfl_host_conn_read_start(c->conn);
}

int pfl_proxy_client_reply_end(struct pfl_proxy_client *c)
{
    struct pfl_span end = pfl_buf_get(&c->end_body);
    struct iovec body = {(void *)(uintptr_t)end.data, end.len};
    struct pfl_proxy_client *who = c->guest != NULL ? c->guest : c;

    if (!c->has_end_request)
        return 0;
    c->has_end_request = false;
    return pfl_rpc_host_reply(&who->rpc, c->end_request, PFL_RPC_SUCCESS, &body, 1, -1);
}

static void on_file_finished(void *user)
{
    struct pfl_proxy_client *c = user;
    bool is_wanted = c->guest != NULL || c->key[0] == '\0';

    pfl_proxy_clone_on_read_out(c);
    /* A detached session that is over is freed, as a service does. */
    if (c->is_leaving || !is_wanted || pfl_proxy_client_reply_end(c) != 0)
        close_client(c);
}

static void on_file_full(void *user, int err)
{
    struct pfl_proxy_client *c = user;

    if (err != 0)
        pfl_log_warn("file-not-written", "reason=\"%s\"", strerror(err));
    if (!c->has_session_ended)
        stop_session(c);
}

static void on_read_out(void *user)
{
    pfl_proxy_clone_on_read_out(user);
}

void pfl_proxy_client_open_pull(struct pfl_proxy_client *c,
                                const struct pfl_file_request *file_request)
{
    struct pfl_file_pull_conf conf = {
        .loop = c->proxy->conf.host.loop,
        .conn = c->conn,
        .file_request = *file_request,
        .fd = c->fd,
        .on_read_out = on_read_out,
        .on_full = on_file_full,
        .on_finished = on_file_finished,
        .user = c,
    };

    c->fd = -1;
    pfl_file_pull_open(&c->pull, &conf);
    c->has_pull = true;
}

/* Both sides' ends. */

static void on_client_data(void *user, struct pfl_span data)
{
    struct pfl_proxy_client *c = user;

    if (!c->is_closing && !c->is_leaving && pfl_rpc_host_feed(&c->rpc, data) != 0)
        pfl_proxy_client_fail(c, "a client sent what is not the tracing protocol");
}

static void on_client_fd(void *user, int fd)
{
    struct pfl_proxy_client *c = user;

    pfl_closer_close(c->fd, geteuid());
    c->fd = fd;
}

/* The session of a client that detached, or has a guest, continues without it. */
static bool is_kept(const struct pfl_proxy_client *c)
{
    return c->key[0] != '\0' || c->guest != NULL;
}

static void on_client_eof(void *user)
{
    struct pfl_proxy_client *c = user;

    if (is_kept(c))
        pfl_stream_close(c->stream);
    else
        leave(c);
}

static void on_client_closed(void *user, int err)
{
    struct pfl_proxy_client *c = user;

    (void)err;
    c->stream = NULL;
    if (!is_kept(c))
        leave(c);
    pfl_proxy_client_check_closed(c);
}

static const struct pfl_stream_ops client_ops = {
    .on_data = on_client_data,
    .on_fd = on_client_fd,
    .on_eof = on_client_eof,
    .on_writable = on_writable,
    .on_closed = on_client_closed,
};

static void on_host_ready(void *user)
{
    struct pfl_proxy_client *c = user;

    if (c->stream != NULL)
        pfl_stream_read_start(c->stream);
}

static void on_host_closed(void *user, const char *why)
{
    struct pfl_proxy_client *c = user;

    c->conn = NULL;
    pfl_proxy_client_fail(c, why);
    pfl_proxy_client_check_closed(c);
}

static int open_host(struct pfl_proxy_client *c)
{
    struct pfl_host_conn_conf conf = c->proxy->conf.host;

    conf.on_ready = on_host_ready;
    conf.on_closed = on_host_closed;
    conf.user = c;
    return pfl_host_conn_open(&conf, &c->conn);
}

void pfl_proxy_client_open(struct pfl_proxy *proxy, int fd)
{
    struct pfl_proxy_client *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_rpc_host_conf rpc = {
        .services = &pfl_proxy_service, .services_len = 1, .user = c, .send = send_frame};
    struct pfl_stream_conf stream = {.loop = proxy->conf.host.loop,
                                     .ops = &client_ops,
                                     .user = c,
                                     .queue_max_bytes = PFL_PROXY_QUEUE_MAX_BYTES,
                                     .queue_low_bytes = PFL_PROXY_QUEUE_HIGH_BYTES / 4};

    if (c == NULL || pfl_fdsock_open(&stream, fd, &c->stream) != 0) {
        pfl_mem_free(c);
        pfl_fdsock_drop(fd);
        pfl_proxy_release(proxy);
        return;
    }
    c->proxy = proxy;
    c->fd = -1;
    pfl_list_init(&c->requests);
    pfl_rpc_host_init(&c->rpc, &rpc);
    pfl_buf_init(&c->end_body, PFL_FRAME_MAX_BYTES);
    pfl_buf_init(&c->config, PFL_FRAME_MAX_BYTES);
    pfl_proxy_clone_init(c);
    uv_timer_init(proxy->conf.host.loop, &c->timer);
    c->timer.data = c;
    c->has_timer = true;
    pfl_list_append(&proxy->clients, &c->node);
    pfl_stream_read_stop(c->stream);
    if (open_host(c) != 0) {
        c->conn = NULL;
        pfl_proxy_client_fail(c, "out of memory");
    }
}
