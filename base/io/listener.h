/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets on a uv loop: AF_UNIX by path or abstract name, TCP by "host:port" or
 * "[v6]:port" (numeric or resolvable; port 0 asks the kernel). At most max_connections accepted
 * descriptors may be unreleased. Past that, and when descriptors run out, it stops accepting and
 * logs once, until one is released.
 */
#ifndef PFL_BASE_IO_LISTENER_H
#define PFL_BASE_IO_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/err.h"

struct pfl_listener;

struct pfl_listener_conf {
    uv_loop_t *loop;
    const char *address;      /* "/path", "@abstract", "host:port"; borrowed until open returns */
    bool is_tcp;              /* how to read `address` */
    int inherited_fd;         /* > 2: listens already, transferred on success; `address` names it */
    unsigned max_connections; /* > 0 */
    int backlog; /* connections that wait in the kernel; 0: SOMAXCONN; not of an inherited socket */
    const char *group; /* UNIX: name or number to chown to; NULL: unchanged */
    int mode;          /* UNIX: octal file mode; -1: unchanged */
    /* May this connection be passed to on_accept? False: it was closed (base/closer.h), and delays
     * the next ones little. NULL: all may. */
    bool (*may_accept)(void *user, int *fd);
    /* A connection was accepted: non-blocking, close-on-exec, transferred to the callee, which
     * calls pfl_listener_release once when that connection is over. */
    void (*on_accept)(void *user, int fd);
    void (*on_closed)(void *user); /* may be NULL */
    void *user;
};

/* A stale UNIX socket file is removed first. Errors are logged with address and errno.
 * PFL_EINVAL, PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_listener_open(const struct pfl_listener_conf *conf,
                                   struct pfl_listener **ret_listener);
/* Listeners accept while fewer descriptors than this are open: the limit of open files less a
 * reserve. */
unsigned pfl_listener_get_fds_max(void);
/* Stays legal after pfl_listener_close: the object lives until the last one is released. */
void pfl_listener_release(struct pfl_listener *self);
/* The bound TCP port; 0 for UNIX. */
uint16_t pfl_listener_get_port(const struct pfl_listener *self);
/* Asynchronous, idempotent; unlinks the socket file. Accepted connections live on. */
void pfl_listener_close(struct pfl_listener *self);

#endif
