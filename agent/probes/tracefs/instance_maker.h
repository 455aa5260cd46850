/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the tracefs instance of the next session ahead of time, in a thread: the kernel may take
 * seconds to set a clock when all CPUs are busy. An instance that is unchanged except for its
 * buffers is emptied and kept. A shell.
 */
#ifndef PFL_PROBES_INSTANCE_MAKER_H
#define PFL_PROBES_INSTANCE_MAKER_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/probes/tracefs/tracefs.h"

/* Pages of its buffers, if the kernel supports it (6.8). */
#define PFL_INSTANCE_PAGE_KB      32u
#define PFL_INSTANCE_PAGE_KB_TEXT "32"

struct pfl_instance_maker {
    struct pfl_tracefs *fs; /* borrowed; only the thread's while is_busy */
    pthread_t thread;
    bool is_busy;
    bool is_kept; /* the thread may keep the existing instance */
    int rc;       /* the thread's, valid after the wait */
};

/* Makes one synchronously. PFL_EIO. */
PFL_MUST_USE int pfl_instance_maker_make(struct pfl_tracefs *fs);
/* In a thread: removes the existing instance and makes a new one: clock boot, small buffers, not
 * recording; `is_kept`: only empties its buffers, if its events are off. Without a thread (no
 * memory) `take` makes it. */
void pfl_instance_maker_start(struct pfl_instance_maker *self, struct pfl_tracefs *fs,
                              bool is_kept);
/* Waits for the thread, if there is one; then `fs` belongs to the caller. */
void pfl_instance_maker_wait(struct pfl_instance_maker *self);
/* Waits, and makes the instance here if there is none. PFL_EIO. */
PFL_MUST_USE int pfl_instance_maker_take(struct pfl_instance_maker *self, struct pfl_tracefs *fs);

#endif
