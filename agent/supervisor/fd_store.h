/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors by name, kept for the program's next process. */
#ifndef PFL_AGENT_KEEP_STORE_H
#define PFL_AGENT_KEEP_STORE_H

#include <stddef.h>

#include "base/err.h"
#include "base/stored_fds.h"

/* Three for each of an agent's streams. */
#define PFL_FD_STORE_MAX 768u

struct pfl_fd_store_entry {
    int fd; /* owned; close-on-exec; from PFL_STORED_FDS_FIRST + max on */
    char name[PFL_STORED_FDS_NAME_MAX_BYTES + 1];
};

struct pfl_fd_store {
    struct pfl_fd_store_entry list[PFL_FD_STORE_MAX]; /* the oldest first */
    size_t len;
    size_t max; /* at most PFL_FD_STORE_MAX */
};

/* Takes `fd`: it is closed if it is not kept. Several may have the same name, as in systemd, but
 * not the same open file. PFL_EEXIST: it is there; PFL_ELIMIT: there are `max`, or the process's
 * limit of descriptors is reached. */
PFL_MUST_USE int pfl_fd_store_add(struct pfl_fd_store *self, const char *name, int fd);
/* Closes all with that name. Returns how many. */
size_t pfl_fd_store_remove(struct pfl_fd_store *self, const char *name);
/* Closes all. */
void pfl_fd_store_fini(struct pfl_fd_store *self);

#endif
