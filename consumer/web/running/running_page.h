/* SPDX-License-Identifier: Apache-2.0 */
/* The Running page: sessions on hosts, orders, alarms, what can be done with them, and the page
 * that asks first. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_RUNNING_PAGE_H
#define PFL_CONSUMER_WEB_RUNNING_RUNNING_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/running/alarm_page.h"
#include "consumer/web/running/order_page.h"
#include "consumer/web/running/running_rows.h"

struct pfl_running_page {
    const struct pfl_running_rows *rows;
    size_t asked;    /* hosts */
    size_t answered; /* of them */
    size_t all;
    const char *why;                     /* NULL, or why nobody was asked */
    int64_t now_s;                       /* UNIX time */
    const struct pfl_order_page *orders; /* NULL: without a relay there are none, as the next */
    const struct pfl_alarm_page *alarms;
};

void pfl_running_page_write(const struct pfl_running_page *page, const struct pfl_layout *layout,
                            struct pfl_html *h);

/* What a button of the form does, with all hosts' sessions of one name or key. */
enum pfl_running_action {
    PFL_RUNNING_NONE, /* no such action */
    PFL_RUNNING_SNAPSHOT,
    PFL_RUNNING_READ,
    PFL_RUNNING_STOP,
    PFL_RUNNING_DISCARD,
};
enum pfl_running_action pfl_running_page_parse_action(const char *name);
/* "kill", as the command line has it. */
const char *pfl_running_page_name_action(enum pfl_running_action action);

/* The page that asks before STOP and DISCARD: `hosts_len` have the session. */
void pfl_running_page_write_confirm(enum pfl_running_action action, const char *session,
                                    size_t hosts_len, const struct pfl_layout *layout,
                                    struct pfl_html *h);

#endif
