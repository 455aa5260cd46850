/* SPDX-License-Identifier: Apache-2.0 */
/* May this session exist beside the others? docs/abi/service.md section 2, checks 14 to 19. */
#ifndef PFL_SERVICE_ADMISSION_H
#define PFL_SERVICE_ADMISSION_H

#include "service/control/service.h"

/* An exclusive session ends all others, as documented, even when a later check then refuses it.
 * PFL_EINVAL with `ret_why`. */
PFL_MUST_USE int pfl_admission_check(struct pfl_service *service,
                                     const struct pfl_consumer *consumer,
                                     const struct pfl_session_plan *plan,
                                     char ret_why[PFL_PLAN_WHY_BYTES]);

#endif
