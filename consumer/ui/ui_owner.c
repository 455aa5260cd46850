/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: searches the peer's port in the kernel's tables of TCP connections. Failure: a
 * connection that is in neither has no owner.
 */
#include "consumer/ui/ui_owner.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "consumer/ui/ui_access.h"

bool pfl_ui_owner_is_ours(int fd, uint16_t own_port)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    struct sockaddr_in addr = {0};
    socklen_t len = sizeof(addr);
    char line[512];
    uint16_t port;
    uint32_t uid = 0;
    bool is_found = false;

    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0 || addr.sin_family != AF_INET)
        return false;
    port = ntohs(addr.sin_port);
    for (size_t i = 0; i < 2 && !is_found; i++) {
        FILE *table = fopen(tables[i], "re");

        while (table != NULL && !is_found && fgets(line, sizeof(line), table) != NULL)
            is_found = pfl_ui_read_owner(line, port, own_port, &uid);
        if (table != NULL)
            (void)fclose(table);
    }
    return is_found && (uid == geteuid() || uid == 0);
}
