/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loop reads in /proc and /sys, without waiting longer than slow_work.h says. What cannot
 * be read in time is empty, as is what is not there. From one thread. Spans are valid until the
 * next call of any of these functions.
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

/* From CMDLINE on: for these the kernel locks the process's memory, or waits for its exec. They are
 * read of a process that STATUS is read of, and that is no thread of another. */
enum pfl_proc_file {
    PFL_PROC_STATUS,
    PFL_PROC_STAT,
    PFL_PROC_OOM_SCORE_ADJ,
    PFL_PROC_DMABUF_RSS,
    PFL_PROC_CMDLINE,
    PFL_PROC_SMAPS_ROLLUP,
    PFL_PROC_FILES,
};

struct pfl_proc_ask {
    int32_t pid;
    uint32_t files; /* 1 << enum pfl_proc_file */
};

struct pfl_proc_answer {
    struct pfl_span texts[PFL_PROC_FILES];
};

struct pfl_proc_link {
    struct pfl_span path;
    bool is_looked_at; /* the caller's is_wanted said so */
    int error;         /* of that */
    uint32_t dev_major;
    uint32_t dev_minor;
};

/* At most PFL_PROC_READER_PROCESSES. */
void pfl_proc_reader_read(const struct pfl_proc_ask *asks, size_t len,
                          struct pfl_proc_answer *ret_answers);

/* The numbers that are names in /proc/<pid>/<folder>, the first `max` of them; pid 0: in /proc.
 * Owned by the caller, who frees it; NULL: none. */
int32_t *pfl_proc_reader_list(int32_t pid, const char *folder, size_t max, size_t *ret_len);

/* Where descriptors of a process lead, at most PFL_PROC_READER_LINKS. With `is_wanted`, which is
 * called on another thread: on which device those are that it likes. */
void pfl_proc_reader_follow(int32_t pid, const int32_t *fds, size_t len,
                            bool (*is_wanted)(const char *path), struct pfl_proc_link *ret_links);

/* A file that is no process's. PFL_EIO: it is not there or not read in time; PFL_ELIMIT,
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_proc_reader_text(const char *path, struct pfl_buf *ret_text);
/* The names of the symbolic links in a folder, each with its NUL. Likewise. */
PFL_MUST_USE int pfl_proc_reader_names(const char *path, struct pfl_buf *ret_names);

#endif
