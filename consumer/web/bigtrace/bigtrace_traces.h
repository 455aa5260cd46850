/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces of a collector as the BigTrace page lists and chooses them: a table of what the index
 * says about each. Pure.
 */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_TRACES_H
#define PFL_CONSUMER_WEB_BIGTRACE_TRACES_H

#include "consumer/ask/asked_traces.h"
#include "consumer/web/bigtrace/bigtrace_table.h"
#include "consumer/web/traces/trace_selection.h"

#define PFL_BIGTRACE_TRACES_MAX 20000u

/* A column of the table, for the page's catalog. */
struct pfl_bigtrace_trace_column {
    const char *name;
    const char *type;
    bool is_default; /* shown, and attached to rows, unless the page says otherwise */
    const char *description;
};

#define PFL_BIGTRACE_TRACE_COLUMNS 11u
extern const struct pfl_bigtrace_trace_column
    pfl_bigtrace_trace_columns[PFL_BIGTRACE_TRACE_COLUMNS];

struct pfl_bigtrace_traces {
    struct pfl_trace_selection selection;
    struct pfl_bigtrace_table *table; /* owned */
    struct pfl_asked_traces asked;    /* a trace has the index of its row */
    bool is_cut;                      /* there are more than the limit */
};

/* `settings` are the fields of pfl_trace_selection. PFL_EINVAL: self->selection.why says what is
 * wrong with them; PFL_ENOMEM. In each case the caller has to fini. */
PFL_MUST_USE int pfl_bigtrace_traces_init(struct pfl_bigtrace_traces *self,
                                          const struct pfl_bigtrace_request *request,
                                          int64_t now_s);
void pfl_bigtrace_traces_fini(struct pfl_bigtrace_traces *self);
/* The next page of the list; its texts are borrowed from `self`. */
void pfl_bigtrace_traces_fill(struct pfl_bigtrace_traces *self,
                              struct pfl_trace_selection_query *ret_query);
/* PFL_ENOMEM. True in *ret_has_more: after the last part of this reply, ask for the next page. */
PFL_MUST_USE int pfl_bigtrace_traces_take(struct pfl_bigtrace_traces *self,
                                          const Perfleet__CollectorReply *reply,
                                          bool *ret_has_more);

#endif
