/* SPDX-License-Identifier: Apache-2.0 */
/* One question of the BigTrace page: asked of the collector's traces, with its answer in memory. */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_EXECUTION_PORT_H
#define PFL_CONSUMER_WEB_BIGTRACE_EXECUTION_PORT_H

#include "consumer/web/bigtrace/bigtrace_reply.h"
#include "consumer/web/frame/web_conf.h"

struct pfl_bigtrace_execution;

struct pfl_bigtrace_execution_conf {
    const struct pfl_web_conf *web; /* borrowed until on_end, as its strings */
    bool is_kept;                   /* its rows are fetched later */
    /* Last callback, from the loop: it may be freed then, or later. */
    void (*on_end)(void *user, struct pfl_bigtrace_execution *execution);
    void *user;
};

/* Takes `request`'s content on success. PFL_EINVAL: *ret_why, borrowed from static memory;
 * PFL_ENOMEM, PFL_EIO (no random bytes). */
PFL_MUST_USE int pfl_bigtrace_execution_open(const struct pfl_bigtrace_execution_conf *conf,
                                             struct pfl_bigtrace_request *request,
                                             struct pfl_bigtrace_execution **ret_execution,
                                             const char **ret_why);
/* All borrowed until the next turn of the loop. */
void pfl_bigtrace_execution_get_facts(const struct pfl_bigtrace_execution *self,
                                      struct pfl_bigtrace_facts *ret_facts);
bool pfl_bigtrace_execution_is_over(const struct pfl_bigtrace_execution *self); /* after on_end */
/* Rows so far, whose columns are the question's, then those of traces. NULL: there are none, or
 * they were dropped. Borrowed until the next turn of the loop. */
const struct pfl_bigtrace_table *
pfl_bigtrace_execution_get_table(const struct pfl_bigtrace_execution *self);
/* Those that a page has unless it says which: the question's, and those that were attached. */
size_t pfl_bigtrace_execution_get_columns(const struct pfl_bigtrace_execution *self,
                                          size_t ret_columns[PFL_BIGTRACE_COLUMNS_MAX]);
/* Asynchronous, idempotent; on_end follows. */
void pfl_bigtrace_execution_cancel(struct pfl_bigtrace_execution *self);
void pfl_bigtrace_execution_drop_rows(struct pfl_bigtrace_execution *self); /* after on_end */
void pfl_bigtrace_execution_free(struct pfl_bigtrace_execution *self);      /* after on_end */

#endif
