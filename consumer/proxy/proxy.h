/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer socket on this machine for a remote host: a client's requests are forwarded, with one
 * connection to the host for each client. A descriptor that a client passes for write_into_file is
 * written here.
 */
#ifndef PFL_CONSUMER_PROXY_H
#define PFL_CONSUMER_PROXY_H

#include "consumer/host/host_conn.h"

#define PFL_PROXY_MAX_CLIENTS 64u
/* Replies queued to a client that does not read: above the first limit reading its host stops. */
#define PFL_PROXY_QUEUE_HIGH_BYTES (4u << 20)
#define PFL_PROXY_QUEUE_MAX_BYTES  (32u << 20)

struct pfl_proxy;

struct pfl_proxy_conf {
    struct pfl_host_conn_conf host; /* the proxy sets on_ready, on_closed and user */
    const char *socket_path; /* "/path" or "@abstract"; borrowed until open returns; NULL: none,
                                clients come from pfl_proxy_adopt */
    /* A client's connection ended, with a reason; "" if the client disconnected. May be NULL. */
    void (*on_client_gone)(void *user, const char *why);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* PFL_EINVAL, PFL_EIO (logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_proxy_open(const struct pfl_proxy_conf *conf, struct pfl_proxy **ret_proxy);
/* Adds a client: takes `fd`, a connected socket. At most PFL_PROXY_MAX_CLIENTS. */
void pfl_proxy_adopt(struct pfl_proxy *self, int fd);
/* Asynchronous, idempotent: files that are being written are finished first. */
void pfl_proxy_close(struct pfl_proxy *self);

#endif
