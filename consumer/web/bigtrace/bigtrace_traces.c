/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's traces: see bigtrace_traces.h. Happy path: the settings become a query, whose
 * pages become rows. Failures: settings that make no sense, memory; beyond PFL_BIGTRACE_TRACES_MAX,
 * or the table's bytes, the list is cut, which the owner says. Owns the table and the list.
 */
#include "consumer/web/bigtrace/bigtrace_traces.h"

#include <stdio.h>
#include <string.h>

#include "consumer/ask/answer_format.h"

#define PAGE_TRACES 1000u
#define LIST_BYTES  1024u

const struct pfl_bigtrace_trace_column pfl_bigtrace_trace_columns[PFL_BIGTRACE_TRACE_COLUMNS] = {
    {"host", "STRING", true, "The host that recorded it"},
    {"start", "STRING", true, "When it begins, by the host's wall clock, in UTC"},
    {"trace", "STRING", true, "Its ID, for perfleet traces get"},
    {"end", "STRING", false, "When it ends"},
    {"duration_ms", "INT64", false, "From start to end"},
    {"bytes", "INT64", false, "Its size in the store"},
    {"order", "STRING", false, "The order that recorded it"},
    {"trigger", "STRING", false, "The trigger that it was copied for"},
    {"labels", "STRING", false, "The host's labels then"},
    {"data_sources", "STRING", false, "What recorded"},
    {"losses", "INT64", false, "Packets that were lost on the way into it"},
};

/* ---- settings ---- */

static void read_settings(struct pfl_bigtrace_traces *t, const struct pfl_bigtrace_request *request,
                          int64_t now_s)
{
    struct pfl_form form = {.len = 0};

    for (size_t i = 0; i < request->settings_len; i++) {
        const char *value = request->settings[i].value;

        if (strcmp(request->settings[i].id, "lossy") == 0)
            value = strcmp(value, "true") == 0 ? "1" : "";
        form.fields[form.len].name = request->settings[i].id;
        form.fields[form.len++].value = value;
    }
    pfl_trace_selection_read(&form, now_s, &t->selection);
}

static int add_columns(struct pfl_bigtrace_table *table)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < PFL_BIGTRACE_TRACE_COLUMNS; i++) {
        const char *name = pfl_bigtrace_trace_columns[i].name;

        rc = pfl_bigtrace_table_add_column(table, pfl_span_of(name, strlen(name)));
    }
    return rc;
}

int pfl_bigtrace_traces_init(struct pfl_bigtrace_traces *self,
                             const struct pfl_bigtrace_request *request, int64_t now_s)
{
    int rc;

    memset(self, 0, sizeof(*self));
    read_settings(self, request, now_s);
    if (self->selection.why[0] != '\0')
        return PFL_EINVAL;
    rc = pfl_bigtrace_table_new(NULL, &self->table);
    return rc == 0 ? add_columns(self->table) : rc;
}

void pfl_bigtrace_traces_fini(struct pfl_bigtrace_traces *self)
{
    pfl_bigtrace_table_free(self->table);
    self->table = NULL;
    pfl_asked_traces_fini(&self->asked);
}

void pfl_bigtrace_traces_fill(struct pfl_bigtrace_traces *self,
                              struct pfl_trace_selection_query *ret_query)
{
    pfl_trace_selection_fill(&self->selection, PAGE_TRACES, ret_query);
    ret_query->query.has_look_at = 0; /* the page cannot say that there may be more */
}

/* ---- rows ---- */

static struct pfl_cell text_cell(const char *text)
{
    if (text == NULL || text[0] == '\0')
        return (struct pfl_cell){.type = PFL_CELL_NULL};
    return (struct pfl_cell){.type = PFL_CELL_TEXT, .bytes = pfl_span_of(text, strlen(text))};
}

static struct pfl_cell number_cell(uint64_t number)
{
    return (struct pfl_cell){.type = PFL_CELL_INTEGER,
                             .integer = number < INT64_MAX ? (int64_t)number : INT64_MAX};
}

/* "a,b"; a list that is too long is cut, and ends with "...". */
static void write_list(char *const *list, size_t len, char room[LIST_BYTES])
{
    size_t used = 0;

    room[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        int n = snprintf(room + used, LIST_BYTES - used, "%s%s", i != 0 ? "," : "", list[i]);

        if (n < 0 || (size_t)n >= LIST_BYTES - used) {
            memcpy(room + LIST_BYTES - sizeof("..."), "...", sizeof("..."));
            break;
        }
        used += (size_t)n;
    }
}

struct texts {
    char start[PFL_ANSWER_START_BYTES];
    char end[PFL_ANSWER_START_BYTES];
    char labels[LIST_BYTES];
    char sources[LIST_BYTES];
};

static void write_texts(const Perfleet__Segment *s, struct texts *ret_texts)
{
    pfl_answer_format_start(s->begin_unix_ns, ret_texts->start);
    pfl_answer_format_start(s->end_unix_ns, ret_texts->end);
    write_list(s->label, s->n_label, ret_texts->labels);
    write_list(s->data_source, s->n_data_source, ret_texts->sources);
}

static uint64_t sum_losses(const Perfleet__Segment *s)
{
    uint64_t losses = 0;

    for (size_t i = 0; i < s->n_loss; i++)
        losses += s->loss[i]->count;
    return losses;
}

static int add_row(struct pfl_bigtrace_table *table, const char *id, const Perfleet__Segment *s,
                   const struct texts *texts)
{
    uint64_t length_ns = s->end_unix_ns > s->begin_unix_ns ? s->end_unix_ns - s->begin_unix_ns : 0;
    const struct pfl_cell cells[PFL_BIGTRACE_TRACE_COLUMNS] = {
        text_cell(s->host),
        text_cell(texts->start),
        text_cell(id),
        text_cell(texts->end),
        number_cell(length_ns / 1000000),
        number_cell(s->bytes),
        text_cell(s->order),
        text_cell(s->trigger != NULL ? s->trigger->name : NULL),
        text_cell(texts->labels),
        text_cell(texts->sources),
        number_cell(sum_losses(s)),
    };

    return pfl_bigtrace_table_add_row(table, 0, cells);
}

/* PFL_ELIMIT: there is no room for it. */
static int take_one(struct pfl_bigtrace_traces *t, const Perfleet__StoredTrace *trace)
{
    struct texts texts;
    int rc = t->asked.len < PFL_BIGTRACE_TRACES_MAX ? pfl_asked_traces_add(&t->asked, trace)
                                                    : PFL_ELIMIT;

    if (rc != 0)
        return rc == PFL_EAGAIN ? 0 : rc;
    write_texts(trace->segment, &texts);
    return add_row(t->table, trace->id, trace->segment, &texts);
}

int pfl_bigtrace_traces_take(struct pfl_bigtrace_traces *self,
                             const Perfleet__CollectorReply *reply, bool *ret_has_more)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < reply->n_trace; i++)
        rc = take_one(self, reply->trace[i]);
    if (rc != 0 && rc != PFL_ELIMIT)
        return rc;
    self->is_cut = self->is_cut || rc == PFL_ELIMIT;
    *ret_has_more = false;
    if (reply->has_more || self->is_cut || !reply->has_cursor || reply->cursor.len == 0)
        return 0;
    if (reply->cursor.len > sizeof(self->selection.cursor)) {
        self->is_cut = true; /* a collector that is newer */
        return 0;
    }
    memcpy(self->selection.cursor, reply->cursor.data, reply->cursor.len);
    self->selection.cursor_len = reply->cursor.len;
    *ret_has_more = true;
    return 0;
}
