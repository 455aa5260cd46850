/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Running page: see running_page.h. A row for each session name, with the hosts that have it,
 * and a form whose buttons say what can be done with it. What takes data away asks first.
 */
#include "consumer/web/running/running_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/web/running/running_confirm.h"

static void add_hosts(const struct pfl_running_row *row, struct pfl_html *h)
{
    pfl_layout_begin_cell(h, "Hosts", false);
    pfl_html_textf(h, "%zu: %s", row->hosts_len, row->hosts);
    pfl_html_close(h);
}

/* What has only a key cannot be copied, so reading takes it. */
static const char *name_read(const struct pfl_running_row *row)
{
    if (strcmp(row->name, row->key) != 0)
        return "Read and discard";
    return row->is_running ? "Stop and read" : "Read";
}

static void add_actions(const struct pfl_running_row *row, const struct pfl_layout *layout,
                        struct pfl_html *h)
{
    bool can_be_copied = row->name[0] != '\0' && row->is_running;

    pfl_layout_begin_cell(h, "Actions", false);
    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "deeds");
    if (can_be_copied) {
        pfl_running_confirm_begin_form(PFL_RUNNING_SESSION, row->name, layout, h);
        pfl_running_confirm_add_button(h, "snapshot", "Snapshot now", row->name);
        pfl_html_close(h);
    }
    if (row->key[0] != '\0') {
        pfl_running_confirm_begin_form(PFL_RUNNING_SESSION, row->key, layout, h);
        if (row->is_running)
            pfl_running_confirm_add_button(h, "stop", "Stop…", row->key);
        pfl_running_confirm_add_button(h, "read", name_read(row), row->key);
        pfl_running_confirm_add_button(h, "kill", "Discard…", row->key);
        pfl_html_close(h);
    }
    if (!can_be_copied && row->key[0] == '\0')
        pfl_html_text(h, "–");
    pfl_html_close(h);
    pfl_html_close(h);
}

/* What commands call it: the key under which it was left, which is its name unless that follows. */
static void add_title(const struct pfl_running_row *row, struct pfl_html *h)
{
    bool has_both = row->key[0] != '\0' && row->name[0] != '\0';

    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    if (row->key[0] != '\0')
        pfl_html_text(h, row->key);
    else
        pfl_html_text(h, row->name[0] != '\0' ? row->name : "(no name)");
    if (has_both && strcmp(row->name, row->key) != 0) {
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "why");
        pfl_html_textf(h, "of %s", row->name);
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

static void add_row(const struct pfl_running_row *row, int64_t now_s,
                    const struct pfl_layout *layout, struct pfl_html *h)
{
    char text[32] = "–";

    pfl_html_open(h, "tr");
    add_title(row, h);
    pfl_layout_begin_cell(h, "State", false);
    pfl_html_text(h, row->state);
    pfl_html_close(h);
    add_hosts(row, h);
    pfl_layout_begin_cell(h, "Since", false);
    pfl_html_text(h, row->since_s != 0
                         ? pfl_layout_age((double)(now_s - row->since_s), text, sizeof(text))
                         : text);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Buffers", true);
    pfl_html_text(h, pfl_layout_bytes(row->ring_bytes, text, sizeof(text)));
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "User", true);
    pfl_html_textf(h, row->is_own ? "you (%" PRId32 ")" : "%" PRId32, row->user);
    pfl_html_close(h);
    add_actions(row, layout, h);
    pfl_html_close(h);
}

static void add_table(const struct pfl_running_page *p, const struct pfl_layout *layout,
                      struct pfl_html *h)
{
    static const char *const columns[] = {"Session",  "State", "Hosts",   "Since",
                                          "#Buffers", "#User", "Actions", NULL};

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
        pfl_html_textf(h, "; sessions left out: %zu (a host has %zu rows of its own at most)",
                       page->rows->left_out, page->rows->of_host_max);
    pfl_html_text(h, ". A session with a name that runs is a flight recorder: a snapshot copies "
                     "what its hosts have now, and it continues. A session that was left running "
                     "can be stopped, read and discarded, unless a program is attached to it.");
    if (page->orders != NULL)
        pfl_html_text(h, " User is the one that made the session on its host: the agent's, if an "
                         "operator or an order did. Yours say so; the relay's audit log names the "
                         "other operators.");
    pfl_html_close(h);
    if (page->why != NULL)
        pfl_html_leaf_of(h, "p", "bad", page->why);
    if (page->rows->len != 0)
        add_table(page, layout, h);
    if (page->orders != NULL)
        pfl_order_page_write_section(page->orders, layout, h);
    if (page->alarms != NULL)
        pfl_alarm_page_write_section(page->alarms, layout, h);
    pfl_layout_end(layout, h);
}

/* ---- the question ---- */

static const struct {
    const char *name; /* of the form and the command */
    const char *question;
    const char *text;
} actions[] = {
    [PFL_RUNNING_NONE] = {"", "", ""},
    [PFL_RUNNING_SNAPSHOT] = {"snapshot", "", ""},
    [PFL_RUNNING_READ] = {"read", "", ""},
    [PFL_RUNNING_STOP] = {"stop", "Stop",
                          "It records no more. Its data stays on the hosts until it is read and "
                          "discarded."},
    [PFL_RUNNING_DISCARD] = {"kill", "Discard",
                             "It ends, and what the hosts have of it is gone: nobody can read it "
                             "any more."},
};

enum pfl_running_action pfl_running_page_parse_action(const char *name)
{
    for (size_t i = 1; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(name, actions[i].name) == 0)
            return (enum pfl_running_action)i;
    return PFL_RUNNING_NONE;
}

const char *pfl_running_page_name_action(enum pfl_running_action action)
{
    return actions[action].name;
}

void pfl_running_page_write_confirm(enum pfl_running_action action, const char *session,
                                    size_t hosts_len, const struct pfl_layout *layout,
                                    struct pfl_html *h)
{
    char title[PFL_RUNNING_ROWS_NAME_BYTES + 64];
    const struct pfl_running_confirm confirm = {.object = PFL_RUNNING_SESSION,
                                                .name = session,
                                                .action = actions[action].name,
                                                .title = title,
                                                .text = actions[action].text,
                                                .button = actions[action].question};

    (void)snprintf(title, sizeof(title), "%s %s on %zu %s?", actions[action].question, session,
                   hosts_len, hosts_len == 1 ? "host" : "hosts");
    pfl_running_confirm_write(&confirm, layout, h);
}
