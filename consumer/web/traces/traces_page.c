/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of traces: see traces_page.h. Everything is a form: a list with a box for each trace and
 * a button for each action, so it works without script. Strings of hosts are text.
 */
#include "consumer/web/traces/traces_page.h"

#include <inttypes.h>
#include <string.h>

#include "consumer/web/traces/trace_heat.h"

#define ID_LETTERS 26u

static const char *const actions[] = {
    [PFL_TRACES_NONE] = "",   [PFL_TRACES_DOWNLOAD] = "get", [PFL_TRACES_OPEN] = "open",
    [PFL_TRACES_PIN] = "pin", [PFL_TRACES_UNPIN] = "unpin",  [PFL_TRACES_REMOVE] = "rm",
};

enum pfl_traces_action pfl_traces_page_parse_action(const char *name)
{
    for (size_t i = 1; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(name, actions[i]) == 0)
            return (enum pfl_traces_action)i;
    return PFL_TRACES_NONE;
}

const char *pfl_traces_page_name_action(enum pfl_traces_action action)
{
    return actions[action];
}

static bool is_id(const char *text)
{
    return strlen(text) == ID_LETTERS &&
           strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ID_LETTERS;
}

size_t pfl_traces_page_read_ids(const struct pfl_form *form, char **ret_ids, size_t max)
{
    size_t len = 0;

    for (size_t i = 0; i < form->len && len < max; i++)
        if (strcmp(form->fields[i].name, "id") == 0 && is_id(form->fields[i].value))
            ret_ids[len++] = (char *)(uintptr_t)form->fields[i].value;
    return len;
}

/* ---- the page ---- */

static void add_button(struct pfl_html *h, enum pfl_traces_action action, const char *text)
{
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    pfl_html_attr(h, "name", "act");
    pfl_html_attr(h, "value", actions[action]);
    if (action == PFL_TRACES_OPEN)
        pfl_html_attr(h, "formtarget", "_blank"); /* the UI takes the tab */
    pfl_html_text(h, text);
    pfl_html_close(h);
}

static void add_buttons(const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "actions");
    pfl_html_leaf(h, "span", "With the chosen traces: ");
    if (!layout->is_remote)
        add_button(h, PFL_TRACES_OPEN, "Open as one");
    add_button(h, PFL_TRACES_DOWNLOAD, "Download as one");
    add_button(h, PFL_TRACES_PIN, "Pin…");
    add_button(h, PFL_TRACES_UNPIN, "Unpin…");
    add_button(h, PFL_TRACES_REMOVE, "Delete…");
    pfl_html_close(h);
}

static void add_older(const struct pfl_traces_page *page, struct pfl_html *h)
{
    const struct pfl_trace_selection *f = page->filter;

    if (page->next[0] == '\0')
        return;
    pfl_html_open(h, "p");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/traces", "since", f->since, "until", f->until, "host", f->host, "select",
                  f->select, "order", f->order, "trigger", f->trigger, "group", f->group, "lossy",
                  f->lossy, "all", f->all, "after", page->next);
    pfl_html_attr(h, "rel", "next");
    pfl_html_text(h, page->looked_to_unix_ns != 0 ? "Look at older ones" : "Older ones");
    pfl_html_close(h);
    pfl_html_close(h);
}

/* How many there are is not known: a search stops after so many traces. */
static void add_looked_to(const struct pfl_traces_page *page, struct pfl_html *h)
{
    char time[32];

    if (page->looked_to_unix_ns == 0)
        return;
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "Looked at %u traces, back to %s. ", PFL_TRACE_SELECTION_LIST_MAX,
                   pfl_trace_selection_write_time(page->looked_to_unix_ns, time, sizeof(time)));
    pfl_trace_selection_add_link(page->filter, 0, "Look at all of them, which may take long", h);
    pfl_html_close(h);
}

static void add_list(const struct pfl_traces_page *page, const struct pfl_layout *layout,
                     struct pfl_html *h)
{
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    if (page->rows->len == 0)
        pfl_html_text(h, page->looked_to_unix_ns != 0 ? "No traces so far." : "No traces here.");
    else
        pfl_html_textf(h, "%zu traces, newest first%s.", page->rows->len,
                       page->looked_to_unix_ns != 0 ? "; there may be older ones"
                       : page->next[0] != '\0'      ? "; there are older ones"
                                                    : "");
    pfl_html_close(h);
    add_looked_to(page, h);
    if (page->rows->len == 0) {
        if (page->looked_to_unix_ns != 0)
            add_older(page, h);
        return;
    }
    pfl_layout_form(layout, h, "/traces/choose");
    pfl_trace_selection_add_hidden(page->filter, h);
    add_buttons(layout, h);
    pfl_trace_rows_write_choice(page->rows, h);
    pfl_html_close(h);
    add_older(page, h);
}

void pfl_traces_page_begin(const struct pfl_traces_page *page, const struct pfl_layout *layout,
                           struct pfl_html *h)
{
    const char *why = page->filter->why[0] != '\0' ? page->filter->why : page->why;

    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", "Traces");
    pfl_trace_selection_write_form(page->filter, h);
    if (why[0] != '\0')
        pfl_html_leaf_of(h, "p", "bad", why);
    else
        add_list(page, layout, h);
    pfl_html_text(h, ""); /* ends the last tag */
}

void pfl_traces_page_end(const struct pfl_trace_selection *filter,
                         const Perfleet__CollectorReply *map, const char *why,
                         const struct pfl_layout *layout, struct pfl_html *h)
{
    if (map != NULL || why[0] != '\0')
        pfl_html_leaf(h, "h2", "By time");
    if (why[0] != '\0')
        pfl_html_leaf_of(h, "p", "bad", why);
    else if (map != NULL && map->n_sum == 0 && !map->has_looked_to_unix_ns)
        pfl_html_leaf(h, "p", "No traces at that time.");
    else if (map != NULL)
        pfl_trace_heat_write(filter, map, h);
    pfl_layout_end(layout, h);
}

/* ---- the question ---- */

static void add_reason(struct pfl_html *h)
{
    pfl_html_open(h, "label");
    pfl_html_text(h, "Reason ");
    pfl_html_open(h, "input");
    pfl_html_attr(h, "name", "reason");
    pfl_html_attr(h, "required", "");
    pfl_html_attrf(h, "maxlength", "%u", PFL_TRACE_SELECTION_TEXT_MAX - 1);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_open(h, "label");
    pfl_html_text(h, "Keep for ");
    pfl_html_open(h, "input");
    pfl_html_attr(h, "name", "keep");
    pfl_html_attr(h, "value", "30d");
    pfl_html_attr(h, "size", "6");
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_ids(const struct pfl_form *form, struct pfl_html *h)
{
    char *ids[PFL_FORM_MAX_FIELDS];
    size_t len = pfl_traces_page_read_ids(form, ids, PFL_FORM_MAX_FIELDS);

    for (size_t i = 0; i < len; i++)
        pfl_layout_add_hidden(h, "id", ids[i]);
}

static void add_chosen(const struct pfl_form *form, struct pfl_html *h)
{
    char *ids[PFL_FORM_MAX_FIELDS];
    size_t len = pfl_traces_page_read_ids(form, ids, PFL_FORM_MAX_FIELDS);

    pfl_html_open(h, "ul");
    for (size_t i = 0; i < len; i++) {
        pfl_html_open(h, "li");
        pfl_html_leaf(h, "code", ids[i]);
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

void pfl_traces_page_write_confirm(const struct pfl_traces_confirm *confirm,
                                   const struct pfl_layout *layout, struct pfl_html *h)
{
    static const char *const words[] = {"", "", "", "Pin", "Unpin", "Delete"};
    char *ids[PFL_FORM_MAX_FIELDS];
    size_t len = pfl_traces_page_read_ids(confirm->form, ids, PFL_FORM_MAX_FIELDS);

    pfl_layout_begin(layout, h);
    pfl_html_open(h, "h1");
    pfl_html_textf(h, "%s %zu %s?", words[confirm->action], len, len == 1 ? "trace" : "traces");
    pfl_html_close(h);
    if (confirm->action == PFL_TRACES_REMOVE)
        pfl_html_leaf_of(h, "p", "bad", "What is deleted does not come back.");
    pfl_layout_form(layout, h, "/traces/change");
    pfl_trace_selection_add_hidden(confirm->filter, h);
    add_ids(confirm->form, h);
    if (confirm->action == PFL_TRACES_PIN)
        add_reason(h);
    add_button(h, confirm->action, words[confirm->action]);
    pfl_html_close(h);
    add_chosen(confirm->form, h);
    pfl_layout_end(layout, h);
}
