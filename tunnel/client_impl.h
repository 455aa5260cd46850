/* SPDX-License-Identifier: Apache-2.0 */
/* What client.c and client_stream.c share. */
#ifndef PFL_TUNNEL_CLIENT_IMPL_H
#define PFL_TUNNEL_CLIENT_IMPL_H

#include "base/list.h"
#include "tunnel/client.h"
#include "tunnel/decode_port.h"

/* One connection to the relay. The first is always there and carries calls, too; a further one is
 * opened when the others have their fill of streams, and kept. */
struct pfl_tunnel_way {
    struct pfl_tunnel_client *client; /* borrowed: it owns the way */
    struct pfl_dialer *dialer;        /* owned until its on_closed */
    unsigned streams;                 /* that are to be carried here */
};

struct pfl_tunnel_client {
    struct pfl_tunnel_client_conf conf; /* address, tls and fleet are owned */
    struct pfl_tunnel_way ways[PFL_TUNNEL_CLIENT_WAYS];
    unsigned ways_len;
    struct pfl_worker *worker;          /* owned; decodes for all streams */
    struct pfl_decode_pool decode_pool; /* what it decodes into */
    struct pfl_list streams; /* those that wait or have an HTTP/2 stream; freed by themselves */
    bool is_closing;
};

/* The first connection, or NULL while down. */
struct pfl_h2 *pfl_tunnel_client_get_h2(struct pfl_tunnel_client *self);
struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self);
/* The one for a further stream, counted there. */
struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self);
/* A stream of this way is gone: the client may be, too. */
void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way);
/* The way is connected (again): by the node in the client's list. */
void pfl_tunnel_stream_on_up(struct pfl_list *node, const struct pfl_tunnel_way *way);
/* The client closes. */
void pfl_tunnel_stream_on_client_close(struct pfl_list *node);

#endif
