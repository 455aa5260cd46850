/* SPDX-License-Identifier: Apache-2.0 */
/* The executions that the pages keep for the BigTrace page: the newest, and those under way. */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_PART_H
#define PFL_CONSUMER_WEB_BIGTRACE_PART_H

#include "consumer/web/bigtrace/bigtrace_execution_port.h"
#include "consumer/web/frame/web_visit.h"

#define PFL_BIGTRACE_KEPT_MAX    16u
#define PFL_BIGTRACE_RUNNING_MAX 2u

struct pfl_bigtrace_part;

/* Who waits for the end of an execution. */
struct pfl_bigtrace_waiter {
    /* It ended; the execution is borrowed until return. */
    void (*on_end)(void *user, struct pfl_bigtrace_execution *execution);
    void *user;
};

/* NULL: no memory. Borrowed until the pages end. */
struct pfl_bigtrace_part *pfl_bigtrace_part_get(struct pfl_web *web);
/* PFL_EAGAIN: PFL_BIGTRACE_RUNNING_MAX are under way; else as pfl_bigtrace_execution_open. The
 * execution is borrowed until the next turn of the loop, or, with a waiter, until its on_end. */
PFL_MUST_USE int pfl_bigtrace_part_run(struct pfl_bigtrace_part *self,
                                       struct pfl_bigtrace_request *request,
                                       const struct pfl_bigtrace_waiter *waiter,
                                       struct pfl_bigtrace_execution **ret_execution,
                                       const char **ret_why);
/* NULL: there is none. Borrowed until the next turn of the loop. */
struct pfl_bigtrace_execution *pfl_bigtrace_part_find(const struct pfl_bigtrace_part *self,
                                                      const char *uuid);
/* It is cancelled, and not found any more. False: there is none. */
bool pfl_bigtrace_part_remove(struct pfl_bigtrace_part *self, const char *uuid);
/* Newest first. */
size_t pfl_bigtrace_part_list(const struct pfl_bigtrace_part *self,
                              struct pfl_bigtrace_facts ret_facts[PFL_BIGTRACE_KEPT_MAX]);

#endif
