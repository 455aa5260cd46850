/* SPDX-License-Identifier: Apache-2.0 */
/* The state of tls_port.c, which metrics_port.c reads. */
#ifndef PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H
#define PFL_RELAY_ACCEPT_TLS_PORT_IMPL_H

#include "base/io/listener.h"
#include "base/log.h"
#include "relay/accept/connection_table.h"
#include "relay/accept/relay_role.h"
#include "relay/accept/takers_port.h"
#include "relay/accept/tls_port.h"

struct pfl_tls_port {
    struct pfl_tls_port_conf conf;
    struct pfl_takers takers;                /* the hub and direct mode */
    struct pfl_tls_conf *tls;                /* a counted reference */
    struct pfl_listener *listener;           /* owned; NULL once closed */
    struct pfl_accept_shell shell;           /* our part, for the table */
    struct pfl_connection_table connections; /* owned: all that are in it */
    struct pfl_relay_role role;
    struct pfl_log_limit refused_log;
    struct pfl_log_limit failed_log;
};

#endif
