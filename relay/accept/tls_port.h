/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's TLS port: accepts, verifies, authorizes. ALPN selects the kind of a connection:
 * direct ones are forwarded to the consumer socket of this host, the tunnel's go to the hub
 * (hub_port.h). A relay with a host's certificate serves the first kind, one with a relay's
 * certificate the second, and also the first if it has a consumer socket. Logs every refusal and
 * every end.
 */
#ifndef PFL_RELAY_ACCEPT_TLS_PORT_H
#define PFL_RELAY_ACCEPT_TLS_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/io/tls_stream.h"

/* Descriptors that no connection may take. */
#define PFL_TLS_PORT_SPARE_FDS 64u

struct pfl_tls_port;

struct pfl_tls_port_conf {
    uv_loop_t *loop;
    const char *listen_address;  /* "host:port" */
    int inherited_fd;            /* > 2: listens already; `listen_address` names it */
    struct pfl_tls_files files;  /* the strings are borrowed until on_closed, for reloads */
    const char *consumer_socket; /* borrowed until on_closed */
    bool is_socket_given;        /* by the operator: a fleet relay serves it, too */
    const char *policy_path;     /* borrowed until on_closed; NULL: every operator, every host */
    const char *audit_path;      /* borrowed until on_closed; NULL: none */
    bool is_audit_optional;      /* streams begin also while it cannot be written */
    const char *fleet;           /* borrowed until on_closed; NULL: that of our own certificate */
    unsigned max_connections;
    unsigned max_per_operator; /* connections of one operator in the tunnel, and in direct mode */
    unsigned max_unread_mib;   /* memory for data queued in the tunnel's streams */
    uint64_t forget_after_ms;  /* a host that left that long ago is forgotten; 0: never */
    unsigned max_handshakes_per_min;        /* of one address; 0: no limit */
    struct pfl_handshake_queue *handshakes; /* borrowed until on_closed */
    uint64_t handshake_timeout_ms;
    uint64_t silence_ms; /* a peer in the tunnel that is silent for that long is closed */
    uint64_t half_closed_timeout_ms;
    void (*on_closed)(void *user);
    void *user;
};

/* Logs failures. PFL_EINVAL, PFL_EPERM, PFL_EPARSE, PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_tls_port_open(const struct pfl_tls_port_conf *conf,
                                   struct pfl_tls_port **ret_port);
/* Reads certificate, key, CA and CRL again, for new connections, and closes those of peers that are
 * revoked now; if one of the files cannot be loaded all old ones stay (logged). */
void pfl_tls_port_reload(struct pfl_tls_port *self);
/* Stops accepting; on_closed follows when the last connection has ended. Idempotent. */
void pfl_tls_port_drain(struct pfl_tls_port *self);
/* Drains, and ends every connection now. */
void pfl_tls_port_close(struct pfl_tls_port *self);
/* Forgets hosts that left as long ago as the conf says. Call it periodically. */
void pfl_tls_port_forget_old(struct pfl_tls_port *self);
/* Answers collectors that wait for changes. Call it about once a second. */
void pfl_tls_port_run_polls(struct pfl_tls_port *self);
uint16_t pfl_tls_port_get_number(const struct pfl_tls_port *self);
unsigned pfl_tls_port_count_connections(const struct pfl_tls_port *self);

#endif
