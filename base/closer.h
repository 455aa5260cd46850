/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors that were received from others, or sockets that may hold such descriptors
 * unread, on threads of its own. The owner of a foreign descriptor can make its close take
 * arbitrarily long: a TCP socket with SO_LINGER, a file of a FUSE file system, a deleted file of a
 * terabyte.
 *
 * Any thread may call it. Threads exist only while there is something to close. Per user,
 * descriptors are closed in order, on at most PFL_CLOSER_USER_THREADS threads.
 */
#ifndef PFL_BASE_CLOSER_H
#define PFL_BASE_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define PFL_CLOSER_THREADS      32u /* of each kind: what was received, sockets, memory */
#define PFL_CLOSER_USER_THREADS 2u
#define PFL_CLOSER_USER_FDS     1024u  /* of one user, or its share: no more are received */
#define PFL_CLOSER_MAX_FDS      65536u /* in all; from half of it on no user's are received */
#define PFL_CLOSER_MESSAGE_FDS  253u   /* the most that one message brings: SCM_MAX_FD */
#define PFL_CLOSER_FEW_FDS      16u    /* a user below this needs no check of its share */

#define PFL_CLOSER_NOBODY UINT32_MAX /* the descriptor's owner is unknown */

/* For recvmsg: space for all descriptors of a message, and for other control data of the kernel.
 * What does not fit would be closed inside recvmsg. */
#define PFL_CLOSER_CONTROL_BYTES (CMSG_SPACE(sizeof(int) * PFL_CLOSER_MESSAGE_FDS) + 256u)

/* Takes `fd`, of the user that sent it or is at its other end. Never waits. -1 is legal. */
void pfl_closer_close(int fd, uint32_t uid);

/* The same for our end of a connected UNIX socket, `*fd`, which is -1 afterwards. The peer sees the
 * end at once. It is closed here if the peer left nothing unread, which is the common case. */
void pfl_closer_close_socket(int *fd, uint32_t uid);

/* The same for memory of our own, whose last close takes as long as there is much of it: it does
 * not wait for what the user sent. */
void pfl_closer_close_memory(int fd, uint32_t uid);

/* The same, but also without unread bytes it is closed on a thread, where the peer's end of waiting
 * may cost; the peer sees the end then. */
void pfl_closer_close_socket_later(int *fd, uint32_t uid);

/* recv(2) for a socket that expects no descriptors: received ones are closed. -1 with EDQUOT if too
 * many of this user wait to be closed. */
ssize_t pfl_closer_recv(int sock, void *buffer, size_t len, uint32_t uid);

/* Closes all descriptors that recvmsg or recvmmsg has put into `msg`. */
void pfl_closer_close_received(struct msghdr *msg, uint32_t uid);

/* The number of descriptors that may wait to be closed, of all users, before no more are received:
 * half of the table, or a quarter of the limit of open files at the first call of this or of
 * has_room. Users share it as in base/shares.h. */
uint32_t pfl_closer_get_max(void);

/* May a message with the maximal number of descriptors be received from this user now? */
bool pfl_closer_has_room(uint32_t uid);
/* Half of the table is in use: do not accept connections until it is not. */
bool pfl_closer_is_full(void);

/* For tests: waits until everything is closed. */
void pfl_closer_wait(void);

#endif
