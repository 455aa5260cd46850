/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON for the BigTrace page: every value a text or null, and nothing that is no JSON. */
#include "consumer/web/bigtrace/bigtrace_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "tests/support/sweep.h"

static struct pfl_span span(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static struct pfl_buf out;

static int begin(void)
{
    pfl_buf_fini(&out);
    pfl_buf_init(&out, 4u << 20);
    return 0;
}

static json_t *load(void)
{
    json_t *root = json_loadb((const char *)pfl_buf_get(&out).data, out.len, 0, NULL);

    assert_non_null(root);
    return root;
}

static const char *text_at(const json_t *array, size_t i)
{
    return json_string_value(json_array_get(array, i));
}

static int fill(struct pfl_bigtrace_table **ret_table)
{
    const struct pfl_cell cells[5] = {
        {.type = PFL_CELL_INTEGER, .integer = INT64_MIN},
        {.type = PFL_CELL_REAL, .real = 0.1},
        {.type = PFL_CELL_TEXT, .bytes = span("</script>\x1b\"")},
        {.type = PFL_CELL_TEXT, .bytes = span("\xff")},
        {.type = PFL_CELL_NULL},
    };
    struct pfl_bigtrace_table *t = NULL;
    int rc = pfl_bigtrace_table_new(NULL, &t);

    for (size_t i = 0; rc == 0 && i < 5; i++)
        rc = pfl_bigtrace_table_add_column(t, span("c"));
    for (size_t i = 0; rc == 0 && i < 3; i++)
        rc = pfl_bigtrace_table_add_row(t, 0, cells);
    if (rc == 0)
        *ret_table = t;
    else
        pfl_bigtrace_table_free(t);
    return rc;
}

static const size_t columns[] = {4, 0, 1, 2, 3};
static uint32_t numbers[] = {2, 1, 0};

static int write_page(struct pfl_bigtrace_table *t, uint32_t offset, uint32_t limit)
{
    const struct pfl_bigtrace_rows rows = {numbers, 3};
    const struct pfl_bigtrace_page page = {.table = t,
                                           .rows = &rows,
                                           .offset = offset,
                                           .limit = limit,
                                           .columns = columns,
                                           .columns_len = 5,
                                           .uuid = "01",
                                           .has_available = true};

    begin();
    return pfl_bigtrace_reply_page(&page, &out);
}

static void all_values_are_texts_or_null(void **state)
{
    struct pfl_bigtrace_table *t;
    const json_t *values;
    json_t *root;

    (void)state;
    assert_int_equal(fill(&t), 0);
    assert_int_equal(write_page(t, 1, 10), 0);
    root = load();
    assert_int_equal(json_array_size(json_object_get(root, "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "totalFilteredRows")), 3);
    assert_string_equal(json_string_value(json_object_get(root, "queryUuid")), "01");
    assert_string_equal(text_at(json_object_get(root, "columnNames"), 0), "c_5");
    assert_string_equal(text_at(json_object_get(root, "availableColumnNames"), 0), "c");
    values = json_object_get(json_array_get(json_object_get(root, "rows"), 0), "values");
    assert_true(json_is_null(json_array_get(values, 0)));
    assert_string_equal(text_at(values, 1), "-9223372036854775808");
    assert_string_equal(text_at(values, 2), "0.1");
    assert_string_equal(text_at(values, 3), "</script>\x1b\"");
    assert_string_equal(text_at(values, 4), "\"\\xff\"");
    json_decref(root);
    assert_int_equal(write_page(t, 3, 10), 0);
    root = load();
    assert_int_equal(json_array_size(json_object_get(root, "rows")), 0);
    json_decref(root);
    pfl_bigtrace_table_free(t);
}

static void a_page_that_is_too_large_is_refused(void **state)
{
    static char mib[1u << 20];
    struct pfl_bigtrace_table *t = NULL;
    const struct pfl_bigtrace_rows rows = {numbers, 3};
    const size_t first = 0;
    struct pfl_bigtrace_page page = {
        .rows = &rows, .limit = 3, .columns = &first, .columns_len = 1};

    (void)state;
    memset(mib, '\x01', sizeof(mib)); /* each becomes six bytes */
    assert_int_equal(pfl_bigtrace_table_new(NULL, &t), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(t, span("c")), 0);
    for (size_t i = 0; i < 3; i++) {
        const struct pfl_cell cell = {.type = PFL_CELL_TEXT, .bytes = pfl_span_of(mib, 1u << 20)};

        assert_int_equal(pfl_bigtrace_table_add_row(t, 0, &cell), 0);
    }
    page.table = t;
    begin();
    assert_int_equal(pfl_bigtrace_reply_page(&page, &out), PFL_ELIMIT);
    page.limit = 1;
    assert_int_equal(pfl_bigtrace_reply_page(&page, &out), PFL_ELIMIT);
    assert_int_equal(out.len, 0);
    pfl_bigtrace_table_free(t);
}

static struct pfl_bigtrace_request request;

static int parse(const char *body)
{
    const char *why;

    return pfl_bigtrace_request_parse(PFL_BIGTRACE_EXECUTE, span(body), &request, &why);
}

static const char asked[] =
    "{\"limit\":9,\"perfetto_sql\":\"SELECT 1\",\"settings\":[{\"setting_id\":\"host\","
    "\"values\":[\"a\"],\"category\":\"TRACE_ADDRESS\"}],\"trace_filters\":[],"
    "\"trace_metadata_columns\":[\"host\"],\"trace_order_by\":\"host asc\"}";

static struct pfl_bigtrace_facts facts_of(enum pfl_bigtrace_status status)
{
    return (struct pfl_bigtrace_facts){.uuid = "01",
                                       .status = status,
                                       .start_unix_ns = UINT64_C(1795442581500000000),
                                       .end_unix_ns = UINT64_C(1795442582500000000),
                                       .rows = 3,
                                       .traces = 2,
                                       .total = 4,
                                       .error = status == PFL_BIGTRACE_FAILED ? "no" : "",
                                       .is_kept = true,
                                       .request = &request};
}

static const char *member(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

static void an_execution_says_what_it_was_asked(void **state)
{
    struct pfl_bigtrace_facts facts = facts_of(PFL_BIGTRACE_FAILED);
    const json_t *setting;
    json_t *root;

    (void)state;
    assert_int_equal(parse(asked), 0);
    begin();
    assert_int_equal(pfl_bigtrace_reply_execution(&facts, PFL_BIGTRACE_DETAIL_ALL, &out), 0);
    root = load();
    assert_string_equal(member(root, "status"), "FAILED");
    assert_string_equal(member(root, "errorMessage"), "no");
    assert_string_equal(member(root, "startTime"), "2026-11-23T14:03:01.500Z");
    assert_string_equal(member(root, "perfettoSql"), "SELECT 1");
    assert_string_equal(member(root, "traceOrderBy"), "host asc");
    assert_string_equal(member(root, "tableName"), "01");
    assert_int_equal(json_integer_value(json_object_get(root, "totalTraces")), 4);
    setting = json_array_get(json_object_get(root, "settings"), 0);
    assert_string_equal(member(setting, "settingId"), "host");
    assert_string_equal(member(setting, "category"), "TRACE_ADDRESS");
    json_decref(root);
    begin();
    assert_int_equal(pfl_bigtrace_reply_execution(&facts, PFL_BIGTRACE_DETAIL_STATUS, &out), 0);
    root = load();
    assert_null(member(root, "perfettoSql"));
    json_decref(root);
    pfl_bigtrace_request_fini(&request);
}

static void a_list_cuts_the_questions(void **state)
{
    static const char *const names[] = {"IN_PROGRESS", "SUCCESS", "FAILED", "CANCELLED"};
    struct pfl_bigtrace_facts facts[4];
    char body[700];
    char many[200];
    const json_t *list;
    json_t *root;

    (void)state;
    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    (void)snprintf(body, sizeof(body), "{\"perfetto_sql\":\"%s\xc3\xb6 and more\"}", many);
    assert_int_equal(parse(body), 0);
    for (unsigned i = 0; i < 4; i++)
        facts[i] = facts_of((enum pfl_bigtrace_status)i);
    begin();
    assert_int_equal(pfl_bigtrace_reply_list(facts, 4, &out), 0);
    root = load();
    list = json_object_get(root, "queryExecutions");
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(member(json_array_get(list, i), "status"), names[i]);
    assert_int_equal(strlen(member(json_array_get(list, 0), "perfettoSql")), 199 + 3);
    json_decref(root);
    pfl_bigtrace_request_fini(&request);
}

static int write_all(void *arg)
{
    struct pfl_bigtrace_facts facts;
    struct pfl_bigtrace_table *t = NULL;
    int rc = parse(asked);

    (void)arg;
    if (rc != 0)
        return PFL_ENOMEM; /* see bigtrace_request.c */
    facts = facts_of(PFL_BIGTRACE_FAILED);
    rc = fill(&t);
    if (rc == 0)
        rc = write_page(t, 0, 3);
    if (rc == 0)
        rc = pfl_bigtrace_reply_execution(&facts, PFL_BIGTRACE_DETAIL_ALL, &out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_list(&facts, 1, &out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_config(&out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_schema(&out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_presets(&out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_uuid("01", &out);
    if (rc == 0)
        rc = pfl_bigtrace_reply_refusal("no", &out);
    pfl_bigtrace_table_free(t);
    pfl_bigtrace_request_fini(&request);
    pfl_buf_fini(&out);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_buf_fini(&out);
    pfl_sweep(write_all, NULL, true);
}

static int set_up(void **state)
{
    (void)state;
    pfl_text_init_json();
    return begin();
}

static int tear_down(void **state)
{
    (void)state;
    pfl_buf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values_are_texts_or_null),
        cmocka_unit_test(a_page_that_is_too_large_is_refused),
        cmocka_unit_test(an_execution_says_what_it_was_asked),
        cmocka_unit_test(a_list_cuts_the_questions),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
