/* SPDX-License-Identifier: Apache-2.0 */
/* What client.c and client_stream.c share. */
#ifndef PFL_TUNNEL_CLIENT_IMPL_H
#define PFL_TUNNEL_CLIENT_IMPL_H

#include "base/list.h"
#include "tunnel/client.h"

struct pfl_tunnel_client {
    struct pfl_tunnel_client_conf conf;
    struct pfl_dialer *dialer; /* owned until its on_closed */
    struct pfl_list streams;   /* those that wait or have a leg; freed by themselves */
    bool is_closing;
};

/* The connection, or NULL while down. */
struct pfl_h2 *pfl_tunnel_client_get_h2(struct pfl_tunnel_client *self);
/* A stream is gone: the client may be, too. */
void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_client *self);
/* The client is connected (again): by the node in its list. */
void pfl_tunnel_stream_on_up(struct pfl_list *node);
/* The client closes. */
void pfl_tunnel_stream_on_client_close(struct pfl_list *node);

#endif
