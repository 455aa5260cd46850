/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of one connection: binds services by name, maps methods by name from the bind
 * reply (ids differ between builds), matches replies to requests. I/O-free. A method the host
 * does not name fails locally with PFL_ENOENT: that is the protocol's feature detection.
 */
#ifndef PFL_PROTO_IPC_RPC_CLIENT_H
#define PFL_PROTO_IPC_RPC_CLIENT_H

#include <sys/uio.h>

#include "proto/ipc/frame.h"

#define PFL_RPC_CLIENT_MAX_PENDING 1024u

struct pfl_rpc_client;

struct pfl_rpc_reply {
    bool success;
    bool has_more;
    struct pfl_span body; /* borrowed until return; empty on failure */
    struct pfl_span why;  /* borrowed likewise: the reason of a failure, if a gate (proto/gate) sent
                             one; untrusted */
};
/* Called once for each reply; the last has has_more false. Only ReadBuffers, ObserveEvents,
 * QueryServiceState and GetAsyncCommand have more than one. A RequestError from the host is a
 * failure reply. Callbacks run from feed; they may bind and invoke, but not free the client. */
typedef int (*pfl_rpc_reply_cb)(void *user, const struct pfl_rpc_reply *reply);
/* The bind's answer: `is_bound` false when the host has no such service. */
typedef int (*pfl_rpc_bound_cb)(void *user, bool is_bound);

struct pfl_rpc_client_conf {
    void *user; /* for send */
    int (*send)(void *user, const struct iovec *iov, int iov_len, int fd);
};

PFL_MUST_USE int pfl_rpc_client_new(const struct pfl_rpc_client_conf *conf,
                                    struct pfl_rpc_client **ret_client);
/* Pending callbacks are dropped without being called. */
void pfl_rpc_client_free(struct pfl_rpc_client *self);
/* PFL_EPROTO (oversized or impossible frames, more replies than the method has), PFL_ENOMEM, or
 * what a callback returned. */
PFL_MUST_USE int pfl_rpc_client_feed(struct pfl_rpc_client *self, struct pfl_span data);

/* A connection has one service: a second bind replaces the first. */
PFL_MUST_USE int pfl_rpc_client_bind(struct pfl_rpc_client *self, const char *service_name,
                                     pfl_rpc_bound_cb cb, void *user);
bool pfl_rpc_client_has_method(const struct pfl_rpc_client *self, const char *method_name);
/* `cb` NULL asks the host for no reply. PFL_ENOENT unknown method, PFL_ESTATE not bound,
 * PFL_ELIMIT too many pending, PFL_ENOMEM, or send's failure. */
PFL_MUST_USE int pfl_rpc_client_invoke(struct pfl_rpc_client *self, const char *method_name,
                                       struct pfl_span args, int fd, pfl_rpc_reply_cb cb,
                                       void *user);

#endif
