/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that was accepted: see caller_port.h. Owns nothing; limits: the forward's queues. */
#include "relay/accept/caller_port.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "relay/raw/forward.h"

void pfl_caller_get(int fd, struct pfl_caller *ret_caller)
{
    struct pfl_caller caller = {.address = "unknown"};
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

int pfl_caller_open(const struct pfl_caller_conf *conf, int fd, struct pfl_stream **ret_tls)
{
    struct pfl_stream_conf stream = {
        .loop = conf->loop,
        .ops = conf->ops,
        .user = conf->user,
        .queue_max_bytes = PFL_FORWARD_QUEUE_BYTES,
        .queue_low_bytes = PFL_FORWARD_LOW_BYTES,
    };
    struct pfl_tls_handshake handshake = {
        .conf = conf->tls, .timeout_ms = conf->timeout_ms, .queue = conf->handshakes};

    return pfl_tls_stream_open(&stream, &handshake, fd, ret_tls);
}
