/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of a fixed size, with descriptors, over a pair of SOCK_SEQPACKET sockets. They wait if
 * the socket does. */
#ifndef PFL_SERVICE_COPY_SOCKET_H
#define PFL_SERVICE_COPY_SOCKET_H

#include <stddef.h>

#include "base/err.h"

#define PFL_COPY_FDS_MAX 2u

struct pfl_copy_fds {
    int list[PFL_COPY_FDS_MAX];
    size_t len;
};

/* `fds` stay the caller's; NULL: none. PFL_EAGAIN: no room now; PFL_EIO. */
PFL_MUST_USE int pfl_copy_socket_send(int sock, const void *bytes, size_t len,
                                      const struct pfl_copy_fds *fds);
/* The descriptors are the caller's; on failure there are none. PFL_EAGAIN: nothing is there;
 * PFL_EEOF; PFL_EPROTO: another size, or more descriptors; PFL_EIO. */
PFL_MUST_USE int pfl_copy_socket_receive(int sock, void *ret_bytes, size_t len,
                                         struct pfl_copy_fds *ret_fds);
/* None are left. */
void pfl_copy_socket_close_fds(struct pfl_copy_fds *fds);

#endif
