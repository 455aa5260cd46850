/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors that a service sent, or sockets that may hold such descriptors unread. The
 * descriptor's owner can make such a close take arbitrarily long (a TCP socket with SO_LINGER, a
 * file of a FUSE file system), and perfleet_close waits for the library's thread.
 */
#ifndef PFL_PRODUCER_FOREIGN_FD_H
#define PFL_PRODUCER_FOREIGN_FD_H

/* Threads that close at a time; beyond them the caller closes, and may wait. */
#define PFL_FOREIGN_FD_THREADS 8u

/* On a thread of its own; -1 is legal. */
void pfl_foreign_fd_close(int fd);
/* For our end of a UNIX socket: closed at once if the service has left nothing unread, which is the
 * common case. */
void pfl_foreign_fd_close_socket(int fd);

#endif
