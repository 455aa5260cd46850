/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's side: see client.h. The streams are in client_stream.c.
 *
 * Happy path: a dialer keeps the connection; calls go over it while it is there; streams ask for
 * it and are told when it is back. Failures: told by on_down; calls by their on_done.
 * Ownership: the dialer; streams belong to who made them, and keep the client alive until they are
 * gone. Limits: a call's body.
 */
#include "tunnel/client.h"

#include "base/mem.h"
#include "proto/h2_call.h"
#include "tunnel/client_impl.h"
#include "tunnel/dialer.h"

#define HANDSHAKE_TIMEOUT_MS 10000u
#define QUIET_MS             5000u

const char *const pfl_tunnel_client_alpn[] = {PFL_TUNNEL_ALPN_OPERATOR, NULL};

static void finish_if_gone(struct pfl_tunnel_client *c)
{
    if (!c->is_closing || c->dialer != NULL || !pfl_list_is_empty(&c->streams))
        return;
    c->conf.on_closed(c->conf.user);
    pfl_mem_free(c);
}

static void on_up(void *user, struct pfl_h2 *h2)
{
    struct pfl_tunnel_client *c = user;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)h2;
    PFL_LIST_EACH_SAFE (it, tmp, &c->streams)
        pfl_tunnel_stream_on_up(it);
    if (c->conf.on_up != NULL)
        c->conf.on_up(c->conf.user);
}

static void on_down(void *user, const char *why, uint64_t retry_ms)
{
    struct pfl_tunnel_client *c = user;

    (void)retry_ms;
    if (c->conf.on_down != NULL && !c->is_closing)
        c->conf.on_down(c->conf.user, why);
}

static void on_dialer_closed(void *user)
{
    struct pfl_tunnel_client *c = user;

    c->dialer = NULL;
    finish_if_gone(c);
}

void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_client *self)
{
    finish_if_gone(self);
}

int pfl_tunnel_client_open(const struct pfl_tunnel_client_conf *conf,
                           struct pfl_tunnel_client **ret_client)
{
    struct pfl_tunnel_client *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_dialer_conf dialer = {
        .loop = conf->loop,
        .address = conf->address,
        .tls = conf->tls,
        .fleet = conf->fleet,
        .alpn = PFL_TUNNEL_ALPN_OPERATOR,
        .window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .handshake_timeout_ms =
            conf->handshake_timeout_ms != 0 ? conf->handshake_timeout_ms : HANDSHAKE_TIMEOUT_MS,
        .retry_max_ms = conf->retry_max_ms,
        .quiet_ms = QUIET_MS,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_dialer_closed,
        .user = c,
    };
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    if (c->conf.give_up_ms == 0)
        c->conf.give_up_ms = PFL_TUNNEL_TTL_DEFAULT_MS;
    pfl_list_init(&c->streams);
    rc = pfl_dialer_open(&dialer, &c->dialer);
    if (rc != 0) {
        pfl_mem_free(c);
        return rc;
    }
    *ret_client = c;
    return 0;
}

struct pfl_h2 *pfl_tunnel_client_get_h2(struct pfl_tunnel_client *self)
{
    return self->dialer != NULL && !self->is_closing ? pfl_dialer_get_h2(self->dialer) : NULL;
}

bool pfl_tunnel_client_is_up(const struct pfl_tunnel_client *self)
{
    return self->dialer != NULL && !self->is_closing && pfl_dialer_get_h2(self->dialer) != NULL;
}

int64_t pfl_tunnel_client_get_relay_end_s(const struct pfl_tunnel_client *self)
{
    return self->dialer != NULL ? pfl_dialer_get_relay_end_s(self->dialer) : 0;
}

void pfl_tunnel_client_close(struct pfl_tunnel_client *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->streams)
        pfl_tunnel_stream_on_client_close(it);
    pfl_dialer_close(self->dialer);
}

int pfl_tunnel_client_call(struct pfl_tunnel_client *self, const struct pfl_tunnel_call *call)
{
    struct pfl_h2 *h2 = pfl_tunnel_client_get_h2(self);
    struct pfl_h2_call_conf conf = {
        .method = call->method,
        .path = call->path,
        .body_max_bytes = PFL_TUNNEL_BODY_MAX_BYTES,
        .on_done = call->on_done,
        .user = call->user,
    };

    if (h2 == NULL)
        return PFL_ESTATE;
    return pfl_h2_call_start(h2, &conf, NULL);
}
