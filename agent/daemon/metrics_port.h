/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's figures (docs/metrics.md), and their listener. */
#ifndef PFL_AGENT_METRICS_PORT_H
#define PFL_AGENT_METRICS_PORT_H

#include "agent/daemon/daemon.h"
#include "base/io/metrics_port.h"

struct pfl_agent_metrics;

/* Opens nothing, and gives NULL, when `conf` names neither an address nor a socket. `agent` is
 * borrowed until close. PFL_ENOMEM, errors of pfl_metrics_port_open. */
PFL_MUST_USE int pfl_agent_metrics_open(const struct pfl_agent_daemon_conf *conf, uv_loop_t *loop,
                                        struct pfl_agent *agent,
                                        struct pfl_agent_metrics **ret_metrics);
void pfl_agent_metrics_reload(struct pfl_agent_metrics *self); /* NULL is legal */
/* What is open ends from the loop; calls nobody any more. NULL is legal. */
void pfl_agent_metrics_close(struct pfl_agent_metrics *self);

#endif
