/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation.
 *
 * take: is LISTEN_PID ours? For each descriptor from 3 on: its family, that it listens, its name.
 * The variables are unset, so that no child takes the sockets for its own. Whoever made a network
 * socket for us decided about its reach; only TCP for the consumer port is refused here as well.
 * Failure: PFL_EINVAL, logged with the descriptor. The descriptors live as long as the process.
 */
#include "service/port/inherited.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define FIRST_FD 3

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

static int refuse(int fd, const char *why)
{
    pfl_log_error("socket-not-inherited", "fd=%d reason=\"%s\"", fd, why);
    return PFL_EINVAL;
}

static int look(int fd, struct pfl_daemon_socket *ret_socket)
{
    int listens = 0;
    int domain = 0;
    int type = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens == 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
        return refuse(fd, "not a listening stream socket");
    *ret_socket = (struct pfl_daemon_socket){.address = "(inherited)", .inherited_fd = fd};
    if (domain == AF_INET || domain == AF_INET6)
        ret_socket->family = PFL_SOCKET_TCP;
    else if (domain == AF_VSOCK)
        ret_socket->family = PFL_SOCKET_VSOCK;
    else if (domain != AF_UNIX)
        return refuse(fd, "a socket of this family cannot be served");
    return 0;
}

static int add(struct pfl_inherited *self, int fd, bool is_consumer)
{
    struct pfl_daemon_socket sock;
    int rc = look(fd, &sock);

    if (rc != 0)
        return rc;
    if (is_consumer) {
        if (self->consumer.inherited_fd != 0)
            return refuse(fd, "a second consumer socket");
        if (sock.family != PFL_SOCKET_UNIX)
            return refuse(fd, "consumers are served on a UNIX socket only");
        self->consumer = sock;
        return 0;
    }
    if (self->producers_len == PFL_DAEMON_MAX_PRODUCER_SOCKETS)
        return refuse(fd, "too many producer sockets");
    self->producers[self->producers_len++] = sock;
    return 0;
}

/* The next of names that are separated by colons. */
static bool is_consumer_name(const char **names)
{
    size_t len = strcspn(*names, ":");
    bool is_consumer = memmem(*names, len, "consumer", strlen("consumer")) != NULL;

    *names += len;
    if (**names == ':')
        (*names)++;
    return is_consumer;
}

int pfl_inherited_take(struct pfl_inherited *self)
{
    const char *names = getenv("LISTEN_FDNAMES");
    long pid = 0;
    long fds = 0;
    int rc = 0;

    *self = (struct pfl_inherited){0};
    if (!read_number("LISTEN_PID", &pid) || pid != (long)getpid() ||
        !read_number("LISTEN_FDS", &fds))
        return 0;
    if (fds > (long)PFL_DAEMON_MAX_PRODUCER_SOCKETS + 1)
        return refuse(FIRST_FD, "too many sockets");
    for (int i = 0; rc == 0 && i < (int)fds; i++)
        rc = add(self, FIRST_FD + i, names != NULL ? is_consumer_name(&names) : i == 1);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return rc;
}
