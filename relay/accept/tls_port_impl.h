/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tls_port.c (connections) and direct_port.c (those in direct mode). */
#ifndef PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H
#define PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H

#include "base/io/listener.h"
#include "base/list.h"
#include "base/log.h"
#include "relay/accept/tls_port.h"
#include "relay/direct/direct_proxy.h"
#include "relay/hub/hub_port.h"

struct pfl_tls_port {
    struct pfl_tls_port_conf conf;
    struct pfl_hub *hub;         /* owned; NULL: not a fleet relay */
    struct pfl_audit_log *audit; /* owned */
    struct pfl_policy *policy;   /* owned; NULL allows all */
    struct pfl_quotas quotas;
    struct pfl_tls_conf *tls;      /* a counted reference */
    struct pfl_listener *listener; /* owned; NULL once closed */
    struct pfl_list connections;   /* owned */
    unsigned count;
    uint64_t accepted;       /* connections */
    uint64_t refused;        /* of them: no handshake, or not admitted */
    uint64_t handshakes_1_2; /* completed, by version of TLS */
    uint64_t handshakes_1_3;
    struct pfl_traffic ended; /* of direct mode: `begun` of all, bytes of ended ones */
    struct pfl_log_limit refused_log;
    struct pfl_log_limit judged_log;
    struct pfl_log_limit unreachable_log;
    struct pfl_log_limit failed_log;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES]; /* of this host, for the policy of direct mode */
    uv_check_t turn;                    /* runs at the end of a loop turn, for the hub */
    bool is_turn_open;
    bool is_draining;
};

struct pfl_tls_port_connection {
    struct pfl_list node;
    struct pfl_tls_port *port;
    struct pfl_listener *listener;         /* borrowed: lives until we release it */
    struct pfl_stream *tls;                /* owned until `direct_proxy` is made */
    struct pfl_direct_proxy *direct_proxy; /* owned until its on_ended */
    struct pfl_quota *quota;               /* borrowed; of a proxy under a role */
    uint64_t start_ms;
    bool is_refused; /* logged already */
    bool is_peer;    /* belongs to the hub */
    char address[80];
    char uri[256];
    struct pfl_tls_identity identity; /* once it is admitted */
};

/* Frees the connection, and the port with the last one. */
void pfl_tls_port_end_connection(struct pfl_tls_port_connection *c);
/* Checks that the peer is an operator, or a host, of our fleet, and sets c->identity and c->uri.
 * False: it is not; logged. */
bool pfl_tls_port_authorize(struct pfl_tls_port_connection *c, enum pfl_identity_role role);
void pfl_tls_port_log_refusal(struct pfl_tls_port_connection *c, const char *reason,
                              const char *remedy);
/* Closes a connection that only has its TLS stream. */
void pfl_tls_port_refuse(struct pfl_tls_port_connection *c);

/* ---- direct_port.c ---- */

/* Connects the peer with the consumer socket of this host, or refuses it. */
void pfl_direct_port_open(struct pfl_tls_port_connection *c);
/* The policy changed: closes what it forbids now, and sets the new roles. */
void pfl_direct_port_review(struct pfl_tls_port_connection *c);

#endif
