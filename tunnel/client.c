/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's side: see client.h. The streams are in client_stream.c.
 *
 * Happy path: a dialer keeps each connection up. Calls use the first one while it is up; each
 * stream is assigned to one, and notified when it is up again. Failures: on_down reports those of
 * the first connection, a further one just redials; on_done reports those of calls. Ownership: the
 * dialers, the worker; their creators own streams, which keep the client alive until they are
 * freed. Limits: a call's body; PFL_TUNNEL_CLIENT_WAYS.
 */
#include "tunnel/client.h"

#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "tunnel/client_impl.h"
#include "tunnel/dialer.h"

#define HANDSHAKE_TIMEOUT_MS 10000u
#define QUIET_MS             5000u

const char *const pfl_tunnel_client_alpn[] = {PFL_TUNNEL_ALPN_OPERATOR, NULL};

static void free_client(struct pfl_tunnel_client *c)
{
    pfl_worker_close(c->worker);
    pfl_decode_pool_fini(&c->decode_pool);
    pfl_tls_conf_unref(c->conf.tls);
    pfl_mem_free((char *)(uintptr_t)c->conf.address);
    pfl_mem_free((char *)(uintptr_t)c->conf.fleet);
    pfl_mem_free(c);
}

static void finish_if_gone(struct pfl_tunnel_client *c)
{
    if (!c->is_closing || !pfl_list_is_empty(&c->streams))
        return;
    for (unsigned i = 0; i < c->ways_len; i++) {
        if (c->ways[i].dialer != NULL)
            return;
    }
    c->conf.on_closed(c->conf.user);
    free_client(c);
}

static void on_up(void *user, struct pfl_h2 *h2)
{
    struct pfl_tunnel_way *way = user;
    struct pfl_tunnel_client *c = way->client;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)h2;
    PFL_LIST_EACH_SAFE (it, tmp, &c->streams) {
        struct pfl_tunnel_rider *rider = PFL_CONTAINER_OF(it, struct pfl_tunnel_rider, node);

        rider->ops->on_up(rider, way);
    }
    if (c->conf.on_up != NULL && way == c->ways)
        c->conf.on_up(c->conf.user);
}

static void on_down(void *user, const char *why, uint64_t retry_ms)
{
    struct pfl_tunnel_way *way = user;
    struct pfl_tunnel_client *c = way->client;

    (void)retry_ms;
    if (c->conf.on_down != NULL && !c->is_closing && way == c->ways)
        c->conf.on_down(c->conf.user, why);
}

static void on_dialer_closed(void *user)
{
    struct pfl_tunnel_way *way = user;

    way->dialer = NULL;
    finish_if_gone(way->client);
}

void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way)
{
    way->streams--;
    finish_if_gone(way->client);
}

static int open_way(struct pfl_tunnel_client *c)
{
    struct pfl_tunnel_way *way = &c->ways[c->ways_len];
    struct pfl_dialer_conf dialer = {
        .loop = c->conf.loop,
        .address = c->conf.address,
        .tls = c->conf.tls,
        .fleet = c->conf.fleet,
        .alpn = PFL_TUNNEL_ALPN_OPERATOR,
        .window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .handshake_timeout_ms = c->conf.handshake_timeout_ms,
        .retry_max_ms = c->conf.retry_max_ms,
        .quiet_ms = QUIET_MS,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_dialer_closed,
        .user = way,
    };
    int rc;

    way->client = c;
    rc = pfl_dialer_open(&dialer, &way->dialer);
    if (rc == 0)
        c->ways_len++;
    return rc;
}

struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self)
{
    unsigned i = 0;

    while (i < self->ways_len && self->ways[i].streams >= PFL_TUNNEL_WAY_STREAMS)
        i++;
    if (i == self->ways_len && (i == PFL_TUNNEL_CLIENT_WAYS || open_way(self) != 0))
        i--;
    self->ways[i].streams++;
    return &self->ways[i];
}

int pfl_tunnel_client_open(const struct pfl_tunnel_client_conf *conf,
                           struct pfl_tunnel_client **ret_client)
{
    struct pfl_tunnel_client *c = pfl_mem_zalloc(sizeof(*c));
    int rc = PFL_ENOMEM;

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    c->conf.tls = pfl_tls_conf_ref(conf->tls);
    c->conf.address = pfl_mem_strdup(conf->address);
    c->conf.fleet = pfl_mem_strdup(conf->fleet);
    if (c->conf.give_up_ms == 0)
        c->conf.give_up_ms = PFL_TUNNEL_TTL_DEFAULT_MS;
    if (c->conf.handshake_timeout_ms == 0)
        c->conf.handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS;
    pfl_list_init(&c->streams);
    if (c->conf.address != NULL && c->conf.fleet != NULL)
        rc = pfl_worker_open(&(struct pfl_worker_conf){.loop = conf->loop, .threads_max = 1},
                             &c->worker);
    if (rc == 0)
        rc = open_way(c);
    if (rc != 0) {
        free_client(c);
        return rc;
    }
    *ret_client = c;
    return 0;
}

struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self)
{
    return self->dialer != NULL && !self->client->is_closing ? pfl_dialer_get_h2(self->dialer)
                                                             : NULL;
}

struct pfl_h2 *pfl_tunnel_client_get_h2(struct pfl_tunnel_client *self)
{
    return pfl_tunnel_way_get_h2(self->ways);
}

bool pfl_tunnel_client_is_up(const struct pfl_tunnel_client *self)
{
    return self->ways[0].dialer != NULL && !self->is_closing &&
           pfl_dialer_get_h2(self->ways[0].dialer) != NULL;
}

int64_t pfl_tunnel_client_get_relay_end_s(const struct pfl_tunnel_client *self)
{
    return self->ways[0].dialer != NULL ? pfl_dialer_get_relay_end_s(self->ways[0].dialer) : 0;
}

void pfl_tunnel_client_set_tls(struct pfl_tunnel_client *self, struct pfl_tls_conf *tls)
{
    struct pfl_tls_conf *old = self->conf.tls;

    self->conf.tls = pfl_tls_conf_ref(tls);
    pfl_tls_conf_unref(old);
    for (unsigned i = 0; i < self->ways_len; i++) {
        if (self->ways[i].dialer != NULL)
            pfl_dialer_set_tls(self->ways[i].dialer, tls);
    }
}

void pfl_tunnel_client_close(struct pfl_tunnel_client *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->streams) {
        struct pfl_tunnel_rider *rider = PFL_CONTAINER_OF(it, struct pfl_tunnel_rider, node);

        rider->ops->on_client_close(rider);
    }
    for (unsigned i = 0; i < self->ways_len; i++)
        pfl_dialer_close(self->ways[i].dialer);
}

int pfl_tunnel_client_call(struct pfl_tunnel_client *self, const struct pfl_tunnel_call *call)
{
    struct pfl_h2 *h2 = pfl_tunnel_client_get_h2(self);
    struct pfl_h2_call_conf conf = {
        .method = call->method,
        .path = call->path,
        .fields = call->fields,
        .fields_len = call->fields_len,
        .body_max_bytes =
            call->body_max_bytes != 0 ? call->body_max_bytes : PFL_TUNNEL_BODY_MAX_BYTES,
        .on_done = call->on_done,
        .user = call->user,
    };

    if (h2 == NULL)
        return PFL_ESTATE;
    return pfl_h2_call_start(h2, &conf, NULL);
}
