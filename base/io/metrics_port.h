/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's metrics for Prometheus: GET /metrics over mutual TLS with the daemon's own
 * certificate, over a UNIX socket (mode 0660), or both. One request per connection. Adds metrics of
 * the loop and the process to those of the owner (docs/metrics.md).
 */
#ifndef PFL_BASE_IO_METRICS_PORT_H
#define PFL_BASE_IO_METRICS_PORT_H

#include "base/io/tls_stream.h"
#include "base/metrics.h"

/* Of each of the two listeners. Over TLS, the certificate with most connections gives one up for
 * another certificate's first. */
#define PFL_METRICS_PORT_MAX_CONNECTIONS 16u
#define PFL_METRICS_PORT_MAX_OF_ONE      20u    /* of a certificate, with those that wait */
#define PFL_METRICS_PORT_LIFETIME_MS     10000u /* of one connection, including the handshake */

struct pfl_metrics_port;

struct pfl_metrics_port_conf {
    uv_loop_t *loop;            /* a loop that does not run yet */
    const char *listen_address; /* "host:port"; borrowed until open returns; NULL: no TLS */
    const char *socket_path;    /* borrowed until open returns; NULL: no socket */
    struct pfl_tls_files files; /* the strings are borrowed until close, for reloads */
    /* Of all ports of the process; borrowed until close. NULL: this is the only one. */
    struct pfl_handshake_queue *handshakes;
    /* A peer over TLS with a certificate of the fleet's authority asks for the metrics. NULL:
     * allowed; else the reason for the refusal (static). */
    const char *(*refuse)(void *user, const struct pfl_tls_identity *who);
    /* True: collect comes at once. False: the request waits, and is asked about again at each
     * pfl_metrics_port_proceed, which follows from the loop. NULL: always true. */
    bool (*refresh)(void *user, const struct pfl_tls_identity *who);
    /* Synchronous. `who`: the peer's identity over TLS; NULL: over the socket. */
    void (*collect)(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *metrics);
    void *user; /* borrowed until close */
};

/* Logs failures, and where it listens. Call before the sandbox. PFL_EINVAL, PFL_EIO, PFL_ENOMEM,
 * errors of pfl_tls_conf_new. */
PFL_MUST_USE int pfl_metrics_port_open(const struct pfl_metrics_port_conf *conf,
                                       struct pfl_metrics_port **ret_port);
/* The bound TCP port; 0 without TLS. */
uint16_t pfl_metrics_port_get_number(const struct pfl_metrics_port *self);
/* Fresh metrics are available: answers the waiting requests for which refresh returns true. */
void pfl_metrics_port_proceed(struct pfl_metrics_port *self);
/* For new connections; if the new certificate cannot be loaded the old one stays (logged). NULL is
 * legal. */
void pfl_metrics_port_reload(struct pfl_metrics_port *self);
/* Asynchronous; makes no further callbacks, and frees itself with the last connection. NULL is
 * legal. */
void pfl_metrics_port_close(struct pfl_metrics_port *self);

#endif
