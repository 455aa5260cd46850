/* SPDX-License-Identifier: Apache-2.0 */
/* Which data sources of which producers take part in a session, and setting them up. */
#ifndef PFL_SERVICE_SESSION_SETUP_H
#define PFL_SERVICE_SESSION_SETUP_H

#include "service/core/service.h"

/* All data sources of the plan, each in all producers that have it, in that order. A match that
 * fails is not tried again for the plan's next ones of that name. */
void pfl_session_setup_all(struct pfl_service *service, struct pfl_session *session);
/* A data source was registered: it joins the sessions that match. */
void pfl_session_setup_source(struct pfl_service *service, const struct pfl_data_source *source);

/* Those of the plan whose names `update` has, in producers without a data source in the session. */
void pfl_session_setup_new(struct pfl_service *service, struct pfl_session *session,
                           const struct pfl_session_plan *update);

#endif
