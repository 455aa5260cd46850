/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers (docs/abi/service.md section 6): producers name an event; sessions that wait for it
 * start, stop, or ask their consumer to clone them. A core.
 */
#ifndef PFL_SERVICE_TRIGGER_H
#define PFL_SERVICE_TRIGGER_H

#include "service/core/service.h"

/* Acts on every session that has a trigger of this name. */
void pfl_trigger_activate(struct pfl_service *service, const struct pfl_producer *producer,
                          struct pfl_span name);

/* Does what is due of the session. */
void pfl_trigger_run(struct pfl_service *service, struct pfl_session *session);

#endif
