/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that a collector keeps, as text and JSON; times are local. Pure. */
#ifndef PFL_CONSUMER_TRACE_TABLE_H
#define PFL_CONSUMER_TRACE_TABLE_H

#include "base/buf.h"
#include "perfleet/collector.pb-c.h"

/* The head of the list, and a line for each trace, with the columns that fit the terminal's width;
 * 0: all of them. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_table_head(unsigned width, struct pfl_buf *out);
PFL_MUST_USE int pfl_trace_table_line(const Perfleet__StoredTrace *trace, unsigned width,
                                      struct pfl_buf *out);
/* One JSON object a line. */
PFL_MUST_USE int pfl_trace_table_json(const Perfleet__StoredTrace *trace, struct pfl_buf *out);
/* What is there of each run, and what is not; `ret_holes` grows by its unexplained numbers. */
PFL_MUST_USE int pfl_trace_table_missing(const Perfleet__MissingRow *row, bool is_json,
                                         struct pfl_buf *out, uint64_t *ret_holes);

#endif
