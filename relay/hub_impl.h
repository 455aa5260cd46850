/* SPDX-License-Identifier: Apache-2.0 */
/* What hub_port.c (connections) and requests_port.c (what operators ask) share. */
#ifndef PFL_RELAY_HUB_IMPL_H
#define PFL_RELAY_HUB_IMPL_H

#include "relay/hub_port.h"
#include "relay/inventory.h"
#include "tunnel/link.h"

struct pfl_hub {
    uv_loop_t *loop;
    struct pfl_audit *audit;
    struct pfl_policy *policy; /* owned; NULL allows all */
    struct pfl_list peers;     /* owned until each one's on_ended */
    struct pfl_list carried;   /* streams; freed by themselves */
    struct pfl_inventory inventory;
    bool is_draining;
    char relay[PFL_IDENTITY_NAME_BYTES];
    char fleet[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_peer {
    struct pfl_list node;
    struct pfl_hub *hub;          /* borrowed: outlives us */
    struct pfl_tunnel_link *link; /* owned until its on_closed */
    struct pfl_host *host;        /* of an agent: its entry, borrowed while it is the host's peer */
    uv_timer_t timer;             /* until the peer's settings; then, of an agent, its clock */
    struct pfl_identity identity;
    uint64_t asked_ns; /* the clock exchange under way */
    unsigned rounds;   /* of the burst of clock exchanges */
    bool is_ready;
    bool is_timer_open;
    char address[80];
    void (*on_ended)(void *user);
    void *user;
};

/* h2's on_request of an operator's connection; `user` is the peer. */
void pfl_peer_on_request(void *user, struct pfl_h2_stream *leg, const struct pfl_h2_head *head);
/* Kills the streams that the hub's policy forbids. */
void pfl_hub_end_forbidden(struct pfl_hub *self);
/* The host's connection, NULL while it is not there. */
struct pfl_h2 *pfl_hub_get_agent(const struct pfl_hub *self, const struct pfl_host *host);

#endif
