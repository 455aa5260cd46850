/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a new TCP connection, and the TLS stream on it; shared by the main port
 * (tls_port.c) and the join port (join_port.c).
 */
#ifndef PFL_RELAY_ACCEPT_TLS_SERVER_STREAM_PORT_H
#define PFL_RELAY_ACCEPT_TLS_SERVER_STREAM_PORT_H

#include <sys/socket.h>

#include "base/io/stream.h"
#include "base/io/tls_stream.h"

struct pfl_tls_server_stream_peer {
    struct sockaddr_storage peer; /* family 0: unknown */
    char address[80];             /* "1.2.3.4:5", "[::1]:5" or "unknown" */
};

struct pfl_tls_server_stream_conf {
    uv_loop_t *loop;
    struct pfl_tls_conf *tls;               /* borrowed until open returns */
    uint64_t timeout_ms;                    /* of the handshake */
    struct pfl_handshake_queue *handshakes; /* borrowed until it is done */
    const struct pfl_stream_ops *ops;
    void *user;
};

void pfl_tls_server_stream_get_peer(int fd, struct pfl_tls_server_stream_peer *ret_caller);
/* Opens a TLS stream on `fd` (taken on success) that a proxy may take later. Errors of
 * pfl_tls_stream_open. */
PFL_MUST_USE int pfl_tls_server_stream_open(const struct pfl_tls_server_stream_conf *conf, int fd,
                                            struct pfl_stream **ret_tls);

#endif
