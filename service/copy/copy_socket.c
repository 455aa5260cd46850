/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams with descriptors.
 *
 * Happy path: one sendmsg or recvmsg; a signal that interrupts it is no failure.
 * Failures: a datagram that is longer or shorter than expected is PFL_EPROTO, and its descriptors
 * are closed. If this process may not have so many descriptors, or the message has more than the
 * limit, the message comes without any. What the kernel has no room for is PFL_EAGAIN.
 * Owns nothing. Limit: PFL_COPY_FDS_MAX descriptors in a message.
 */
#include "service/copy/copy_socket.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * PFL_COPY_FDS_MAX)];
};

int pfl_copy_socket_send(int sock, const void *bytes, size_t len, const struct pfl_copy_fds *fds)
{
    union control control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fds != NULL && fds->len != 0) {
        assert(fds->len <= PFL_COPY_FDS_MAX);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int) * fds->len);
        memcpy(CMSG_DATA(&control.align), fds->list, sizeof(int) * fds->len);
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds->len);
    }
    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS
               ? PFL_EAGAIN
               : PFL_EIO;
}

static void take_fds(struct msghdr *msg, struct pfl_copy_fds *ret_fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        ret_fds->len = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(ret_fds->list, CMSG_DATA(c), sizeof(int) * ret_fds->len);
    }
}

int pfl_copy_socket_receive(int sock, void *ret_bytes, size_t len, struct pfl_copy_fds *ret_fds)
{
    union control control;
    struct iovec iov = {.iov_base = ret_bytes, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = CMSG_LEN(sizeof(int) * PFL_COPY_FDS_MAX)};
    bool has_size;
    ssize_t n;

    ret_fds->len = 0;
    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return PFL_EAGAIN;
    if (n < 0)
        return PFL_EIO;
    take_fds(&msg, ret_fds);
    has_size = (size_t)n == len && (msg.msg_flags & MSG_TRUNC) == 0;
    if (!has_size || (msg.msg_flags & MSG_CTRUNC) != 0)
        pfl_copy_socket_close_fds(ret_fds);
    if (has_size)
        return 0;
    return n == 0 ? PFL_EEOF : PFL_EPROTO;
}

void pfl_copy_socket_close_fds(struct pfl_copy_fds *fds)
{
    for (size_t i = 0; i < fds->len; i++)
        (void)close(fds->list[i]);
    fds->len = 0;
}
