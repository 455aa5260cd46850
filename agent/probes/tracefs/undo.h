/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program's changes in tracefs outside its own instance: noted in a file before the change,
 * restored at the end, by the guardian after a kill -9, or by the next process that starts. A
 * folder that another program uses then is removed by the next program that leaves it or starts. A
 * shell.
 */
#ifndef PFL_PROBES_UNDO_H
#define PFL_PROBES_UNDO_H

#include "agent/probes/tracefs/undo_log.h"

struct pfl_undo {
    struct pfl_undo_log log;
    int root_fd;     /* borrowed: tracefs */
    int file_fd;     /* owned and locked (flock); -1: there is no file */
    bool has_failed; /* the file is incomplete about entries from `unsure` on */
    uint32_t unsure;
};

/* Where the files are: $RUNTIME_DIRECTORY, else /run/perfleet-probes. */
void pfl_undo_init(struct pfl_undo *self, int root_fd);
/* Undoes what is left, of every owner. */
void pfl_undo_fini(struct pfl_undo *self);

/* Call before the change. If the file cannot be written (logged once) the change is undone at the
 * end, but not after a kill -9. PFL_ENOMEM, PFL_ELIMIT: do not make the change. */
PFL_MUST_USE int pfl_undo_add(struct pfl_undo *self, const void *owner, enum pfl_undo_kind kind,
                              const char *path, const char *text);
/* Undoes the changes of `owner`, the last one first. */
void pfl_undo_run(struct pfl_undo *self, const void *owner);

/* Changes of `owner` stay: of the file at `path`, or (NULL) all. */
void pfl_undo_forget(struct pfl_undo *self, const void *owner, const char *path);

/* Undoes what dead programs left, and removes folders that were in use. Returns the number of files
 * found. */
unsigned pfl_undo_run_stale(int root_fd);

#endif
