/* SPDX-License-Identifier: Apache-2.0 */
/* Binds and listens: the part of a listener that knows addresses, files and permissions. */
#ifndef PFL_BASE_IO_LISTENER_SOCKET_H
#define PFL_BASE_IO_LISTENER_SOCKET_H

#include <sys/types.h>

#include "base/io/listener.h"

#define PFL_LISTENER_NAME_BYTES 280u

struct pfl_listener_socket {
    int fd;                             /* owned */
    char name[PFL_LISTENER_NAME_BYTES]; /* the configured address, maybe cut */
    uint16_t port;
    bool has_file; /* we made the file `name`, with this identity */
    dev_t file_dev;
    ino_t file_ino;
};

/* Errors as pfl_listener_open; logs them. */
PFL_MUST_USE int pfl_listener_socket_open(struct pfl_listener_socket *self,
                                          const struct pfl_listener_conf *conf);
/* A group's name, or its number. Reads the group database. */
bool pfl_listener_socket_find_group(const char *name, gid_t *ret_gid);
/* Closes, and removes the socket file unless it was replaced. */
void pfl_listener_socket_close(struct pfl_listener_socket *self);

#endif
