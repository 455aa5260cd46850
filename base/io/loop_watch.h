/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the turns of a loop take: what everybody waits for who is not served in that turn. Costs
 * two readings of a clock a turn, from the start on.
 */
#ifndef PFL_BASE_IO_LOOP_WATCH_H
#define PFL_BASE_IO_LOOP_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct pfl_loop_watch {
    uv_prepare_t turn; /* once a turn of the loop, before it waits */
    uint64_t turn_ns;  /* when it was called last */
    uint64_t idle_ns;  /* what the loop had waited by then */
    uint64_t busy_ns;  /* all turns */
    uint64_t longest_ns;
    bool is_open;
    void (*on_closed)(void *user);
    void *user;
};

struct pfl_loop_look {
    uint64_t busy_ns;    /* since the start */
    uint64_t longest_ns; /* turn since the last look */
    uint64_t cpu_ns;     /* of the process, user and system */
};

/* Starts, unless it runs already; cannot fail. Keeps no loop alive. `self` is zeroed at first and
 * stays where it is. */
void pfl_loop_watch_start(struct pfl_loop_watch *self, uv_loop_t *loop);
/* The longest turn begins anew. All but CPU time is 0 before the start. */
void pfl_loop_watch_look(struct pfl_loop_watch *self, struct pfl_loop_look *ret_look);
/* Asynchronous; `on_closed` (NULL is legal) comes from the loop, and not at all when it did not
 * run: false then. */
bool pfl_loop_watch_close(struct pfl_loop_watch *self, void (*on_closed)(void *user), void *user);

#endif
