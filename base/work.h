/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something costly that must leave the loop. A core describes it; a shell that has threads runs it
 * (base/io/worker.h). Part of what has the work.
 */
#ifndef PFL_BASE_WORK_H
#define PFL_BASE_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct pfl_work {
    /* In a thread: touches nothing that the loop touches meanwhile, allocates nothing. */
    void (*run)(struct pfl_work *work);
    /* On the loop, once. The work may be submitted again or freed. */
    void (*on_done)(struct pfl_work *work);
    /* In a thread: nobody wants it any more, and it costs nothing. NULL: never so. */
    bool (*is_void)(const struct pfl_work *work);
    uint64_t who; /* whose share of the threads it takes: base/shares.h */

    /* The worker's, from submit to on_done. */
    struct pfl_work *next;
    bool has_share;
};

/* Hands the work over: 0, and on_done follows later, never before this returns; or an error, and
 * nothing follows. */
typedef int (*pfl_work_submit)(void *user, struct pfl_work *work);

#endif
