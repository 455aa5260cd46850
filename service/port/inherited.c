/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns the sockets of base/listen_fds.h: see inherited.h. The creator of a network socket
 * decided about its reach; only TCP for the consumer port is refused here as well. Failure:
 * PFL_EINVAL, logged with the descriptor.
 */
#include "service/port/inherited.h"

#include <string.h>
#include <sys/socket.h>

#include "base/listen_fds.h"

static int look(const struct pfl_listen_fd *fd, struct pfl_daemon_socket *ret_socket)
{
    *ret_socket = (struct pfl_daemon_socket){.address = "(inherited)", .inherited_fd = fd->fd};
    if (fd->domain == AF_INET || fd->domain == AF_INET6)
        ret_socket->family = PFL_SOCKET_TCP;
    else if (fd->domain == AF_VSOCK)
        ret_socket->family = PFL_SOCKET_VSOCK;
    else if (fd->domain != AF_UNIX)
        return pfl_listen_fds_refuse(fd->fd, "a socket of this family cannot be served");
    return 0;
}

static int add(struct pfl_inherited *self, const struct pfl_listen_fd *fd, bool is_consumer)
{
    struct pfl_daemon_socket sock;
    int rc = look(fd, &sock);

    if (rc != 0)
        return rc;
    if (is_consumer) {
        if (self->consumer.inherited_fd != 0)
            return pfl_listen_fds_refuse(fd->fd, "a second consumer socket");
        if (sock.family != PFL_SOCKET_UNIX)
            return pfl_listen_fds_refuse(fd->fd, "consumers are served on a UNIX socket only");
        self->consumer = sock;
        return 0;
    }
    if (self->producers_len == PFL_DAEMON_MAX_PRODUCER_SOCKETS)
        return pfl_listen_fds_refuse(fd->fd, "too many producer sockets");
    self->producers[self->producers_len++] = sock;
    return 0;
}

int pfl_inherited_take(struct pfl_inherited *self)
{
    struct pfl_listen_fds fds;
    int rc = pfl_listen_fds_take(&fds);

    *self = (struct pfl_inherited){0};
    for (size_t i = 0; rc == 0 && i < fds.len; i++)
        rc = add(self, &fds.list[i],
                 fds.has_names ? strstr(fds.list[i].name, "consumer") != NULL : i == 1);
    return rc;
}
