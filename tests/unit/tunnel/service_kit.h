/* SPDX-License-Identifier: Apache-2.0 */
/* A tracing service for tests: a socket in a folder of its own, behind it the methods of the test.
 */
#ifndef PFL_TESTS_UNIT_TUNNEL_SERVICE_KIT_H
#define PFL_TESTS_UNIT_TUNNEL_SERVICE_KIT_H

#include "base/io/listener.h"
#include "base/io/stream.h"
#include "base/list.h"
#include "proto/ipc/rpc_host.h"

struct service_peer;

struct service_kit {
    uv_loop_t loop;
    const struct pfl_rpc_service *service; /* the test's; `user` of its methods is a service_peer */
    /* The test's; NULL: they are requests. */
    void (*on_data)(struct service_peer *peer, struct pfl_span data);
    void (*on_gone)(struct service_peer *peer);
    unsigned connections; /* so far */
    struct pfl_list peers;
    char folder[64];
    char path[96]; /* of the socket */
    struct pfl_listener *listener;
};

/* A connection. What is kept of it is the test's. */
struct service_peer {
    struct pfl_list node;
    struct service_kit *kit;
    struct pfl_stream *stream;
    struct pfl_rpc_host rpc;
    struct pfl_rpc_request observed;
    bool has_session;
    bool has_observer;
};

void service_kit_open(struct service_kit *kit);
/* Fails the test when something of the loop is still open. */
void service_kit_close(struct service_kit *kit);
void service_kit_stop_listening(struct service_kit *kit);
void service_kit_hang_up(struct service_kit *kit); /* on everybody */
int service_peer_reply(struct service_peer *peer, struct pfl_rpc_request request, unsigned flags,
                       struct pfl_span body);

#endif
