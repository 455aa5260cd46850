/* SPDX-License-Identifier: Apache-2.0 */
/* The relay as a process: loop, signals, readiness. */
#ifndef PFL_RELAY_DAEMON_H
#define PFL_RELAY_DAEMON_H

#include "base/sandbox/sandbox.h"
#include "relay/accept/tls_port.h"

struct pfl_relay_daemon_conf {
    struct pfl_tls_port_conf port; /* the daemon sets loop, on_closed and user */
    uint64_t drain_timeout_ms;     /* from SIGTERM until connections are closed */
    const char *signer;      /* socket of the signer for machines that join; NULL: no join port */
    const char *join_listen; /* the join port, "host:port" */
    const char *metrics_listen; /* "host:port" of the metrics listener; NULL: none */
    const char *metrics_socket; /* path of the metrics socket; NULL: none */
    enum pfl_sandbox_mode sandbox;
    const char *run_as; /* user to become once it listens; NULL: unchanged */
};

/* Runs until SIGTERM or SIGINT. 0, or why it could not start (logged). */
int pfl_relay_daemon_run(const struct pfl_relay_daemon_conf *conf);

#endif
