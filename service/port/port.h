/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of both ports. */
#ifndef PFL_SERVICE_PORT_H
#define PFL_SERVICE_PORT_H

#include <uv.h>

#include "service/core/service.h"
#include "service/port/daemon_conf.h"

/* Connections that wait in the kernel to be accepted. A newcomer waits behind all of them, so they
 * are as few as a burst of programs needs that start together. */
#define PFL_PORT_BACKLOG 512

struct pfl_port_conf {
    uv_loop_t *loop;             /* borrowed */
    struct pfl_service *service; /* borrowed */
    const char *address;         /* of the socket: a path or "@name"; borrowed until open returns */
    const char *group;           /* group of the socket file; NULL: unchanged */
    int mode;                    /* octal; -1: unchanged */
    enum pfl_socket_family family;
    int inherited_fd; /* > 2: a socket that listens already, transferred on success */
    bool has_relay;   /* serves RelayPort too */
    /* Its members may act on other users' sessions, and bring shared memory; NULL: none;
     * borrowed. */
    const uint32_t *privileged_gid;
    unsigned max_connections;
    void (*on_closed)(void *user); /* the port is gone; last callback */
    void *user;
};

#endif
