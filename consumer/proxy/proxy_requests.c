/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a client of the local socket.
 *
 * Happy path: a request is forwarded to the host by its method's name, its reply is returned
 * unchanged. Requests for a file that is written here, or for a session that is detached here, are
 * answered here or forwarded with changes. Failures: a request that the host does not know fails; a
 * lost host ends the client. Ownership: a pending request is the client's until its last reply.
 */
#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "consumer/proxy/proxy_impl.h"

/* The session has ended: the client learns it when its file is complete. */
static int hold_end(struct pfl_proxy_client *c, const struct pfl_rpc_reply *reply)
{
    int rc = pfl_buf_append(&c->end_body, reply->body.data, reply->body.len);

    c->has_session_ended = true;
    if (rc == 0)
        pfl_file_pull_finish(&c->pull);
    return rc;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_proxy_request *f = user;
    struct pfl_proxy_client *c = f->client;
    struct iovec body = {(void *)(uintptr_t)reply->body.data, reply->body.len};
    int rc;

    if (c->is_closing)
        return 0;
    if (f->is_enable && c->has_pull && reply->success)
        rc = hold_end(c, reply);
    else if (f->is_orphan)
        rc = 0;
    else if (f->is_clone && reply->success)
        rc = pfl_proxy_clone_take(c, f->request, reply);
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

static int forward(struct pfl_proxy_client *c, struct pfl_rpc_request request, const char *method,
                   struct pfl_span args)
{
    struct pfl_proxy_request *f = pfl_mem_zalloc(sizeof(*f));
    struct pfl_host_conn *conn = c->owner != NULL ? c->owner->conn : c->conn;
    int rc;

    if (f == NULL)
        return PFL_ENOMEM;
    f->client = c;
    f->conn = conn;
    f->request = request;
    f->is_enable = strcmp(method, "EnableTracing") == 0;
    f->is_clone = strcmp(method, "CloneSession") == 0;
    rc = conn != NULL ? pfl_host_conn_invoke(conn, method, args, on_reply, f) : PFL_ECLOSED;
    if (rc == 0) {
        pfl_list_append(&c->requests, &f->node);
        return 0;
    }
    pfl_mem_free(f);
    return rc == PFL_ENOENT ? pfl_rpc_host_reply_failure(&c->rpc, request) : rc;
}

/* A guest sends this after it attached, to be notified of the end. */
static int await_end(struct pfl_proxy_client *guest, struct pfl_rpc_request request)
{
    struct pfl_proxy_client *owner = guest->owner;

    owner->end_request = request;
    owner->has_end_request = true;
    return owner->pull.phase == PFL_FILE_PULL_OVER ? pfl_proxy_client_reply_end(owner) : 0;
}

static int on_enable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_proxy_client *c = user;
    struct pfl_file_request file_request = {0};
    uint64_t random[2];
    struct pfl_buf own;
    int rc = 0;

    if (c->owner != NULL)
        return await_end(c, request);
    if (c->fd < 0 || c->has_pull || c->conn == NULL)
        return forward(c, request, "EnableTracing", args);
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return PFL_EIO;
    pfl_buf_init(&own, PFL_FRAME_MAX_BYTES);
    rc = pfl_file_request_take(args, random, &own, &file_request);
    if (rc == 0 && file_request.is_requested)
        rc = pfl_detach_request_keep_config(args, &c->config);
    if (rc == 0 && file_request.is_requested) {
        pfl_proxy_client_open_pull(c, &file_request);
        c->end_request = request;
        c->has_end_request = true;
    }
    if (rc == 0)
        rc = forward(c, request, "EnableTracing",
                     file_request.is_requested ? pfl_buf_get(&own) : args);
    pfl_buf_fini(&own);
    return rc;
}

/* The service answers so while it writes a file itself. */
static int on_read_buffers(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_proxy_client *c = user;

    return c->has_pull || c->owner != NULL ? pfl_rpc_host_reply_empty(&c->rpc, request)
                                           : forward(c, request, "ReadBuffers", args);
}

static struct pfl_proxy_client *find_detached(struct pfl_proxy *proxy, const char *key)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &proxy->clients) {
        struct pfl_proxy_client *c = PFL_CONTAINER_OF(it, struct pfl_proxy_client, node);

        if (!c->is_closing && strcmp(c->key, key) == 0)
            return c;
    }
    return NULL;
}

/* A session whose file is written here stays with its connection, which is ours: the service gets
 * no request. */
static int on_detach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_proxy_client *c = user;
    struct pfl_proxy_client *owner = c->owner != NULL ? c->owner : c;
    char key[PFL_DETACH_REQUEST_KEY_BYTES];

    if (!owner->has_pull || owner->is_leaving)
        return forward(c, request, "Detach", args);
    /* The client that detached it no longer has it: its guest has it, or a client with the key. */
    if (c == owner && (owner->guest != NULL || owner->key[0] != '\0'))
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    if (!pfl_detach_request_read_key(args, key) || find_detached(c->proxy, key) != NULL)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    if (c->owner != NULL)
        pfl_proxy_client_part(owner, c);
    owner->has_end_request = false;
    memcpy(owner->key, key, sizeof(key));
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_attach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_proxy_client *c = user;
    struct pfl_proxy_client *owner = NULL;
    struct pfl_span config;
    struct iovec body;
    char key[PFL_DETACH_REQUEST_KEY_BYTES];

    if (pfl_detach_request_read_key(args, key))
        owner = find_detached(c->proxy, key);
    if (owner == NULL || owner == c || c->has_pull || c->owner != NULL)
        return forward(c, request, "Attach", args);
    assert(owner->guest == NULL);
    owner->key[0] = '\0';
    owner->guest = c;
    c->owner = owner;
    config = pfl_buf_get(&owner->config);
    body = (struct iovec){(void *)(uintptr_t)config.data, config.len};
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
const struct pfl_rpc_service pfl_proxy_service = {"ConsumerPort", methods,
                                                  sizeof(methods) / sizeof(methods[0])};
