/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc and /sys for the loop, with the maximal delay of slow_work.h. A file that cannot be
 * read in time is empty, like a missing one. From one thread. Spans are valid until the next call
 * of any of these functions.
 */
#ifndef PFL_PROBES_PROC_READER_H
#define PFL_PROBES_PROC_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PFL_PROC_READER_PROCESSES 16u      /* in one call */
#define PFL_PROC_READER_LINKS     256u     /* in one call */
#define PFL_PROC_READER_NUMBERS   262144u  /* of a list; further ones are left out */
#define PFL_PROC_FILE_BYTES       8192u    /* of a file; the rest is left out */
#define PFL_PROC_LINK_BYTES       256u     /* likewise */
#define PFL_PROC_TEXT_BYTES       4194304u /* likewise, of a file of the system */

/* From CMDLINE on the kernel locks the process's memory, or waits for its exec. These are read only
 * of a process whose STATUS is read, and that is not a thread of another. */
enum pfl_proc_file {
    PFL_PROC_STATUS,
    PFL_PROC_STAT,
    PFL_PROC_OOM_SCORE_ADJ,
    PFL_PROC_DMABUF_RSS,
    PFL_PROC_CMDLINE,
    PFL_PROC_SMAPS_ROLLUP,
    PFL_PROC_FILES,
};

struct pfl_proc_request {
    int32_t pid;
    uint32_t files; /* 1 << enum pfl_proc_file */
};

struct pfl_proc_answer {
    struct pfl_span texts[PFL_PROC_FILES];
};

struct pfl_proc_link {
    struct pfl_span path;
    bool is_looked_at; /* the caller's is_wanted returned true */
    int error;         /* of that */
    uint32_t dev_major;
    uint32_t dev_minor;
};

/* At most PFL_PROC_READER_PROCESSES. */
void pfl_proc_reader_read(const struct pfl_proc_request *requests, size_t len,
                          struct pfl_proc_answer *ret_answers);

/* The numeric names in /proc/<pid>/<folder>, the first `max` of them; pid 0: in /proc. The caller
 * frees it; NULL: none. */
int32_t *pfl_proc_reader_list(int32_t pid, const char *folder, size_t max, size_t *ret_len);

/* The targets of a process's descriptors, at most PFL_PROC_READER_LINKS. With `is_wanted`, which is
 * called on another thread: also the devices of those for which it returns true. */
void pfl_proc_reader_follow(int32_t pid, const int32_t *fds, size_t len,
                            bool (*is_wanted)(const char *path), struct pfl_proc_link *ret_links);

/* Reads a file that belongs to no process. PFL_EIO: missing, or not read in time; PFL_ELIMIT,
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_proc_reader_text(const char *path, struct pfl_buf *ret_text);
/* The names of the symbolic links in a folder, each with its NUL. Errors as above. */
PFL_MUST_USE int pfl_proc_reader_names(const char *path, struct pfl_buf *ret_names);

/* Of the machine, with those that are off. The C library asks /sys, whose files others may watch:
 * it does so once. */
uint32_t pfl_proc_reader_count_cpus(void);

#endif
