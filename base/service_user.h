/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user serves a UNIX socket, and whether this process may send it trace data.
 *
 * In /tmp any user can create the service's socket first. A client therefore asks the kernel who
 * listens (SO_PEERCRED) before it sends a byte. It does not even connect to a stranger's file
 * there, because the acceptor may send descriptors whose close takes long. It accepts root, its own
 * user, a user given by name, and any server in a place where only root, this user and the server
 * itself can make a socket. A program with more rights than the user who runs it (setuid, setgid,
 * file capabilities) does not accept that user. docs/adr/0032 has the reasons.
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

/* What the kernel reports for users that this process's user namespace does not map. */
#define PFL_SERVICE_USER_OVERFLOW 65534u

struct pfl_service_users {
    uint32_t uids[PFL_SERVICE_USERS_MAX];
    size_t len;
};

/* Whether this process has more rights than the user who runs it. */
bool pfl_service_user_has_more_rights(void);

/* Adds the users of a list with commas, names or numbers; reads the user database. PFL_EINVAL (an
 * empty or unknown name; those before it were added), PFL_ELIMIT. */
PFL_MUST_USE int pfl_service_users_parse(struct pfl_service_users *self, const char *list);

/* Call before connecting: fails for a stranger's socket file in a folder that others may write to.
 * 0, also if the file does not exist; PFL_ESTRANGER (text in `ret_why`). */
PFL_MUST_USE int pfl_service_user_check_file(const char *name,
                                             const struct pfl_service_users *users,
                                             char ret_why[PFL_SERVICE_USER_WHY_BYTES]);

/* May the peer of `fd`, which was connected to `name` (a path, or '@' and an abstract name), serve
 * this process? 0, PFL_ESTRANGER (text in `ret_why`). */
PFL_MUST_USE int pfl_service_user_check(int fd, const char *name,
                                        const struct pfl_service_users *users,
                                        char ret_why[PFL_SERVICE_USER_WHY_BYTES]);

/* Can users other than root, this process's user and `uid` create or replace a socket at this
 * absolute path? `ret_place` is then the place that allows it. Symbolic links count as writable by
 * others. */
bool pfl_service_user_is_place_shared(const char *path, uint32_t uid,
                                      char ret_place[PFL_SERVICE_USER_PLACE_BYTES]);

#endif
