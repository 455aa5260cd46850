/* SPDX-License-Identifier: Apache-2.0 */
/* ChangeTraceConfig: other producers for the data sources of a session that exists. */
#ifndef PFL_SERVICE_SESSION_CHANGE_H
#define PFL_SERVICE_SESSION_CHANGE_H

#include "service/core/service.h"

/* Takes the producer filters from `config`, by the data source's name, and sets up producers that
 * match now and do not take part yet. PFL_ESTATE: the session is over; PFL_EPARSE, PFL_ELIMIT,
 * PFL_ENOMEM, PFL_EPERM (the user's share of memory for configs is used up): nothing changed. */
PFL_MUST_USE int pfl_session_change(struct pfl_service *service, struct pfl_session *session,
                                    struct pfl_span config);

#endif
