/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who serves a UNIX socket, and whether this process may tell him what it traces.
 *
 * In a folder like /tmp whoever comes first has the name of the service. A client therefore asks
 * the kernel who listens (SO_PEERCRED) before it sends a byte, and does not even connect to a
 * stranger's file there: who accepts may send descriptors whose close takes long. It accepts root,
 * its own user, a user that it was given by name, and anybody in a place where only root, this user
 * and the server himself can make a socket. docs/adr/0032 has the reasons.
 */
#ifndef PFL_BASE_SERVICE_USER_H
#define PFL_BASE_SERVICE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PFL_SERVICE_USERS_MAX        16u
#define PFL_SERVICE_USER_WHY_BYTES   512u
#define PFL_SERVICE_USER_PLACE_BYTES 108u /* a UNIX socket's name, its NUL included */
#define PFL_SERVICE_USER_VARIABLE    "PERFLEET_SERVICE_USER"

/* What the kernel says for users that this process's user namespace does not know. */
#define PFL_SERVICE_USER_OVERFLOW 65534u

struct pfl_service_users {
    uint32_t uids[PFL_SERVICE_USERS_MAX];
    size_t len;
};

/* Adds the users of a list with commas, names or numbers; reads the user database. PFL_EINVAL (an
 * empty or unknown name; those before it were added), PFL_ELIMIT. */
PFL_MUST_USE int pfl_service_users_parse(struct pfl_service_users *self, const char *list);

/* Before connecting: a socket file of a stranger's, in a place of everybody's, is not touched. 0,
 * also for what is not there; PFL_ESTRANGER (words in `ret_why`). */
PFL_MUST_USE int pfl_service_user_check_file(const char *name,
                                             const struct pfl_service_users *users,
                                             char ret_why[PFL_SERVICE_USER_WHY_BYTES]);

/* May the peer of `fd`, which was connected to `name` (a path, or '@' and an abstract name), serve
 * this process? 0, PFL_ESTRANGER (words in `ret_why`). */
PFL_MUST_USE int pfl_service_user_check(int fd, const char *name,
                                        const struct pfl_service_users *users,
                                        char ret_why[PFL_SERVICE_USER_WHY_BYTES]);

/* Can others than root, this process's user and `uid` put a socket at this absolute path, or take
 * its place? `ret_place` is then what lets them. Symbolic links count as a
 * place of others. */
bool pfl_service_user_is_place_shared(const char *path, uint32_t uid,
                                      char ret_place[PFL_SERVICE_USER_PLACE_BYTES]);

#endif
