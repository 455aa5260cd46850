/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's figures (docs/metrics.md), and their door. */
#ifndef PFL_AGENT_METRICS_PORT_H
#define PFL_AGENT_METRICS_PORT_H

#include "agent/daemon.h"
#include "base/io/metrics_port.h"

/* Opens nothing, and gives NULL, when `conf` names neither an address nor a socket. `agent` is
 * borrowed until the metrics port is closed. Errors of pfl_metrics_port_open. */
PFL_MUST_USE int pfl_agent_metrics_open(const struct pfl_agent_daemon_conf *conf, uv_loop_t *loop,
                                        struct pfl_agent *agent,
                                        struct pfl_metrics_port **ret_door);

#endif
