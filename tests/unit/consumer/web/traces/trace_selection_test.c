/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of the page of traces: what a form becomes, and what is made of it, as whole texts. */
#include "consumer/web/traces/trace_selection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

#define NOW_S    1800000000
#define NS_PER_S UINT64_C(1000000000)

static struct pfl_trace_selection filter;
static struct pfl_trace_selection_query query;

static void read_filter(const char *text)
{
    struct pfl_form form;

    assert_int_equal(pfl_form_parse(pfl_span_of(text, strlen(text)), &form), 0);
    pfl_trace_selection_read(&form, NOW_S, &filter);
    pfl_form_fini(&form);
}

static void without_fields_it_is_the_last_day(void **state)
{
    (void)state;
    read_filter("");
    assert_string_equal(filter.since, "24h");
    assert_string_equal(filter.until, "");
    assert_string_equal(filter.why, "");
    assert_int_equal(filter.end_unix_ns, NOW_S * NS_PER_S);
    assert_int_equal(filter.begin_unix_ns, (NOW_S - 86400) * NS_PER_S);
    pfl_trace_selection_fill(&filter, 100, &query);
    assert_int_equal(query.query.begin_unix_ns, (NOW_S - 86400) * NS_PER_S);
    assert_int_equal(query.query.end_unix_ns, NOW_S * NS_PER_S);
    assert_int_equal(query.query.limit, 100);
    assert_int_equal(query.query.look_at, PFL_TRACE_SELECTION_LIST_MAX);
    assert_true(query.query.n_host == 0 && query.query.n_label == 0 && query.query.n_order == 0 &&
                query.query.n_trigger == 0 && !query.query.lossy && !query.query.has_after);
}

static void each_field_is_in_the_query(void **state)
{
    (void)state;
    read_filter("since=2h&until=1h&host=web*&select=role%3Dweb%2Czone%3Db*&order=cpu&trigger=oom&"
                "group=role&lossy=1&after=01ff");
    assert_string_equal(filter.why, "");
    pfl_trace_selection_fill(&filter, 100, &query);
    assert_int_equal(query.query.begin_unix_ns, (NOW_S - 7200) * NS_PER_S);
    assert_int_equal(query.query.end_unix_ns, (NOW_S - 3600) * NS_PER_S);
    assert_int_equal(query.query.n_host, 1);
    assert_string_equal(query.query.host[0], "web*");
    assert_int_equal(query.query.n_label, 2);
    assert_string_equal(query.query.label[0], "role=web");
    assert_string_equal(query.query.label[1], "zone=b*");
    assert_int_equal(query.query.n_order, 1);
    assert_string_equal(query.query.order[0], "cpu");
    assert_int_equal(query.query.n_trigger, 1);
    assert_string_equal(query.query.trigger[0], "oom");
    assert_true(query.query.has_lossy && query.query.lossy);
    assert_true(query.query.has_after);
    assert_int_equal(query.query.after.len, 2);
    assert_memory_equal(query.query.after.data, "\x01\xff", 2);
    pfl_trace_selection_fill(&filter, 0, &query); /* of the map */
    assert_false(query.query.has_after || query.query.has_limit);
    assert_int_equal(query.query.look_at, PFL_TRACE_SELECTION_MAP_MAX);
    assert_int_equal(query.query.n_label, 2);
}

static void who_asks_for_all_gets_all(void **state)
{
    (void)state;
    read_filter("all=1");
    pfl_trace_selection_fill(&filter, 100, &query);
    assert_false(query.query.has_look_at);
    pfl_trace_selection_fill(&filter, 0, &query);
    assert_false(query.query.has_look_at);
}

static void what_makes_no_sense_is_said(void **state)
{
    static const char *const bad[] = {
        "since=when",
        "until=when",
        "since=1h&until=2h",
        "select=role",
        "select=a%3Db%2C",
        "select=%21a",
        "select=a!%3Db",
        ("select=a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,a%3D1,"
         "a%3D1,a%3D1,a%3D1,a%3D1")};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        read_filter(bad[i]);
        assert_string_not_equal(filter.why, "");
    }
    assert_int_equal(filter.labels_len, PFL_TRACE_SELECTION_LABELS_MAX);
    read_filter("since=1h&until=2h");
    assert_string_equal(filter.why, "Since is not before Until.");
    assert_string_equal(filter.until, "2h");
    read_filter("select=role");
    assert_string_equal(filter.why, "Labels: give label=pattern, with commas between them, such "
                                    "as role=web,zone=b*.");
}

static void cursor_that_is_none_is_the_beginning(void **state)
{
    static const char *const bad[] = {"after=0g", "after=g0", "after=0A", "after=", "after=%80%80"};
    char text[2 * PFL_TRACE_SELECTION_CURSOR_MAX + 1];
    char longest[400] = "after=";
    uint8_t cursor[PFL_TRACE_SELECTION_CURSOR_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        read_filter(bad[i]);
        assert_int_equal(filter.cursor_len, 0);
    }
    memset(longest + 6, 'a', 300);
    read_filter(longest);
    assert_int_equal(filter.cursor_len, PFL_TRACE_SELECTION_CURSOR_MAX);
    memset(cursor, 0xaf, sizeof(cursor));
    pfl_trace_selection_write_cursor(pfl_span_of(cursor, 2), text);
    assert_string_equal(text, "afaf");
    pfl_trace_selection_write_cursor(pfl_span_of(cursor, sizeof(cursor) - 1), text);
    assert_int_equal(strlen(text), 2 * PFL_TRACE_SELECTION_CURSOR_MAX);
    pfl_trace_selection_write_cursor(pfl_span_of(cursor, sizeof(cursor)), text);
    assert_string_equal(text, "");
}

static void it_is_an_address_and_a_command(void **state)
{
    struct pfl_page_address address;
    struct pfl_command_line line;

    (void)state;
    read_filter("host=web*&select=a%3Db&order=o&trigger=t&group=g&lossy=1&after=00&until=5s");
    pfl_page_address_begin(&address, "/traces");
    pfl_trace_selection_add_address(&filter, &address);
    assert_string_equal(address.text, "/traces?since=24h&until=5s&host=web%2A&select=a%3Db&order=o&"
                                      "trigger=t&group=g&lossy=1");
    pfl_command_line_begin(&line, "traces list");
    pfl_trace_selection_add_options(&filter, &line);
    assert_string_equal(line.text, "perfleet traces list --since 24h --until 5s --host 'web*' "
                                   "--select a=b --order o --trigger t --lossy");
}

static void write_parts(struct pfl_html *h)
{
    pfl_html_open(h, "main");
    pfl_trace_selection_add_hidden(&filter, h);
    pfl_trace_selection_write_form(&filter, h);
}

static int write_all(void *user)
{
    struct pfl_span text;
    struct pfl_html h;
    int rc;

    (void)user;
    pfl_html_init(&h, 65536);
    write_parts(&h);
    rc = pfl_html_get(&h, &text);
    pfl_html_fini(&h);
    return rc;
}

static void form_keeps_what_was_typed(void **state)
{
    static const char expected[] =
        "<main><input type=\"hidden\" name=\"since\" value=\"24h\"><input type=\"hidden\" "
        "name=\"host\" value=\"&lt;script&gt;\"><input type=\"hidden\" name=\"lossy\" value=\"1\">"
        "<form id=\"filter\" method=\"get\" action=\"/traces\">"
        "<label>Since <input name=\"since\" value=\"24h\" maxlength=\"255\" size=\"12\"></label>\n"
        "<label>Until <input name=\"until\" value=\"\" maxlength=\"255\" size=\"12\"></label>\n"
        "<label>Host <input name=\"host\" value=\"&lt;script&gt;\" maxlength=\"255\" size=\"12\">"
        "</label>\n"
        "<label>Labels <input name=\"select\" value=\"\" maxlength=\"255\" size=\"12\"></label>\n"
        "<label>Order <input name=\"order\" value=\"\" maxlength=\"255\" size=\"12\"></label>\n"
        "<label>Trigger <input name=\"trigger\" value=\"\" maxlength=\"255\" size=\"12\">"
        "</label>\n"
        "<label>Group by <input name=\"group\" value=\"\" maxlength=\"255\" size=\"12\"></label>\n"
        "<label><input type=\"checkbox\" name=\"lossy\" value=\"1\" checked=\"\"> with losses or "
        "gaps</label>\n"
        "<button type=\"submit\">Show</button>\n</form>\n</main>\n";
    struct pfl_span text;
    struct pfl_html h;

    (void)state;
    read_filter("host=%3Cscript%3E&lossy=1");
    pfl_html_init(&h, 65536);
    write_parts(&h);
    assert_int_equal(pfl_html_get(&h, &text), 0);
    assert_int_equal(text.len, sizeof(expected) - 1);
    assert_memory_equal(text.data, expected, text.len);
    pfl_html_fini(&h);
    pfl_sweep(write_all, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_fields_it_is_the_last_day),
        cmocka_unit_test(each_field_is_in_the_query),
        cmocka_unit_test(who_asks_for_all_gets_all),
        cmocka_unit_test(what_makes_no_sense_is_said),
        cmocka_unit_test(cursor_that_is_none_is_the_beginning),
        cmocka_unit_test(it_is_an_address_and_a_command),
        cmocka_unit_test(form_keeps_what_was_typed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
