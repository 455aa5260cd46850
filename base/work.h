/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A costly task that must leave the loop. A core describes it; a shell with threads runs it
 * (base/io/worker.h). Embedded in its owner's object.
 */
#ifndef PFL_BASE_WORK_H
#define PFL_BASE_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum pfl_work_share {
    PFL_WORK_WITHOUT_SHARE,
    PFL_WORK_SHARE, /* of the threads that users share */
    PFL_WORK_SPARE, /* one of the spare threads */
};

struct pfl_work {
    /* In a thread: touches nothing that the loop uses meanwhile, allocates nothing. */
    void (*run)(struct pfl_work *work);
    /* On the loop, once. The work may be submitted again or freed. */
    void (*on_done)(struct pfl_work *work);
    /* In a thread: the result is no longer needed, so it costs nothing. NULL: always needed. */
    bool (*is_void)(const struct pfl_work *work);
    uint64_t who; /* the user whose share of the threads it uses: base/shares.h */

    /* Belongs to the worker, from submit to on_done. */
    struct pfl_work *next;
    enum pfl_work_share share;
};

/* Submits the work: 0, and on_done follows later, never before this returns; or an error, and
 * nothing follows. */
typedef int (*pfl_work_submit)(void *user, struct pfl_work *work);

#endif
