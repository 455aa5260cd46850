/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process: loop, signals, readiness. */
#ifndef PFL_AGENT_DAEMON_H
#define PFL_AGENT_DAEMON_H

#include "agent/port.h"

/* Runs until SIGTERM or SIGINT; `conf`'s loop, on_closed and user are set here. 0, or why it could
 * not start (logged). */
int pfl_agent_daemon_run(const struct pfl_agent_conf *conf);

#endif
