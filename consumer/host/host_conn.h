/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to the consumer port of one host: resolve, connect, TLS, identity, bind. Callbacks
 * run from the loop, never from inside a call on the connection.
 */
#ifndef PFL_CONSUMER_HOST_CONN_H
#define PFL_CONSUMER_HOST_CONN_H

#include <uv.h>

#include "base/io/tls_stream.h"
#include "base/list.h"
#include "consumer/host/host_spec.h"
#include "proto/ipc/rpc_client.h"
#include "tunnel/client.h"

#define PFL_CONSUMER_CORKED_MAX_BYTES 4096u

struct pfl_host_conn;

struct pfl_host_conn_conf {
    uv_loop_t *loop;
    const struct pfl_host_spec *spec; /* borrowed until on_closed */
    /* Points to the current one; borrowed until on_closed; NULL there without TLS hosts. */
    struct pfl_tls_conf *const *tls;
    struct pfl_list *all; /* list of all open connections; borrowed until on_closed; may be NULL */
    struct pfl_tunnel_client *tunnel; /* borrowed until on_closed; NULL without relay */
    const char *fleet;                /* borrowed; the certificate must belong to it; NULL: any */
    uint64_t handshake_timeout_ms;
    /* The consumer port is bound: requests may be made. */
    void (*on_ready)(void *user);
    /* Last callback, once; the connection is freed right after. `why` is a sentence for the
     * operator, "" after pfl_host_conn_close. */
    void (*on_closed)(void *user, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_host_conn_open(const struct pfl_host_conn_conf *conf,
                                    struct pfl_host_conn **ret_conn);
/* A new revocation list was loaded: connections of `all` to revoked hosts fail. */
void pfl_host_conn_review_all(struct pfl_list *all);
/* Asynchronous, idempotent, legal in every state. */
void pfl_host_conn_close(struct pfl_host_conn *self);
/* From now on it is of this user, and borrows this spec, which names the same host. No request may
 * be unanswered. False: it is not ready, and stays the former user's. */
bool pfl_host_conn_pass(struct pfl_host_conn *self, const struct pfl_host_spec *spec, void *user);
/* The name in the host's certificate; "" for UNIX sockets. Valid from on_ready. */
const char *pfl_host_conn_get_name(const struct pfl_host_conn *self);
/* When the host's certificate expires (UNIX time); 0 without one. Valid from on_ready. */
int64_t pfl_host_conn_get_cert_end_s(const struct pfl_host_conn *self);
/* "1.2" or "1.3"; "" without TLS on this connection. Valid from on_ready; static. */
const char *pfl_host_conn_get_tls_version(const struct pfl_host_conn *self);
/*
 * See pfl_rpc_client_invoke. A `cb` that returns a negative value breaks the connection, with the
 * reason of pfl_host_conn_set_why, if any.
 */
PFL_MUST_USE int pfl_host_conn_invoke(struct pfl_host_conn *self, const char *method,
                                      struct pfl_span args, pfl_rpc_reply_cb cb, void *user);
/* Requests between the two are sent in one write, at most PFL_CONSUMER_CORKED_MAX_BYTES.
 * pfl_host_conn_uncork: as pfl_rpc_client_invoke. */
void pfl_host_conn_cork(struct pfl_host_conn *self);
PFL_MUST_USE int pfl_host_conn_uncork(struct pfl_host_conn *self);
void pfl_host_conn_set_why(struct pfl_host_conn *self, const char *why);
/* While stopped, back-pressure holds the host. */
void pfl_host_conn_read_stop(struct pfl_host_conn *self);
void pfl_host_conn_read_start(struct pfl_host_conn *self);
/* The connection to the host is lost and being restored (tunnel only): deadlines should wait. */
bool pfl_host_conn_is_resuming(const struct pfl_host_conn *self);
/* How often the connection was restored. */
unsigned pfl_host_conn_get_resumes(const struct pfl_host_conn *self);

#endif
