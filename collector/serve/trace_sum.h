/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of traces by host, or by the values of a label, and by time: what a page shows of very many
 * traces. Pure; nothing is allocated after new.
 */
#ifndef PFL_COLLECTOR_SERVE_TRACE_SUM_H
#define PFL_COLLECTOR_SERVE_TRACE_SUM_H

#include "base/message.h"
#include "collector/index/index.h"

#define PFL_TRACE_SUM_CELLS_MAX 96u
#define PFL_TRACE_SUM_ROWS_MAX  96u /* the last one is of all further names */

struct pfl_trace_sum;

struct pfl_trace_sum_conf {
    uint64_t begin_unix_ns;
    uint64_t cell_ns;  /* not 0 */
    uint32_t cells;    /* 1 to PFL_TRACE_SUM_CELLS_MAX */
    const char *label; /* whose values are rows; "": hosts are. Borrowed until free */
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_sum_new(const struct pfl_trace_sum_conf *conf,
                                   struct pfl_trace_sum **ret_sum);
void pfl_trace_sum_free(struct pfl_trace_sum *self); /* NULL is legal */
/* A trace or a gap counts in each cell that it overlaps; its bytes and losses in the first. */
void pfl_trace_sum_add(struct pfl_trace_sum *self, const struct pfl_index_row *row);
/* Appends perfleet.TraceSum messages as fields `field`, in order of names, that of all further ones
 * last. */
void pfl_trace_sum_write(struct pfl_trace_sum *self, uint32_t field, struct pfl_message *m);

#endif
