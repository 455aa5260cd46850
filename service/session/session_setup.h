/* SPDX-License-Identifier: Apache-2.0 */
/* Which data sources of which producers take part in a session, and setting them up. */
#ifndef PFL_SERVICE_SESSION_SETUP_H
#define PFL_SERVICE_SESSION_SETUP_H

#include "service/core/service.h"

/* All data sources of the plan, each in all producers that have it, in that order. */
void pfl_session_setup_all(struct pfl_service *service, struct pfl_session *session);
/* A data source was registered: it joins the sessions that match. */
void pfl_session_setup_source(struct pfl_service *service, struct pfl_producer *producer,
                              const struct pfl_data_source *source);

/* One data source of the plan in one producer, where they match. */
void pfl_session_setup_in_producer(struct pfl_service *service, struct pfl_session *session,
                                   struct pfl_producer *producer, size_t plan_source);

#endif
