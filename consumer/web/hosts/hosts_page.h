/* SPDX-License-Identifier: Apache-2.0 */
/* The list of hosts as a page, or its table alone, for the script. Pure. */
#ifndef PFL_CONSUMER_WEB_HOSTS_HOSTS_PAGE_H
#define PFL_CONSUMER_WEB_HOSTS_HOSTS_PAGE_H

#include "consumer/web/frame/host_rows.h"
#include "consumer/web/html/layout.h"

struct pfl_hosts_page {
    const struct pfl_host_rows *list;
    const struct pfl_host_rows_view *view;
    const char *search; /* as typed */
    enum pfl_host_rows_state state;
    bool has_relay;
    int64_t now_s; /* UNIX time, for certificates */
};

/* "up", "away", "problem" or "". */
const char *pfl_hosts_page_state_name(enum pfl_host_rows_state state);
enum pfl_host_rows_state pfl_hosts_page_state_parse(const char *name);
void pfl_hosts_page_write(const struct pfl_hosts_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h);
/* What the script puts in place of the old one. */
void pfl_hosts_page_write_list(const struct pfl_hosts_page *page, struct pfl_html *h);

/* Cells that a host's own page has, too. */
void pfl_hosts_page_add_labels(const struct pfl_inventory_host *relay, struct pfl_html *h);
void pfl_hosts_page_add_state(const struct pfl_host_row *row, struct pfl_html *h);
void pfl_hosts_page_add_clock(const struct pfl_inventory_host *relay, struct pfl_html *h);
void pfl_hosts_page_add_certificate(int64_t end_s, int64_t now_s, struct pfl_html *h);

#endif
