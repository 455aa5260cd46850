/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's stored traces: see trace_rows.h. Times are local, as `perfleet traces` prints them.
 * Strings of hosts are cut to the row's room. The bar is an SVG whose blocks have classes for the
 * style sheet: a loss, a gap before it, a pin.
 */
#include "consumer/web/traces/trace_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/web/html/layout.h"
#include "consumer/web/traces/trace_selection.h"

#define BAR_WIDTH  1000u
#define BAR_HEIGHT 24u
#define NS_PER_S   1000000000u

static void copy_text(char *room, size_t room_len, const char *text)
{
    (void)snprintf(room, room_len, "%s", text != NULL ? text : "");
}

static void take_one(struct pfl_trace_row *row, const Perfleet__StoredTrace *trace)
{
    static const Perfleet__Segment none = PERFLEET__SEGMENT__INIT;
    const Perfleet__Segment *s = trace->segment != NULL ? trace->segment : &none;

    *row = (struct pfl_trace_row){.number = s->number,
                                  .begin_unix_ns = s->begin_unix_ns,
                                  .end_unix_ns = s->end_unix_ns,
                                  .bytes = s->bytes,
                                  .missing_to = s->gap != NULL ? s->gap->last : 0,
                                  .is_pinned = trace->pin != NULL};
    copy_text(row->id, sizeof(row->id), trace->id);
    copy_text(row->host, sizeof(row->host), s->host);
    if (trace->pin != NULL) {
        copy_text(row->pin_who, sizeof(row->pin_who), trace->pin->who);
        copy_text(row->pin_reason, sizeof(row->pin_reason), trace->pin->reason);
        row->pin_end_unix_ns = trace->pin->end_unix_ns;
    }
    copy_text(row->order, sizeof(row->order), s->order);
    copy_text(row->trigger, sizeof(row->trigger), s->trigger != NULL ? s->trigger->name : "");
    for (size_t i = 0; i < s->n_loss; i++)
        row->losses += s->loss[i]->count;
}

void pfl_trace_rows_take(struct pfl_trace_rows *self, const Perfleet__CollectorReply *reply)
{
    for (size_t i = 0; i < reply->n_trace; i++) {
        if (self->len == PFL_TRACE_ROWS_MAX)
            self->has_more = true;
        else
            take_one(&self->rows[self->len++], reply->trace[i]);
    }
    if (reply->has_cursor && reply->cursor.len != 0)
        self->has_more = true;
}

/* ---- the bar ---- */

struct scale {
    uint64_t begin_ns;
    uint64_t end_ns; /* later than begin */
};

static struct scale measure(const struct pfl_trace_rows *r, uint64_t now_ns)
{
    struct scale s = {UINT64_MAX, now_ns};

    for (size_t i = 0; i < r->len; i++) {
        if (r->rows[i].begin_unix_ns < s.begin_ns)
            s.begin_ns = r->rows[i].begin_unix_ns;
        if (r->rows[i].end_unix_ns > s.end_ns)
            s.end_ns = r->rows[i].end_unix_ns;
    }
    if (s.end_ns <= s.begin_ns)
        s.end_ns = s.begin_ns + 1;
    return s;
}

static double place(const struct scale *s, uint64_t ns)
{
    return ns <= s->begin_ns
               ? 0
               : (double)(ns - s->begin_ns) * BAR_WIDTH / (double)(s->end_ns - s->begin_ns);
}

static const char *class_of(const struct pfl_trace_row *row)
{
    if (row->losses != 0)
        return "lossy";
    if (row->missing_to != 0)
        return "gap";
    return row->is_pinned ? "pinned" : "whole";
}

static void add_block(const struct scale *s, const struct pfl_trace_row *row, struct pfl_html *h)
{
    double from = place(s, row->begin_unix_ns);
    double width = place(s, row->end_unix_ns) - from;
    char time[32];

    pfl_html_open(h, "rect");
    pfl_html_attrf(h, "x", "%.2f", from);
    pfl_html_attr(h, "y", "2");
    pfl_html_attrf(h, "width", "%.2f", width > 1.5 ? width : 1.5);
    pfl_html_attrf(h, "height", "%u", BAR_HEIGHT - 4);
    pfl_html_attr(h, "class", class_of(row));
    pfl_html_open(h, "title");
    pfl_html_textf(h, "%s %s",
                   pfl_trace_selection_write_time(row->begin_unix_ns, time, sizeof(time)),
                   row->order);
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_trace_rows_write_bar(const struct pfl_trace_rows *self, uint64_t now_unix_ns,
                              struct pfl_html *h)
{
    /* Colours are not all that tells them apart: notes in the table say the same. */
    static const char *const key[] = {"whole",       "whole", "pinned",  "pinned", "lossy",
                                      "with losses", "gap",   "missing", NULL};
    struct scale s = measure(self, now_unix_ns);
    char from[32];
    char to[32];

    if (self->len == 0)
        return;
    pfl_html_open(h, "figure");
    pfl_html_attr(h, "class", "bar");
    pfl_html_open(h, "svg");
    pfl_html_attrf(h, "viewBox", "0 0 %u %u", BAR_WIDTH, BAR_HEIGHT);
    pfl_html_attr(h, "preserveAspectRatio", "none");
    pfl_html_attr(h, "role", "img");
    pfl_html_attrf(h, "aria-label", "%zu traces from %s to %s", self->len,
                   pfl_trace_selection_write_time(s.begin_ns, from, sizeof(from)),
                   pfl_trace_selection_write_time(s.end_ns, to, sizeof(to)));
    for (size_t i = 0; i < self->len; i++)
        add_block(&s, &self->rows[i], h);
    pfl_html_close(h);
    pfl_html_open(h, "figcaption");
    pfl_html_leaf(h, "span", from);
    pfl_layout_add_key(h, key);
    pfl_html_leaf(h, "span", to);
    pfl_html_close(h);
    pfl_html_close(h);
}

/* ---- the table ---- */

static void add_cell(struct pfl_html *h, const char *label, bool is_number, const char *text)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", label);
    if (is_number)
        pfl_html_attr(h, "class", "n");
    pfl_html_text(h, text);
    pfl_html_close(h);
}

static void add_notes(const struct pfl_trace_row *row, struct pfl_html *h)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Notes");
    if (row->trigger[0] != '\0')
        pfl_html_textf(h, "trigger %s ", row->trigger);
    if (row->losses != 0) {
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "warn");
        pfl_html_textf(h, "%" PRIu64 " %s", row->losses, row->losses == 1 ? "loss" : "losses");
        pfl_html_close(h);
        pfl_html_text(h, " ");
    }
    if (row->missing_to != 0) {
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "bad");
        pfl_html_textf(h, "missing up to %" PRIu32, row->missing_to);
        pfl_html_close(h);
    }
    if (row->is_pinned)
        pfl_html_leaf_of(h, "span", "label", "pinned");
    pfl_html_close(h);
}

static void add_pin(const struct pfl_trace_row *row, struct pfl_html *h)
{
    char time[32];

    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Pin");
    if (row->is_pinned)
        pfl_html_textf(h, "%s: %s", row->pin_who, row->pin_reason);
    if (row->is_pinned && row->pin_end_unix_ns != 0)
        pfl_html_textf(h, ", until %s",
                       pfl_trace_selection_write_time(row->pin_end_unix_ns, time, sizeof(time)));
    pfl_html_close(h);
}

static void add_choice(const struct pfl_trace_row *row, struct pfl_html *h)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Choose");
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "checkbox");
    pfl_html_attr(h, "name", "id");
    pfl_html_attr(h, "value", row->id);
    pfl_html_attrf(h, "aria-label", "choose %s", row->id);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_host(const struct pfl_trace_row *row, struct pfl_html *h)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Host");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/host", "name", row->host);
    pfl_html_text(h, row->host);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_row(const struct pfl_trace_row *row, bool is_choice, struct pfl_html *h)
{
    char text[48];
    double seconds = row->end_unix_ns > row->begin_unix_ns
                         ? (double)(row->end_unix_ns - row->begin_unix_ns) / NS_PER_S
                         : 0;

    pfl_html_open(h, "tr");
    if (is_choice)
        add_choice(row, h);
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_text(h, pfl_trace_selection_write_time(row->begin_unix_ns, text, sizeof(text)));
    pfl_html_close(h);
    if (is_choice)
        add_host(row, h);
    (void)snprintf(text, sizeof(text), "%.1f s", seconds);
    add_cell(h, "Length", true, text);
    add_cell(h, "Order", false, row->order);
    (void)snprintf(text, sizeof(text), "%" PRIu32, row->number);
    add_cell(h, "Number", true, text);
    add_cell(h, "Size", true, pfl_layout_bytes(row->bytes, text, sizeof(text)));
    add_notes(row, h);
    if (is_choice)
        add_pin(row, h);
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Id");
    pfl_html_leaf(h, "code", row->id);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_columns(bool is_choice, struct pfl_html *h)
{
    static const struct {
        const char *name;
        bool is_of_choice;
    } columns[] = {{"Choose", true}, {"Begin", false},   {"Host", true},   {"#Length", false},
                   {"Order", false}, {"#Number", false}, {"#Size", false}, {"Notes", false},
                   {"Pin", true},    {"Id", false}};

    pfl_html_open(h, "thead");
    pfl_html_open(h, "tr");
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        if (!columns[i].is_of_choice || is_choice)
            pfl_layout_add_column(h, columns[i].name);
    }
    pfl_html_close(h);
    pfl_html_close(h);
}

static void write_table(const struct pfl_trace_rows *r, bool is_choice, struct pfl_html *h)
{
    pfl_layout_begin_scroll(h, "Traces");
    pfl_html_open(h, "table");
    add_columns(is_choice, h);
    pfl_html_open(h, "tbody");
    for (size_t i = 0; i < r->len; i++)
        add_row(&r->rows[i], is_choice, h);
    pfl_layout_end_table(h);
}

void pfl_trace_rows_write_table(const struct pfl_trace_rows *self, struct pfl_html *h)
{
    write_table(self, false, h);
}

void pfl_trace_rows_write_choice(const struct pfl_trace_rows *self, struct pfl_html *h)
{
    write_table(self, true, h);
}
