/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for work that would block the loop. Work is begun in the order of submission. With
 * several threads users share them (base/shares.h), so that one user's long work does not delay
 * others. A user who has none of them gets one of PFL_WORKER_SPARE_THREADS more, so that the long
 * work of several users together does not delay others, either. There is no thread before the first
 * work.
 */
#ifndef PFL_BASE_IO_WORKER_H
#define PFL_BASE_IO_WORKER_H

#include <uv.h>

#include "base/err.h"
#include "base/work.h"

#define PFL_WORKER_THREADS_MAX   8u
#define PFL_WORKER_SPARE_THREADS 24u /* besides; one a user */

struct pfl_worker;

struct pfl_worker_conf {
    uv_loop_t *loop;
    unsigned threads_max; /* 1: work runs in order, without shares and spare threads */
    int nice;             /* of the threads */
};

/* PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_worker_open(const struct pfl_worker_conf *conf,
                                 struct pfl_worker **ret_worker);
/* The user that is not bound by a share, besides root. Call before any work. */
void pfl_worker_set_owner(struct pfl_worker *self, uint32_t uid);
/* Waits for queued work, whose on_done is called before this returns; no further work is taken. The
 * memory is freed in the loop's next turn. May be called from an on_done. NULL is legal. */
void pfl_worker_close(struct pfl_worker *self);

/* on_done follows on the loop, which stays alive until then. PFL_EIO: no thread exists and none can
 * be started; PFL_ESTATE: the worker is being closed. Then the work was not taken. */
PFL_MUST_USE int pfl_worker_submit(struct pfl_worker *self, struct pfl_work *work);
/* For work that cannot be refused. As submit, but without a thread `run` is called here, which
 * blocks the loop; on_done still follows later. Not while the worker is being closed. */
void pfl_worker_run(struct pfl_worker *self, struct pfl_work *work);

#endif
