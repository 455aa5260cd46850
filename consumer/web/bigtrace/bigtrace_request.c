/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the BigTrace page: see bigtrace_request.h.
 *
 *     {"perfetto_sql", "limit", "settings": [{"setting_id", "values"}],
 *      "filters": [{"field", "op", "value"}], "order_by": "COLUMN asc", "columns": [...], "offset"}
 *
 * Happy path: the JSON is loaded, and each member that is known becomes a part of the struct. Of
 * EXECUTE the view's members have names of their own. Failures: a sentence for the page. Ownership:
 * the struct owns the JSON. Limits: those of the header.
 */
#include "consumer/web/bigtrace/bigtrace_request.h"

#include <stdio.h>
#include <string.h>

/* Names of a view's members. */
static const struct names {
    const char *filters;
    const char *order;
    const char *columns;
} names_of[] = {
    [PFL_BIGTRACE_EXECUTE] = {"trace_filters", "trace_order_by", "trace_metadata_columns"},
    [PFL_BIGTRACE_TRACES] = {"filters", "order_by", "columns"},
    [PFL_BIGTRACE_RESULTS] = {"filters", "order_by", "columns"},
};

static const char *find_op(const char *text, enum pfl_bigtrace_op *ret_op)
{
    static const char *const ops[] = {"=",    "!=",       "<",  "<=",     ">",       ">=",
                                      "glob", "not glob", "in", "not in", "is null", "is not null"};

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(text, ops[i]) != 0)
            continue;
        *ret_op = (enum pfl_bigtrace_op)i;
        return NULL;
    }
    return "a filter has an operation that is not known";
}

/* ---- filters ---- */

static const char *take_value(struct pfl_bigtrace_view *v, const struct pfl_bigtrace_filter *f,
                              const json_t *value)
{
    const char *text = json_string_value(value);

    if (text == NULL && !json_is_null(value))
        return "a filter's value is neither a text nor null";
    if ((f->op == PFL_BIGTRACE_GLOB || f->op == PFL_BIGTRACE_NOT_GLOB) &&
        (text == NULL || strlen(text) > PFL_BIGTRACE_PATTERN_MAX))
        return "a pattern is a text of at most 256 bytes";
    if (v->values_len == PFL_BIGTRACE_VALUES_MAX)
        return "the filters have more than 256 values";
    v->values[v->values_len++] = text;
    return NULL;
}

static const char *take_values(struct pfl_bigtrace_view *v, struct pfl_bigtrace_filter *f,
                               const json_t *value)
{
    const char *why = NULL;

    f->first = v->values_len;
    if (f->op == PFL_BIGTRACE_IS_NULL || f->op == PFL_BIGTRACE_IS_NOT_NULL)
        return NULL;
    if (f->op != PFL_BIGTRACE_IN && f->op != PFL_BIGTRACE_NOT_IN) {
        why = take_value(v, f, value);
    } else if (!json_is_array(value)) {
        return "the value of in and not in is a list";
    } else {
        for (size_t i = 0; why == NULL && i < json_array_size(value); i++)
            why = take_value(v, f, json_array_get(value, i));
    }
    f->len = v->values_len - f->first;
    return why;
}

static const char *take_filter(struct pfl_bigtrace_view *v, const json_t *filter)
{
    struct pfl_bigtrace_filter *f = &v->filters[v->filters_len];
    const char *op = json_string_value(json_object_get(filter, "op"));
    const char *why;

    *f = (struct pfl_bigtrace_filter){.field = json_string_value(json_object_get(filter, "field"))};
    if (f->field == NULL || op == NULL)
        return "a filter has no field or no op";
    why = find_op(op, &f->op);
    if (why == NULL)
        why = take_values(v, f, json_object_get(filter, "value"));
    if (why == NULL)
        v->filters_len++;
    return why;
}

static const char *take_filters(struct pfl_bigtrace_view *v, const json_t *filters)
{
    const char *why = NULL;

    if (filters == NULL || json_is_null(filters))
        return NULL;
    if (!json_is_array(filters))
        return "the filters are no list";
    if (json_array_size(filters) > PFL_BIGTRACE_FILTERS_MAX)
        return "there are more than 32 filters";
    for (size_t i = 0; why == NULL && i < json_array_size(filters); i++)
        why = take_filter(v, json_array_get(filters, i));
    return why;
}

/* ---- the rest of a view ---- */

/* "COLUMN", "COLUMN asc" or "COLUMN desc"; a column's name may have blanks. */
static const char *take_order(struct pfl_bigtrace_view *v, const json_t *order)
{
    const char *text = json_string_value(order);
    const char *end = text != NULL ? strrchr(text, ' ') : NULL;
    size_t len;

    if (order == NULL || json_is_null(order))
        return NULL;
    if (text == NULL)
        return "order_by is no text";
    v->is_descending = end != NULL && strcmp(end, " desc") == 0;
    len = v->is_descending || (end != NULL && strcmp(end, " asc") == 0) ? (size_t)(end - text)
                                                                        : strlen(text);
    if (len >= sizeof(v->order))
        return "order_by is too long";
    (void)snprintf(v->order, sizeof(v->order), "%.*s", (int)len, text);
    return NULL;
}

static const char *take_columns(struct pfl_bigtrace_view *v, const json_t *columns)
{
    if (columns == NULL || json_is_null(columns))
        return NULL;
    if (!json_is_array(columns))
        return "the columns are no list";
    if (json_array_size(columns) > PFL_BIGTRACE_COLUMNS_MAX)
        return "there are more than 160 columns";
    for (size_t i = 0; i < json_array_size(columns); i++) {
        const char *name = json_string_value(json_array_get(columns, i));

        if (name == NULL)
            return "a column's name is no text";
        v->columns[v->columns_len++] = name;
    }
    return NULL;
}

static const char *take_number(const json_t *root, const char *key, uint32_t *ret_number)
{
    const json_t *number = json_object_get(root, key);

    if (number == NULL || json_is_null(number))
        return NULL;
    if (!json_is_integer(number) || json_integer_value(number) < 0 ||
        json_integer_value(number) > INT32_MAX)
        return "limit and offset are numbers from 0 to 2147483647";
    *ret_number = (uint32_t)json_integer_value(number);
    return NULL;
}

/* ---- settings ---- */

static const char *take_setting(struct pfl_bigtrace_request *r, const json_t *setting)
{
    const char *id = json_string_value(json_object_get(setting, "setting_id"));
    const json_t *values = json_object_get(setting, "values");
    const char *value = json_string_value(json_array_get(values, 0));

    if (id == NULL || !json_is_array(values))
        return "a setting has no setting_id or no list of values";
    if (json_array_size(values) > 1)
        return "a setting has more than one value";
    r->settings[r->settings_len].id = id;
    r->settings[r->settings_len].value = value != NULL ? value : "";
    r->settings_len++;
    return NULL;
}

static const char *take_settings(struct pfl_bigtrace_request *r)
{
    const json_t *settings = json_object_get(r->root, "settings");
    const char *why = NULL;

    if (settings == NULL || json_is_null(settings))
        return NULL;
    if (!json_is_array(settings))
        return "the settings are no list";
    if (json_array_size(settings) > PFL_BIGTRACE_SETTINGS_MAX)
        return "there are more than 16 settings";
    for (size_t i = 0; why == NULL && i < json_array_size(settings); i++)
        why = take_setting(r, json_array_get(settings, i));
    return why;
}

/* ---- all of it ---- */

static const char *take_all(enum pfl_bigtrace_kind kind, struct pfl_bigtrace_request *r)
{
    const struct names *names = &names_of[kind];
    const char *why = NULL;

    if (kind == PFL_BIGTRACE_OTHER)
        return NULL;
    why = take_settings(r);
    if (why == NULL)
        why = take_filters(&r->view, json_object_get(r->root, names->filters));
    if (why == NULL)
        why = take_order(&r->view, json_object_get(r->root, names->order));
    if (why == NULL)
        why = take_columns(&r->view, json_object_get(r->root, names->columns));
    if (why == NULL)
        why = take_number(r->root, "limit", &r->view.limit);
    if (why == NULL)
        why = take_number(r->root, "offset", &r->view.offset);
    if (why != NULL || kind != PFL_BIGTRACE_EXECUTE)
        return why;
    r->sql = json_string_value(json_object_get(r->root, "perfetto_sql"));
    return r->sql == NULL || r->sql[0] == '\0' ? "there is no perfetto_sql" : NULL;
}

int pfl_bigtrace_request_parse(enum pfl_bigtrace_kind kind, struct pfl_span body,
                               struct pfl_bigtrace_request *ret_request, const char **ret_why)
{
    struct pfl_bigtrace_request *r = ret_request;
    json_error_t error = {.text = ""};

    memset(r, 0, sizeof(*r));
    r->root = json_loadb(body.len != 0 ? (const char *)body.data : "", body.len,
                         JSON_REJECT_DUPLICATES, &error);
    /* jansson takes an allocation that fails within a word for a word that is wrong. */
    if (r->root == NULL &&
        (error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory))
        return PFL_ENOMEM;
    *ret_why = json_is_object(r->root) ? take_all(kind, r) : "the request is no JSON object";
    if (*ret_why == NULL)
        return 0;
    pfl_bigtrace_request_fini(r);
    return PFL_EPROTO;
}

void pfl_bigtrace_request_fini(struct pfl_bigtrace_request *self)
{
    json_decref(self->root);
    self->root = NULL;
}

const char *pfl_bigtrace_request_get_setting(const struct pfl_bigtrace_request *self,
                                             const char *id)
{
    for (size_t i = 0; i < self->settings_len; i++)
        if (strcmp(self->settings[i].id, id) == 0)
            return self->settings[i].value;
    return "";
}
