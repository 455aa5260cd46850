/* SPDX-License-Identifier: Apache-2.0 */
/* A service that the library refuses to speak to, because of who serves: said once in the log. */
#ifndef PFL_AGENT_PROBES_REFUSAL_H
#define PFL_AGENT_PROBES_REFUSAL_H

#include "producer/perfleet.h"

#define PFL_REFUSAL_BYTES 512u /* PFL_SERVICE_USER_WHY_BYTES */

struct pfl_refusal {
    char text[PFL_REFUSAL_BYTES]; /* logged last */
    unsigned looks;               /* without a connection, as far as they count */
    bool is_waiting;              /* said in the log */
};

/* Before each wait of `timeout_ms` (-1: for ever); returns how long to wait at most. */
int pfl_refusal_look(struct pfl_refusal *self, struct perfleet *tracing, int timeout_ms);

#endif
