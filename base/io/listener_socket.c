/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening descriptors: see listener_socket.h.
 *
 * UNIX path: bind. If the name exists and is a socket without a listener, remove it and bind again.
 * Set group and mode, then listen, so that no connection is made under wrong permissions. TCP:
 * "host:port" or "[v6]:port" or ":port"; the first resolved address that binds. Failures: logged
 * with address and errno; nothing is left open. Owns the descriptor and the file.
 */
#include "base/io/listener_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unix_addr.h"

#define GROUP_BUFFER_BYTES 16384u

static int fail_errno(const struct pfl_listener_socket *self, const char *step)
{
    pfl_log_error("listen-failed", "address=%s step=%s reason=\"%s\"",
                  pfl_log_quote_str(self->name), step, strerror(errno));
    return PFL_EIO;
}

static int fail_words(const struct pfl_listener_socket *self, const char *reason)
{
    pfl_log_error("listen-failed", "address=%s reason=\"%s\"", pfl_log_quote_str(self->name),
                  reason);
    return PFL_EINVAL;
}

/* ---- UNIX ---- */

static bool is_stale_socket(const char *path, const struct sockaddr_un *addr, socklen_t len)
{
    struct stat st;
    int fd;
    bool is_stale;

    if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    is_stale = connect(fd, (const struct sockaddr *)addr, len) != 0 && errno == ECONNREFUSED;
    close(fd);
    return is_stale;
}

/* Reports who has the name already: the process that listens there, or the owner of the file. */
static int fail_taken(const struct pfl_listener_socket *self, const char *path,
                      const struct sockaddr_un *addr, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    char words[160] = "it is in use";
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    struct stat st;

    if (fd >= 0 && connect(fd, (const struct sockaddr *)addr, len) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0)
        (void)snprintf(words, sizeof(words),
                       "user %u, process %d serves there already: end it, or serve elsewhere",
                       cred.uid, (int)cred.pid);
    else if (path[0] != '@' && lstat(path, &st) == 0)
        (void)snprintf(words, sizeof(words),
                       "a file of user %u is there, which cannot be removed: remove it, or serve "
                       "elsewhere",
                       st.st_uid);
    if (fd >= 0)
        close(fd);
    (void)fail_words(self, words);
    return PFL_EIO;
}

static int bind_unix(struct pfl_listener_socket *self, const char *path, int mode)
{
    struct sockaddr_un addr;
    socklen_t len;
    mode_t old_mask = 0;
    bool is_path = path[0] != '@';
    int rc;

    if (pfl_unix_addr_parse(path, &addr, &len) != 0)
        return fail_words(self, "a socket name has 1 to 107 bytes");
    if (mode >= 0)
        old_mask = umask(0777 & ~(mode_t)mode);
    rc = bind(self->fd, (struct sockaddr *)&addr, len);
    if (rc != 0 && errno == EADDRINUSE && is_path && is_stale_socket(path, &addr, len) &&
        unlink(path) == 0)
        rc = bind(self->fd, (struct sockaddr *)&addr, len);
    if (mode >= 0)
        (void)umask(old_mask);
    if (rc != 0 && errno == EADDRINUSE)
        return fail_taken(self, path, &addr, len);
    return rc == 0 ? 0 : fail_errno(self, "bind");
}

bool pfl_listener_socket_find_group(const char *name, gid_t *ret_gid)
{
    static char buffer[GROUP_BUFFER_BYTES];
    struct group group;
    struct group *found = NULL;
    char *end;
    unsigned long number;

    if (getgrnam_r(name, &group, buffer, sizeof(buffer), &found) == 0 && found != NULL) {
        *ret_gid = group.gr_gid;
        return true;
    }
    errno = 0;
    number = strtoul(name, &end, 10);
    if (errno != 0 || end == name || *end != '\0' || number >= UINT32_MAX)
        return false;
    *ret_gid = (gid_t)number;
    return true;
}

static int set_permissions(struct pfl_listener_socket *self, const struct pfl_listener_conf *conf)
{
    gid_t gid;

    if (conf->group != NULL) {
        if (!pfl_listener_socket_find_group(conf->group, &gid))
            return fail_words(self, "no such group");
        if (chown(conf->address, (uid_t)-1, gid) != 0)
            return fail_errno(self, "chown");
    }
    if (conf->mode >= 0 && chmod(conf->address, (mode_t)conf->mode & 07777) != 0)
        return fail_errno(self, "chmod");
    return 0;
}

static int open_unix(struct pfl_listener_socket *self, const struct pfl_listener_conf *conf)
{
    struct stat st;
    int rc;

    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->fd < 0)
        return fail_errno(self, "socket");
    rc = bind_unix(self, conf->address, conf->mode);
    if (rc != 0 || conf->address[0] == '@')
        return rc;
    if (lstat(conf->address, &st) == 0) {
        self->has_file = true;
        self->file_dev = st.st_dev;
        self->file_ino = st.st_ino;
    }
    return set_permissions(self, conf);
}

/* ---- TCP ---- */

/* Splits "host:port" in place; an empty host is NULL. */
static bool split_host_port(char *text, const char **ret_host, const char **ret_port)
{
    char *colon = strrchr(text, ':');
    char *host = text;
    size_t len;

    if (colon == NULL || colon[1] == '\0')
        return false;
    *colon = '\0';
    len = strlen(host);
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        host++;
    } else if (strchr(host, ':') != NULL) {
        return false;
    }
    *ret_host = host[0] != '\0' ? host : NULL;
    *ret_port = colon + 1;
    return true;
}

static int bind_tcp(struct pfl_listener_socket *self, const struct addrinfo *list)
{
    int one = 1;

    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
        int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0) {
            self->fd = fd;
            return 0;
        }
        close(fd);
    }
    return fail_errno(self, "bind");
}

static uint16_t get_bound_port(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
        return 0;
    if (ss.ss_family == AF_INET6) {
        memcpy(&in6, &ss, sizeof(in6));
        return ntohs(in6.sin6_port);
    }
    if (ss.ss_family != AF_INET)
        return 0;
    memcpy(&in, &ss, sizeof(in));
    return ntohs(in.sin_port);
}

static int open_tcp(struct pfl_listener_socket *self, const struct pfl_listener_conf *conf)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    char text[PFL_LISTENER_NAME_BYTES];
    struct addrinfo *list = NULL;
    const char *host;
    const char *port;
    int rc;

    if (strlen(conf->address) >= sizeof(text))
        return fail_words(self, "the address is too long");
    memcpy(text, conf->address, strlen(conf->address) + 1);
    if (!split_host_port(text, &host, &port))
        return fail_words(self, "write it as host:port or [v6]:port");
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0)
        return fail_words(self, gai_strerror(rc));
    rc = bind_tcp(self, list);
    freeaddrinfo(list);
    if (rc == 0)
        self->port = get_bound_port(self->fd);
    return rc;
}

static int adopt(struct pfl_listener_socket *self, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return fail_errno(self, "inherit");
    self->fd = fd;
    self->port = get_bound_port(fd);
    return 0;
}

int pfl_listener_socket_open(struct pfl_listener_socket *self, const struct pfl_listener_conf *conf)
{
    int rc;

    *self = (struct pfl_listener_socket){.fd = -1};
    (void)snprintf(self->name, sizeof(self->name), "%s", conf->address);
    if (conf->inherited_fd > STDERR_FILENO)
        return adopt(self, conf->inherited_fd);
    rc = conf->is_tcp ? open_tcp(self, conf) : open_unix(self, conf);
    if (rc == 0 && listen(self->fd, conf->backlog != 0 ? conf->backlog : SOMAXCONN) != 0)
        rc = fail_errno(self, "listen");
    if (rc != 0)
        pfl_listener_socket_close(self);
    return rc;
}

void pfl_listener_socket_close(struct pfl_listener_socket *self)
{
    struct stat st;

    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
    if (self->has_file && lstat(self->name, &st) == 0 && st.st_dev == self->file_dev &&
        st.st_ino == self->file_ino)
        (void)unlink(self->name);
    self->has_file = false;
}
