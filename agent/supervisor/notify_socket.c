/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notify socket: see notify_socket.h.
 *
 * open: a folder that only this user may enter; the kernel reports the sender of each datagram.
 * receive: first peeks (MSG_PEEK) with room for the sender's credentials only: a stranger's
 * datagram is then received without its descriptors, which never get into our table. Failures: see
 * the header. In a container without a writable folder an abstract name is used: every process of
 * its network namespace can send there. Its datagrams are dropped, but it can fill the queue, and
 * make the kernel close slow descriptors at our cost.
 */
#include "agent/supervisor/notify_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/unix_addr.h"

#define FOLDER_TEMPLATE "perfleet-keep.XXXXXX"

union sender_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
};

union whole_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) +
               CMSG_SPACE(PFL_NOTIFY_SOCKET_MAX_FDS * sizeof(int))];
};

static bool try_folder(struct pfl_notify_socket *self, const char *parent)
{
    struct sockaddr_un addr;
    socklen_t len;

    /* systemd may give several, with colons */
    if (parent == NULL || parent[0] != '/' ||
        snprintf(self->dir, sizeof(self->dir), "%.*s/" FOLDER_TEMPLATE, (int)strcspn(parent, ":"),
                 parent) >= (int)sizeof(self->dir) ||
        mkdtemp(self->dir) == NULL)
        return false;
    if (snprintf(self->name, sizeof(self->name), "%s/notify", self->dir) <
            (int)sizeof(self->name) &&
        pfl_unix_addr_parse(self->name, &addr, &len) == 0 &&
        bind(self->fd, (const struct sockaddr *)&addr, len) == 0)
        return true;
    (void)rmdir(self->dir);
    return false;
}

static bool bind_abstract(struct pfl_notify_socket *self)
{
    const size_t before = offsetof(struct sockaddr_un, sun_path) + 1;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(addr);

    self->dir[0] = '\0';
    if (bind(self->fd, (struct sockaddr *)&addr, sizeof(addr.sun_family)) != 0 ||
        getsockname(self->fd, (struct sockaddr *)&addr, &len) != 0 || len <= before)
        return false;
    (void)snprintf(self->name, sizeof(self->name), "@%.*s", (int)(len - before), addr.sun_path + 1);
    pfl_log_warn("socket-abstract", "name=%s reason=\"no folder can be written\"", self->name);
    return true;
}

int pfl_notify_socket_open(struct pfl_notify_socket *self)
{
    const char *const parents[] = {getenv("RUNTIME_DIRECTORY"),
                                   getenv("XDG_RUNTIME_DIR"),
                                   "/run",
                                   getenv("TMPDIR"),
                                   "/tmp",
                                   "/dev/shm"};
    const int on = 1;
    bool has_name = false;

    *self = (struct pfl_notify_socket){0};
    self->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd >= 0 && setsockopt(self->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0) {
        for (size_t i = 0; !has_name && i < sizeof(parents) / sizeof(parents[0]); i++)
            has_name = try_folder(self, parents[i]);
        if (has_name || bind_abstract(self))
            return 0;
    }
    pfl_log_error("socket-not-made", "errno=%d", errno);
    return PFL_EIO;
}

void pfl_notify_socket_close(struct pfl_notify_socket *self)
{
    if (self->fd >= 0)
        (void)close(self->fd);
    self->fd = -1;
    if (self->dir[0] == '\0')
        return;
    (void)unlink(self->name);
    (void)rmdir(self->dir);
}

static struct ucred find_sender(struct msghdr *message)
{
    struct ucred who = {.pid = 0};

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
            c->cmsg_len == CMSG_LEN(sizeof(who)))
            memcpy(&who, CMSG_DATA(c), sizeof(who));
    }
    return who;
}

/* PFL_EAGAIN, PFL_EPERM, or 0: the next datagram is the sender's. */
static int look(const struct pfl_notify_socket *self, pid_t sender, pid_t *ret_pid)
{
    union sender_control control;
    struct msghdr message = {.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct ucred who;

    if (recvmsg(self->fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return PFL_EAGAIN;
    who = find_sender(&message);
    *ret_pid = who.pid;
    if (who.pid <= 0 || who.pid != sender || (who.uid != getuid() && getuid() != 0))
        return PFL_EPERM;
    return 0;
}

static void take_fds(struct msghdr *message, struct pfl_received *ret_received)
{
    ret_received->fds_len = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        ret_received->fds_len = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(ret_received->fds, CMSG_DATA(c), ret_received->fds_len * sizeof(int));
    }
}

int pfl_notify_socket_receive(struct pfl_notify_socket *self, pid_t sender,
                              struct pfl_received *ret_received, pid_t *ret_pid)
{
    static union whole_control control;
    static uint8_t text[PFL_NOTICE_MAX_BYTES];
    struct iovec iov = {.iov_base = text, .iov_len = sizeof(text)};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    int rc = look(self, sender, ret_pid);
    ssize_t len;

    if (rc == PFL_EAGAIN)
        return rc;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    len = recvmsg(self->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0)
        return rc != 0 ? rc : PFL_EAGAIN;
    take_fds(&message, ret_received);
    if (rc == 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        rc = PFL_ELIMIT;
    else if (rc == 0)
        rc = pfl_notice_parse(pfl_span_of(text, (size_t)len), &ret_received->notice);
    for (size_t i = 0; rc != 0 && i < ret_received->fds_len; i++)
        pfl_closer_close(ret_received->fds[i], find_sender(&message).uid);
    return rc;
}
