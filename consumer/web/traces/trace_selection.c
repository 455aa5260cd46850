/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of the page of traces: see trace_selection.h. Happy path: texts are copied, times and
 * labels parsed as the command line's. Failures: a text that makes no sense is kept for the form,
 * and said; the page then shows no traces. Limits: those of the header; longer texts are cut.
 */
#include "consumer/web/traces/trace_selection.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "consumer/config/instant.h"
#include "consumer/web/html/layout.h"
#include "proto/order/selector.h"

#define NS_PER_S UINT64_C(1000000000)

static const struct field {
    const char *name;
    const char *label;  /* in the form; NULL: it is not there */
    const char *option; /* of the command line; NULL: none */
    size_t offset;
    size_t room;
} fields[] = {
#define FIELD(field, label, option)                                                                \
    {                                                                                              \
#field, label, option, offsetof(struct pfl_trace_selection, field),                        \
            sizeof(((struct pfl_trace_selection *)NULL)->field)                                    \
    }
    FIELD(since, "Since", "--since"), FIELD(until, "Until", "--until"),
    FIELD(host, "Host", "--host"),    FIELD(select, "Labels", "--select"),
    FIELD(order, "Order", "--order"), FIELD(trigger, "Trigger", "--trigger"),
    FIELD(group, "Group by", NULL),   FIELD(lossy, NULL, NULL),
    FIELD(all, NULL, NULL),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static char *text_of(const struct pfl_trace_selection *f, size_t i)
{
    return (char *)(uintptr_t)f + fields[i].offset;
}

/* ---- reading ---- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A cursor that is none is the beginning. */
static void read_cursor(struct pfl_trace_selection *f)
{
    size_t len = strlen(f->after) / 2;

    for (size_t i = 0; i < len; i++) {
        int high = digit_of(f->after[2 * i]);
        int low = digit_of(f->after[2 * i + 1]);

        if (high < 0 || low < 0)
            return;
        f->cursor[i] = (uint8_t)(high << 4 | low);
    }
    f->cursor_len = len;
}

static void read_labels(struct pfl_trace_selection *f)
{
    char *rest = f->terms;

    (void)snprintf(f->terms, sizeof(f->terms), "%s", f->select);
    while (rest != NULL && f->terms[0] != '\0') {
        char *term = strsep(&rest, ",");

        if (strchr(term, '!') != NULL || !pfl_selector_is_label(term) ||
            f->labels_len == PFL_TRACE_SELECTION_LABELS_MAX) {
            f->why = "Labels: give label=pattern, with commas between them, such as "
                     "role=web,zone=b*.";
            return;
        }
        f->labels[f->labels_len++] = term;
    }
}

static void read_times(struct pfl_trace_selection *f, int64_t now_s)
{
    f->end_unix_ns = (uint64_t)now_s * NS_PER_S;
    if (!pfl_instant_parse(f->since, now_s, &f->begin_unix_ns) ||
        (f->until[0] != '\0' && !pfl_instant_parse(f->until, now_s, &f->end_unix_ns)))
        f->why = "Times: give one such as 14:03, 2026-11-23T14:03, or 2h for two hours ago.";
    else if (f->begin_unix_ns >= f->end_unix_ns)
        f->why = "Since is not before Until.";
}

void pfl_trace_selection_read(const struct pfl_form *form, int64_t now_s,
                              struct pfl_trace_selection *ret_filter)
{
    struct pfl_trace_selection *f = ret_filter;

    memset(f, 0, sizeof(*f));
    f->why = "";
    for (size_t i = 0; i < FIELDS; i++)
        (void)snprintf(text_of(f, i), fields[i].room, "%s", pfl_form_get(form, fields[i].name));
    (void)snprintf(f->after, sizeof(f->after), "%s", pfl_form_get(form, "after"));
    if (f->since[0] == '\0')
        (void)snprintf(f->since, sizeof(f->since), PFL_TRACE_SELECTION_SINCE);
    read_times(f, now_s);
    read_labels(f);
    read_cursor(f);
}

/* ---- the query ---- */

static void take_one(char *text, char **room, char ***ret_list, size_t *ret_len)
{
    if (text[0] == '\0')
        return;
    *room = text;
    *ret_list = room;
    *ret_len = 1;
}

void pfl_trace_selection_fill(struct pfl_trace_selection *self, uint32_t limit,
                              struct pfl_trace_selection_query *ret_query)
{
    Perfleet__TraceQuery *q = &ret_query->query;

    *ret_query = (struct pfl_trace_selection_query){.query = PERFLEET__TRACE_QUERY__INIT};
    q->has_begin_unix_ns = q->has_end_unix_ns = 1;
    q->begin_unix_ns = self->begin_unix_ns;
    q->end_unix_ns = self->end_unix_ns;
    q->label = self->labels;
    q->n_label = self->labels_len;
    q->has_lossy = q->lossy = self->lossy[0] != '\0';
    take_one(self->host, &ret_query->hosts[0], &q->host, &q->n_host);
    take_one(self->order, &ret_query->orders[0], &q->order, &q->n_order);
    take_one(self->trigger, &ret_query->triggers[0], &q->trigger, &q->n_trigger);
    q->has_look_at = self->all[0] == '\0';
    if (q->has_look_at)
        q->look_at = limit != 0 ? PFL_TRACE_SELECTION_LIST_MAX : PFL_TRACE_SELECTION_MAP_MAX;
    if (limit == 0)
        return;
    q->has_limit = 1;
    q->limit = limit;
    q->has_after = self->cursor_len != 0;
    q->after = (ProtobufCBinaryData){self->cursor_len, self->cursor};
}

void pfl_trace_selection_write_cursor(struct pfl_span cursor,
                                      char ret_text[2 * PFL_TRACE_SELECTION_CURSOR_MAX + 1])
{
    ret_text[0] = '\0';
    for (size_t i = 0; cursor.len <= PFL_TRACE_SELECTION_CURSOR_MAX && i < cursor.len; i++)
        (void)snprintf(ret_text + 2 * i, 3, "%02x", cursor.data[i]);
}

/* ---- for pages ---- */

void pfl_trace_selection_add_address(const struct pfl_trace_selection *self,
                                     struct pfl_page_address *address)
{
    for (size_t i = 0; i < FIELDS; i++)
        pfl_page_address_add(address, fields[i].name, text_of(self, i));
}

const char *pfl_trace_selection_write_time(uint64_t unix_ns, char *room, size_t room_len)
{
    time_t at = (time_t)(unix_ns / NS_PER_S);
    struct tm tm;

    if (localtime_r(&at, &tm) == NULL || strftime(room, room_len, "%F %T", &tm) == 0)
        (void)snprintf(room, room_len, "?");
    return room;
}

void pfl_trace_selection_add_link(const struct pfl_trace_selection *self, uint64_t until_unix_ns,
                                  const char *text, struct pfl_html *h)
{
    char until[32];

    (void)pfl_trace_selection_write_time(until_unix_ns + NS_PER_S - 1, until, sizeof(until));
    pfl_html_open(h, "a");
    pfl_html_href(h, "/traces", "since", self->since, "until",
                  until_unix_ns != 0 ? until : self->until, "host", self->host, "select",
                  self->select, "order", self->order, "trigger", self->trigger, "group",
                  self->group, "lossy", self->lossy, "all", until_unix_ns == 0 ? "1" : "");
    pfl_html_text(h, text);
    pfl_html_close(h);
}

void pfl_trace_selection_add_hidden(const struct pfl_trace_selection *self, struct pfl_html *h)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (text_of(self, i)[0] != '\0')
            pfl_layout_add_hidden(h, fields[i].name, text_of(self, i));
}

static void add_input(struct pfl_html *h, const char *name, const char *label, const char *value)
{
    pfl_html_open(h, "label");
    pfl_html_textf(h, "%s ", label);
    pfl_html_open(h, "input");
    pfl_html_attr(h, "name", name);
    pfl_html_attr(h, "value", value);
    pfl_html_attrf(h, "maxlength", "%u", PFL_TRACE_SELECTION_TEXT_MAX - 1);
    pfl_html_attr(h, "size", "12");
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_lossy(struct pfl_html *h, bool is_lossy)
{
    pfl_html_open(h, "label");
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "checkbox");
    pfl_html_attr(h, "name", "lossy");
    pfl_html_attr(h, "value", "1");
    if (is_lossy)
        pfl_html_attr(h, "checked", "");
    pfl_html_close(h);
    pfl_html_text(h, " with losses or gaps");
    pfl_html_close(h);
}

void pfl_trace_selection_write_form(const struct pfl_trace_selection *self, struct pfl_html *h)
{
    pfl_html_open(h, "form");
    pfl_html_attr(h, "id", "filter");
    pfl_html_attr(h, "method", "get");
    pfl_html_action(h, "/traces");
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].label != NULL)
            add_input(h, fields[i].name, fields[i].label, text_of(self, i));
    add_lossy(h, self->lossy[0] != '\0');
    pfl_layout_add_submit(h, "Show");
    pfl_html_close(h);
}

void pfl_trace_selection_add_options(const struct pfl_trace_selection *self,
                                     struct pfl_command_line *line)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].option != NULL)
            pfl_command_line_option(line, fields[i].option, text_of(self, i));
    if (self->lossy[0] != '\0')
        pfl_command_line_word(line, "--lossy");
}
