/* SPDX-License-Identifier: Apache-2.0 */
/* What both ports are opened with. */
#ifndef PFL_SERVICE_PORT_H
#define PFL_SERVICE_PORT_H

#include <uv.h>

#include "service/core/service.h"
#include "service/port/daemon_conf.h"

struct pfl_port_conf {
    uv_loop_t *loop;             /* borrowed */
    struct pfl_service *service; /* borrowed */
    const char *address;         /* of the socket: a path or "@name"; borrowed until open returns */
    const char *group;           /* to chown the socket to; NULL leaves it */
    int mode;                    /* octal; -1 leaves it */
    enum pfl_socket_family family;
    int inherited_fd;               /* > 2: a socket that listens already, transferred on success */
    bool has_relay;                 /* serves RelayPort too */
    const uint32_t *privileged_gid; /* consumers of it may act on others; NULL: none; borrowed */
    unsigned max_connections;
    void (*on_closed)(void *user); /* the port is gone; last callback */
    void *user;
};

#endif
