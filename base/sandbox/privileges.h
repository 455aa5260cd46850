/* SPDX-License-Identifier: Apache-2.0 */
/* Who the process is and what that lets it do: users and capabilities. */
#ifndef PFL_BASE_SANDBOX_PRIVILEGES_H
#define PFL_BASE_SANDBOX_PRIVILEGES_H

#include <stdbool.h>

#include "base/err.h"

/* Becomes `user` (a name or a number) with its groups, for good. Nothing to do when the process is
 * that user already. PFL_EINVAL no such user, PFL_EPERM not allowed. */
PFL_MUST_USE int pfl_privileges_become(const char *user);

/* Gives up every capability, those that a program it starts could get back included; with
 * `keeps_nice` all but CAP_SYS_NICE. *ret_has_nice: it had that one, and kept it. PFL_ESTATE, errno
 * set. */
PFL_MUST_USE int pfl_privileges_drop_capabilities(bool keeps_nice, bool *ret_has_nice);

#endif
