/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's pipeline and the worker that runs it. At most one batch of a session is in flight;
 * the job outlives its session until that one is back.
 */
#ifndef PFL_SERVICE_PIPELINE_JOB_H
#define PFL_SERVICE_PIPELINE_JOB_H

#include "base/clock.h"
#include "base/work.h"
#include "service/output/pipeline.h"
#include "service/plan/session_plan.h"

struct pfl_pipeline_job_conf {
    pfl_work_submit submit; /* NULL: batches are run at once */
    uint64_t (*now_ns)(void *user, enum pfl_clock_id id);
    void *user;
    uint64_t who;               /* the session's user */
    struct pfl_shares *charged; /* for what the pipeline keeps; borrowed; NULL: nobody is charged */
};

struct pfl_pipeline_job {
    struct pfl_work work;
    struct pfl_pipeline_job_conf conf;
    struct pfl_pipeline *pipeline;   /* owned; not to be touched while is_running */
    uint64_t held_bytes;             /* charged */
    struct pfl_pipeline_stats stats; /* as of the last batch that is back */
    bool is_running;
    bool is_orphan; /* frees itself when the batch is back */
    /* Called when a batch is back; NULL: not needed. */
    void (*on_back)(void *user);
    void *user;
};

/* NULL in `ret_job` when the plan asks for neither filter nor compression. Takes the plan's filter
 * or, if another job has it, makes one from its config. PFL_ENOMEM. */
PFL_MUST_USE int pfl_pipeline_job_new(struct pfl_session_plan *plan,
                                      const struct pfl_pipeline_job_conf *conf,
                                      struct pfl_pipeline_job **ret_job);
/* Cancels the batch in flight. NULL is legal. */
void pfl_pipeline_job_free(struct pfl_pipeline_job *self);

/* Runs the pipeline's batch. PFL_ENOMEM. */
PFL_MUST_USE int pfl_pipeline_job_start(struct pfl_pipeline_job *self);
/* The batch in flight is no longer needed: it yields nothing. */
void pfl_pipeline_job_abandon(struct pfl_pipeline_job *self);

#endif
