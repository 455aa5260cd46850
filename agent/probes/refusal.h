/* SPDX-License-Identifier: Apache-2.0 */
/* Logs once if the library refuses the service socket because of its owner. */
#ifndef PFL_AGENT_PROBES_REFUSAL_H
#define PFL_AGENT_PROBES_REFUSAL_H

#include "producer/perfleet.h"

#define PFL_REFUSAL_BYTES 512u /* PFL_SERVICE_USER_WHY_BYTES */

struct pfl_refusal {
    char text[PFL_REFUSAL_BYTES]; /* last logged */
    unsigned looks;               /* checks without a connection so far, up to a maximum */
    bool is_waiting;              /* logged */
};

/* Call before each wait of `timeout_ms` (-1: no limit); returns the maximal time to wait. */
int pfl_refusal_look(struct pfl_refusal *self, struct perfleet *tracing, int timeout_ms);

#endif
