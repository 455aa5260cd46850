/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of a session, together. */
#ifndef PFL_SERVICE_SESSION_INSTANCES_H
#define PFL_SERVICE_SESSION_INSTANCES_H

#include "service/core/service.h"

void pfl_session_start_instance(struct pfl_session *session, struct pfl_instance *instance);
/* Once per session, when all data sources run: informs the consumer and the trace. */
void pfl_session_check_all_started(struct pfl_service *service, struct pfl_session *session);

/* Goes over the producers that have an instance in the session, each once. Nothing may change
 * meanwhile, and no other walk begin. */
struct pfl_session_producers {
    const struct pfl_session *session;
    const struct pfl_list *at; /* pfl_instance.of_session */
    uint64_t walk;
};
struct pfl_session_producers pfl_session_begin_producers(struct pfl_service *service,
                                                         const struct pfl_session *session);
/* NULL: that was all. */
struct pfl_producer *pfl_session_next_producer(struct pfl_session_producers *self);
/* Asks the producers to clear their incremental state. */
void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session);

#endif
