/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve_process_fds: the open files in one session's trace, those that system calls opened since
 * the last look-up, and the order of processes for the next look-ups. Pure.
 */
#ifndef PFL_PROBES_OPEN_FILES_H
#define PFL_PROBES_OPEN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define PFL_OPEN_FILES_MAX       262144u /* that are remembered as written */
#define PFL_OPEN_FILES_FRESH_MAX 4096u   /* opened between two readings */

struct pfl_open_file {
    int32_t id; /* a process's; in the list of fresh ones a thread's */
    int32_t fd;
};

struct pfl_open_files {
    uint64_t *slots; /* owned; open addressing; 0: free */
    size_t slot_count;
    size_t used;
    struct pfl_open_file *fresh; /* owned */
    size_t fresh_count;
    struct pfl_hash_key hash_key;
};

/* How many files one reading of /proc may still look at, in the order of process ids. When that is
 * used up the next reading continues there. Zeroed memory starts with all processes. */
struct pfl_file_turn {
    uint32_t left;
    int32_t from; /* the first process of this reading */
    int32_t next; /* of the next reading; 0: all */
};

/* The key is random: processes choose their descriptors' numbers, and the key keeps them from
 * choosing colliding ones. A zeroed set is an empty one, with a known key. */
void pfl_open_files_init(struct pfl_open_files *self, const struct pfl_hash_key *hash_key);
void pfl_open_files_fini(struct pfl_open_files *self);
bool pfl_open_files_has(const struct pfl_open_files *self, struct pfl_open_file file);
/* Without memory, or if the set is full, the file is not added: it is written again. */
void pfl_open_files_add(struct pfl_open_files *self, struct pfl_open_file file);
/* A system call that opens files returned `result` to the thread. Ignored if the call failed or the
 * list is full: the next poll finds the file. */
void pfl_open_files_meet(struct pfl_open_files *self, int32_t tid, int64_t result);
void pfl_open_files_clear_fresh(struct pfl_open_files *self);
/* Forgets what was written; keeps the memory, and the fresh entries. */
void pfl_open_files_clear(struct pfl_open_files *self);

/* A reading begins, of `max` files. */
void pfl_file_turn_begin(struct pfl_file_turn *self, uint32_t max);
/* How many of the process's may be looked at; 0: not in this reading. */
uint32_t pfl_file_turn_get(const struct pfl_file_turn *self, int32_t pid);
/* The process has `wanted` files, or at least so many. Returns how many may be looked at. If not
 * all, it is the first of the next reading: `wanted` is at most the `max` of any reading. */
uint32_t pfl_file_turn_take(struct pfl_file_turn *self, int32_t pid, uint32_t wanted);

#endif
