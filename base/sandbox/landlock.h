/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: restricts a process's access to files by folder. */
#ifndef PFL_BASE_SANDBOX_LANDLOCK_H
#define PFL_BASE_SANDBOX_LANDLOCK_H

#include "base/sandbox/sandbox.h"

/* From now on this thread and its children access files only as conf->folders allows, no TCP port
 * and no process outside. PFL_ESTATE: the kernel has no Landlock; PFL_EINVAL: a folder does not
 * exist, logged. */
PFL_MUST_USE int pfl_landlock_enter(const struct pfl_sandbox_conf *conf, int *ret_abi);

/* The kernel has it, and lets this process use it. */
bool pfl_landlock_is_there(void);
/* The same for a program that this process is going to execute: it reads and executes what is
 * beneath /usr and /lib, and itself, and writes no file. PFL_ESTATE: the kernel has no Landlock. */
PFL_MUST_USE int pfl_landlock_enter_guest(const char *program);

#endif
