/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vsock listeners and options of accepted network sockets.
 *
 * A network connection can die silently: keep-alive closes it after about two minutes, which
 * removes the producer as any end of its connection does.
 */
#include "service/port/network.h"

#include <errno.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define VSOCK_PREFIX  "vsock://"
#define KEEP_IDLE_S   60
#define KEEP_EVERY_S  15
#define KEEP_ATTEMPTS 4

static int parse_u32(const char *text, char end_char, const char **ret_end, unsigned *ret_value)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0 || value > UINT32_MAX || *end != end_char)
        return PFL_EINVAL;
    *ret_value = (unsigned)value;
    *ret_end = end;
    return 0;
}

int pfl_network_listen_vsock(const char *address, int *ret_fd)
{
    struct sockaddr_vm addr = {.svm_family = AF_VSOCK};
    const char *text = address;
    int fd;

    if (strncmp(text, VSOCK_PREFIX, strlen(VSOCK_PREFIX)) != 0 ||
        parse_u32(text + strlen(VSOCK_PREFIX), ':', &text, &addr.svm_cid) != 0 ||
        parse_u32(text + 1, '\0', &text, &addr.svm_port) != 0) {
        pfl_log_error("listen-failed", "address=%s reason=\"write it as vsock://CID:PORT\"",
                      pfl_log_quote_str(address));
        return PFL_EINVAL;
    }
    fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0 &&
        listen(fd, SOMAXCONN) == 0) {
        *ret_fd = fd;
        return 0;
    }
    pfl_log_error("listen-failed", "address=%s reason=\"%s\"", pfl_log_quote_str(address),
                  strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return PFL_EIO;
}

void pfl_network_tune(int fd)
{
    static const int one = 1;
    static const int idle = KEEP_IDLE_S;
    static const int every = KEEP_EVERY_S;
    static const int attempts = KEEP_ATTEMPTS;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &attempts, sizeof(attempts));
}
