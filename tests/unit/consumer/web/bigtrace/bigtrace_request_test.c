/* SPDX-License-Identifier: Apache-2.0 */
/* The BigTrace page's requests, as its client sends them, and what no client sends. */
#include "consumer/web/bigtrace/bigtrace_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "tests/support/sweep.h"

static const char execute[] =
    "{\"limit\":1000,\"perfetto_sql\":\"SELECT 1\",\"settings\":[{\"setting_id\":\"since\","
    "\"values\":[\"2h\"],\"category\":\"TRACE_ADDRESS\"},{\"setting_id\":\"host\",\"values\":[],"
    "\"category\":\"TRACE_ADDRESS\"}],\"trace_filters\":[{\"field\":\"bytes\",\"op\":\">=\","
    "\"value\":\"9007199254740993\"},{\"field\":\"order\",\"op\":\"is null\"},{\"field\":\"host\","
    "\"op\":\"in\",\"value\":[\"a\",null,\"b\"]}],\"trace_metadata_columns\":[\"host\",\"start\"],"
    "\"trace_order_by\":\"data sources desc\"}";

static struct pfl_bigtrace_request request;
static const char *why;

static int parse(enum pfl_bigtrace_kind kind, const char *text)
{
    why = NULL;
    return pfl_bigtrace_request_parse(kind, pfl_span_of(text, strlen(text)), &request, &why);
}

static int set_up(void **state)
{
    (void)state;
    pfl_text_init_json();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

static void a_question_is_read_whole(void **state)
{
    const struct pfl_bigtrace_view *v = &request.view;

    (void)state;
    assert_int_equal(parse(PFL_BIGTRACE_EXECUTE, execute), 0);
    assert_string_equal(request.sql, "SELECT 1");
    assert_int_equal(v->limit, 1000);
    assert_int_equal(v->filters_len, 3);
    assert_string_equal(v->filters[0].field, "bytes");
    assert_int_equal(v->filters[0].op, PFL_BIGTRACE_GREATER_OR_EQUAL);
    assert_string_equal(v->values[v->filters[0].first], "9007199254740993");
    assert_int_equal(v->filters[1].op, PFL_BIGTRACE_IS_NULL);
    assert_int_equal(v->filters[1].len, 0);
    assert_int_equal(v->filters[2].len, 3);
    assert_null(v->values[v->filters[2].first + 1]);
    assert_string_equal(v->order, "data sources");
    assert_true(v->is_descending);
    assert_int_equal(v->columns_len, 2);
    assert_string_equal(v->columns[1], "start");
    assert_string_equal(pfl_bigtrace_request_get_setting(&request, "since"), "2h");
    assert_string_equal(pfl_bigtrace_request_get_setting(&request, "host"), "");
    assert_string_equal(pfl_bigtrace_request_get_setting(&request, "until"), "");
    pfl_bigtrace_request_fini(&request);
}

static void a_page_of_results_has_other_names(void **state)
{
    (void)state;
    assert_int_equal(parse(PFL_BIGTRACE_RESULTS,
                           "{\"limit\":50,\"offset\":100,\"order_by\":\"a b\",\"filters\":[{"
                           "\"field\":\"x\",\"op\":\"glob\",\"value\":\"*\"}],\"columns\":[]}"),
                     0);
    assert_int_equal(request.view.offset, 100);
    assert_string_equal(request.view.order, "a b");
    assert_false(request.view.is_descending);
    assert_int_equal(request.view.filters_len, 1);
    assert_int_equal(request.view.columns_len, 0);
    pfl_bigtrace_request_fini(&request);
}

static void nothing_of_interest_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(parse(PFL_BIGTRACE_OTHER, "{\"\":[1],\"settings\":7,\"new\":{}}"), 0);
    pfl_bigtrace_request_fini(&request);
}

static void what_makes_no_sense_is_refused_with_a_reason(void **state)
{
    static const char *const bodies[] = {
        "",
        "[]",
        "{",
        "\"x\"",
        "{\"perfetto_sql\":\"\"}",
        "{\"perfetto_sql\":7}",
        "{\"perfetto_sql\":\"x\",\"limit\":-1}",
        "{\"perfetto_sql\":\"x\",\"limit\":4294967296}",
        "{\"perfetto_sql\":\"x\",\"limit\":1.5}",
        "{\"perfetto_sql\":\"x\",\"perfetto_sql\":\"y\"}",
        "{\"perfetto_sql\":\"a\\u0000b\"}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":{}}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[7]}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[{\"field\":\"a\",\"op\":\"like\"}]}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[{\"field\":\"a\",\"op\":\"=\"}]}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[{\"field\":\"a\",\"op\":\"=\",\"value\":7}]}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[{\"field\":\"a\",\"op\":\"in\",\"value\":7}]}",
        "{\"perfetto_sql\":\"x\",\"trace_filters\":[{\"field\":\"a\",\"op\":\"glob\"}]}",
        "{\"perfetto_sql\":\"x\",\"trace_order_by\":[]}",
        "{\"perfetto_sql\":\"x\",\"trace_metadata_columns\":\"a\"}",
        "{\"perfetto_sql\":\"x\",\"trace_metadata_columns\":[7]}",
        "{\"perfetto_sql\":\"x\",\"settings\":{}}",
        "{\"perfetto_sql\":\"x\",\"settings\":[{\"values\":[]}]}",
        "{\"perfetto_sql\":\"x\",\"settings\":[{\"setting_id\":\"a\",\"values\":[\"b\",\"c\"]}]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(parse(PFL_BIGTRACE_EXECUTE, bodies[i]), PFL_EPROTO);
        assert_non_null(why);
        pfl_sweep_assert_no_leak();
    }
}

/* {"filters": [ONE, ONE, ...]}, or another list of that key. */
static int parse_many(const char *member, const char *one, size_t len)
{
    static char text[65536];
    size_t used = (size_t)snprintf(text, sizeof(text), "{\"perfetto_sql\":\"x\",\"%s\":[", member);

    for (size_t i = 0; i < len; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i != 0 ? "," : "", one);
    (void)snprintf(text + used, sizeof(text) - used, "]}");
    return parse(PFL_BIGTRACE_EXECUTE, text);
}

static void limits_hold(void **state)
{
    static const struct {
        const char *member;
        const char *one;
        size_t max;
    } all[] = {
        {"trace_filters", "{\"field\":\"a\",\"op\":\"is null\"}", PFL_BIGTRACE_FILTERS_MAX},
        {"trace_filters",
         "{\"field\":\"a\",\"op\":\"in\",\"value\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\","
         "\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\"]}",
         PFL_BIGTRACE_VALUES_MAX / 16},
        {"trace_metadata_columns", "\"a\"", PFL_BIGTRACE_COLUMNS_MAX},
        {"settings", "{\"setting_id\":\"a\",\"values\":[]}", PFL_BIGTRACE_SETTINGS_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(parse_many(all[i].member, all[i].one, all[i].max), 0);
        pfl_bigtrace_request_fini(&request);
        assert_int_equal(parse_many(all[i].member, all[i].one, all[i].max + 1), PFL_EPROTO);
    }
}

static void a_request_that_is_cut_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(execute) - 1; i++) {
        assert_int_equal(pfl_bigtrace_request_parse(PFL_BIGTRACE_EXECUTE, pfl_span_of(execute, i),
                                                    &request, &why),
                         PFL_EPROTO);
        pfl_sweep_assert_no_leak();
    }
}

static int parse_one(void *arg)
{
    int rc = parse(PFL_BIGTRACE_EXECUTE, execute);

    (void)arg;
    if (rc == 0)
        pfl_bigtrace_request_fini(&request);
    return rc == PFL_EPROTO ? PFL_ENOMEM : rc; /* see bigtrace_request.c */
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(parse_one, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_question_is_read_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_of_results_has_other_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_of_interest_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused_with_a_reason, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(limits_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_that_is_cut_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_allocation_may_fail, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
