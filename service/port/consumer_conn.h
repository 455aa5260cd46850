/* SPDX-License-Identifier: Apache-2.0 */
/* One connection on the consumer socket; for the consumer_*.c files alone. */
#ifndef PFL_SERVICE_CONSUMER_CONN_H
#define PFL_SERVICE_CONSUMER_CONN_H

#include "base/fair_turn.h"
#include "base/io/fdsock.h"
#include "proto/ipc/rpc_host.h"
#include "service/control/query.h"
#include "service/session/session_read.h"

/* The one pending request of a method; a later call fails the earlier one. */
struct pfl_reply_slot {
    struct pfl_rpc_request request;
    bool is_set;
};

/* Incomplete answers of a connection; a further query fails. */
#define PFL_CONSUMER_QUERIES_MAX 1024u

/* An incomplete answer to QueryServiceState. */
struct pfl_pending_query {
    struct pfl_list node; /* in its connection, in the order of the requests */
    struct pfl_rpc_request request;
    struct pfl_query query;
};

/* The connections of a port that have something to send. */
struct pfl_consumer_senders {
    uv_idle_t idle;            /* turns the loop while there are readers; `data` is this struct */
    struct pfl_list readers;   /* borrowed pfl_consumer_conn.reading */
    struct pfl_list observers; /* borrowed pfl_consumer_conn.observing */
    struct pfl_fair_turn fair_turn; /* time of one user's readers in a turn of the loop */
    bool is_closing;                /* no one sends any more */
};

struct pfl_consumer_conn {
    struct pfl_list node;                 /* in its port */
    struct pfl_list reading;              /* in `senders` while it has something to send now */
    struct pfl_fair_turn_conn sending;    /* its place in its user's part of a turn */
    struct pfl_list observing;            /* likewise while it has events to send */
    struct pfl_consumer_senders *senders; /* the port's */
    struct pfl_consumer_port *port;
    struct pfl_service *service;
    struct pfl_stream *stream; /* owned until on_closed */
    struct pfl_rpc_host rpc;
    struct pfl_peer_cred cred;
    uint64_t subject; /* for whom that user connected: base/io/subject.h */
    struct pfl_consumer consumer;
    struct pfl_session_read read;
    struct pfl_list queries; /* owned pfl_pending_query */
    size_t queries_len;
    struct pfl_reply_slot enable_slot;
    struct pfl_reply_slot read_slot;
    struct pfl_reply_slot observe_slot;
    struct pfl_reply_slot clone_slot;
    int fd;              /* owned: the last descriptor that no method took yet; -1: none */
    uint64_t held_bytes; /* charged to the service's peer_bytes: queued data */
    bool is_counted;     /* a connection is charged to its user */
    bool is_accepted;
    struct pfl_list held; /* in its port while its user must wait (core/turns.h): nothing is read */
    uint64_t owed_ns;     /* its subject, when it began to wait */
    struct pfl_buf unfed; /* bytes that were read before that */
    bool is_closing;
};

extern const struct pfl_rpc_service pfl_consumer_service;
extern const struct pfl_consumer_ops pfl_consumer_conn_ops;

/* Methods, of consumer_sessions.c. */
int pfl_consumer_sessions_detach(void *user, struct pfl_rpc_request request, struct pfl_span bytes);
int pfl_consumer_sessions_attach(void *user, struct pfl_rpc_request request, struct pfl_span bytes);
int pfl_consumer_sessions_change(void *user, struct pfl_rpc_request request, struct pfl_span bytes);
int pfl_consumer_sessions_clone(void *user, struct pfl_rpc_request request, struct pfl_span bytes);
void pfl_consumer_sessions_on_cloned(void *port, const struct pfl_clone_result *result);

/* A reply of one piece. */
PFL_MUST_USE int pfl_consumer_conn_reply(struct pfl_consumer_conn *conn,
                                         struct pfl_rpc_request request, unsigned flags,
                                         struct pfl_span body);
void pfl_consumer_conn_free_queries(struct pfl_consumer_conn *conn);

/* Charges queued data from and to the peer to its user's share of memory; closes the connection if
 * the share is used up. */
void pfl_consumer_conn_count_waiting(struct pfl_consumer_conn *conn);

/* Logs why, once, and closes. */
void pfl_consumer_conn_fail(struct pfl_consumer_conn *conn, int err);
/* Sends the events observed so far, if the consumer asked for events. */
void pfl_consumer_conn_send_observed(struct pfl_consumer_conn *conn);
/* Sends as much of answers and reads as fits now; the rest follows as the consumer reads. */
void pfl_consumer_conn_pump(struct pfl_consumer_conn *conn);
/* Adds it to the port's readers. */
void pfl_consumer_conn_want_reading(struct pfl_consumer_conn *conn);
void pfl_consumer_conn_want_observed(struct pfl_consumer_conn *conn);
/* Ends the pass, finished or not. */
void pfl_consumer_conn_stop_reading(struct pfl_consumer_conn *conn);

#endif
