/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation: see listen_fds.h.
 *
 * take: is LISTEN_PID ours? For each descriptor from 3 on: its family, that it listens, its name.
 * The variables are unset, so that no child takes the sockets for its own.
 * Failure: PFL_EINVAL, logged with the descriptor. The descriptors live as long as the process.
 */
#include "base/listen_fds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static bool read_number(const char *variable, long *ret_value)
{
    const char *text = getenv(variable);
    char *end;
    long value;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *ret_value = value;
    return true;
}

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

/* The next of names that are separated by colons. */
static void copy_name(const char **names, char *ret_name, size_t size)
{
    size_t len = strcspn(*names, ":");

    (void)snprintf(ret_name, size, "%.*s", (int)(len < size ? len : size - 1), *names);
    *names += len;
    if (**names == ':')
        (*names)++;
}

int pfl_listen_fds_take(struct pfl_listen_fds *self)
{
    const char *names = getenv("LISTEN_FDNAMES");
    long pid = 0;
    long fds = 0;
    int rc = 0;

    *self = (struct pfl_listen_fds){.has_names = names != NULL};
    if (!read_number("LISTEN_PID", &pid) || pid != (long)getpid() ||
        !read_number("LISTEN_FDS", &fds))
        return 0;
    if (fds > (long)PFL_LISTEN_FDS_MAX)
        return pfl_listen_fds_refuse(PFL_LISTEN_FDS_FIRST, "too many sockets");
    for (long i = 0; rc == 0 && i < fds; i++) {
        struct pfl_listen_fd *next = &self->list[self->len++];

        next->fd = PFL_LISTEN_FDS_FIRST + (int)i;
        if (names != NULL)
            copy_name(&names, next->name, sizeof(next->name));
        rc = look(next);
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return rc;
}
