/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of a session, together. */
#ifndef PFL_SERVICE_SESSION_INSTANCES_H
#define PFL_SERVICE_SESSION_INSTANCES_H

#include "service/core/service.h"

void pfl_session_start_instance(struct pfl_session *session, struct pfl_instance *instance);
/* Once per session, when all data sources run: informs the consumer and the trace. */
void pfl_session_check_all_started(struct pfl_service *service, struct pfl_session *session);
/* Asks the producers to clear their incremental state. */
void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session);

#endif
