/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of losses by process. Happy path: an entry for each process that loses data; there are
 * few. With more processes than entries the counts are lower bounds. No failures.
 */
#include "consumer/merge/lossy_processes.h"

void pfl_lossy_processes_note(struct pfl_lossy_processes *self, uint32_t pid)
{
    struct pfl_lossy_process *place = &self->list[0];

    if (pid == 0)
        return;
    for (size_t i = 0; i < PFL_LOSSY_PROCESSES_MAX; i++) {
        struct pfl_lossy_process *process = &self->list[i];

        if (process->pid == pid) {
            process->marks++;
            return;
        }
        if (process->marks < place->marks)
            place = process;
    }
    *place = (struct pfl_lossy_process){.pid = pid, .marks = 1};
}
