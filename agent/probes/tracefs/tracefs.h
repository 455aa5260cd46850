/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's tracefs, and this program's own instance in it: a ring buffer and event switches
 * that no other tracer sees. A shell: files in, files out.
 */
#ifndef PFL_PROBES_TRACEFS_H
#define PFL_PROBES_TRACEFS_H

#include <sys/types.h>

#include "base/buf.h"

struct pfl_tracefs {
    int root_fd;        /* owned; -1: tracefs is not available */
    int instance_fd;    /* owned and locked (flock); -1: no instance now */
    pid_t owner;        /* in the instance's name */
    const char *suffix; /* after the pid; NULL: none */
};

/* Finds tracefs where it is mounted, or mounts it at its usual place. PFL_ENOENT, PFL_EPERM. */
PFL_MUST_USE int pfl_tracefs_open(struct pfl_tracefs *self);
void pfl_tracefs_close(struct pfl_tracefs *self); /* removes the instance */

/* PFL_EIO if the kernel refuses. There is at most one. */
PFL_MUST_USE int pfl_tracefs_make_instance(struct pfl_tracefs *self);
/* All files of the instance must be closed. */
void pfl_tracefs_remove_instance(struct pfl_tracefs *self);
/* Removes instances whose lock is free, because their owners are dead. Returns how many. */
unsigned pfl_tracefs_remove_stale(struct pfl_tracefs *self);
/* Removes the instance of a dead process; for the guardian. */
void pfl_tracefs_remove_of(struct pfl_tracefs *self, pid_t owner);

/* Files below a directory; errno has the kernel's error. PFL_EIO; PFL_ELIMIT, PFL_ENOMEM.
 * `ret_text` is cleared first. */
PFL_MUST_USE int pfl_tracefs_read(int dir_fd, const char *path, struct pfl_buf *ret_text);
PFL_MUST_USE int pfl_tracefs_write(int dir_fd, const char *path, const char *text);
/* Adds to the file's list, if it has one. */
PFL_MUST_USE int pfl_tracefs_append(int dir_fd, const char *path, const char *text);
/* Empties the file's list, or the ring buffer (file `trace`). */
PFL_MUST_USE int pfl_tracefs_truncate(int dir_fd, const char *path);
/* The first line without its end, cut at `size`. */
PFL_MUST_USE int pfl_tracefs_read_line(int dir_fd, const char *path, char *ret_line, size_t size);

#endif
