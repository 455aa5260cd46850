/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation: see listen_fds.h.
 *
 * take: reads the descriptors from base/stored_fds.h, and checks the family of each and that it
 * listens. Failure: PFL_EINVAL, logged with the descriptor. The descriptors live as long as the
 * process.
 */
#include "base/listen_fds.h"

#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/stored_fds.h"

int pfl_listen_fds_refuse(int fd, const char *why)
{
    pfl_log_error("socket-not-inherited", "fd=%d reason=\"%s\"", fd, why);
    return PFL_EINVAL;
}

static int look(struct pfl_listen_fd *socket)
{
    int listens = 0;
    int type = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(socket->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens == 0 ||
        getsockopt(socket->fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM ||
        getsockopt(socket->fd, SOL_SOCKET, SO_DOMAIN, &socket->domain, &len) != 0)
        return pfl_listen_fds_refuse(socket->fd, "not a listening stream socket");
    return 0;
}

static int look_at_all(struct pfl_listen_fds *self, struct pfl_stored_fds *given)
{
    int rc = 0;

    if (given->len > PFL_LISTEN_FDS_MAX)
        return pfl_listen_fds_refuse(PFL_LISTEN_FDS_FIRST, "too many sockets");
    if (given->left_out != 0)
        return pfl_listen_fds_refuse(PFL_LISTEN_FDS_FIRST, "not all are open");
    for (size_t i = 0; rc == 0 && i < given->len; i++) {
        struct pfl_listen_fd *next = &self->list[self->len++];

        next->fd = given->list[i].fd;
        given->list[i].fd = -1;
        memcpy(next->name, given->list[i].name, sizeof(next->name));
        rc = look(next);
    }
    return rc;
}

int pfl_listen_fds_take(struct pfl_listen_fds *self)
{
    struct pfl_stored_fds given;
    int rc = pfl_stored_fds_take(&given);

    *self = (struct pfl_listen_fds){.has_names = given.has_names};
    if (rc == 0)
        rc = look_at_all(self, &given);
    else
        rc = pfl_listen_fds_refuse(PFL_LISTEN_FDS_FIRST, pfl_err_str(rc));
    pfl_stored_fds_fini(&given);
    return rc;
}
