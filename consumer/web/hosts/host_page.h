/* SPDX-License-Identifier: Apache-2.0 */
/* One host as a page: what the relay and its service say, findings, its stored traces. Pure. */
#ifndef PFL_CONSUMER_WEB_HOSTS_HOST_PAGE_H
#define PFL_CONSUMER_WEB_HOSTS_HOST_PAGE_H

#include "consumer/web/frame/host_rows.h"
#include "consumer/web/html/layout.h"
#include "consumer/web/traces/trace_rows.h"

#define PFL_HOST_PAGE_MAX_ROWS 500u /* of each table; the rest is counted */

struct pfl_host_page {
    const struct pfl_host_row *row;
    struct pfl_span state;               /* serialized TracingServiceState; empty: no answer */
    const struct pfl_trace_rows *traces; /* NULL: no collector */
    const char *traces_why;              /* "" or why they could not be listed */
    const char *version;                 /* this program's */
    const struct pfl_command_line *live; /* of a live view, without a session; NULL: not shown */
    int64_t now_s;
};

/* PFL_ENOMEM, PFL_ELIMIT: `h` is not to be used. */
PFL_MUST_USE int pfl_host_page_write(const struct pfl_host_page *page,
                                     const struct pfl_layout *layout, struct pfl_html *h);

#endif
