/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and configures connected descriptors for fdsock.h, and checks their peers.
 *
 * Happy path: a non-blocking, close-on-exec socket, one connect(2). A pending TCP connect counts as
 * success; the stream opened on it gets the result. Failures leave errno for the caller's log line.
 * No allocation, nothing owned on failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/io/subject.h"
#include "base/mem.h"
#include "base/subuids.h"
#include "base/unix_addr.h"

/* Of the whole process, as the user it runs as: set at its start. */
static struct pfl_service_users trusted;
static bool has_trusted;
static char service_why[PFL_SERVICE_USER_WHY_BYTES];

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

/* `subject` NULL: none. */
static int begin_connect(const struct sockaddr *addr, socklen_t len, const char *subject,
                         int *ret_fd)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return PFL_EIO;
    if (subject != NULL)
        pfl_subject_bind(fd, subject);
    if (connect(fd, addr, len) != 0 && errno != EINPROGRESS) {
        saved = errno;
        close(fd);
        errno = saved;
        return err_of_connect(saved);
    }
    *ret_fd = fd;
    return 0;
}

static int connect_unix(const char *path, const char *subject, int *ret_fd)
{
    struct sockaddr_un addr;
    socklen_t len;
    int rc = pfl_unix_addr_parse(path, &addr, &len);

    if (rc != 0) {
        errno = ENAMETOOLONG;
        return rc;
    }
    return begin_connect((const struct sockaddr *)&addr, len, subject, ret_fd);
}

int pfl_fdsock_connect_unix(const char *path, int *ret_fd)
{
    return connect_unix(path, NULL, ret_fd);
}

int pfl_fdsock_trust(const char *list)
{
    has_trusted = true;
    trusted = (struct pfl_service_users){.len = 0};
    if (list == NULL)
        list = getenv(PFL_SERVICE_USER_VARIABLE);
    return list != NULL && list[0] != '\0' ? pfl_service_users_parse(&trusted, list) : 0;
}

const char *pfl_fdsock_get_service_why(void)
{
    return service_why;
}

int pfl_fdsock_connect_service_for(const char *path, const char *subject, int *ret_fd)
{
    int fd;
    int rc;

    if (!has_trusted)
        (void)!pfl_fdsock_trust(NULL); /* unknown users are not trusted */
    rc = pfl_service_user_check_file(path, &trusted, service_why);
    if (rc != 0)
        return rc;
    rc = connect_unix(path, subject, &fd);
    if (rc != 0) {
        (void)snprintf(service_why, sizeof(service_why), "%s", strerror(errno));
        return rc;
    }
    rc = pfl_service_user_check(fd, path, &trusted, service_why);
    if (rc != 0)
        pfl_fdsock_drop(fd);
    else
        *ret_fd = fd;
    return rc;
}

int pfl_fdsock_connect_service(const char *path, int *ret_fd)
{
    return pfl_fdsock_connect_service_for(path, NULL, ret_fd);
}

int pfl_fdsock_connect_addr(const struct sockaddr *addr, socklen_t len, int *ret_fd)
{
    return begin_connect(addr, len, NULL, ret_fd);
}

/* Sends small messages at once, and detects within two minutes that the peer's network is gone. */
static void set_tcp_options(int fd)
{
    static const int one = 1;
    static const int idle_s = 60;
    static const int interval_s = 10;
    static const int probes = 6;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

int pfl_fdsock_prepare(int fd, bool *ret_is_unix)
{
    static const int one = 1;
    int flags = fcntl(fd, F_GETFL);
    int domain = 0;
    socklen_t len = sizeof(domain);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
        return PFL_EIO;
    *ret_is_unix = domain == AF_UNIX;
    /* Else the kernel closes, within recvmsg, descriptors that come with a byte out of band. */
    if (*ret_is_unix)
        return setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)) == 0 ? 0 : PFL_EIO;
    set_tcp_options(fd);
    return 0;
}

bool pfl_fdsock_is_peer_in_group(int fd, uint32_t gid)
{
    struct pfl_peer_cred cred;
    socklen_t len = 0;
    gid_t *gids;
    bool is_in = pfl_fdsock_get_cred(fd, &cred) == 0 && cred.gid == gid;

    if (is_in || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE ||
        len > NGROUPS_MAX * sizeof(*gids))
        return is_in;
    gids = pfl_mem_alloc(len);
    if (gids == NULL)
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, gids, &len) == 0) {
        for (size_t i = 0; !is_in && i < len / sizeof(*gids); i++)
            is_in = gids[i] == gid;
    }
    pfl_mem_free(gids);
    return is_in;
}

int pfl_fdsock_get_cred(int fd, struct pfl_peer_cred *ret_cred)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    /* Other sockets have no peer's credentials: the kernel says uid -1, which is no user's. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.uid == (uid_t)-1)
        return PFL_EIO;
    *ret_cred = (struct pfl_peer_cred){
        .pid = cred.pid > 0 ? cred.pid : -1,
        .uid = cred.uid,
        .who = pfl_subuids_find(cred.uid),
        .gid = cred.gid,
    };
    return 0;
}
