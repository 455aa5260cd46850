/* SPDX-License-Identifier: Apache-2.0 */
/* What proxy.c (socket and clients) and proxy_client.c (one client) share. */
#ifndef PFL_CONSUMER_PROXY_IMPL_H
#define PFL_CONSUMER_PROXY_IMPL_H

#include "base/io/listener.h"
#include "base/list.h"
#include "consumer/proxy/proxy.h"

struct pfl_proxy {
    struct pfl_proxy_conf conf;
    struct pfl_listener *listener; /* owned until closed; NULL: clients are adopted */
    struct pfl_list clients;       /* owned */
    bool is_listening;             /* on_closed of the listener is to come */
    bool is_closing;
};

/* Takes `fd`; on failure it is closed and the listener released. */
void pfl_proxy_client_open(struct pfl_proxy *proxy, int fd);
/* The client goes: its file is finished first. */
void pfl_proxy_client_close(struct pfl_list *at);
/* A client is gone for good. */
void pfl_proxy_check_closed(struct pfl_proxy *proxy);

static inline void pfl_proxy_release(struct pfl_proxy *proxy)
{
    if (proxy->listener != NULL)
        pfl_listener_release(proxy->listener);
}

#endif
