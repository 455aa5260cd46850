/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness as the real service tells it (a byte on a descriptor) and as systemd wants it (a
 * datagram to a UNIX socket, abstract when it begins with @). Nothing is retried. */
#include "service/port/readiness.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

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

static void tell_systemd(const char *path)
{
    static const char message[] = "READY=1";
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd;

    if (len == 0 || len >= sizeof(addr.sun_path))
        return;
    memcpy(addr.sun_path, path, len);
    if (path[0] == '@')
        addr.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, message, sizeof(message) - 1, MSG_NOSIGNAL, (const struct sockaddr *)&addr,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        pfl_log_warn("readiness-not-told", "NOTIFY_SOCKET=%s errno=%d", pfl_log_quote_str(path),
                     errno);
    if (fd >= 0)
        (void)close(fd);
}

void pfl_readiness_tell(void)
{
    const char *fd = getenv("TRACED_NOTIFY_FD");
    const char *path = getenv("NOTIFY_SOCKET");

    if (fd != NULL)
        tell_descriptor(fd);
    if (path != NULL)
        tell_systemd(path);
}
