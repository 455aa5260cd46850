/* SPDX-License-Identifier: Apache-2.0 */
/* Something costly that a core has done elsewhere: by a thread, where the shell has one. */
#ifndef PFL_SERVICE_WORK_H
#define PFL_SERVICE_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct pfl_work {
    void (*run)(struct pfl_work *work);  /* in a worker: touches nothing but its own work */
    void (*done)(struct pfl_work *work); /* back on the main thread; may free the work */
    /* In a worker: nobody wants it any more, and it costs nothing. NULL: never so. */
    bool (*is_void)(const struct pfl_work *work);
    uint64_t who; /* whose share of the workers it takes: base/shares.h */
};

/* Hands the work over: 0, and `done` follows later, never before this returns; or an error, and
 * nothing will. */
typedef int (*pfl_work_submit)(void *user, struct pfl_work *work);

#endif
