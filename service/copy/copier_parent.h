/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copiers' parent: a process that the service forks before its sandbox and its threads, and
 * that forks a copier for each user (copy_area.h). It has nothing of the service's memory, opens no
 * file and no socket, and ends with the service. If a copier must end, it kills it.
 */
#ifndef PFL_SERVICE_COPIER_PARENT_H
#define PFL_SERVICE_COPIER_PARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sandbox/sandbox.h"

#define PFL_COPIERS_MAX 512u /* processes, with those that the kernel does not let end yet */

/* Forks it, and waits until it is ready. In the child this does not return. The child becomes
 * `user` (NULL: unchanged), and enters a sandbox of its own in that mode. Returns the socket to it,
 * which does not wait. PFL_EIO, PFL_ENOMEM; those of pfl_sandbox_enter, logged. */
PFL_MUST_USE int pfl_copier_parent_start(enum pfl_sandbox_mode mode, const char *user,
                                         int *ret_sock);

/* Has it fork a copier, with our end's peer and the area's memory (sealed against shrinking), which
 * both stay the caller's. `number` names the copier for end: take each once. If no copier can be
 * made, or one with this number has not ended yet, our end sees the end of the socket once the
 * caller has closed its peer. Never waits. PFL_EAGAIN, PFL_EIO. */
PFL_MUST_USE int pfl_copier_parent_fork(int sock, uint32_t number, int copier_sock, int area_fd);
/* Kills it. A copier that waits in the kernel ends when the kernel lets it; the number is free
 * then. What does not fit into the socket is lost: but a copier ends by itself, too, once the
 * caller has closed its end. */
void pfl_copier_parent_end(int sock, uint32_t number);

#endif
