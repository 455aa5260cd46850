/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager's protocol: see notify.h.
 *
 * A send is one datagram, on the socket of pfl_notify_open or on one of its own. A send that fails
 * is ignored, as sd_notify(3) advises: the manager's own timeouts tell. The watchdog is for the
 * process of $WATCHDOG_PID alone. State: one descriptor, open until the process ends.
 */
#include "base/notify.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
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
    pfl_log_warn("manager-not-told", "NOTIFY_SOCKET=%s errno=%d", pfl_log_quote_str(name), errno);
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

static bool read_number(const char *variable, uint64_t *ret_value)
{
    const char *text = getenv(variable);
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

uint64_t pfl_notify_get_watchdog_ms(void)
{
    uint64_t usec;
    uint64_t pid;

    if (!read_number("WATCHDOG_USEC", &usec) || usec == 0)
        return 0;
    if (getenv("WATCHDOG_PID") != NULL &&
        (!read_number("WATCHDOG_PID", &pid) || pid != (uint64_t)getpid()))
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
