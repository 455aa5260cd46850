/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alarms on pages: see alarm_page.h. A row for each session, with a button that disarms it on all
 * its hosts. Agents show an operator no other's alarms. Strings of agents are text.
 */
#include "consumer/web/running/alarm_page.h"

#include <stdio.h>

#include "consumer/web/running/running_confirm.h"

/* "armed", or "armed 2, copied 1". */
static void add_states(const struct pfl_alarm_row *row, struct pfl_html *h)
{
    const char *comma = "";

    pfl_layout_begin_cell(h, "State", false);
    for (unsigned i = 0; i < PFL_ALARM_STATES; i++) {
        const char *name = pfl_alarm_rows_name((enum pfl_alarm_state)i);

        if (row->states[i] == 0)
            continue;
        if (row->states[i] == row->hosts_len)
            pfl_html_text(h, name);
        else
            pfl_html_textf(h, "%s%s %zu", comma, name, row->states[i]);
        comma = ", ";
    }
    pfl_layout_add_why(h, row->why_host, row->why);
    pfl_html_close(h);
}

static void add_text(struct pfl_html *h, const char *label, const char *text)
{
    pfl_layout_begin_cell(h, label, false);
    pfl_html_text(h, text[0] != '\0' ? text : "–");
    pfl_html_close(h);
}

static void add_row(const struct pfl_alarm_row *row, const struct pfl_layout *layout,
                    struct pfl_html *h)
{
    pfl_html_open(h, "tr");
    pfl_layout_add_head_cell(h, row->session);
    add_text(h, "Triggers", row->triggers);
    add_states(row, h);
    pfl_layout_begin_cell(h, "Hosts", false);
    pfl_html_textf(h, "%zu: %s", row->hosts_len, row->hosts);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Raised", false);
    if (row->trigger[0] != '\0')
        pfl_html_textf(h, "%s at %s", row->trigger, row->at);
    else
        pfl_html_text(h, "–");
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Actions", false);
    pfl_running_confirm_begin_form(PFL_RUNNING_ALARM, row->session, layout, h);
    pfl_running_confirm_add_button(h, "disarm", "Disarm…", row->session);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_failed(const struct pfl_alarm_page *p, struct pfl_html *h)
{
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "bad");
    if (p->asked == p->answered)
        pfl_html_textf(h, "No alarms: %s", p->why);
    else
        pfl_html_textf(h, "The alarms of %zu of %zu hosts are not known. %s: %s",
                       p->asked - p->answered, p->asked, p->why_host, p->why);
    pfl_html_close(h);
}

void pfl_alarm_page_write_section(const struct pfl_alarm_page *page,
                                  const struct pfl_layout *layout, struct pfl_html *h)
{
    static const char *const columns[] = {"Session", "Triggers", "State", "Hosts",
                                          "Raised",  "Actions",  NULL};

    pfl_html_leaf(h, "h2", "Alarms");
    if (page->why[0] != '\0')
        add_failed(page, h);
    if (page->rows->len == 0 && page->answered != 0)
        pfl_html_leaf_of(h, "p", "count", "You have no alarms on these hosts.");
    if (page->rows->left_out != 0) {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "count");
        pfl_html_textf(h, "Further alarms: %zu.", page->rows->left_out);
        pfl_html_close(h);
    }
    if (page->command != NULL)
        pfl_layout_add_part_command(h, page->command);
    if (page->rows->len == 0)
        return;
    pfl_layout_begin_table(h, "Alarms", columns);
    for (size_t i = 0; i < page->rows->len; i++)
        add_row(&page->rows->rows[i], layout, h);
    pfl_layout_end_table(h);
}

void pfl_alarm_page_write_confirm(const char *session, size_t hosts_len,
                                  const struct pfl_layout *layout, struct pfl_html *h)
{
    char title[128];
    const struct pfl_running_confirm confirm = {
        .object = PFL_RUNNING_ALARM,
        .name = session,
        .action = "disarm",
        .title = title,
        .text = "No trigger copies this session any more. A copy that was made stays.",
        .button = "Disarm"};

    (void)snprintf(title, sizeof(title), "Disarm %s on %zu %s?", session, hosts_len,
                   hosts_len == 1 ? "host" : "hosts");
    pfl_running_confirm_write(&confirm, layout, h);
}
