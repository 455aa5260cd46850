/* SPDX-License-Identifier: Apache-2.0 */
/* Counts loss marks by process. Pure. */
#ifndef PFL_CONSUMER_LOSSY_PROCESSES_H
#define PFL_CONSUMER_LOSSY_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#define PFL_LOSSY_PROCESSES_MAX 4u /* processes of a host that are distinguished */

struct pfl_lossy_processes {
    struct pfl_lossy_process {
        uint32_t pid; /* 0: free */
        uint64_t marks;
    } list[PFL_LOSSY_PROCESSES_MAX];
};

/* A packet of `pid` marks a loss; 0: the process is unknown, and nothing is counted. If the table
 * is full, the entry with the fewest marks is replaced. */
void pfl_lossy_processes_note(struct pfl_lossy_processes *self, uint32_t pid);

#endif
