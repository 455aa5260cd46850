/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's figures (docs/metrics.md), and their listener. */
#ifndef PFL_RELAY_METRICS_PORT_H
#define PFL_RELAY_METRICS_PORT_H

#include "base/io/metrics_port.h"
#include "relay/daemon.h"

struct pfl_relay_metrics;

/* Opens nothing, and gives NULL, when `conf` names neither an address nor a socket. `port` is
 * borrowed until close. PFL_ENOMEM, errors of pfl_metrics_port_open. */
PFL_MUST_USE int pfl_relay_metrics_open(const struct pfl_relay_daemon_conf *conf,
                                        struct pfl_tls_port *port,
                                        struct pfl_relay_metrics **ret_metrics);
void pfl_relay_metrics_reload(struct pfl_relay_metrics *self); /* NULL is legal */
/* What is open ends from the loop; calls nobody any more. NULL is legal. */
void pfl_relay_metrics_close(struct pfl_relay_metrics *self);

#endif
