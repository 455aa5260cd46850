/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a manager kept while no process of this program ran, or opened for it:
 * LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES (sd_listen_fds(3)). base/notify.h gives them to it.
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
    int fd;                                       /* owned; -1: taken over by somebody */
    char name[PFL_STORED_FDS_NAME_MAX_BYTES + 1]; /* several may have one name; "": it has none */
};

struct pfl_stored_fds {
    struct pfl_stored_fd *list; /* owned; in the manager's order */
    size_t len;
    size_t left_out;
    bool has_names; /* the manager gave names */
};

/* Reads and unsets the variables; nothing is there when they are meant for another process. Of any
 * kind, close-on-exec; what is not open, or has a name too long, is left out (closed, logged).
 * PFL_ELIMIT more than PFL_STORED_FDS_MAX, PFL_ENOMEM: all of them are closed, and nothing is
 * there. Before anything else opens or closes descriptors. */
PFL_MUST_USE int pfl_stored_fds_take(struct pfl_stored_fds *self);
/* Closes those that nobody took over. */
void pfl_stored_fds_fini(struct pfl_stored_fds *self);

#endif
