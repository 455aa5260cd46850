/* SPDX-License-Identifier: Apache-2.0 */
/* A session's counters as text or JSON for the operator. Pure. */
#ifndef PFL_CONSUMER_TRACE_STATS_H
#define PFL_CONSUMER_TRACE_STATS_H

#include "consumer/text.h"

struct pfl_trace_stats_host {
    const char *name;         /* borrowed */
    const char *why;          /* "" or why it could not be asked */
    struct pfl_span response; /* serialized GetTraceStatsResponse */
};

PFL_MUST_USE int pfl_trace_stats_text(const struct pfl_trace_stats_host *host, struct pfl_buf *out);
/* NULL without memory. */
json_t *pfl_trace_stats_json(const struct pfl_trace_stats_host *host);

#endif
