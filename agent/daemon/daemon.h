/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process: loop, signals, readiness. */
#ifndef PFL_AGENT_DAEMON_H
#define PFL_AGENT_DAEMON_H

#include "agent/daemon/port.h"
#include "base/sandbox/sandbox.h"

struct pfl_agent_daemon_conf {
    struct pfl_agent_conf agent;
    const char *metrics_listen; /* "host:port" of the metrics listener; NULL: none */
    const char *metrics_socket; /* path of the metrics socket; NULL: none */
    enum pfl_sandbox_mode sandbox;
    const char *run_as; /* user to become; NULL: unchanged */
};

/* Runs until SIGTERM or SIGINT; the agent's loop, on_closed and user are set here. 0, or why it
 * could not start (logged). */
int pfl_agent_daemon_run(const struct pfl_agent_daemon_conf *conf);

#endif
