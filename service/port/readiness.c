/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness as the real service tells it (a byte on a descriptor) and as systemd wants it (a
 * datagram to a UNIX socket, abstract when it begins with @). open connects the datagram's socket;
 * tell sends and closes it. Nothing is retried. */
#include "service/port/readiness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io/unix_addr.h"
#include "base/log.h"

static int systemd_fd = -1;

static void tell_descriptor(const char *number)
{
    char *end;
    long fd = strtol(number, &end, 10);

    if (*number == '\0' || *end != '\0' || fd < 0 || fd > 1 << 20) {
        pfl_log_warn("readiness-not-told", "TRACED_NOTIFY_FD=%s", pfl_log_quote_str(number));
        return;
    }
    if (write((int)fd, "1", 1) != 1)
        pfl_log_warn("readiness-not-told", "fd=%ld errno=%d", fd, errno);
    (void)close((int)fd);
}

void pfl_readiness_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr;
    socklen_t len;
    int fd;

    if (path == NULL || pfl_unix_addr_parse(path, &addr, &len) != 0)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&addr, len) == 0) {
        systemd_fd = fd;
        return;
    }
    pfl_log_warn("readiness-not-told", "NOTIFY_SOCKET=%s errno=%d", pfl_log_quote_str(path), errno);
    if (fd >= 0)
        (void)close(fd);
}

void pfl_readiness_tell(void)
{
    static const char message[] = "READY=1";
    const char *fd = getenv("TRACED_NOTIFY_FD");

    if (fd != NULL)
        tell_descriptor(fd);
    if (systemd_fd < 0)
        return;
    if (send(systemd_fd, message, sizeof(message) - 1, MSG_NOSIGNAL) < 0)
        pfl_log_warn("readiness-not-told", "errno=%d", errno);
    (void)close(systemd_fd);
    systemd_fd = -1;
}
