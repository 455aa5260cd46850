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

/* The session was enabled: its timeout begins. */
void pfl_trigger_wait(struct pfl_service *service, struct pfl_session *session);
/* True if there is nothing to read before a trigger came: always for a session that waits to be
 * cloned. */
bool pfl_trigger_is_awaited(const struct pfl_session *session);
bool pfl_trigger_starts(const struct pfl_session *session);
/* True if a STOP_TRACING trigger's delay runs. The duration does not matter then. */
bool pfl_trigger_is_stopping(const struct pfl_session *session);

/* CLOCK_MONOTONIC, PFL_SESSION_NEVER when nothing is due; run does what is due. */
uint64_t pfl_trigger_next_ms(const struct pfl_session *session);
void pfl_trigger_run(struct pfl_service *service, struct pfl_session *session);

/* The Trigger packets of those received since the last pfl_trigger_set_told. */
void pfl_trigger_encode(struct pfl_message *m, const struct pfl_service_facts *facts,
                        const struct pfl_session *session);
void pfl_trigger_set_told(struct pfl_session *session);

#endif
