/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the whole fleet: its relay, losses by cause, certificates that end soon. Pure. */
#ifndef PFL_CONSUMER_WEB_FLEET_FLEET_PAGE_H
#define PFL_CONSUMER_WEB_FLEET_FLEET_PAGE_H

#include "consumer/web/fleet/fleet_history.h"
#include "consumer/web/fleet/fleet_sums.h"
#include "consumer/web/html/layout.h"

struct pfl_fleet_page {
    bool has_relay;
    const struct pfl_relay_facts *relay; /* NULL: it did not say them yet */
    const char *relay_why;               /* "" or why not */
    const struct pfl_fleet_history *history;
    const struct pfl_host_rows *rows;
    const struct pfl_fleet_sums *sums;
    int64_t own_end_s;   /* of the operator's certificate, UNIX time; 0: there is none */
    int64_t relay_end_s; /* of the relay's; 0: not known */
    int64_t now_s;
};

void pfl_fleet_page_write(const struct pfl_fleet_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h);
/* The part that the script puts in place of the old one. */
void pfl_fleet_page_write_part(const struct pfl_fleet_page *page, struct pfl_html *h);

#endif
