/* SPDX-License-Identifier: Apache-2.0 */
/* Users and capabilities of the process. */
#ifndef PFL_BASE_SANDBOX_PRIVILEGES_H
#define PFL_BASE_SANDBOX_PRIVILEGES_H

#include <stdbool.h>

#include "base/err.h"

/* Becomes `user` (a name or a number) with its groups, permanently. No effect if the process is
 * that user already. PFL_EINVAL: no such user, PFL_EPERM: not allowed. */
PFL_MUST_USE int pfl_privileges_become(const char *user);

/* Drops every capability, including those that a started program could regain; with `keeps_nice`
 * all but CAP_SYS_NICE. *ret_has_nice: the process had that one, and kept it. PFL_ESTATE, errno
 * set. */
PFL_MUST_USE int pfl_privileges_drop_capabilities(bool keeps_nice, bool *ret_has_nice);

#endif
