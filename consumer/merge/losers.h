/* SPDX-License-Identifier: Apache-2.0 */
/* Counts loss marks by process. Pure. */
#ifndef PFL_CONSUMER_LOSERS_H
#define PFL_CONSUMER_LOSERS_H

#include <stddef.h>
#include <stdint.h>

#define PFL_LOSERS_MAX 4u /* processes of a host that are distinguished */

struct pfl_losers {
    struct pfl_loser {
        uint32_t pid; /* 0: free */
        uint64_t marks;
    } list[PFL_LOSERS_MAX];
};

/* A packet of `pid` marks a loss; 0: the process is unknown, and nothing is counted. If the table
 * is full, the entry with the fewest marks is replaced. */
void pfl_losers_note(struct pfl_losers *self, uint32_t pid);

#endif
