/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a manager kept while no process of this program ran, or opened for it:
 * LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES (sd_listen_fds(3)). base/notify.h stores them.
 */
#ifndef PFL_BASE_STORED_FDS_H
#define PFL_BASE_STORED_FDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define PFL_STORED_FDS_MAX            1024u
#define PFL_STORED_FDS_FIRST          3
#define PFL_STORED_FDS_NAME_MAX_BYTES 63u

struct pfl_stored_fd {
    int fd;                                       /* owned; -1: taken over */
    char name[PFL_STORED_FDS_NAME_MAX_BYTES + 1]; /* several may have the same name; "": none */
};

struct pfl_stored_fds {
    struct pfl_stored_fd *list; /* owned; in the manager's order */
    size_t len;
    size_t left_out;
    bool has_names; /* the manager gave names */
};

/* Reads and unsets the variables; the list is empty if they are meant for another process.
 * Descriptors of any kind, close-on-exec; those that are not open, or whose name is too long, are
 * left out (closed, logged). PFL_ELIMIT: more than PFL_STORED_FDS_MAX, PFL_ENOMEM: all of them are
 * closed, and the list is empty. Call before anything else opens or closes descriptors. */
PFL_MUST_USE int pfl_stored_fds_take(struct pfl_stored_fds *self);
/* Closes those that were not taken over. */
void pfl_stored_fds_fini(struct pfl_stored_fds *self);

#endif
