/* SPDX-License-Identifier: Apache-2.0 */
/* priority_boost: the service's own thread runs at the highest priority that a session asks for. */
#ifndef PFL_SERVICE_BOOST_H
#define PFL_SERVICE_BOOST_H

#include "service/core/service.h"

/* Sets it for all sessions and `more`, which may be NULL. PFL_EPERM: the host does not allow it;
 * the priority is unchanged. */
PFL_MUST_USE int pfl_boost_apply(struct pfl_service *service, const struct pfl_boost *more);
/* A session ended: lowers the priority if possible. */
void pfl_boost_lower(struct pfl_service *service);

#endif
