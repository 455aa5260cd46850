/* SPDX-License-Identifier: Apache-2.0 */
/* Orders on the Running page, the page of one order, and what can be done with one's own. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_ORDER_PAGE_H
#define PFL_CONSUMER_WEB_RUNNING_ORDER_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/running/order_rows.h"

struct pfl_order_page {
    const struct pfl_order_rows *rows;
    const char *name;     /* of the order whose page it is; NULL for the section */
    const char *own_name; /* the operator, whose own orders have buttons; NULL: not known */
    bool has_collector;   /* else there are no orders, and nothing is wrong */
    const struct pfl_command_line *command; /* that lists orders; NULL: that of the page */
    const char *why;                        /* "" or why the list is not there, or not whole */
};

/* A heading and a table, inside of the page. */
void pfl_order_page_write_section(const struct pfl_order_page *page,
                                  const struct pfl_layout *layout, struct pfl_html *h);
/* A page of its own: the first order of the rows, with its hosts. */
void pfl_order_page_write(const struct pfl_order_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h);

enum pfl_order_action {
    PFL_ORDER_NONE, /* no such action */
    PFL_ORDER_PAUSE,
    PFL_ORDER_RESUME,
    PFL_ORDER_REMOVE,
};
enum pfl_order_action pfl_order_page_parse_action(const char *name);
/* "rm", as the command line has it. */
const char *pfl_order_page_name_action(enum pfl_order_action action);
/* "removed" */
const char *pfl_order_page_name_done(enum pfl_order_action action);
/* The page that asks first. */
void pfl_order_page_write_confirm(enum pfl_order_action action, const char *name,
                                  const struct pfl_layout *layout, struct pfl_html *h);

#endif
