/* SPDX-License-Identifier: Apache-2.0 */
/* May this session exist beside the others? docs/abi/service.md section 2, checks 14 to 19. */
#ifndef PFL_SERVICE_ADMISSION_H
#define PFL_SERVICE_ADMISSION_H

#include "service/core/service.h"

/* Changes nothing that others notice. PFL_EINVAL with `ret_why`. */
PFL_MUST_USE int pfl_admission_check(struct pfl_service *service,
                                     const struct pfl_consumer *consumer,
                                     const struct pfl_session_plan *plan,
                                     char ret_why[PFL_PLAN_WHY_BYTES]);
/* The session exists: what its config does to others takes effect. It ends all others where it is
 * exclusive, and locks down or unlocks the service. */
void pfl_admission_apply(struct pfl_service *service, const struct pfl_session *session);

/* One more clone, of all there are and of this user's. */
bool pfl_admission_may_clone(const struct pfl_service *service, uint32_t who);

#endif
