/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp: which system calls a process may make. */
#ifndef PFL_BASE_SANDBOX_SYSCALLS_H
#define PFL_BASE_SANDBOX_SYSCALLS_H

#include "base/sandbox/sandbox.h"

/* Known to the process until it executes a program. */
struct pfl_syscalls_key {
    uint64_t words[3];
};

/* From now on the process may only make the calls on the list and those that conf->needs and the
 * rights of conf->folders add. Any other fails with EPERM; those that only an attack makes kill it
 * (SIGSYS). PFL_ESTATE: the kernel refuses filters, PFL_ENOMEM. */
PFL_MUST_USE int pfl_syscalls_enter(const struct pfl_sandbox_conf *conf);

/* A second list, for a child of a process with PFL_SANDBOX_FORKS: it may no longer make the calls
 * that this need adds, nor start threads. PFL_ESTATE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_syscalls_end_forks(void);

/* The kernel takes filters. */
bool pfl_syscalls_can_filter(void);
/* The list for a program that this process is going to execute, which is not ours: it computes,
 * has threads, reads files and its open descriptors. No sockets, no processes, no signals to
 * others. It becomes that program by pfl_syscalls_execute with the key, and no other one after it:
 * what a thread executes would outlive its parent (the kernel forgets PR_SET_PDEATHSIG).
 * PFL_ESTATE, PFL_ENOMEM, PFL_EIO (no random numbers). */
PFL_MUST_USE int pfl_syscalls_enter_guest(struct pfl_syscalls_key *ret_key);
/* PFL_EIO: errno has the reason. Any key is good for a process without a list. */
PFL_MUST_USE int pfl_syscalls_execute(const char *program, char *const *argv,
                                      char *const *environment, const struct pfl_syscalls_key *key);

#endif
