/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the local socket and its connection to the host.
 *
 *     client --requests--> rpc host | forward | consumer connection --requests--> host
 *            <--replies---          |         |                     <--replies---
 *
 * Happy path: the client is read once the host is bound; each request goes on under its method's
 * name, each reply comes back as it is. EnableTracing with a descriptor and write_into_file goes on
 * without that wish, and a file pull does it here; the session's end is told to the client when its
 * file is complete. Failures: a side that closes or breaks the protocol closes the other; a client
 * that leaves while its file is written has its session stopped and the rest read first; one that
 * detaches leaves its object behind, and who attaches is that one's guest: it asks over its
 * connection, and its leaving ends the session. Ownership:
 * both streams, the requests under way, the pull. Limits: a client that does not read holds its
 * host back.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/proxy/file_pull.h"
#include "consumer/proxy/park.h"
#include "consumer/proxy/proxy_impl.h"
#include "proto/rpc_host.h"

#define LEAVE_TIMEOUT_MS 15000u

struct client {
    struct pfl_list node;
    struct pfl_proxy *proxy;        /* borrowed */
    struct pfl_stream *stream;      /* owned; NULL: closed */
    struct pfl_consumer_conn *conn; /* owned; NULL: closed */
    struct pfl_rpc_host rpc;
    struct pfl_list requests; /* owned struct forward */
    struct pfl_file_pull pull;
    struct pfl_buf end_body; /* of the reply that says the session has ended, while it is held */
    struct pfl_rpc_request end_request;
    struct pfl_buf config;        /* of a pulled session, as AttachResponse has it */
    char key[PFL_PARK_KEY_BYTES]; /* detached under it; "": not */
    struct client *guest;         /* borrowed: who attached to our session */
    struct client *owner;         /* borrowed: whose session we attached to */
    uv_timer_t timer;
    int fd; /* given by the client and not used yet; -1: none */
    char why[512];
    bool is_held_back;
    bool has_pull; /* its timer is open */
    bool has_timer;
    bool has_session_ended;
    bool has_end_request; /* somebody waits for the session's end */
    bool is_leaving;      /* the client is gone, its file is finished */
    bool is_closing;
};

struct forward {
    struct pfl_list node;
    struct client *client;
    struct pfl_rpc_request request;
    bool is_enable;
    bool is_orphan; /* its client is gone; listed with the owner of the connection */
};

static void close_client(struct client *c);
static void leave(struct client *c);

static void free_requests(struct client *c)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &c->requests) {
        pfl_list_remove(it);
        pfl_mem_free(PFL_CONTAINER_OF(it, struct forward, node));
    }
}

static void check_closed(struct client *c)
{
    struct pfl_proxy *proxy = c->proxy;

    if (!c->is_closing || c->stream != NULL || c->conn != NULL || c->has_pull || c->has_timer)
        return;
    if (c->fd >= 0)
        close(c->fd);
    pfl_rpc_host_fini(&c->rpc);
    pfl_buf_fini(&c->end_body);
    pfl_buf_fini(&c->config);
    pfl_list_remove(&c->node);
    if (proxy->conf.on_client_gone != NULL)
        proxy->conf.on_client_gone(proxy->conf.user, c->why);
    pfl_proxy_release(proxy);
    pfl_mem_free(c);
    pfl_proxy_check_closed(proxy);
}

static void on_pull_closed(void *user)
{
    struct client *c = user;

    c->has_pull = false;
    check_closed(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;

    c->has_timer = false;
    check_closed(c);
}

/* The guest no longer uses its host's connection; answers that are on their way go nowhere. */
static void part(struct client *owner, struct client *guest)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    owner->guest = NULL;
    owner->has_end_request = false;
    guest->owner = NULL;
    PFL_LIST_EACH_SAFE (it, tmp, &guest->requests) {
        pfl_list_remove(it);
        PFL_CONTAINER_OF(it, struct forward, node)->is_orphan = true;
        PFL_CONTAINER_OF(it, struct forward, node)->client = owner;
        pfl_list_append(&owner->requests, it);
    }
}

static void close_client(struct client *c)
{
    struct client *guest = c->guest;
    struct client *owner = c->owner;

    if (c->is_closing)
        return;
    c->is_closing = true;
    if (owner != NULL) {
        part(owner, c);
        leave(owner); /* an attached client that leaves ends the session */
    }
    if (guest != NULL) {
        part(c, guest);
        close_client(guest);
    }
    free_requests(c);
    if (c->has_pull)
        pfl_file_pull_close(&c->pull, on_pull_closed);
    if (c->stream != NULL)
        pfl_stream_close_after_flush(c->stream, LEAVE_TIMEOUT_MS);
    if (c->conn != NULL)
        pfl_consumer_conn_close(c->conn);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

static void fail(struct client *c, const char *why)
{
    if (c->why[0] == '\0')
        snprintf(c->why, sizeof(c->why), "%s", why);
    close_client(c);
}

static void on_leave_timeout(uv_timer_t *timer)
{
    fail(timer->data, "the host did not end the session of a client that left; its file may lack "
                      "the end");
}

static void stop_session(struct client *c)
{
    if (c->conn != NULL &&
        pfl_consumer_conn_invoke(c->conn, "DisableTracing", pfl_span_of(NULL, 0), NULL, NULL) != 0)
        fail(c, "the session cannot be stopped");
}

/* The client is gone, or shall go: what it wanted in its file is fetched first. */
static void leave(struct client *c)
{
    if (c->is_closing || c->is_leaving)
        return;
    if (!c->has_pull || c->pull.is_over || c->conn == NULL) {
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
    leave(PFL_CONTAINER_OF(at, struct client, node));
}

/* Towards the client. */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct client *c = user;
    int rc;

    if (c->stream == NULL || c->is_leaving)
        return 0;
    rc = pfl_stream_writev(c->stream, iov, iov_len, fd);
    if (rc == 0 && !c->is_held_back && c->conn != NULL &&
        pfl_stream_queued_bytes(c->stream) > PFL_PROXY_QUEUE_HIGH_BYTES) {
        c->is_held_back = true;
        pfl_consumer_conn_read_stop(c->conn);
    }
    return rc;
}

static void on_writable(void *user)
{
    struct client *c = user;

    if (!c->is_held_back || c->conn == NULL)
        return;
    c->is_held_back = false;
    pfl_consumer_conn_read_start(c->conn);
}

static int reply_end(struct client *c)
{
    struct iovec body = {c->end_body.data + c->end_body.start, c->end_body.len};
    struct client *who = c->guest != NULL ? c->guest : c;

    if (!c->has_end_request)
        return 0;
    c->has_end_request = false;
    return pfl_rpc_host_reply(&who->rpc, c->end_request, PFL_RPC_SUCCESS, &body, 1, -1);
}

static void on_file_finished(void *user)
{
    struct client *c = user;
    bool is_wanted = c->guest != NULL || c->key[0] == '\0';

    /* A detached session that is over is freed, as a service does. */
    if (c->is_leaving || !is_wanted || reply_end(c) != 0)
        close_client(c);
}

static void on_file_full(void *user, int err)
{
    struct client *c = user;

    if (err != 0)
        pfl_log_warn("file-not-written", "reason=\"%s\"", strerror(err));
    if (!c->has_session_ended)
        stop_session(c);
}

/* The session has ended: the client learns it when its file is complete. */
static int hold_end(struct client *c, const struct pfl_rpc_reply *reply)
{
    int rc = pfl_buf_append(&c->end_body, reply->body.data, reply->body.len);

    c->has_session_ended = true;
    if (rc == 0)
        pfl_file_pull_finish(&c->pull);
    return rc;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct forward *f = user;
    struct client *c = f->client;
    struct iovec body = {(void *)(uintptr_t)reply->body.data, reply->body.len};
    int rc;

    if (c->is_closing)
        return 0;
    if (f->is_enable && c->has_pull && reply->success)
        rc = hold_end(c, reply);
    else if (f->is_orphan)
        rc = 0;
    else if (reply->success)
        rc = pfl_rpc_host_reply(&c->rpc, f->request,
                                PFL_RPC_SUCCESS | (reply->has_more ? PFL_RPC_HAS_MORE : 0), &body,
                                1, -1);
    else
        rc = pfl_rpc_host_reply_failure(&c->rpc, f->request);
    if (!c->is_closing && !reply->has_more) {
        pfl_list_remove(&f->node);
        pfl_mem_free(f);
    }
    return rc;
}

/* Towards the host. */

static int forward(struct client *c, struct pfl_rpc_request request, const char *method,
                   struct pfl_span args)
{
    struct forward *f = pfl_mem_zalloc(sizeof(*f));
    struct pfl_consumer_conn *conn = c->owner != NULL ? c->owner->conn : c->conn;
    int rc;

    if (f == NULL)
        return PFL_ENOMEM;
    f->client = c;
    f->request = request;
    f->is_enable = strcmp(method, "EnableTracing") == 0;
    rc = conn != NULL ? pfl_consumer_conn_invoke(conn, method, args, on_reply, f) : PFL_ECLOSED;
    if (rc == 0) {
        pfl_list_append(&c->requests, &f->node);
        return 0;
    }
    pfl_mem_free(f);
    return rc == PFL_ENOENT ? pfl_rpc_host_reply_failure(&c->rpc, request) : rc;
}

static void open_pull(struct client *c, const struct pfl_file_wish *wish)
{
    struct pfl_file_pull_conf conf = {
        .loop = c->proxy->conf.host.loop,
        .conn = c->conn,
        .wish = *wish,
        .fd = c->fd,
        .on_full = on_file_full,
        .on_finished = on_file_finished,
        .user = c,
    };

    c->fd = -1;
    pfl_file_pull_open(&c->pull, &conf);
    c->has_pull = true;
}

/* A guest says so once it is attached, to hear of the end. */
static int await_end(struct client *guest, struct pfl_rpc_request request)
{
    struct client *owner = guest->owner;

    owner->end_request = request;
    owner->has_end_request = true;
    return owner->pull.is_over ? reply_end(owner) : 0;
}

static int on_enable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct client *c = user;
    struct pfl_file_wish wish = {0};
    struct pfl_buf own;
    int rc = 0;

    if (c->owner != NULL)
        return await_end(c, request);
    if (c->fd < 0 || c->has_pull || c->conn == NULL)
        return forward(c, request, "EnableTracing", args);
    pfl_buf_init(&own, PFL_FRAME_MAX_BYTES);
    rc = pfl_file_wish_take(args, &own, &wish);
    if (rc == 0 && wish.is_wished)
        rc = pfl_park_keep_config(args, &c->config);
    if (rc == 0 && wish.is_wished) {
        open_pull(c, &wish);
        c->end_request = request;
        c->has_end_request = true;
    }
    if (rc == 0)
        rc = forward(c, request, "EnableTracing", wish.is_wished ? pfl_buf_get(&own) : args);
    pfl_buf_fini(&own);
    return rc;
}

/* The service answers so while it writes a file itself. */
static int on_read_buffers(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct client *c = user;

    return c->has_pull || c->owner != NULL ? pfl_rpc_host_reply_empty(&c->rpc, request)
                                           : forward(c, request, "ReadBuffers", args);
}

static struct client *find_detached(struct pfl_proxy *proxy, const char *key)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &proxy->clients) {
        struct client *c = PFL_CONTAINER_OF(it, struct client, node);

        if (!c->is_closing && strcmp(c->key, key) == 0)
            return c;
    }
    return NULL;
}

/* A session whose file is written here stays with its connection, which is ours: the service is not
 * asked. */
static int on_detach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct client *c = user;
    struct client *owner = c->owner != NULL ? c->owner : c;
    char key[PFL_PARK_KEY_BYTES];

    if (!owner->has_pull || owner->is_leaving)
        return forward(c, request, "Detach", args);
    if (!pfl_park_read_key(args, key) || find_detached(c->proxy, key) != NULL)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    if (c->owner != NULL)
        part(owner, c);
    owner->has_end_request = false;
    memcpy(owner->key, key, sizeof(key));
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_attach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct client *c = user;
    struct client *owner = NULL;
    struct iovec body;
    char key[PFL_PARK_KEY_BYTES];

    if (pfl_park_read_key(args, key))
        owner = find_detached(c->proxy, key);
    if (owner == NULL || owner == c || c->has_pull || c->owner != NULL)
        return forward(c, request, "Attach", args);
    owner->key[0] = '\0';
    owner->guest = c;
    c->owner = owner;
    body = (struct iovec){owner->config.data + owner->config.start, owner->config.len};
    return pfl_rpc_host_reply(&c->rpc, request, PFL_RPC_SUCCESS, &body, 1, -1);
}

#define FORWARD(name)                                                                              \
    static int on_##name(void *user, struct pfl_rpc_request request, struct pfl_span args)         \
    {                                                                                              \
        return forward(user, request, #name, args);                                                \
    }
FORWARD(DisableTracing)
FORWARD(FreeBuffers)
FORWARD(Flush)
FORWARD(StartTracing)
FORWARD(ChangeTraceConfig)
FORWARD(GetTraceStats)
FORWARD(ObserveEvents)
FORWARD(QueryServiceState)
FORWARD(QueryCapabilities)
FORWARD(SaveTraceForBugreport)
FORWARD(CloneSession)

static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", on_enable_tracing},
    {"DisableTracing", on_DisableTracing},
    {"ReadBuffers", on_read_buffers},
    {"FreeBuffers", on_FreeBuffers},
    {"Flush", on_Flush},
    {"StartTracing", on_StartTracing},
    {"ChangeTraceConfig", on_ChangeTraceConfig},
    {"Detach", on_detach},
    {"Attach", on_attach},
    {"GetTraceStats", on_GetTraceStats},
    {"ObserveEvents", on_ObserveEvents},
    {"QueryServiceState", on_QueryServiceState},
    {"QueryCapabilities", on_QueryCapabilities},
    {"SaveTraceForBugreport", on_SaveTraceForBugreport},
    {"CloneSession", on_CloneSession},
};
static const struct pfl_rpc_service service = {"ConsumerPort", methods,
                                               sizeof(methods) / sizeof(methods[0])};

/* Both sides' ends. */

static void on_client_data(void *user, struct pfl_span data)
{
    struct client *c = user;

    if (!c->is_closing && !c->is_leaving && pfl_rpc_host_feed(&c->rpc, data) != 0)
        fail(c, "a client sent what is not the tracing protocol");
}

static void on_client_fd(void *user, int fd)
{
    struct client *c = user;

    if (c->fd >= 0)
        close(c->fd);
    c->fd = fd;
}

/* The session of a client that detached, or has a guest, goes on without it. */
static bool is_kept(const struct client *c)
{
    return c->key[0] != '\0' || c->guest != NULL;
}

static void on_client_eof(void *user)
{
    struct client *c = user;

    if (is_kept(c))
        pfl_stream_close(c->stream);
    else
        leave(c);
}

static void on_client_closed(void *user, int err)
{
    struct client *c = user;

    (void)err;
    c->stream = NULL;
    if (!is_kept(c))
        leave(c);
    check_closed(c);
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
    struct client *c = user;

    if (c->stream != NULL)
        pfl_stream_read_start(c->stream);
}

static void on_host_closed(void *user, const char *why)
{
    struct client *c = user;

    c->conn = NULL;
    fail(c, why);
    check_closed(c);
}

static int open_host(struct client *c)
{
    struct pfl_consumer_conn_conf conf = c->proxy->conf.host;

    conf.on_ready = on_host_ready;
    conf.on_closed = on_host_closed;
    conf.user = c;
    return pfl_consumer_conn_open(&conf, &c->conn);
}

void pfl_proxy_client_open(struct pfl_proxy *proxy, int fd)
{
    struct client *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_rpc_host_conf rpc = {
        .services = &service, .services_len = 1, .user = c, .send = send_frame};
    struct pfl_stream_conf stream = {.loop = proxy->conf.host.loop,
                                     .ops = &client_ops,
                                     .user = c,
                                     .queue_max_bytes = PFL_PROXY_QUEUE_MAX_BYTES,
                                     .queue_low_bytes = PFL_PROXY_QUEUE_HIGH_BYTES / 4};

    if (c == NULL || pfl_fdsock_open(&stream, fd, &c->stream) != 0) {
        pfl_mem_free(c);
        close(fd);
        pfl_proxy_release(proxy);
        return;
    }
    c->proxy = proxy;
    c->fd = -1;
    pfl_list_init(&c->requests);
    pfl_rpc_host_init(&c->rpc, &rpc);
    pfl_buf_init(&c->end_body, PFL_FRAME_MAX_BYTES);
    pfl_buf_init(&c->config, PFL_FRAME_MAX_BYTES);
    uv_timer_init(proxy->conf.host.loop, &c->timer);
    c->timer.data = c;
    c->has_timer = true;
    pfl_list_append(&proxy->clients, &c->node);
    pfl_stream_read_stop(c->stream);
    if (open_host(c) != 0) {
        c->conn = NULL;
        fail(c, "out of memory");
    }
}
