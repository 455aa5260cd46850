/* SPDX-License-Identifier: Apache-2.0 */
/* What a session waits for of its triggers, and which came. */
#ifndef PFL_SERVICE_TRIGGER_STATE_H
#define PFL_SERVICE_TRIGGER_STATE_H

#include "service/core/service.h"

/* The session was enabled: its timeout begins. */
void pfl_trigger_wait(struct pfl_service *service, struct pfl_session *session);
/* True if there is nothing to read before a trigger came: always for a session that waits to be
 * cloned. */
bool pfl_trigger_is_awaited(const struct pfl_session *session);
bool pfl_trigger_starts(const struct pfl_session *session);
/* True if a STOP_TRACING trigger's delay runs. The duration does not matter then. */
bool pfl_trigger_is_stopping(const struct pfl_session *session);

/* CLOCK_MONOTONIC, PFL_SESSION_NEVER when nothing is due: when to call pfl_trigger_run. */
uint64_t pfl_trigger_next_ms(const struct pfl_session *session);

/* The Trigger packets of those received since the last pfl_trigger_set_sent. */
void pfl_trigger_encode(struct pfl_message *m, const struct pfl_service_facts *facts,
                        const struct pfl_session *session);
void pfl_trigger_set_sent(struct pfl_session *session);

#endif
