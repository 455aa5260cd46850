/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that one session has met, and which of them are new since the last query. */
#ifndef PFL_PROBES_PID_SET_H
#define PFL_PROBES_PID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_PID_MAX       (1 << 22) /* the kernel's PID_MAX_LIMIT */
#define PFL_PID_BLOCKS    64
#define PFL_PID_FRESH_MAX 8192u

struct pfl_pid_set {
    uint64_t *blocks[PFL_PID_BLOCKS]; /* owned; a bit a pid, allocated as met */
    int32_t *fresh;                   /* owned; added since the last pfl_pid_set_clear_fresh */
    size_t fresh_count;
};

/* A zeroed set is empty. */
void pfl_pid_set_fini(struct pfl_pid_set *self);
/* True if the pid was not in the set. If memory or the list of fresh ones is full, the pid is not
 * added and will be met again. */
bool pfl_pid_set_add(struct pfl_pid_set *self, int32_t pid);
bool pfl_pid_set_has(const struct pfl_pid_set *self, int32_t pid);
void pfl_pid_set_remove(struct pfl_pid_set *self, int32_t pid);
void pfl_pid_set_clear_fresh(struct pfl_pid_set *self);
/* Forgets everything; keeps the memory. */
void pfl_pid_set_clear(struct pfl_pid_set *self);

#endif
