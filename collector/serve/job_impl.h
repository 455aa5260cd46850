/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the job: its state machine (job.c) writes replies (job_reply.c), which read its pages
 * (job_page.c).
 */
#ifndef PFL_COLLECTOR_SERVE_JOB_IMPL_H
#define PFL_COLLECTOR_SERVE_JOB_IMPL_H

#include "collector/serve/job.h"

/* ---- job_page.c ---- */

/* The next run of the page: its host, and its MissingRow in the page. False: there is none. */
bool pfl_job_next_run(struct pfl_job *self, char ret_host[PFL_INDEX_NAME_BYTES],
                      struct pfl_span *ret_row);
/* Of `states`, which begins as all of `extra`: the next of the order that pfl_job_next_order gave
 * last. False: there are no more of it. */
bool pfl_job_next_state(const struct pfl_job *self, struct pfl_reader *states,
                        char ret_host[PFL_INDEX_NAME_BYTES], struct pfl_span *ret_state);

/* ---- job_reply.c ---- */

/* Appends the frame. PFL_ELIMIT, PFL_ENOMEM: nothing was appended. */
PFL_MUST_USE int pfl_job_write_reply(struct pfl_job *self, const struct pfl_known_hosts *hosts,
                                     bool is_last, struct pfl_buf *out);

#endif
