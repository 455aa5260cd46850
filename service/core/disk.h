/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core's requests to the disk: an ordered list of steps on a few open files, done elsewhere and
 * answered later, so that a slow disk delays only the session that writes to it.
 */
#ifndef PFL_SERVICE_DISK_H
#define PFL_SERVICE_DISK_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_DISK_SLOTS       4u /* open files of one pfl_disk_file */
#define PFL_DISK_FOLDER_SLOT 3u /* the folder in which its steps create and remove files */
#define PFL_DISK_STEPS_MAX   9u

enum pfl_disk_step_kind {
    PFL_DISK_WRITE,  /* all bytes, at the slot's offset */
    PFL_DISK_SYNC,   /* fdatasync */
    PFL_DISK_CLOSE,  /* an empty slot is legal */
    PFL_DISK_CREATE, /* the last part of `path`; it must not exist; mode 0644 */
    PFL_DISK_REMOVE, /* likewise; a missing file is not a failure */
    PFL_DISK_COPY,   /* the first `copy_bytes` bytes of the file in slot `from` */
    PFL_DISK_SHORTEN /* the index at `path`, in the slot (port/disk_index.h); its failure is none of
                        the job */
};

struct pfl_disk_step {
    enum pfl_disk_step_kind kind;
    unsigned slot;
    struct pfl_span bytes; /* borrowed until the job is done */
    const char *path;      /* likewise */
    unsigned from;
    uint64_t copy_bytes; /* not counted in pfl_disk_result.written */
};

struct pfl_disk_job {
    struct pfl_disk_step steps[PFL_DISK_STEPS_MAX];
    size_t steps_len;
};

struct pfl_disk_result {
    int error;                        /* 0, or the errno of the step that failed */
    int shorten_error;                /* likewise, of a step that shortens */
    uint64_t written[PFL_DISK_SLOTS]; /* bytes, the failed step's included */
};

struct pfl_disk_file;
/* Never called from within submit. */
typedef void (*pfl_disk_done_cb)(void *user, const struct pfl_disk_result *result);

struct pfl_disk_ops {
    /* Opens the folder of a file. All files of a session are made and removed in that one, whatever
     * its path leads to later. 0 or an errno: ETIMEDOUT, EBUSY when the file system does not
     * answer. */
    int (*open_folder)(void *disk, const char *path, int *ret_folder);
    /* Creates a file of the path's last part. Errors as above. */
    int (*create)(void *disk, int folder, const char *path, int *ret_fd);
    /* Closes and removes what create made, or abandons it; `path` NULL: only closes. */
    void (*discard)(void *disk, int folder, const char *path, int fd);
    /* Duplicates the descriptor of the file in that slot, and returns how many bytes precede its
     * offset. No job may be in progress. 0 or an errno: it cannot be read. */
    int (*share)(struct pfl_disk_file *file, unsigned slot, int *ret_fd, uint64_t *ret_bytes);
    /* `fds` (-1: none) fill the slots, transferred on success. PFL_ENOMEM. */
    int (*open)(void *disk, const int fds[PFL_DISK_SLOTS], pfl_disk_done_cb done, void *user,
                struct pfl_disk_file **ret_file);
    /* Copies `job`, does its steps in order; after a failure only those that close. One job at a
     * time. */
    void (*submit)(struct pfl_disk_file *file, const struct pfl_disk_job *job);
    /* Closes what is open. Do not call it while a job is in progress: the job's bytes must stay
     * until it is done. */
    void (*close)(struct pfl_disk_file *file);
};

static inline void pfl_disk_job_add(struct pfl_disk_job *job, struct pfl_disk_step step)
{
    job->steps[job->steps_len++] = step;
}

#endif
