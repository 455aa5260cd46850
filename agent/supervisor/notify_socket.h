/* SPDX-License-Identifier: Apache-2.0 */
/* The socket for the program's notices, and the check of senders. */
#ifndef PFL_AGENT_KEEP_NOTIFY_SOCKET_H
#define PFL_AGENT_KEEP_NOTIFY_SOCKET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#include "agent/supervisor/notice.h"

/* The kernel's SCM_MAX_FD. */
#define PFL_NOTIFY_SOCKET_MAX_FDS 253u

struct pfl_notify_socket {
    int fd;                                                     /* -1: not open */
    char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 1]; /* for $NOTIFY_SOCKET */
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];      /* "": the name is abstract */
};

struct pfl_received {
    struct pfl_notice notice;
    int fds[PFL_NOTIFY_SOCKET_MAX_FDS]; /* owned by the caller */
    size_t fds_len;
};

/* Makes a folder in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR, /run, $TMPDIR, /tmp or /dev/shm, the
 * first that is writable; an abstract name (logged) if none is. PFL_EIO, logged. */
PFL_MUST_USE int pfl_notify_socket_open(struct pfl_notify_socket *self);
/* The next datagram. Only `sender` may send, as a user that it can be: our own, or any if we are
 * root. PFL_EAGAIN: no more; PFL_EPERM: a stranger's, whose descriptors were not received;
 * PFL_ELIMIT: too long, or its descriptors did not fit; PFL_EPARSE: not text. After these three it
 * is dropped, *ret_pid has its sender, and the next may be received. */
PFL_MUST_USE int pfl_notify_socket_receive(struct pfl_notify_socket *self, pid_t sender,
                                           struct pfl_received *ret_received, pid_t *ret_pid);
/* Removes the folder. */
void pfl_notify_socket_close(struct pfl_notify_socket *self);

#endif
