/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Running page: see running_page.h. A row for each session name, with the hosts that have it;
 * one that runs under a name is a flight recorder, which can be copied now: a button of a form.
 */
#include "consumer/web/record/running_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void begin_cell(struct pfl_html *h, const char *label, bool is_number)
{
    pfl_html_open(h, "td");
    if (is_number)
        pfl_html_attr(h, "class", "n");
    pfl_html_attr(h, "data-label", label);
}

static void add_hosts(const struct pfl_running_row *row, struct pfl_html *h)
{
    begin_cell(h, "Hosts", false);
    pfl_html_textf(h, "%zu: %s", row->hosts_len, row->hosts);
    pfl_html_close(h);
}

static void add_copy(const struct pfl_running_row *row, const struct pfl_layout *layout,
                     struct pfl_html *h)
{
    begin_cell(h, "Copy", false);
    if (row->can_be_copied) {
        pfl_layout_form(layout, h, "/running/snapshot");
        pfl_html_open(h, "input");
        pfl_html_attr(h, "type", "hidden");
        pfl_html_attr(h, "name", "session");
        pfl_html_attr(h, "value", row->name);
        pfl_html_close(h);
        pfl_html_open(h, "button");
        pfl_html_attr(h, "type", "submit");
        pfl_html_attrf(h, "aria-label", "Snapshot now: %s", row->name);
        pfl_html_text(h, "Snapshot now");
        pfl_html_close(h);
        pfl_html_close(h);
    } else {
        pfl_html_text(h, "–");
    }
    pfl_html_close(h);
}

static void add_row(const struct pfl_running_row *row, int64_t now_s,
                    const struct pfl_layout *layout, struct pfl_html *h)
{
    char text[32] = "–";

    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_text(h, row->name[0] != '\0' ? row->name : "(no name)");
    pfl_html_close(h);
    begin_cell(h, "State", false);
    pfl_html_text(h, row->state);
    pfl_html_close(h);
    add_hosts(row, h);
    begin_cell(h, "Since", false);
    pfl_html_text(h, row->since_s != 0
                         ? pfl_layout_age((double)(now_s - row->since_s), text, sizeof(text))
                         : text);
    pfl_html_close(h);
    begin_cell(h, "Buffers", true);
    pfl_html_text(h, pfl_layout_bytes(row->ring_bytes, text, sizeof(text)));
    pfl_html_close(h);
    begin_cell(h, "User", true);
    pfl_html_textf(h, "%" PRId32, row->user);
    pfl_html_close(h);
    add_copy(row, layout, h);
    pfl_html_close(h);
}

static void add_table(const struct pfl_running_page *p, const struct pfl_layout *layout,
                      struct pfl_html *h)
{
    static const char *const columns[] = {"Session",  "State", "Hosts", "Since",
                                          "#Buffers", "#User", "Copy",  NULL};

    pfl_layout_begin_table(h, "Sessions", columns);
    for (size_t i = 0; i < p->rows->len; i++)
        add_row(&p->rows->rows[i], p->now_s, layout, h);
    pfl_layout_end_table(h);
}

void pfl_running_page_write(const struct pfl_running_page *page, const struct pfl_layout *layout,
                            struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", "Running");
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "%zu sessions of %zu hosts that answered", page->rows->len, page->answered);
    if (page->asked != page->answered)
        pfl_html_textf(h, "; did not answer: %zu", page->asked - page->answered);
    if (page->all > page->asked)
        pfl_html_textf(h, "; not asked: %zu", page->all - page->asked);
    if (page->rows->left_out != 0)
        pfl_html_textf(h, "; further sessions: %zu", page->rows->left_out);
    pfl_html_text(h, ". A session with a name that runs is a flight recorder: a snapshot copies "
                     "what its hosts have now, and it continues.");
    pfl_html_close(h);
    if (page->rows->len != 0)
        add_table(page, layout, h);
    pfl_layout_end(layout, h);
}
