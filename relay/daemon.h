/* SPDX-License-Identifier: Apache-2.0 */
/* The relay as a process: loop, signals, readiness. */
#ifndef PFL_RELAY_DAEMON_H
#define PFL_RELAY_DAEMON_H

#include "base/sandbox/sandbox.h"
#include "relay/accept/tls_port.h"

struct pfl_relay_daemon_conf {
    struct pfl_tls_port_conf port; /* loop, on_closed and user are the daemon's to set */
    uint64_t drain_timeout_ms;     /* from SIGTERM until connections are cut */
    const char *signer;            /* socket of who signs for machines that join; NULL: none may */
    const char *join_listen;       /* where they come, "host:port" */
    const char *metrics_listen;    /* "host:port" of scrapers; NULL: none */
    const char *metrics_socket;    /* path of theirs; NULL: none */
    enum pfl_sandbox_mode sandbox;
    const char *run_as; /* user to become once it listens; NULL stays */
};

/* Runs until SIGTERM or SIGINT. 0, or why it could not start (logged). */
int pfl_relay_daemon_run(const struct pfl_relay_daemon_conf *conf);

#endif
