/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the BigTrace page, as each kind of body: what is read is within its limits, and
 * selects rows of a table; what was asked can be written again, and is JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "consumer/web/bigtrace/bigtrace_reply.h"
#include "consumer/web/bigtrace/bigtrace_traces.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_bigtrace_table *make_table(void)
{
    static const char *const names[] = {"host", "bytes", "start"};
    static const char *const hosts[] = {"web1", "db1", "", "\xff*[a]"};
    struct pfl_bigtrace_table *t;

    if (pfl_bigtrace_table_new(NULL, &t) != 0)
        abort();
    for (size_t i = 0; i < 3; i++)
        if (pfl_bigtrace_table_add_column(t, pfl_span_of(names[i], strlen(names[i]))) != 0)
            abort();
    for (size_t i = 0; i < 4; i++) {
        const struct pfl_cell cells[3] = {
            {.type = PFL_CELL_TEXT, .bytes = pfl_span_of(hosts[i], strlen(hosts[i]))},
            {.type = i == 3 ? PFL_CELL_REAL : PFL_CELL_INTEGER,
             .integer = (int64_t)i * 7,
             .real = 0.5},
            {.type = PFL_CELL_NULL}};

        if (pfl_bigtrace_table_add_row(t, 0, cells) != 0)
            abort();
    }
    return t;
}

static void check_view(const struct pfl_bigtrace_view *v)
{
    if (v->filters_len > PFL_BIGTRACE_FILTERS_MAX || v->values_len > PFL_BIGTRACE_VALUES_MAX ||
        v->columns_len > PFL_BIGTRACE_COLUMNS_MAX || strlen(v->order) >= sizeof(v->order))
        abort();
    for (size_t i = 0; i < v->filters_len; i++)
        if (v->filters[i].first + v->filters[i].len > v->values_len)
            abort();
}

static void write_page(const struct pfl_bigtrace_table *t, const struct pfl_bigtrace_view *v,
                       const struct pfl_bigtrace_rows *rows)
{
    static const size_t columns[] = {2, 1, 0};
    const struct pfl_bigtrace_page page = {.table = t,
                                           .rows = rows,
                                           .offset = v->offset,
                                           .limit = v->limit,
                                           .columns = columns,
                                           .columns_len = 3};
    struct pfl_buf out;

    pfl_buf_init(&out, 1u << 20);
    if (pfl_bigtrace_reply_page(&page, &out) != 0)
        abort();
    note_bytes("page", pfl_buf_get(&out));
    pfl_buf_fini(&out);
}

static void use_view(const struct pfl_bigtrace_view *v)
{
    struct pfl_bigtrace_table *t = make_table();
    struct pfl_bigtrace_rows rows;
    const char *name = "";
    int rc = pfl_bigtrace_table_select(t, v, &rows, &name);

    check_view(v);
    note("limit %u offset %u, %zu columns, %zu filters", v->limit, v->offset, v->columns_len,
         v->filters_len);
    if (rc == 0) {
        note("%zu rows", rows.len);
        if (rows.len > 4)
            abort();
        write_page(t, v, &rows);
        pfl_bigtrace_rows_fini(&rows);
    } else if (rc == PFL_ENOENT) {
        note("no column %s", name);
    } else {
        abort();
    }
    pfl_bigtrace_table_free(t);
}

static void write_again(const struct pfl_bigtrace_request *r)
{
    const struct pfl_bigtrace_facts facts = {.uuid = "1", .error = "", .request = r};
    struct pfl_buf out;
    json_t *root;

    pfl_buf_init(&out, 4u << 20);
    if (pfl_bigtrace_reply_execution(&facts, PFL_BIGTRACE_DETAIL_ALL, &out) != 0 ||
        pfl_bigtrace_reply_list(&facts, 1, &out) != 0)
        abort();
    root = json_loadb((const char *)pfl_buf_get(&out).data, out.len, JSON_DISABLE_EOF_CHECK, NULL);
    if (!json_is_object(root))
        abort();
    json_decref(root);
    note_bytes("written", pfl_buf_get(&out));
    pfl_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_bigtrace_request request;
    static struct pfl_bigtrace_traces traces;

    pfl_text_init_json();
    for (int kind = PFL_BIGTRACE_EXECUTE; kind <= PFL_BIGTRACE_OTHER; kind++) {
        const char *why = NULL;
        int rc = pfl_bigtrace_request_parse((enum pfl_bigtrace_kind)kind, pfl_span_of(data, size),
                                            &request, &why);

        note("kind %d: %s", kind, rc == 0 ? "taken" : why != NULL ? why : "?");
        if (rc != 0)
            continue;
        use_view(&request.view);
        rc = pfl_bigtrace_traces_init(&traces, &request, 1800000000);
        if (rc == PFL_EINVAL)
            note("settings: %s", traces.selection.why);
        pfl_bigtrace_traces_fini(&traces);
        if (kind == PFL_BIGTRACE_EXECUTE)
            write_again(&request);
        pfl_bigtrace_request_fini(&request);
    }
    return 0;
}
