/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this program changes in tracefs and does not own: noted in a file before the change, put
 * back at the end, by the guardian after a kill -9, or by whoever starts next. A folder that
 * another program is using then is removed by who leaves it, or starts, after that. A shell.
 */
#ifndef PFL_PROBES_UNDO_H
#define PFL_PROBES_UNDO_H

#include "agent/probes/tracefs/undo_log.h"

struct pfl_undo {
    struct pfl_undo_log log;
    int root_fd;     /* borrowed: tracefs */
    int file_fd;     /* owned and locked (flock); -1: there is no file */
    bool has_failed; /* the file lacks something about entries from `unsure` on */
    uint32_t unsure;
};

/* Where the files are: $RUNTIME_DIRECTORY, else /run/perfleet-probes. */
void pfl_undo_init(struct pfl_undo *self, int root_fd);
/* Undoes what is left, of every owner. */
void pfl_undo_fini(struct pfl_undo *self);

/* To be called before the change. Without a place for the file (logged once) the change is undone
 * at the end, but not after a kill -9. PFL_ENOMEM, PFL_ELIMIT: the change must not be made. */
PFL_MUST_USE int pfl_undo_add(struct pfl_undo *self, const void *owner, enum pfl_undo_kind kind,
                              const char *path, const char *text);
/* Puts back what `owner` changed, the last change first. */
void pfl_undo_run(struct pfl_undo *self, const void *owner);

/* What `owner` changed stays as it is: the file at `path`, or (NULL) all. */
void pfl_undo_forget(struct pfl_undo *self, const void *owner, const char *path);

/* Puts back what programs that are gone have left, and removes folders that were in use. Returns
 * how many files it found. */
unsigned pfl_undo_run_stale(int root_fd);

#endif
