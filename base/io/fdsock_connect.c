/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making connected descriptors for fdsock.h, and asking who is at their other end.
 *
 * Happy path: a non-blocking, close-on-exec socket, one connect(2). A pending TCP connect is a
 * success; the stream opened on it finds out. Failures leave errno for the caller's log line. No
 * allocation, nothing owned on failure.
 */
#include <errno.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/unix_addr.h"

static int err_of_connect(int e)
{
    switch (e) {
    case ENOENT:
        return PFL_ENOENT;
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return PFL_ECLOSED;
    case EACCES:
    case EPERM:
        return PFL_EPERM;
    case EAGAIN:
        return PFL_EAGAIN;
    default:
        return PFL_EIO;
    }
}

static int begin_connect(const struct sockaddr *addr, socklen_t len, int *ret_fd)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return PFL_EIO;
    if (connect(fd, addr, len) != 0 && errno != EINPROGRESS) {
        saved = errno;
        close(fd);
        errno = saved;
        return err_of_connect(saved);
    }
    *ret_fd = fd;
    return 0;
}

int pfl_fdsock_connect_unix(const char *path, int *ret_fd)
{
    struct sockaddr_un addr;
    socklen_t len;
    int rc = pfl_unix_addr_parse(path, &addr, &len);

    if (rc != 0) {
        errno = ENAMETOOLONG;
        return rc;
    }
    return begin_connect((const struct sockaddr *)&addr, len, ret_fd);
}

int pfl_fdsock_connect_addr(const struct sockaddr *addr, socklen_t len, int *ret_fd)
{
    return begin_connect(addr, len, ret_fd);
}

int pfl_fdsock_get_cred(int fd, struct pfl_peer_cred *ret_cred)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int domain = 0;
    socklen_t domain_len = sizeof(domain);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) != 0 || domain != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return PFL_EIO;
    *ret_cred = (struct pfl_peer_cred){
        .pid = cred.pid > 0 ? cred.pid : -1,
        .uid = cred.uid,
        .gid = cred.gid,
    };
    return 0;
}
