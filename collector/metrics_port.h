/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's metrics: docs/metrics.md. */
#ifndef PFL_COLLECTOR_METRICS_PORT_H
#define PFL_COLLECTOR_METRICS_PORT_H

#include "collector/daemon.h"
#include "collector/order/rollout_port.h"
#include "collector/pull/pull_port.h"
#include "collector/retain/cleaner_port.h"
#include "collector/serve/serve_port.h"

struct pfl_collector_metrics;

/* What the metrics are about; borrowed until close. */
struct pfl_collector_parts {
    uv_loop_t *loop;
    const struct pfl_relays *relays;
    const struct pfl_pull *pull;
    const struct pfl_rollout_port *rollout;
    const struct pfl_serve *serve;
    const struct pfl_cleaner *cleaner;
};

/* Without a listener in `conf`: 0, and *ret_metrics is as it was. Errors of pfl_metrics_port_open.
 */
PFL_MUST_USE int pfl_collector_metrics_open(const struct pfl_collector_conf *conf,
                                            const struct pfl_collector_parts *parts,
                                            struct pfl_collector_metrics **ret_metrics);
void pfl_collector_metrics_reload(struct pfl_collector_metrics *self); /* NULL is legal */
void pfl_collector_metrics_close(struct pfl_collector_metrics *self);  /* NULL is legal */

#endif
