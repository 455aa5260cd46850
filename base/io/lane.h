/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for work that would hold the loop up: one job after the other, in the order in which
 * they were given. There is no thread before the first job.
 */
#ifndef PFL_BASE_IO_LANE_H
#define PFL_BASE_IO_LANE_H

#include "base/io/wakeup.h"

struct pfl_lane;

/* Part of what has work to do. */
struct pfl_lane_job {
    struct pfl_wakeup_note note; /* the lane's; first: it is cast back */
    struct pfl_lane_job *next;   /* the lane's */
    struct pfl_lane *lane;       /* the lane's */
    /* On the thread; touches nothing that the loop touches meanwhile, allocates nothing. */
    void (*run)(struct pfl_lane_job *job);
    /* On the loop, once. The job may be submitted again or freed. */
    void (*on_done)(struct pfl_lane_job *job);
};

PFL_MUST_USE int pfl_lane_open(uv_loop_t *loop, struct pfl_lane **ret_lane); /* PFL_ENOMEM, _EIO */
/* Waits for the jobs that there are, whose on_done follows; no other is submitted any more. The
 * memory goes with the loop's next turn. NULL is legal. */
void pfl_lane_close(struct pfl_lane *self);

/* The job was not taken: PFL_EIO, there is no thread to be had, and never was; PFL_ESTATE, the lane
 * is being closed. */
PFL_MUST_USE int pfl_lane_submit(struct pfl_lane *self, struct pfl_lane_job *job);

#endif
