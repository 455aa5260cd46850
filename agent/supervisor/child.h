/* SPDX-License-Identifier: Apache-2.0 */
/* The program's process, from fork to exec. */
#ifndef PFL_AGENT_KEEP_CHILD_H
#define PFL_AGENT_KEEP_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "agent/supervisor/fd_store.h"

struct pfl_child_conf {
    char *const *argv;                /* borrowed */
    const char *notify_socket;        /* borrowed */
    const struct pfl_fd_store *store; /* borrowed */
    sigset_t signals;                 /* its initial signal mask */
    /* Shared with the child: 0, or, when it has exited, the errno of a failed exec. */
    volatile int *exec_errno;
};

/* PFL_EIO: no process could be made, logged. */
PFL_MUST_USE int pfl_child_start(const struct pfl_child_conf *conf, pid_t *ret_pid);

#endif
