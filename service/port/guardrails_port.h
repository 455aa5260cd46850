/* SPDX-License-Identifier: Apache-2.0 */
/* The guardrails on the running process: measures, and ends it by SIGABRT, with a line in the log;
 * by SIGALRM when its loop stands still. */
#ifndef PFL_SERVICE_GUARDRAILS_PORT_H
#define PFL_SERVICE_GUARDRAILS_PORT_H

#include "base/io/deadline_timer.h"
#include "service/control/guardrails.h"

struct pfl_guardrails_port {
    struct pfl_deadline_timer alarm;
    const struct pfl_service *service; /* borrowed */
    struct pfl_guardrails guardrails;
    int statm; /* owned */
    bool is_open;
};

/* Before the sandbox, which would not let it. `self` is zeroed. PFL_EIO. */
PFL_MUST_USE int pfl_guardrails_port_open(struct pfl_guardrails_port *self, uv_loop_t *loop,
                                          const struct pfl_service *service);
void pfl_guardrails_port_close(struct pfl_guardrails_port *self); /* legal when zeroed */

#endif
