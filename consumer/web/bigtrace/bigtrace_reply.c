/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies to the BigTrace page: see bigtrace_reply.h.
 *
 * Happy path: a JSON object is built, and appended. Values are texts or null: the page passes them
 * on as they are, so that no number loses a digit. Strings of traces are strangers' strings: what
 * is no UTF-8 is quoted (base/log.h), and the page shows texts as texts. Failures: memory, a page
 * that is too large. Limits: those of the header.
 */
#include "consumer/web/bigtrace/bigtrace_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "consumer/ask/answer_format.h"
#include "consumer/ask/ready_question.h"
#include "consumer/text.h"
#include "consumer/web/bigtrace/bigtrace_traces.h"

#define LISTED_SQL_BYTES 200u

static int finish(json_t *json, bool is_whole, struct pfl_buf *out)
{
    if (is_whole)
        return pfl_text_dump_json_line(json, out);
    json_decref(json);
    return PFL_ENOMEM;
}

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool set_text(json_t *object, const char *key, const char *text)
{
    return set(object, key, pfl_text_json_peer(text));
}

static bool set_number(json_t *object, const char *key, uint64_t number)
{
    return set(object, key,
               json_integer(number < INT64_MAX ? (json_int_t)number : (json_int_t)INT64_MAX));
}

/* ---- a page of rows ---- */

static json_t *json_of_text(struct pfl_span text)
{
    json_t *whole = json_stringn((const char *)text.data, text.len);

    return whole != NULL ? whole : json_string(pfl_log_quote((const char *)text.data, text.len));
}

static json_t *json_of_real(double real)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.15g", real);
    if (strtod(text, NULL) != real)
        (void)snprintf(text, sizeof(text), "%.17g", real);
    return json_string(text);
}

static json_t *json_of(const struct pfl_cell *cell)
{
    char text[32];

    switch (cell->type) {
    case PFL_CELL_INTEGER:
        (void)snprintf(text, sizeof(text), "%" PRId64, cell->integer);
        return json_string(text);
    case PFL_CELL_REAL:
        return json_of_real(cell->real);
    case PFL_CELL_TEXT:
        return json_of_text(cell->bytes);
    default:
        return json_null();
    }
}

/* NULL: no memory; *bytes grows by what the row has. */
static json_t *make_row(const struct pfl_bigtrace_page *p, uint32_t row, size_t *bytes)
{
    json_t *object = json_object();
    json_t *values = json_array();
    bool is_whole = object != NULL && values != NULL;

    for (size_t i = 0; is_whole && i < p->columns_len; i++) {
        struct pfl_cell cell = pfl_bigtrace_table_get_cell(p->table, row, p->columns[i]);

        *bytes += cell.bytes.len + 8;
        is_whole = json_array_append_new(values, json_of(&cell)) == 0;
    }
    if (is_whole)
        is_whole = json_object_set(object, "values", values) == 0;
    json_decref(values);
    if (is_whole)
        return object;
    json_decref(object);
    return NULL;
}

/* 0, PFL_ELIMIT, PFL_ENOMEM. */
static int add_rows(const struct pfl_bigtrace_page *p, json_t *rows)
{
    size_t limit = p->limit < PFL_BIGTRACE_PAGE_ROWS ? p->limit : PFL_BIGTRACE_PAGE_ROWS;
    size_t bytes = 0;

    for (size_t i = 0; i < limit && i + p->offset < p->rows->len; i++) {
        if (json_array_append_new(rows, make_row(p, p->rows->all[i + p->offset], &bytes)) != 0)
            return PFL_ENOMEM;
        if (bytes > PFL_BIGTRACE_PAGE_BYTES)
            return PFL_ELIMIT;
    }
    return 0;
}

static json_t *make_names(const struct pfl_bigtrace_page *p, bool is_all)
{
    json_t *names = json_array();
    size_t len = is_all ? pfl_bigtrace_table_get_columns(p->table) : p->columns_len;

    for (size_t i = 0; names != NULL && i < len; i++) {
        const char *name = pfl_bigtrace_table_get_name(p->table, is_all ? i : p->columns[i]);

        if (json_array_append_new(names, json_string(name)) == 0)
            continue;
        json_decref(names);
        return NULL;
    }
    return names;
}

int pfl_bigtrace_reply_page(const struct pfl_bigtrace_page *page, struct pfl_buf *out)
{
    json_t *root = json_object();
    json_t *rows = json_array();
    int rc = root != NULL && rows != NULL ? add_rows(page, rows) : PFL_ENOMEM;
    size_t before = out->len;
    bool is_whole =
        rc == 0 && json_object_set(root, "rows", rows) == 0 &&
        set(root, "columnNames", make_names(page, false)) &&
        set_number(root, "totalFilteredRows", page->rows->len) &&
        (page->uuid == NULL || set_text(root, "queryUuid", page->uuid)) &&
        (!page->has_available || set(root, "availableColumnNames", make_names(page, true)));

    json_decref(rows);
    if (rc != 0) {
        json_decref(root);
        return rc;
    }
    rc = finish(root, is_whole, out);
    if (rc == 0 && out->len - before > PFL_BIGTRACE_PAGE_BYTES) {
        out->len = before;
        rc = PFL_ELIMIT;
    }
    return rc;
}

/* ---- executions ---- */

static const char *name_of(enum pfl_bigtrace_status status)
{
    static const char *const names[] = {"IN_PROGRESS", "SUCCESS", "FAILED", "CANCELLED"};

    return names[status];
}

static bool set_time(json_t *object, const char *key, uint64_t unix_ns)
{
    char text[PFL_ANSWER_START_BYTES];

    if (unix_ns == 0)
        return true;
    pfl_answer_format_start(unix_ns, text);
    return set_text(object, key, text);
}

/* Its first characters. */
static bool set_listed_sql(json_t *object, const char *sql)
{
    size_t len = strlen(sql);
    char text[LISTED_SQL_BYTES + 4];

    if (len <= LISTED_SQL_BYTES)
        return set_text(object, "perfettoSql", sql);
    len = LISTED_SQL_BYTES;
    while (len != 0 && ((unsigned char)sql[len] & 0xc0) == 0x80)
        len--;
    (void)snprintf(text, sizeof(text), "%.*s...", (int)len, sql);
    return set_text(object, "perfettoSql", text);
}

/* The page's own words, with the names that it reads: "setting_id" becomes "settingId". */
static json_t *copy_settings(const struct pfl_bigtrace_request *r)
{
    const json_t *settings = json_object_get(r->root, "settings");
    json_t *copies = json_array();
    bool is_whole = copies != NULL;

    for (size_t i = 0; is_whole && i < json_array_size(settings); i++) {
        const json_t *setting = json_array_get(settings, i);
        json_t *category = json_object_get(setting, "category");
        json_t *copy = json_object();

        is_whole =
            copy != NULL &&
            json_object_set(copy, "settingId", json_object_get(setting, "setting_id")) == 0 &&
            json_object_set(copy, "values", json_object_get(setting, "values")) == 0 &&
            (category == NULL || json_object_set(copy, "category", category) == 0);
        if (is_whole)
            is_whole = json_array_append(copies, copy) == 0;
        json_decref(copy);
    }
    if (is_whole)
        return copies;
    json_decref(copies);
    return NULL;
}

static bool copy_member(json_t *object, const char *key, const struct pfl_bigtrace_request *r,
                        const char *from)
{
    json_t *value = json_object_get(r->root, from);

    return value == NULL || json_object_set(object, key, value) == 0;
}

static bool set_request(json_t *object, const struct pfl_bigtrace_request *r)
{
    return set_text(object, "perfettoSql", r->sql) && set(object, "settings", copy_settings(r)) &&
           copy_member(object, "traceFilters", r, "trace_filters") &&
           copy_member(object, "traceMetadataColumns", r, "trace_metadata_columns") &&
           copy_member(object, "traceOrderBy", r, "trace_order_by");
}

/* NULL: no memory. */
static json_t *make_execution(const struct pfl_bigtrace_facts *f, enum pfl_bigtrace_detail detail)
{
    json_t *o = json_object();
    bool is_whole =
        o != NULL && set_text(o, "queryUuid", f->uuid) &&
        set_text(o, "status", name_of(f->status)) && set_time(o, "startTime", f->start_unix_ns) &&
        set_time(o, "endTime", f->end_unix_ns) && set_number(o, "processedRows", f->rows) &&
        set_number(o, "processedTraces", f->traces) && set_number(o, "totalTraces", f->total) &&
        set_number(o, "limit", f->request->view.limit) &&
        set(o, "materialized", json_boolean(f->is_kept)) &&
        (!f->is_kept || set_text(o, "tableName", f->uuid)) &&
        (f->error[0] == '\0' || set_text(o, "errorMessage", f->error));

    if (is_whole && detail == PFL_BIGTRACE_DETAIL_LISTED)
        is_whole = set_listed_sql(o, f->request->sql);
    if (is_whole && detail == PFL_BIGTRACE_DETAIL_ALL)
        is_whole = set_request(o, f->request);
    if (is_whole)
        return o;
    json_decref(o);
    return NULL;
}

int pfl_bigtrace_reply_execution(const struct pfl_bigtrace_facts *facts,
                                 enum pfl_bigtrace_detail detail, struct pfl_buf *out)
{
    return pfl_text_dump_json_line(make_execution(facts, detail), out);
}

int pfl_bigtrace_reply_list(const struct pfl_bigtrace_facts *facts, size_t len, struct pfl_buf *out)
{
    json_t *root = json_object();
    json_t *list = json_array();
    bool is_whole = root != NULL && list != NULL;

    for (size_t i = 0; is_whole && i < len; i++)
        is_whole =
            json_array_append_new(list, make_execution(&facts[i], PFL_BIGTRACE_DETAIL_LISTED)) == 0;
    if (is_whole)
        is_whole = json_object_set(root, "queryExecutions", list) == 0;
    json_decref(list);
    return finish(root, is_whole, out);
}

/* ---- what the page offers ---- */

static json_t *make_setting(const char *id, const char *name, const char *description)
{
    json_t *o = json_object();
    bool is_flag = strcmp(id, "lossy") == 0;
    json_t *value = is_flag ? json_pack("{s:b}", "defaultValue", 0)
                            : json_pack("{s:s}", "defaultValue",
                                        strcmp(id, "since") == 0 ? PFL_TRACE_SELECTION_SINCE : "");
    bool is_whole = o != NULL && value != NULL && set_text(o, "id", id) &&
                    set_text(o, "name", name) && set_text(o, "description", description) &&
                    set_text(o, "category", "TRACE_ADDRESS") &&
                    json_object_set(o, is_flag ? "booleanOptions" : "plainString", value) == 0;

    json_decref(value);
    if (is_whole)
        return o;
    json_decref(o);
    return NULL;
}

int pfl_bigtrace_reply_config(struct pfl_buf *out)
{
    static const char *const settings[][3] = {
        {"since", "Since", "Traces from this time on, such as 2h, 14:03 or 2026-11-23T14:03"},
        {"until", "Until", "Traces up to this time; empty: now"},
        {"host", "Host", "Traces of hosts whose name fits this pattern, such as web*"},
        {"select", "Labels", "Traces of hosts with these labels, such as role=web,zone=b*"},
        {"order", "Order", "Traces that this order recorded"},
        {"trigger", "Trigger", "Traces that were copied for this trigger"},
        {"lossy", "With losses", "Only traces with losses or gaps"},
    };
    json_t *root = json_object();
    json_t *list = json_array();
    bool is_whole = root != NULL && list != NULL;

    for (size_t i = 0; is_whole && i < sizeof(settings) / sizeof(settings[0]); i++)
        is_whole = json_array_append_new(
                       list, make_setting(settings[i][0], settings[i][1], settings[i][2])) == 0;
    if (is_whole)
        is_whole = json_object_set(root, "setting", list) == 0;
    json_decref(list);
    return finish(root, is_whole, out);
}

int pfl_bigtrace_reply_schema(struct pfl_buf *out)
{
    json_t *root = json_object();
    json_t *list = json_array();
    bool is_whole = root != NULL && list != NULL;

    for (size_t i = 0; is_whole && i < PFL_BIGTRACE_TRACE_COLUMNS; i++) {
        const struct pfl_bigtrace_trace_column *c = &pfl_bigtrace_trace_columns[i];

        is_whole =
            json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:s}", "name", c->name, "type",
                                                  c->type, "defaultVisible", c->is_default,
                                                  "description", c->description)) == 0;
    }
    if (is_whole)
        is_whole = json_object_set(root, "columns", list) == 0;
    json_decref(list);
    return finish(root, is_whole, out);
}

static json_t *make_preset(const struct pfl_ready_question *ready)
{
    struct pfl_span summary = pfl_ready_question_get_summary(ready);

    return json_pack("{s:s,s:s,s:s,s:s%,s:s%}", "id", ready->name, "category", "perfleet", "name",
                     ready->name, "description", (const char *)summary.data, summary.len,
                     "perfettoSql", ready->text, ready->text_len);
}

int pfl_bigtrace_reply_presets(struct pfl_buf *out)
{
    json_t *root = json_object();
    json_t *list = json_array();
    bool is_whole = root != NULL && list != NULL;

    for (size_t i = 0; is_whole && i < pfl_ready_questions_len; i++)
        is_whole = json_array_append_new(list, make_preset(&pfl_ready_questions[i])) == 0;
    if (is_whole)
        is_whole = json_object_set(root, "tracePresets", list) == 0;
    json_decref(list);
    return finish(root, is_whole, out);
}

int pfl_bigtrace_reply_uuid(const char *uuid, struct pfl_buf *out)
{
    return pfl_text_dump_json_line(json_pack("{s:s}", "queryUuid", uuid), out);
}

int pfl_bigtrace_reply_refusal(const char *why, struct pfl_buf *out)
{
    json_t *root = json_object();

    return finish(root, root != NULL && set_text(root, "detail", why), out);
}
