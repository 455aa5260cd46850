/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: which files a process may reach, by folder. */
#ifndef PFL_BASE_SANDBOX_LANDLOCK_H
#define PFL_BASE_SANDBOX_LANDLOCK_H

#include "base/sandbox/sandbox.h"

/* From now on this thread and those it makes reach no file but as conf->folders say, no TCP port
 * and no process outside. PFL_ESTATE the kernel has no Landlock; PFL_EINVAL a folder is not there,
 * logged. */
PFL_MUST_USE int pfl_landlock_enter(const struct pfl_sandbox_conf *conf, int *ret_abi);

#endif
