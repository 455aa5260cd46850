/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the turns of a loop: the longest time that a handle waits for others. Costs two clock
 * readings per turn once started.
 */
#ifndef PFL_BASE_IO_LOOP_WATCH_H
#define PFL_BASE_IO_LOOP_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct pfl_loop_watch {
    uv_prepare_t turn; /* once a turn of the loop, before it waits */
    uint64_t turn_ns;  /* when it was called last */
    uint64_t idle_ns;  /* the loop's total waiting time then */
    uint64_t busy_ns;  /* all turns */
    uint64_t longest_ns;
    bool is_open;
    void (*on_closed)(void *user);
    void *user;
};

struct pfl_loop_look {
    uint64_t busy_ns;    /* since the start */
    uint64_t longest_ns; /* turn since the last call of look */
    uint64_t cpu_ns;     /* of the process, user and system */
};

/* Starts, unless it runs already; cannot fail. Keeps no loop alive. `self` is zeroed before the
 * first call and stays where it is. */
void pfl_loop_watch_start(struct pfl_loop_watch *self, uv_loop_t *loop);
/* Resets the longest turn. All values but CPU time are 0 before the start. */
void pfl_loop_watch_look(struct pfl_loop_watch *self, struct pfl_loop_look *ret_look);
/* Asynchronous; `on_closed` (NULL is legal) is called from the loop. False if it was not running:
 * on_closed is not called then. */
bool pfl_loop_watch_close(struct pfl_loop_watch *self, void (*on_closed)(void *user), void *user);

#endif
