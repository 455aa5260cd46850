/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager's protocol: see notify.h.
 *
 * A send is one datagram, on the socket of pfl_notify_open or on one of its own. A failed send is
 * ignored, as sd_notify(3) advises: the manager's own timeouts apply. Exception: sends about the
 * descriptor store return whether they succeeded. The watchdog is only for the process of
 * $WATCHDOG_PID. State: one descriptor, open until the process ends.
 */
#include "base/notify.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/stored_fds.h"
#include "base/unix_addr.h"

static int kept_fd = -1;

/* A connected socket, or -1. */
static int connect_manager(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr;
    socklen_t len;
    int fd;

    if (name == NULL || pfl_unix_addr_parse(name, &addr, &len) != 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&addr, len) == 0)
        return fd;
    pfl_log_warn("notify-failed", "was=manager-not-told NOTIFY_SOCKET=%s errno=%d",
                 pfl_log_quote_str(name), errno);
    (void)close(fd);
    return -1;
}

void pfl_notify_open(void)
{
    if (kept_fd < 0)
        kept_fd = connect_manager();
}

void pfl_notify_send(const char *state)
{
    int fd = kept_fd >= 0 ? kept_fd : connect_manager();

    if (fd < 0)
        return;
    (void)send(fd, state, strlen(state), MSG_NOSIGNAL);
    if (fd != kept_fd)
        (void)close(fd);
}

void pfl_notify_send_reloading(void)
{
    char state[64];

    (void)snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
                   (unsigned long long)(pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000));
    pfl_notify_send(state);
}

bool pfl_notify_has_store(void)
{
    uint64_t max;

    return getenv("NOTIFY_SOCKET") != NULL && pfl_env_read_number("FDSTORE", &max) && max > 0;
}

/* Waits while the manager's queue is full, but briefly: the caller's loop is blocked meanwhile. */
static int send_message(int fd, const struct msghdr *message)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

    if (sendmsg(fd, message, flags) >= 0)
        return 0;
    if (errno == EAGAIN && poll(&room, 1, PFL_NOTIFY_WAIT_MS) > 0 &&
        sendmsg(fd, message, flags) >= 0)
        return 0;
    return errno == EAGAIN ? PFL_EAGAIN : PFL_EIO;
}

/* `fd` may be -1: none goes along. */
static int send_about(const char *format, const char *name, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    char state[128];
    struct iovec iov = {.iov_base = state};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    int socket_fd = kept_fd >= 0 ? kept_fd : connect_manager();
    int rc;

    if (socket_fd < 0)
        return PFL_ESTATE;
    iov.iov_len = (size_t)snprintf(state, sizeof(state), format, name);
    assert(iov.iov_len < sizeof(state));
    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
    }
    rc = send_message(socket_fd, &message);
    if (rc == PFL_EIO)
        pfl_log_warn("notify-failed", "was=manager-not-told name=%s errno=%d", name, errno);
    if (socket_fd != kept_fd)
        (void)close(socket_fd);
    return rc;
}

int pfl_notify_store(const char *name, int fd)
{
    assert(name[0] != '\0' && strlen(name) <= PFL_STORED_FDS_NAME_MAX_BYTES && fd >= 0);
    return send_about("FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name, fd);
}

void pfl_notify_unstore(const char *name)
{
    if (send_about("FDSTOREREMOVE=1\nFDNAME=%s", name, -1) == PFL_EAGAIN)
        pfl_log_warn("notify-failed", "was=manager-not-told name=%s", name);
}

uint64_t pfl_notify_get_watchdog_ms(void)
{
    uint64_t usec;
    uint64_t pid;

    if (!pfl_env_read_number("WATCHDOG_USEC", &usec) || usec == 0)
        return 0;
    if (getenv("WATCHDOG_PID") != NULL &&
        (!pfl_env_read_number("WATCHDOG_PID", &pid) || pid != (uint64_t)getpid()))
        return 0;
    return usec / 2000 != 0 ? usec / 2000 : 1;
}

int pfl_notify_watch(uint64_t *due_ms, uint64_t now_ms, int timeout_ms)
{
    uint64_t interval_ms = pfl_notify_get_watchdog_ms();
    uint64_t left_ms;

    if (interval_ms == 0)
        return timeout_ms;
    if (now_ms >= *due_ms) {
        pfl_notify_send("WATCHDOG=1");
        *due_ms = now_ms + interval_ms;
    }
    left_ms = *due_ms - now_ms;
    if (left_ms > INT_MAX)
        left_ms = INT_MAX;
    return timeout_ms < 0 || (uint64_t)timeout_ms > left_ms ? (int)left_ms : timeout_ms;
}
