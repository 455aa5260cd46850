/* SPDX-License-Identifier: Apache-2.0 */
/* The client as its streams see it. */
#ifndef PFL_TUNNEL_CLIENT_IMPL_H
#define PFL_TUNNEL_CLIENT_IMPL_H

#include "base/list.h"
#include "tunnel/client.h"
#include "tunnel/decode_port.h"

/* One connection to the relay. The first always exists and also carries calls. A further one is
 * opened when the others are full, and kept. */
struct pfl_tunnel_way {
    struct pfl_tunnel_client *client; /* borrowed: it owns this connection */
    struct pfl_dialer *dialer;        /* owned until its on_closed */
    unsigned streams;                 /* streams that are assigned to it */
};

/* A stream, as the client sees it. */
struct pfl_tunnel_rider {
    struct pfl_list node; /* in the client's list */
    const struct pfl_tunnel_rider_ops *ops;
};

struct pfl_tunnel_rider_ops {
    /* The way is connected, perhaps again. */
    void (*on_up)(struct pfl_tunnel_rider *self, const struct pfl_tunnel_way *way);
    /* The client closes: `self` leaves its list. */
    void (*on_client_close)(struct pfl_tunnel_rider *self);
};

struct pfl_tunnel_client {
    struct pfl_tunnel_client_conf conf; /* address, tls and fleet are owned */
    struct pfl_tunnel_way ways[PFL_TUNNEL_CLIENT_WAYS];
    unsigned ways_len;
    struct pfl_worker *worker;          /* owned; decodes for all streams */
    struct pfl_decode_pool decode_pool; /* what it decodes into */
    struct pfl_list streams;            /* pfl_tunnel_rider.node, until they free themselves */
    bool is_closing;
};

/* The first connection, or NULL while down. */
struct pfl_h2 *pfl_tunnel_client_get_h2(struct pfl_tunnel_client *self);
struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self);
/* Assigns a further stream to a connection, and counts it there. */
struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self);
/* A stream of this connection was freed: the client may be freed, too. */
void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way);

#endif
