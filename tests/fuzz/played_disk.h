/* SPDX-License-Identifier: Apache-2.0 */
/* A disk of a service (service/core/disk.h) without one: jobs wait until they are run, and what
 * they would do is noted. */
#ifndef PFL_TESTS_FUZZ_PLAYED_DISK_H
#define PFL_TESTS_FUZZ_PLAYED_DISK_H

#include "service/core/disk.h"

#define PLAYED_FILES 8u
#define PLAYED_FD    100000 /* no descriptor of the process */

struct pfl_disk_file {
    struct played_disk *disk; /* NULL: free */
    pfl_disk_done_cb done;
    void *user;
    struct pfl_disk_job job;
    uint64_t bytes[PFL_DISK_SLOTS];
    bool is_busy;
};

struct played_disk {
    struct pfl_disk_file files[PLAYED_FILES];
    int last_fd;
};

extern const struct pfl_disk_ops played_disk_ops;

/* Does the jobs that wait. With an errno the first step of each fails. False: none waited. */
bool played_disk_run(struct played_disk *self, int error);

#endif
