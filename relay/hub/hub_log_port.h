/* SPDX-License-Identifier: Apache-2.0 */
/* What the hub's cores report, as lines of the log. */
#ifndef PFL_RELAY_HUB_HUB_LOG_PORT_H
#define PFL_RELAY_HUB_HUB_LOG_PORT_H

#include "base/log.h"
#include "relay/hub/hub_shell.h"

/* Zeroed memory is a fresh one. */
struct pfl_hub_log {
    struct pfl_log_limit refused;  /* streams that hosts refuse are as many as an operator likes */
    struct pfl_log_limit detached; /* the same for unread streams */
};

void pfl_hub_log_write(struct pfl_hub_log *self, const struct pfl_hub_report *report,
                       uint64_t now_ms);
/* Reports the lines that were left out; at the end. */
void pfl_hub_log_flush(struct pfl_hub_log *self);

#endif
