/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors that came from somebody else, or that may hold such descriptors unread, on
 * threads of its own. The close of a foreign descriptor may take as long as its owner likes: a TCP
 * socket with SO_LINGER, a file of a FUSE file system, a deleted file of a terabyte.
 *
 * Any thread may call it. There are threads only while there is something to close. What one user
 * gave waits behind what he gave before, and never uses more than PFL_CLOSER_USER_THREADS.
 */
#ifndef PFL_BASE_CLOSER_H
#define PFL_BASE_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define PFL_CLOSER_THREADS      32u
#define PFL_CLOSER_USER_THREADS 2u
#define PFL_CLOSER_USER_FDS     1024u  /* of one user, or his share: no more are received */
#define PFL_CLOSER_MAX_FDS      65536u /* in sum; from half of it on nobody's are received */
#define PFL_CLOSER_MESSAGE_FDS  253u   /* one message brings at most these: SCM_MAX_FD */
#define PFL_CLOSER_FEW_FDS      16u    /* who has fewer need not look at his share */

#define PFL_CLOSER_NOBODY UINT32_MAX /* whose descriptor it is is not known */

/* For recvmsg: room for all that a message can bring, and for what else the kernel may say of it.
 * What has no room would be closed inside recvmsg. */
#define PFL_CLOSER_CONTROL_BYTES (CMSG_SPACE(sizeof(int) * PFL_CLOSER_MESSAGE_FDS) + 256u)

/* Takes `fd`, of the user who sent it or who is at its other end. Never waits. -1 is legal. */
void pfl_closer_close(int fd, uint32_t uid);

/* The same for our end of a connected UNIX socket, `*fd`, which is -1 afterwards. The peer sees the
 * end at once. Closed here when the peer has left nothing unread, which is the rule. */
void pfl_closer_close_socket(int *fd, uint32_t uid);

/* recv(2) from a socket on which no descriptor may come: those that come are closed. -1 with EDQUOT
 * when too many of this user's wait to be closed. */
ssize_t pfl_closer_recv(int sock, void *buffer, size_t len, uint32_t uid);

/* All descriptors that recvmsg or recvmmsg has put into `msg`. */
void pfl_closer_close_received(struct msghdr *msg, uint32_t uid);

/* So many wait to be closed, of all users, until nobody's are received: half of the table, or a
 * quarter of the limit of open files as it was at the first call of this or of has_room. Users
 * share it as in base/shares.h. */
uint32_t pfl_closer_get_max(void);

/* May a message with as many descriptors as there can be be received from this user now? */
bool pfl_closer_has_room(uint32_t uid);
/* Half of the table is in use: accept nobody until it is not. */
bool pfl_closer_is_full(void);

/* For tests: waits until everything is closed. */
void pfl_closer_wait(void);

#endif
