/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness by datagram: see notify.h. A failure is ignored, as sd_notify(3) advises. */
#include "base/io/notify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io/unix_addr.h"

void pfl_notify_send(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr;
    socklen_t len;
    int fd;

    if (name == NULL || pfl_unix_addr_parse(name, &addr, &len) != 0)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr, len);
    close(fd);
}
