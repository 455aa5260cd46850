/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp: which system calls a process may make. */
#ifndef PFL_BASE_SANDBOX_SYSCALLS_H
#define PFL_BASE_SANDBOX_SYSCALLS_H

#include "base/sandbox/sandbox.h"

/* From now on the process may only make the calls on the list and those that conf->needs and the
 * rights of conf->folders add. Any other fails with EPERM; those that only an attack makes kill it
 * (SIGSYS). PFL_ESTATE: the kernel refuses filters, PFL_ENOMEM. */
PFL_MUST_USE int pfl_syscalls_enter(const struct pfl_sandbox_conf *conf);

/* The kernel takes filters. */
bool pfl_syscalls_can_filter(void);
/* The list for a program that this process is going to execute, which is not ours: it computes,
 * has threads, reads files and its open descriptors. No sockets, no processes, no signals to
 * others. PFL_ESTATE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_syscalls_enter_guest(void);

#endif
