/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a recording: one, or, with a rotation, several in turn. Their names then have a
 * number before the suffix: fleet.pftrace becomes fleet-0001.pftrace, fleet-0002.pftrace and so on.
 * During a transition both the current and the previous one are open.
 */
#ifndef PFL_CONSUMER_TRACE_FILES_H
#define PFL_CONSUMER_TRACE_FILES_H

#include <limits.h>

#include "consumer/recording/trace_file.h"

struct pfl_trace_files;

/* When the next file begins, and how many stay. */
struct pfl_trace_files_rotation {
    uint64_t time_ms; /* of a file; 0: no limit */
    uint64_t bytes;   /* likewise, of what came since it began */
    uint32_t keep;    /* how many of the newest complete files stay; 0: all */
};

struct pfl_trace_files_conf {
    uv_loop_t *loop;
    const char *path; /* borrowed while the object lives; "-" is standard output */
    bool no_clobber;
    struct pfl_trace_files_rotation rotation; /* zeros: one file, at the path */
    void (*on_writable)(void *user);
    /* Once: a file cannot be written, and writing ends. `path` is borrowed until it returns. */
    void (*on_failed)(void *user, const char *path, int err);
    void *user;
};

/* The result. */
struct pfl_trace_files_end {
    int err;             /* 0, or the errno of the first failure */
    uint64_t bytes;      /* of all files, removed ones included */
    const char *partial; /* borrowed: the remaining partial file of the failed one; NULL: none */
    uint32_t first;      /* numbers of the existing complete files; 0: no rotation, or none */
    uint32_t last;
};

bool pfl_trace_files_rotation_is_wanted(const struct pfl_trace_files_rotation *self);
/* The name of a file; false: it is too long, or standard output. */
bool pfl_trace_files_name(const char *path, uint32_t number, char ret_name[PATH_MAX]);

/* As pfl_trace_file_open; ENAMETOOLONG besides. */
PFL_MUST_USE int pfl_trace_files_open(const struct pfl_trace_files_conf *conf,
                                      struct pfl_trace_files **ret_files);
/* Into the current file, or into the previous one, if there is one. */
PFL_MUST_USE int pfl_trace_files_reserve(struct pfl_trace_files *self, bool is_before, size_t len,
                                         uint8_t **ret_room);
void pfl_trace_files_commit(struct pfl_trace_files *self, bool is_before, size_t len);

/* What was written to the current file until now does not count for its size: each file begins with
 * it. */
void pfl_trace_files_end_beginning(struct pfl_trace_files *self);
/* The current file has reached its size or age, and the previous one is complete. */
bool pfl_trace_files_is_due(const struct pfl_trace_files *self);
/* Opens the next file: the current one becomes the previous one. As pfl_trace_file_open. */
PFL_MUST_USE int pfl_trace_files_begin_next(struct pfl_trace_files *self);
/* Time since then; 0: there is no previous file, or it is being completed. */
uint64_t pfl_trace_files_get_changing_ms(const struct pfl_trace_files *self);
/* No more is written to the previous one: it is completed, and old ones are removed. */
void pfl_trace_files_end_before(struct pfl_trace_files *self);

void pfl_trace_files_push(struct pfl_trace_files *self);
bool pfl_trace_files_is_congested(const struct pfl_trace_files *self);
/* Of all files. */
uint64_t pfl_trace_files_get_written(const struct pfl_trace_files *self);
/* As pfl_trace_file_is_gone, for open files. */
bool pfl_trace_files_is_gone(const struct pfl_trace_files *self);
/* As pfl_trace_file_get_room. */
uint64_t pfl_trace_files_get_room(const struct pfl_trace_files *self, uint64_t *ret_disk_bytes);
/* Completes open files, then calls on_closed and frees. `is_wanted` applies to the current one. */
void pfl_trace_files_close(struct pfl_trace_files *self, bool is_wanted,
                           void (*on_closed)(void *user, const struct pfl_trace_files_end *end));

#endif
