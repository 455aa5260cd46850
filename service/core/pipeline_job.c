/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch at a time through a worker.
 *
 * start seals the batch and submits it; nothing touches the pipeline while it runs. When it is
 * back, the statistics are copied for queries, and the reader is notified. A job that is freed
 * meanwhile becomes an orphan and frees itself when its batch is back. Failures: if the worker
 * takes no work, the batch is run at once. Owned: the pipeline. Limits: what it keeps from one
 * batch to the next is charged to the user.
 */
#include "service/core/pipeline_job.h"

#include <assert.h>

#include "base/mem.h"

static uint64_t read_clock(void *user)
{
    const struct pfl_pipeline_job *job = user;

    return job->conf.now_ns(job->conf.user, PFL_CLOCK_MONOTONIC);
}

static void run(struct pfl_work *work)
{
    struct pfl_pipeline_job *job = (struct pfl_pipeline_job *)(void *)work;

    pfl_pipeline_run(job->pipeline);
}

/* What is kept is the user's; past its share nothing is kept, and each batch makes it again. */
static void charge(struct pfl_pipeline_job *job)
{
    const struct pfl_pipeline_job_conf *conf = &job->conf;

    if (conf->charged == NULL || pfl_shares_set(conf->charged, conf->who, &job->held_bytes,
                                                pfl_pipeline_get_kept_bytes(job->pipeline)))
        return;
    pfl_pipeline_trim(job->pipeline);
    pfl_shares_give(conf->charged, conf->who, job->held_bytes);
    job->held_bytes = 0;
}

static void finish(struct pfl_pipeline_job *job)
{
    job->is_running = false;
    job->stats = *pfl_pipeline_get_stats(job->pipeline);
    charge(job);
}

static void free_job(struct pfl_pipeline_job *job)
{
    if (job->conf.charged != NULL)
        pfl_shares_give(job->conf.charged, job->conf.who, job->held_bytes);
    pfl_pipeline_free(job->pipeline);
    pfl_mem_free(job);
}

static void on_done(struct pfl_work *work)
{
    struct pfl_pipeline_job *job = (struct pfl_pipeline_job *)(void *)work;

    finish(job);
    if (job->is_orphan)
        free_job(job);
    else if (job->on_back != NULL)
        job->on_back(job->user);
}

static bool is_void(const struct pfl_work *work)
{
    const struct pfl_pipeline_job *job = (const struct pfl_pipeline_job *)(const void *)work;

    return pfl_pipeline_is_cancelled(job->pipeline);
}

_Static_assert(offsetof(struct pfl_pipeline_job, work) == 0, "run, on_done and is_void cast");

static int take_filter(struct pfl_session_plan *plan, struct pfl_trace_filter **ret_filter)
{
    char why[PFL_FILTER_WHY_BYTES];

    *ret_filter = plan->filter;
    plan->filter = NULL;
    if (*ret_filter != NULL || !plan->has_filter)
        return 0;
    return pfl_trace_filter_new(plan->filter_config, ret_filter, why);
}

int pfl_pipeline_job_new(struct pfl_session_plan *plan, const struct pfl_pipeline_job_conf *conf,
                         struct pfl_pipeline_job **ret_job)
{
    struct pfl_pipeline_conf pipeline = {
        .codec = plan->codec, .zstd_level = plan->zstd_level, .now_ns = read_clock};
    struct pfl_pipeline_job *job;
    int rc;

    *ret_job = NULL;
    if (!plan->has_filter && plan->codec == PFL_CODEC_NONE)
        return 0;
    job = pfl_mem_zalloc(sizeof(*job));
    if (job == NULL)
        return PFL_ENOMEM;
    job->work =
        (struct pfl_work){.run = run, .on_done = on_done, .is_void = is_void, .who = conf->who};
    job->conf = *conf;
    pipeline.user = job;
    rc = take_filter(plan, &pipeline.filter);
    if (rc == 0)
        rc = pfl_pipeline_new(&pipeline, &job->pipeline);
    if (rc != 0) {
        pfl_trace_filter_free(pipeline.filter);
        pfl_mem_free(job);
        return rc;
    }
    *ret_job = job;
    return 0;
}

void pfl_pipeline_job_free(struct pfl_pipeline_job *self)
{
    if (self == NULL)
        return;
    pfl_pipeline_job_abandon(self);
    if (self->is_running)
        self->is_orphan = true;
    else
        free_job(self);
}

int pfl_pipeline_job_start(struct pfl_pipeline_job *self)
{
    int rc = pfl_pipeline_seal(self->pipeline);

    assert(!self->is_running);
    if (rc != 0)
        return rc;
    self->is_running = true;
    if (self->conf.submit != NULL && self->conf.submit(self->conf.user, &self->work) == 0)
        return 0;
    pfl_pipeline_run(self->pipeline);
    finish(self);
    return 0;
}

void pfl_pipeline_job_abandon(struct pfl_pipeline_job *self)
{
    self->on_back = NULL;
    if (self->is_running)
        pfl_pipeline_cancel(self->pipeline);
}
