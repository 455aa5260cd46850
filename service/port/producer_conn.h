/* SPDX-License-Identifier: Apache-2.0 */
/* One connection on the producer socket; for producer_port.c and producer_methods.c alone. */
#ifndef PFL_SERVICE_PRODUCER_CONN_H
#define PFL_SERVICE_PRODUCER_CONN_H

#include "base/fair_turn.h"
#include "base/io/fdsock.h"
#include "proto/ipc/rpc_host.h"
#include "service/core/service.h"
#include "service/port/peer.h"

struct pfl_producer_conn {
    struct pfl_list node; /* in its port */
    struct pfl_list
        resumed; /* in its port while frames that are kept, or its end, have their turn */
    struct pfl_producer_port *port;
    struct pfl_service *service;
    struct pfl_stream *stream; /* owned until on_closed */
    struct pfl_rpc_host rpc;
    struct pfl_peer peer;
    struct pfl_producer *producer; /* NULL before InitializeConnection */
    struct pfl_relay *relay;       /* borrowed from the service; NULL: no report so far */
    int fd; /* owned: the last descriptor that no method took yet; -1: none */
    struct pfl_rpc_request commands; /* of GetAsyncCommand */
    bool has_commands;
    struct pfl_fair_turn_conn turn; /* its place in its user's part of a turn */
    uint64_t held_bytes;            /* charged to the service's peer_bytes: queued data */
    bool is_counted;                /* a connection is charged to its user */
    bool is_accepted;               /* counts against the listener's maximum */
    bool is_closing;
    bool is_closed;        /* its stream is gone */
    bool awaits_copy;      /* go_on resumes it */
    bool is_relay_refused; /* the refusal was logged */
};

extern const struct pfl_rpc_service pfl_producer_service;
extern const struct pfl_rpc_service pfl_relay_service;
extern const struct pfl_producer_ops pfl_producer_conn_ops;

/* Within a frame: the rest of it is for a later turn when this is false. */
bool pfl_producer_conn_may_continue(const struct pfl_producer_conn *conn);
/* Its frame that is kept waited for the copier. */
void pfl_producer_conn_go_on(struct pfl_producer_conn *conn);
/* Logs why, once, and closes. */
void pfl_producer_conn_fail(struct pfl_producer_conn *conn, const char *why);

#endif
