/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join port for machines without a certificate (docs/adr/0018): TLS without client
 * certificates. It forwards one request per connection to the signer's UNIX socket, and its answer
 * back, without reading them.
 */
#ifndef PFL_RELAY_ACCEPT_JOIN_PORT_H
#define PFL_RELAY_ACCEPT_JOIN_PORT_H

#include "base/io/tls_stream.h"

#define PFL_JOIN_MAX_CONNECTIONS 32u
#define PFL_JOIN_LIFETIME_MS     20000u /* of one connection, including the handshake */

struct pfl_join_port;

struct pfl_join_port_conf {
    uv_loop_t *loop;
    const char *listen_address;             /* "host:port"; borrowed until open returns */
    struct pfl_tls_files files;             /* the strings are borrowed until close, for reloads */
    const char *signer_socket;              /* borrowed until close */
    struct pfl_handshake_queue *handshakes; /* borrowed until close */
};

/* Logs failures. */
PFL_MUST_USE int pfl_join_port_open(const struct pfl_join_port_conf *conf,
                                    struct pfl_join_port **ret_port);
/* For new connections; if the new certificate cannot be loaded the old one stays (logged). */
void pfl_join_port_reload(struct pfl_join_port *self);
/* Asynchronous; frees itself with the last connection. NULL is legal. */
void pfl_join_port_close(struct pfl_join_port *self);

#endif
