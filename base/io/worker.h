/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for work that would hold the loop up. Work is begun in the order in which it came; with
 * several threads users share them, each as many as he leaves free, so that nobody's long work
 * holds up anybody else's. There is no thread before the first work.
 */
#ifndef PFL_BASE_IO_WORKER_H
#define PFL_BASE_IO_WORKER_H

#include <uv.h>

#include "base/err.h"
#include "base/work.h"

#define PFL_WORKER_THREADS_MAX 8u

struct pfl_worker;

struct pfl_worker_conf {
    uv_loop_t *loop;
    unsigned threads_max; /* 1: work runs in order, and users have no shares */
    int nice;             /* of the threads */
};

/* PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_worker_open(const struct pfl_worker_conf *conf,
                                 struct pfl_worker **ret_worker);
/* The user who is not bound by a share, besides root. Before any work. */
void pfl_worker_set_owner(struct pfl_worker *self, uint32_t uid);
/* Waits for the work that there is, whose on_done follows before this returns; no other is taken
 * any more. The memory goes with the loop's next turn. NULL is legal. */
void pfl_worker_close(struct pfl_worker *self);

/* on_done follows on the loop, which stays alive until then. The work was not taken: PFL_EIO, no
 * thread can be started, and none was before; PFL_ESTATE, the worker is being closed. */
PFL_MUST_USE int pfl_worker_submit(struct pfl_worker *self, struct pfl_work *work);

#endif
