/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of machines that have no certificate yet (docs/adr/0018): a port of its own, on which
 * nobody is asked for a certificate and nothing is done but carrying one request to the signer's
 * UNIX socket and its answer back. What they say is between the machine and the signer.
 */
#ifndef PFL_RELAY_ACCEPT_JOIN_PORT_H
#define PFL_RELAY_ACCEPT_JOIN_PORT_H

#include "base/io/tls_stream.h"

#define PFL_JOIN_MAX_CONNECTIONS 32u
#define PFL_JOIN_LIFETIME_MS     20000u /* of one connection, handshake and all */

struct pfl_join_port;

struct pfl_join_port_conf {
    uv_loop_t *loop;
    const char *listen_address;             /* "host:port"; borrowed until open returns */
    struct pfl_tls_files files;             /* the strings are borrowed until close, for reloads */
    const char *signer_socket;              /* borrowed until close */
    struct pfl_handshake_queue *handshakes; /* borrowed until close */
};

/* Logs what is wrong. */
PFL_MUST_USE int pfl_join_port_open(const struct pfl_join_port_conf *conf,
                                    struct pfl_join_port **ret_port);
/* For connections to come; the old certificate stays when the new one does not load (logged). */
void pfl_join_port_reload(struct pfl_join_port *self);
/* Asynchronous; frees itself once the last connection is gone. NULL is legal. */
void pfl_join_port_close(struct pfl_join_port *self);

#endif
