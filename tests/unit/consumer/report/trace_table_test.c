/* SPDX-License-Identifier: Apache-2.0 */
/* Stored traces for people and for programs; strings of peers shown harmless. */
#include "consumer/report/trace_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "consumer/text.h"
#include "tests/support/sweep.h"

static int set_zone(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "UTC", 1), 0);
    tzset();
    pfl_text_init_json();
    return 0;
}

static void expect(struct pfl_buf *out, const char *text)
{
    assert_int_equal(pfl_buf_append(out, "", 1), 0);
    if (strstr((const char *)pfl_buf_get(out).data, text) == NULL)
        fail_msg("%s is not in: %s", text, (const char *)pfl_buf_get(out).data);
    assert_null(strchr((const char *)pfl_buf_get(out).data, '\x1b'));
    pfl_buf_fini(out);
}

static void a_trace_has_a_line_and_an_object(void **state)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentTrigger trigger = PERFLEET__SEGMENT_TRIGGER__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct pfl_buf out;

    (void)state;
    trace.id = (char *)"01J0000000000000000000000A";
    segment.host = (char *)"web-1";
    segment.order = (char *)"lo\x1b[31mad";
    segment.number = 12;
    segment.begin_unix_ns = 1795521600000000000;
    segment.end_unix_ns = 1795521660500000000;
    segment.bytes = 1230000;
    trace.segment = &segment;
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(pfl_trace_table_line(&trace, 0, &out), 0);
    expect(&out, "   12  2026-11-24 12:00:00     60.5       1.23\n");
    segment.trigger = &trigger;
    trigger.name = (char *)"slow";
    segment.gap = &gap;
    gap.last = 14;
    trace.pin = &pin;
    pin.reason = (char *)"inci\x1b"
                         "dent";
    assert_int_equal(pfl_trace_table_line(&trace, 200, &out), 0);
    expect(&out, "  trigger slow  missing up to 14  pinned: ");
    assert_int_equal(pfl_trace_table_json(&trace, &out), 0);
    expect(&out, "\"missing_to\": 14");
    /* A collector that sends nothing of it. */
    trace = (Perfleet__StoredTrace)PERFLEET__STORED_TRACE__INIT;
    assert_int_equal(pfl_trace_table_line(&trace, 60, &out), 0);
    expect(&out, "1970-01-01 00:00:00");
    assert_int_equal(pfl_trace_table_json(&trace, &out), 0);
    expect(&out, "\"id\": \"\"");
    pfl_sweep_assert_no_leak();
}

static size_t longest_line(struct pfl_buf *out)
{
    size_t longest = 0;
    size_t len = 0;

    for (size_t i = 0; i < out->len; i++) {
        len = pfl_buf_get(out).data[i] == '\n' ? 0 : len + 1;
        longest = len > longest ? len : longest;
    }
    pfl_buf_fini(out);
    return longest;
}

static void a_narrow_terminal_has_the_columns_that_fit(void **state)
{
    static const unsigned widths[] = {60, 80, 81, 100, 112, 200};
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    struct pfl_buf out;

    (void)state;
    trace.id = (char *)"01J0000000000000000000000A";
    trace.segment = &segment;
    segment.host = (char *)"web-1";
    segment.order = (char *)"cpu";
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        pfl_buf_init(&out, 1 << 16);
        assert_int_equal(pfl_trace_table_head(widths[i], &out), 0);
        assert_int_equal(pfl_trace_table_line(&trace, widths[i], &out), 0);
        assert_true(longest_line(&out) <= widths[i]);
    }
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(pfl_trace_table_line(&trace, 81, &out), 0);
    expect(&out, " cpu");
    pfl_sweep_assert_no_leak();
}

static void an_object_is_one_line(void **state)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    struct pfl_buf out;

    (void)state;
    trace.segment = &segment;
    segment.host = (char *)"web\n1";
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(pfl_trace_table_json(&trace, &out), 0);
    assert_int_equal(pfl_buf_get(&out).data[out.len - 1], '\n');
    assert_null(memchr(pfl_buf_get(&out).data, '\n', out.len - 1));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void missing_numbers_are_counted(void **state)
{
    Perfleet__MissingRow row = PERFLEET__MISSING_ROW__INIT;
    uint64_t holes = 1;
    struct pfl_buf out;

    (void)state;
    row.host = (char *)"web-1";
    row.order = (char *)"load";
    row.first = 1;
    row.last = 9;
    row.stored = 6;
    row.in_gaps = 1;
    row.holes = 2;
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(pfl_trace_table_missing(&row, false, &out, &holes), 0);
    assert_int_equal(holes, 3);
    expect(&out, "1 to 9: 6 stored, 1 reported missing, 2 unexplained\n");
    row.stored = 4;
    assert_int_equal(pfl_trace_table_missing(&row, false, &out, &holes), 0);
    expect(&out, "1 to 9: 4 stored, 2 removed, 1 reported missing, 2 unexplained\n");
    assert_int_equal(pfl_trace_table_missing(&row, true, &out, &holes), 0);
    expect(&out, "\"holes\": 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_has_a_line_and_an_object),
        cmocka_unit_test(a_narrow_terminal_has_the_columns_that_fit),
        cmocka_unit_test(an_object_is_one_line),
        cmocka_unit_test(missing_numbers_are_counted),
    };

    return cmocka_run_group_tests(tests, set_zone, NULL);
}
