/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents' alarms as rows, with limits and bytes that make no sense; the section of the Running page
 * and the question as whole texts; harmless strings; each allocation failing once.
 */
#include "consumer/web/running/alarm_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/web/page_text.h"

#define EVIL      "<script>alert(1)</script>'&"
#define ARMED     "{\"session\":\"flight\",\"state\":\"armed\",\"triggers\":[\"boom\",\"bang\"]}"
#define LIST(...) "{\"alarms\":[" __VA_ARGS__ "]}"

static struct pfl_alarm_rows rows;

static int add(const char *host, const char *text)
{
    return pfl_alarm_rows_add(&rows, host, pfl_span_of(text, strlen(text)));
}

static void clear(void)
{
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    memset(&rows, 0, sizeof(rows));
}

static int fill(void)
{
    int rc;

    clear();
    rc = add("db1", LIST(ARMED));
    if (rc == 0)
        rc = add("web1",
                 LIST("{\"session\":\"flight\",\"state\":\"copied\",\"triggers\":[\"boom\"],"
                      "\"trigger\":\"boom\",\"host\":\"\",\"why\":\"\"},"
                      "{\"session\":\"other\",\"state\":\"failed\",\"triggers\":[\"" EVIL
                      "\"],\"trigger\":\"" EVIL "\",\"host\":\"" EVIL "\",\"why\":\"" EVIL "\"}"));
    return rc;
}

static void alarms_for_one_session_are_one_row(void **state)
{
    (void)state;
    assert_int_equal(fill(), 0);
    assert_int_equal(rows.len, 2);
    assert_string_equal(rows.rows[0].session, "flight");
    assert_string_equal(rows.rows[0].triggers, "boom, bang");
    assert_string_equal(rows.rows[0].hosts, "db1, web1");
    assert_int_equal(rows.rows[0].states[PFL_ALARM_ARMED], 1);
    assert_int_equal(rows.rows[0].states[PFL_ALARM_COPIED], 1);
    assert_string_equal(rows.rows[0].trigger, "boom");
    assert_string_equal(rows.rows[0].at, "web1");
    assert_string_equal(rows.rows[0].why_host, "");
    assert_string_equal(rows.rows[1].why_host, "web1");
    assert_int_equal(rows.left_out, 0);
}

static void alarm_is_found_by_its_session(void **state)
{
    (void)state;
    clear();
    assert_true(pfl_alarm_rows_has(pfl_span_of(LIST(ARMED), strlen(LIST(ARMED))), "flight"));
    assert_false(pfl_alarm_rows_has(pfl_span_of(LIST(ARMED), strlen(LIST(ARMED))), "fligh"));
    assert_false(pfl_alarm_rows_has(pfl_span_of("x", 1), "flight"));
    assert_false(pfl_alarm_rows_has(pfl_span_of("{}", 2), "flight"));
}

static void answer_that_makes_no_sense_is_refused(void **state)
{
    static const char *const bad[] = {"", "x", "[]", "{}", "{\"alarms\":{}}", "{\"alarms\":7}"};

    (void)state;
    clear();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(add("h", bad[i]), PFL_EPARSE);
    assert_int_equal(add("h", LIST("{},7,null,{\"session\":\"a b\"},{\"session\":\"\"},"
                                   "{\"session\":\"x\",\"state\":7,\"triggers\":[1,\"t\"]}")),
                     0);
    assert_int_equal(rows.left_out, 5);
    assert_int_equal(rows.len, 1);
    assert_int_equal(rows.rows[0].states[PFL_ALARM_OTHER], 1);
    assert_string_equal(rows.rows[0].triggers, "t");
}

static void rows_and_texts_have_limits(void **state)
{
    static char text[4096];
    char longest[1000];

    (void)state;
    clear();
    for (unsigned i = 0; i < PFL_ALARM_ROWS_MAX + 3; i++) {
        (void)snprintf(text, sizeof(text), LIST("{\"session\":\"s%u\",\"state\":\"armed\"}"), i);
        assert_int_equal(add("h", text), 0);
    }
    assert_int_equal(rows.len, PFL_ALARM_ROWS_MAX);
    assert_int_equal(rows.left_out, 3);
    clear();
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    (void)snprintf(text, sizeof(text),
                   LIST("{\"session\":\"s\",\"trigger\":\"%s\",\"host\":\"%s\",\"why\":\"%s\","
                        "\"triggers\":[\"%.500s\",\"b\"]}"),
                   longest, longest, longest, longest);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(add("host-of-some-length", text), 0);
    assert_int_equal(rows.len, 1);
    assert_int_equal(rows.rows[0].hosts_len, 300);
    assert_true(strlen(rows.rows[0].hosts) < sizeof(rows.rows[0].hosts));
    assert_string_equal(rows.rows[0].triggers, "b");
    assert_int_equal(strlen(rows.rows[0].trigger), PFL_ALARM_ROWS_NAME_BYTES - 1);
    assert_int_equal(strlen(rows.rows[0].why), PFL_ALARM_ROWS_TEXT_BYTES - 1);
}

static void write_section(struct pfl_alarm_page page, struct pfl_html *h)
{
    struct pfl_layout layout = page_text_layout("Running");

    page.rows = &rows;
    pfl_html_init(h, PAGE_TEXT_MAX);
    pfl_alarm_page_write_section(&page, &layout, h);
}

static void section_has_a_row_each_and_says_who_did_not_answer(void **state)
{
    struct pfl_html h;

    (void)state;
    assert_int_equal(fill(), 0);
    write_section((struct pfl_alarm_page){.asked = 2, .answered = 2, .why_host = "", .why = ""},
                  &h);
    page_text_check(page_text_take(&h), "section");
    rows.len = 1;
    rows.left_out = 4;
    write_section(
        (struct pfl_alarm_page){.asked = 3, .answered = 2, .why_host = "web<2>", .why = EVIL}, &h);
    page_text_check(page_text_take(&h), "not all");
    clear();
    write_section((struct pfl_alarm_page){.asked = 2, .answered = 2, .why_host = "", .why = ""},
                  &h);
    page_text_check(page_text_take(&h), "none");
    write_section((struct pfl_alarm_page){.why_host = "", .why = "No host is connected."}, &h);
    page_text_check(page_text_take(&h), "nobody asked");
}

static void disarming_asks_first(void **state)
{
    struct pfl_layout layout = page_text_layout("Running");
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_alarm_page_write_confirm("flight", 2, &layout, &h);
    page_text_check(page_text_take_main(&h), "disarm");
}

static int fill_and_write(void *arg)
{
    struct pfl_html h;
    int rc = fill();

    (void)arg;
    if (rc != 0)
        return rc == PFL_EPARSE ? PFL_ENOMEM : rc; /* jansson does not tell them apart */
    write_section((struct pfl_alarm_page){.asked = 2, .answered = 2, .why_host = "", .why = ""},
                  &h);
    rc = h.rc;
    pfl_html_fini(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(fill_and_write, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alarms_for_one_session_are_one_row),
        cmocka_unit_test(alarm_is_found_by_its_session),
        cmocka_unit_test(answer_that_makes_no_sense_is_refused),
        cmocka_unit_test(rows_and_texts_have_limits),
        cmocka_unit_test(section_has_a_row_each_and_says_who_did_not_answer),
        cmocka_unit_test(disarming_asks_first),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return page_text_run("alarm_page", tests, sizeof(tests) / sizeof(tests[0]));
}
