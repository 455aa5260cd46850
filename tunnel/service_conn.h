/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of our own to the tracing service of this host, bound to its ConsumerPort or its
 * ProducerPort. Used for orders, for alarms' copies, for metrics, and for raised triggers.
 */
#ifndef PFL_TUNNEL_SERVICE_CONN_H
#define PFL_TUNNEL_SERVICE_CONN_H

#include <uv.h>

#include "proto/ipc/rpc_client.h"

struct pfl_service_conn;

struct pfl_service_conn_conf {
    uv_loop_t *loop;              /* borrowed */
    const char *socket;           /* borrowed until open returns: path or "@name" */
    const char *port;             /* static; NULL: "ConsumerPort" */
    void (*on_bound)(void *user); /* requests may be made */
    /* Once, from the loop, after close or when the service ended it (or has no such port). */
    void (*on_closed)(void *user);
    void *user;
};

/* Errors of pfl_fdsock_connect_service; PFL_ENOMEM. */
PFL_MUST_USE int pfl_service_conn_open(const struct pfl_service_conn_conf *conf,
                                       struct pfl_service_conn **ret_conn);
/* Errors of pfl_rpc_client_invoke; PFL_ESTATE once it is closing. A `cb` that returns a negative
 * value closes the connection. */
PFL_MUST_USE int pfl_service_conn_invoke(struct pfl_service_conn *self, const char *method,
                                         struct pfl_span args, pfl_rpc_reply_cb cb, void *user);
/* While it is paused nothing is read: the kernel holds the service back. Replies that were read
 * already still come. */
void pfl_service_conn_set_paused(struct pfl_service_conn *self, bool is_paused);
/* Once it is bound. */
bool pfl_service_conn_has_method(const struct pfl_service_conn *self, const char *method);
/* Asynchronous; no further replies, except those that were read together with the one in whose
 * callback this is called. on_closed follows. Idempotent. */
void pfl_service_conn_close(struct pfl_service_conn *self);

#endif
