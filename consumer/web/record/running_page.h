/* SPDX-License-Identifier: Apache-2.0 */
/* The Running page: sessions on hosts, and a copy of a flight recorder now. Pure. */
#ifndef PFL_CONSUMER_WEB_RECORD_RUNNING_PAGE_H
#define PFL_CONSUMER_WEB_RECORD_RUNNING_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/record/running_rows.h"

struct pfl_running_page {
    const struct pfl_running_rows *rows;
    size_t asked;    /* hosts */
    size_t answered; /* of them */
    size_t all;
    int64_t now_s; /* UNIX time */
};

void pfl_running_page_write(const struct pfl_running_page *page, const struct pfl_layout *layout,
                            struct pfl_html *h);

#endif
