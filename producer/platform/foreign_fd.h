/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors that a service sent, or that may hold such descriptors unread. Such a close
 * may take as long as the descriptor's owner likes (a TCP socket with SO_LINGER, a file of a FUSE
 * file system), and perfleet_close waits for the library's thread.
 */
#ifndef PFL_PRODUCER_FOREIGN_FD_H
#define PFL_PRODUCER_FOREIGN_FD_H

/* Threads that close at a time; beyond them a close is done by the caller, and may wait. */
#define PFL_FOREIGN_FD_THREADS 8u

/* On a thread of its own; -1 is legal. */
void pfl_foreign_fd_close(int fd);
/* Our end of a UNIX socket: at once when the service has left nothing unread, which is the rule. */
void pfl_foreign_fd_close_socket(int fd);

#endif
