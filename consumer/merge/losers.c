/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of losses by process. Happy path: an entry for each process that loses data; there are
 * few. With more processes than entries the counts are lower bounds. No failures.
 */
#include "consumer/merge/losers.h"

void pfl_losers_note(struct pfl_losers *self, uint32_t pid)
{
    struct pfl_loser *place = &self->list[0];

    if (pid == 0)
        return;
    for (size_t i = 0; i < PFL_LOSERS_MAX; i++) {
        struct pfl_loser *loser = &self->list[i];

        if (loser->pid == pid) {
            loser->marks++;
            return;
        }
        if (loser->marks < place->marks)
            place = loser;
    }
    *place = (struct pfl_loser){.pid = pid, .marks = 1};
}
