/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's alarms on the Running page, and the page that asks before they are removed. Pure.
 */
#ifndef PFL_CONSUMER_WEB_RUNNING_ALARM_PAGE_H
#define PFL_CONSUMER_WEB_RUNNING_ALARM_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/running/alarm_rows.h"

struct pfl_alarm_page {
    const struct pfl_alarm_rows *rows;
    const struct pfl_command_line *command; /* that lists them; NULL: that of the page */
    size_t asked;                           /* hosts */
    size_t answered;                        /* of them */
    const char *why_host;                   /* the first that did not; "": none is known */
    const char *why;                        /* or why nobody was asked */
};

/* A heading and a table, inside of the page. */
void pfl_alarm_page_write_section(const struct pfl_alarm_page *page,
                                  const struct pfl_layout *layout, struct pfl_html *h);
/* `hosts_len` have it. */
void pfl_alarm_page_write_confirm(const char *session, size_t hosts_len,
                                  const struct pfl_layout *layout, struct pfl_html *h);

#endif
