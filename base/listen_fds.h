/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that a service manager listens on for us: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES
 * (sd_listen_fds(3)). */
#ifndef PFL_BASE_LISTEN_FDS_H
#define PFL_BASE_LISTEN_FDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define PFL_LISTEN_FDS_MAX   17u
#define PFL_LISTEN_FDS_FIRST 3

struct pfl_listen_fd {
    int fd;     /* the process owns it */
    int domain; /* AF_UNIX, AF_INET, ... */
    char name[64];
};

struct pfl_listen_fds {
    struct pfl_listen_fd list[PFL_LISTEN_FDS_MAX];
    size_t len;
    bool has_names;
};

/* Reads and unsets the variables; the list is empty if they are meant for another process.
 * PFL_EINVAL (logged): not listening stream sockets, or too many. */
PFL_MUST_USE int pfl_listen_fds_take(struct pfl_listen_fds *self);
/* Logs why a socket cannot be served. Returns PFL_EINVAL. */
int pfl_listen_fds_refuse(int fd, const char *why);

#endif
