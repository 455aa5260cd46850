/* SPDX-License-Identifier: Apache-2.0 */
/* An accepted connection: see tls_server_stream_port.h. Owns nothing; limits: the proxy's queues.
 */
#include "relay/accept/tls_server_stream_port.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "relay/direct/direct_proxy.h"

void pfl_tls_server_stream_get_peer(int fd, struct pfl_tls_server_stream_peer *ret_caller)
{
    struct pfl_tls_server_stream_peer caller = {.address = "unknown"};
    socklen_t len = sizeof(caller.peer);
    char host[64];
    char port[8];

    if (getpeername(fd, (struct sockaddr *)&caller.peer, &len) == 0 &&
        getnameinfo((struct sockaddr *)&caller.peer, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(caller.address, sizeof(caller.address),
                       strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
    *ret_caller = caller;
}

int pfl_tls_server_stream_open(const struct pfl_tls_server_stream_conf *conf, int fd,
                               struct pfl_stream **ret_tls)
{
    struct pfl_stream_conf stream = {
        .loop = conf->loop,
        .ops = conf->ops,
        .user = conf->user,
        .queue_max_bytes = PFL_DIRECT_PROXY_QUEUE_BYTES,
        .queue_low_bytes = PFL_DIRECT_PROXY_LOW_BYTES,
    };
    struct pfl_tls_handshake handshake = {
        .conf = conf->tls, .timeout_ms = conf->timeout_ms, .queue = conf->handshakes};

    return pfl_tls_stream_open(&stream, &handshake, fd, ret_tls);
}
