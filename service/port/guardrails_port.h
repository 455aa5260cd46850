/* SPDX-License-Identifier: Apache-2.0 */
/* The guardrails of the running process: measures, and ends the process by SIGABRT with a line in
 * the log, or by SIGALRM when its loop is stuck. */
#ifndef PFL_SERVICE_GUARDRAILS_PORT_H
#define PFL_SERVICE_GUARDRAILS_PORT_H

#include "base/io/deadline_timer.h"
#include "service/control/guardrails.h"

struct pfl_guardrails_port {
    struct pfl_deadline_timer timer;
    const struct pfl_service *service; /* borrowed */
    struct pfl_guardrails guardrails;
    int statm; /* owned */
    bool is_open;
};

/* Call before the sandbox, which would forbid it. `self` is zeroed. PFL_EIO. */
PFL_MUST_USE int pfl_guardrails_port_open(struct pfl_guardrails_port *self, uv_loop_t *loop,
                                          const struct pfl_service *service);
void pfl_guardrails_port_close(struct pfl_guardrails_port *self); /* legal when zeroed */

#endif
