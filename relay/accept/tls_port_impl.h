/* SPDX-License-Identifier: Apache-2.0 */
/* The state of tls_port.c, which metrics_port.c reads. */
#ifndef PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H
#define PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H

#include "base/io/listener.h"
#include "base/list.h"
#include "base/log.h"
#include "relay/accept/peer_admission.h"
#include "relay/accept/tls_port.h"
#include "relay/direct/direct_port.h"
#include "relay/hub/hub_port.h"

struct pfl_tls_port {
    struct pfl_tls_port_conf conf;
    struct pfl_hub *hub;         /* owned; NULL: not a fleet relay */
    struct pfl_direct *direct;   /* owned; NULL: it serves no consumer socket */
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
    struct pfl_log_limit refused_log;
    struct pfl_log_limit failed_log;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    uv_check_t turn; /* runs at the end of a loop turn, for the hub */
    bool is_turn_open;
    bool is_draining;
};

struct pfl_tls_port_connection {
    struct pfl_list node;
    struct pfl_tls_port *port;
    struct pfl_listener *listener; /* borrowed: lives until we release it */
    struct pfl_stream *tls;        /* owned; NULL: taken */
    enum pfl_peer_taker taker;
    uint64_t start_ms;
    bool is_refused; /* logged already */
    char address[80];
    char uri[256];
    struct pfl_tls_identity identity; /* once it is admitted */
};

#endif
