/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that a collector keeps, as a page shows them. Pure. */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACE_ROWS_H
#define PFL_CONSUMER_WEB_TRACES_TRACE_ROWS_H

#include "consumer/web/html/html.h"
#include "perfleet/collector.pb-c.h"

#define PFL_TRACE_ROWS_MAX 200u

struct pfl_trace_row {
    char id[32];
    char host[256];
    char order[64];
    char trigger[64]; /* "": none */
    uint32_t number;
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns;
    uint64_t bytes;
    uint64_t losses;
    uint32_t missing_to; /* not 0: it is a gap, of the segments from `number` to this */
    bool is_pinned;
    char pin_who[64];
    char pin_reason[128];
    uint64_t pin_end_unix_ns; /* 0: none is known */
};

struct pfl_trace_rows {
    struct pfl_trace_row rows[PFL_TRACE_ROWS_MAX];
    size_t len;
    bool has_more; /* older ones */
};

/* Those of a reply; past the maximum they only count as more. */
void pfl_trace_rows_take(struct pfl_trace_rows *self, const Perfleet__CollectorReply *reply);
/* A bar of the time from the oldest row until now, with a block for each trace. */
void pfl_trace_rows_write_bar(const struct pfl_trace_rows *self, uint64_t now_unix_ns,
                              struct pfl_html *h);
/* Newest first. */
void pfl_trace_rows_write_table(const struct pfl_trace_rows *self, struct pfl_html *h);
/* Of several hosts: with the host and a box to choose each, whose field is `id`. */
void pfl_trace_rows_write_choice(const struct pfl_trace_rows *self, struct pfl_html *h);

#endif
