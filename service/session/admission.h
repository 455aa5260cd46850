/* SPDX-License-Identifier: Apache-2.0 */
/* May this session exist beside the others? docs/abi/service.md section 2, checks 14 to 19. */
#ifndef PFL_SERVICE_ADMISSION_H
#define PFL_SERVICE_ADMISSION_H

#include "service/core/service.h"

/* Has no effect on other sessions. PFL_EINVAL with `ret_why`. */
PFL_MUST_USE int pfl_admission_check(struct pfl_service *service,
                                     const struct pfl_consumer *consumer,
                                     const struct pfl_session_plan *plan,
                                     char ret_why[PFL_PLAN_WHY_BYTES]);
/* Call when the session exists: applies its config's effects on others. An exclusive session ends
 * all others, each by `abort_other`; a config may lock down or unlock the service. */
void pfl_admission_apply(struct pfl_service *service, const struct pfl_session *session,
                         void (*abort_other)(struct pfl_service *service, struct pfl_session *other,
                                             const char *why));

/* False if one more clone would exceed the limit of all or of this user. */
bool pfl_admission_may_clone(const struct pfl_service *service, uint32_t who);

#endif
