/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local socket. Happy path: each accepted client becomes a client object (proxy_client.c),
 * which lives until both its sides are closed. Closing: no more clients are accepted, existing ones
 * finish their files, and the last one frees the proxy. Failures end one client, never the proxy.
 */
#include "consumer/proxy/proxy.h"

#include "base/mem.h"
#include "consumer/proxy/proxy_impl.h"

static void check_closed(struct pfl_proxy *proxy)
{
    void (*on_closed)(void *user) = proxy->conf.on_closed;
    void *user = proxy->conf.user;

    if (!proxy->is_closing || proxy->is_listening || !pfl_list_is_empty(&proxy->clients))
        return;
    pfl_worker_close(proxy->worker);
    pfl_mem_free(proxy);
    on_closed(user);
}

static void on_accept(void *user, int fd)
{
    pfl_proxy_client_open(user, fd);
}

static void on_listener_closed(void *user)
{
    struct pfl_proxy *p = user;

    p->is_listening = false;
    check_closed(p);
}

int pfl_proxy_open(const struct pfl_proxy_conf *conf, struct pfl_proxy **ret_proxy)
{
    struct pfl_proxy *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_listener_conf listener = {
        .loop = conf->host.loop,
        .address = conf->socket_path,
        .max_connections = PFL_PROXY_MAX_CLIENTS,
        .mode = 0600,
        .on_accept = on_accept,
        .on_closed = on_listener_closed,
        .user = p,
    };
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->on_client_freed = check_closed;
    pfl_list_init(&p->clients);
    rc = conf->socket_path != NULL ? pfl_listener_open(&listener, &p->listener) : 0;
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    p->is_listening = p->listener != NULL;
    *ret_proxy = p;
    return 0;
}

void pfl_proxy_adopt(struct pfl_proxy *self, int fd)
{
    pfl_proxy_client_open(self, fd);
}

void pfl_proxy_close(struct pfl_proxy *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    if (self->listener != NULL)
        pfl_listener_close(self->listener);
    PFL_LIST_EACH_SAFE (it, tmp, &self->clients)
        pfl_proxy_client_close(it);
    check_closed(self);
}
