/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of requests that block: calls of store and index, in threads. */
#ifndef PFL_COLLECTOR_SERVE_JOB_WORK_PORT_H
#define PFL_COLLECTOR_SERVE_JOB_WORK_PORT_H

#include "base/io/sha256.h"
#include "collector/serve/job.h"
#include "collector/store/store.h"

struct pfl_job_work_engines {
    struct pfl_store *store;
    struct pfl_index *index;
};

/* Before the first step, on the loop: what steps need. PFL_ENOMEM. */
PFL_MUST_USE int pfl_job_work_prepare(struct pfl_job *job);
void pfl_job_work_release(struct pfl_job *job);
/* Performs the step that the job has. In a thread; blocks. */
void pfl_job_work_run(struct pfl_job *job, const struct pfl_job_work_engines *engines);

#endif
