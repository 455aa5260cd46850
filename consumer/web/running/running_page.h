/* SPDX-License-Identifier: Apache-2.0 */
/* The Running page: sessions on hosts, what can be done with them, and the page that asks first.
 * Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_RUNNING_PAGE_H
#define PFL_CONSUMER_WEB_RUNNING_RUNNING_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/running/running_rows.h"

struct pfl_running_page {
    const struct pfl_running_rows *rows;
    size_t asked;    /* hosts */
    size_t answered; /* of them */
    size_t all;
    int64_t now_s; /* UNIX time */
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

/* STOP and DISCARD ask first. */
struct pfl_running_confirm {
    enum pfl_running_action action;
    const char *session;
    size_t hosts_len; /* that have it */
};
void pfl_running_page_write_confirm(const struct pfl_running_confirm *confirm,
                                    const struct pfl_layout *layout, struct pfl_html *h);

#endif
