/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's metrics (docs/metrics.md), and their listener. */
#ifndef PFL_RELAY_METRICS_PORT_H
#define PFL_RELAY_METRICS_PORT_H

#include "base/io/metrics_port.h"
#include "relay/daemon.h"

struct pfl_relay_metrics;

/* If `conf` has neither an address nor a socket, opens nothing and returns NULL. `port` is borrowed
 * until close. PFL_ENOMEM, errors of pfl_metrics_port_open. */
PFL_MUST_USE int pfl_relay_metrics_open(const struct pfl_relay_daemon_conf *conf,
                                        struct pfl_tls_port *port,
                                        struct pfl_relay_metrics **ret_metrics);
void pfl_relay_metrics_reload(struct pfl_relay_metrics *self); /* NULL is legal */
/* Closes from the loop; makes no further callbacks. NULL is legal. */
void pfl_relay_metrics_close(struct pfl_relay_metrics *self);

#endif
