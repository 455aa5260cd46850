/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on pages: see order_page.h. A row for each order, which leads to its page, with a form
 * whose buttons change it; all lead to a page that asks first. Only the operator's own orders have
 * them: the collector takes no other's changes. Strings of collector and hosts are text.
 */
#include "consumer/web/running/order_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/web/running/running_confirm.h"

static const struct {
    const char *name; /* of the form and the command */
    const char *button;
    const char *text;
    const char *done;
} actions[] = {
    [PFL_ORDER_NONE] = {"", "", "", ""},
    [PFL_ORDER_PAUSE] = {"pause", "Pause",
                         "Its hosts stop to record for it until it is resumed. What they have, and "
                         "what the collector has, stays.",
                         "paused"},
    [PFL_ORDER_RESUME] = {"resume", "Resume", "Its hosts record for it again.", "resumed"},
    [PFL_ORDER_REMOVE] = {"rm", "Remove",
                          "Its hosts stop to record for it. What the collector has of it stays.",
                          "removed"},
};

enum pfl_order_action pfl_order_page_parse_action(const char *name)
{
    for (size_t i = 1; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(name, actions[i].name) == 0)
            return (enum pfl_order_action)i;
    return PFL_ORDER_NONE;
}

const char *pfl_order_page_name_action(enum pfl_order_action action)
{
    return actions[action].name;
}

const char *pfl_order_page_name_done(enum pfl_order_action action)
{
    return actions[action].done;
}

void pfl_order_page_write_confirm(enum pfl_order_action action, const char *name,
                                  const struct pfl_layout *layout, struct pfl_html *h)
{
    char title[128];
    const struct pfl_running_confirm confirm = {.object = PFL_RUNNING_ORDER,
                                                .name = name,
                                                .action = actions[action].name,
                                                .title = title,
                                                .text = actions[action].text,
                                                .button = actions[action].button};

    (void)snprintf(title, sizeof(title), "%s order %s?", actions[action].button, name);
    pfl_running_confirm_write(&confirm, layout, h);
}

/* ---- parts of both pages ---- */

static bool is_own(const struct pfl_order_page *p, const struct pfl_order_row *row)
{
    return p->own_name != NULL && strcmp(p->own_name, row->orderer) == 0;
}

static void add_buttons(const struct pfl_order_row *row, const struct pfl_layout *layout,
                        struct pfl_html *h)
{
    pfl_running_confirm_begin_form(PFL_RUNNING_ORDER, row->name, layout, h);
    if (row->is_paused)
        pfl_running_confirm_add_button(h, "resume", "Resume…", row->name);
    else
        pfl_running_confirm_add_button(h, "pause", "Pause…", row->name);
    pfl_running_confirm_add_button(h, "rm", "Remove…", row->name);
    pfl_html_close(h);
}

static void add_number(struct pfl_html *h, const char *label, uint64_t number)
{
    pfl_layout_begin_cell(h, label, true);
    pfl_html_textf(h, "%" PRIu64, number);
    pfl_html_close(h);
}

static void add_bytes(struct pfl_html *h, const char *label, uint64_t bytes)
{
    char text[32];

    pfl_layout_begin_cell(h, label, true);
    pfl_html_text(h, pfl_layout_bytes(bytes, text, sizeof(text)));
    pfl_html_close(h);
}

/* ---- the list ---- */

static void add_name(const struct pfl_order_row *row, struct pfl_html *h)
{
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/running/order", "orderer", row->orderer, "name", row->name);
    pfl_html_text(h, row->name[0] != '\0' ? row->name : "(no name)");
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_state(const struct pfl_order_row *row, struct pfl_html *h)
{
    pfl_layout_begin_cell(h, "State", false);
    if (row->is_paused)
        pfl_html_text(h, "paused");
    else if (row->refused != 0)
        pfl_html_leaf_of(h, "span", "state bad", "refused");
    else
        pfl_html_text(h, row->running != 0 ? "running" : "waiting");
    pfl_layout_add_why(h, row->why_host, row->why);
    pfl_html_close(h);
}

static void add_row(const struct pfl_order_page *p, const struct pfl_order_row *row,
                    const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_html_open(h, "tr");
    add_name(row, h);
    pfl_layout_begin_cell(h, "Ordered by", false);
    pfl_html_text(h, row->orderer);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "When", false);
    pfl_html_text(h, row->when);
    pfl_html_close(h);
    add_state(row, h);
    add_number(h, "Hosts", row->hosts);
    add_number(h, "Running", row->running);
    add_number(h, "Refused", row->refused);
    add_number(h, "Away", row->away);
    add_bytes(h, "Behind", row->behind_bytes);
    pfl_layout_begin_cell(h, "Actions", false);
    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "deeds");
    if (is_own(p, row))
        add_buttons(row, layout, h);
    else
        pfl_html_text(h, "–");
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_order_page_write_section(const struct pfl_order_page *page,
                                  const struct pfl_layout *layout, struct pfl_html *h)
{
    static const char *const columns[] = {"Order",   "Ordered by", "When",     "State",
                                          "#Hosts",  "#Running",   "#Refused", "#Away",
                                          "#Behind", "Actions",    NULL};

    pfl_html_leaf(h, "h2", "Orders");
    if (!page->has_collector) {
        pfl_html_leaf_of(h, "p", "count",
                         "No collector is connected to the relay, and orders need one.");
    } else if (page->why[0] != '\0') {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "bad");
        pfl_html_textf(h, "%s: %s.", page->rows->len != 0 ? "Not all orders" : "No orders",
                       page->why);
        pfl_html_close(h);
    } else if (page->rows->len == 0) {
        pfl_html_leaf_of(h, "p", "count", "The collector has no orders that you may see.");
    }
    if (page->rows->has_more)
        pfl_html_leaf_of(h, "p", "count", "There are further orders.");
    if (page->command != NULL)
        pfl_layout_add_part_command(h, page->command);
    if (page->rows->len == 0)
        return;
    pfl_layout_begin_table(h, "Orders", columns);
    for (size_t i = 0; i < page->rows->len; i++)
        add_row(page, &page->rows->rows[i], layout, h);
    pfl_layout_end_table(h);
}

/* ---- one order ---- */

static void add_host(const struct pfl_order_host_row *row, struct pfl_html *h)
{
    char age[32];

    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/host", "name", row->name);
    pfl_html_text(h, row->name);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "State", false);
    pfl_html_textf(h, "%s%s", row->state, row->is_connected ? "" : ", not connected");
    if (row->why[0] != '\0')
        pfl_html_leaf_of(h, "span", "why", row->why);
    pfl_html_close(h);
    add_number(h, "Segments behind", row->behind_segments);
    add_bytes(h, "Bytes behind", row->behind_bytes);
    pfl_layout_begin_cell(h, "Oldest", false);
    pfl_html_text(h, row->behind_segments != 0
                         ? pfl_layout_age((double)row->behind_ms / 1e3, age, sizeof(age))
                         : "–");
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Triggers", false);
    if (row->has_copies)
        pfl_html_textf(h, "%" PRIu64 " copied, %" PRIu64 " skipped", row->copies, row->skipped);
    else
        pfl_html_text(h, "–");
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_hosts(const struct pfl_order_rows *rows, struct pfl_html *h)
{
    static const char *const columns[] = {
        "Host", "State", "#Segments behind", "#Bytes behind", "Oldest", "Triggers", NULL};

    pfl_html_leaf(h, "h2", "Hosts");
    if (rows->hosts_len == 0) {
        pfl_html_leaf_of(h, "p", "count", "No host has it.");
        return;
    }
    if (rows->hosts_left_out != 0) {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "count");
        pfl_html_textf(h, "Further hosts: %zu.", rows->hosts_left_out);
        pfl_html_close(h);
    }
    pfl_layout_begin_table(h, "Hosts", columns);
    for (size_t i = 0; i < rows->hosts_len; i++)
        add_host(&rows->hosts[i], h);
    pfl_layout_end_table(h);
}

static void add_order(const struct pfl_order_page *p, const struct pfl_order_row *row,
                      const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "Ordered by %s; %s, generation %" PRIu32 "%s.", row->orderer, row->when,
                   row->generation, row->is_paused ? ", paused" : "");
    pfl_html_close(h);
    if (is_own(p, row))
        add_buttons(row, layout, h);
    add_hosts(p->rows, h);
}

void pfl_order_page_write(const struct pfl_order_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_open(h, "h1");
    pfl_html_textf(h, "Order %s", page->name);
    pfl_html_close(h);
    if (page->why[0] != '\0')
        pfl_html_leaf_of(h, "p", "bad", page->why);
    if (page->rows->len != 0)
        add_order(page, &page->rows->rows[0], layout, h);
    else if (page->why[0] == '\0')
        pfl_html_leaf_of(h, "p", "bad", "There is no such order, or you may not see it.");
    pfl_layout_end(layout, h);
}
