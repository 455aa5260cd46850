/* SPDX-License-Identifier: Apache-2.0 */
/* The work that is due. */
#ifndef PFL_SERVICE_SESSION_DUE_H
#define PFL_SERVICE_SESSION_DUE_H

#include "service/core/service.h"

/* Does everything that is due; when to call it: pfl_session_timers_next_ms. */
void pfl_session_due_run(struct pfl_service *service);

#endif
