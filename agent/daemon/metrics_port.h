/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's metrics (docs/metrics.md), and their listener. */
#ifndef PFL_AGENT_METRICS_PORT_H
#define PFL_AGENT_METRICS_PORT_H

#include "agent/daemon/daemon.h"
#include "base/io/metrics_port.h"

struct pfl_agent_metrics;

/* If `conf` has neither an address nor a socket, opens nothing and returns NULL. `agent` is
 * borrowed until close. PFL_ENOMEM, errors of pfl_metrics_port_open. */
PFL_MUST_USE int pfl_agent_metrics_open(const struct pfl_agent_daemon_conf *conf, uv_loop_t *loop,
                                        struct pfl_agent *agent,
                                        struct pfl_agent_metrics **ret_metrics);
void pfl_agent_metrics_reload(struct pfl_agent_metrics *self); /* NULL is legal */
/* Closes from the loop; makes no further callbacks. NULL is legal. */
void pfl_agent_metrics_close(struct pfl_agent_metrics *self);

#endif
