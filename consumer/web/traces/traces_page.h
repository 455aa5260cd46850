/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a collector's traces, and the one that asks before a change. Pure. */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACES_PAGE_H
#define PFL_CONSUMER_WEB_TRACES_TRACES_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/traces/trace_rows.h"
#include "consumer/web/traces/trace_selection.h"

#define PFL_TRACES_PAGE_ROWS 25u

struct pfl_traces_page {
    const struct pfl_trace_selection *filter;
    const struct pfl_trace_rows *rows;
    const char *next;           /* the cursor of older ones; "": there are none */
    uint64_t looked_to_unix_ns; /* not 0: only traces that begin later were looked at */
    const char *why;            /* "" or why there is no list */
};

/* The frame, the filter and the list; the map follows (pfl_traces_page_end). */
void pfl_traces_page_begin(const struct pfl_traces_page *page, const struct pfl_layout *layout,
                           struct pfl_html *h);
/* The map, unless `why` says why there is none, and the end of the page. `map` is the reply to a
 * sum; NULL: none. */
void pfl_traces_page_end(const struct pfl_trace_selection *filter,
                         const Perfleet__CollectorReply *map, const char *why,
                         const struct pfl_layout *layout, struct pfl_html *h);

enum pfl_traces_action {
    PFL_TRACES_NONE, /* no such action */
    PFL_TRACES_DOWNLOAD,
    PFL_TRACES_OPEN,
    PFL_TRACES_PIN,
    PFL_TRACES_UNPIN,
    PFL_TRACES_REMOVE,
};
enum pfl_traces_action pfl_traces_page_parse_action(const char *name);
/* "pin", as the command line has it. */
const char *pfl_traces_page_name_action(enum pfl_traces_action action);

/* Whether to do it with these traces: `form` has their ids, and the filter to come back to. */
struct pfl_traces_confirm {
    const struct pfl_form *form;
    const struct pfl_trace_selection *filter;
    enum pfl_traces_action action;
};
void pfl_traces_page_write_confirm(const struct pfl_traces_confirm *confirm,
                                   const struct pfl_layout *layout, struct pfl_html *h);
/* The ids of a form, which are words of 26 letters and digits; at most `max`, borrowed from it. */
size_t pfl_traces_page_read_ids(const struct pfl_form *form, char **ret_ids, size_t max);

#endif
