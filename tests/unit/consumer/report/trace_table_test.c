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

static void expect_whole_or_nothing(const Perfleet__StoredTrace *trace, unsigned width, size_t len)
{
    for (size_t max = 1; max < len; max++) {
        struct pfl_buf out;

        pfl_buf_init(&out, max);
        assert_int_equal(pfl_trace_table_line(trace, width, &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
}

/* A trace with all that a line and an object can have. */
static void expect_all(const char *wide, const char *narrow, const char *json)
{
    static char *labels[] = {(char *)"rack=1", (char *)"zone=2"};
    static char *sources[] = {(char *)"linux.ftrace"};
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentTrigger trigger = PERFLEET__SEGMENT_TRIGGER__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    Perfleet__SegmentLoss one = PERFLEET__SEGMENT_LOSS__INIT;
    Perfleet__SegmentLoss two = PERFLEET__SEGMENT_LOSS__INIT;
    Perfleet__SegmentLoss *losses[] = {&one, &two};
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct pfl_buf out;

    trace.id = (char *)"ID";
    trace.segment = &segment;
    trace.stored_unix_ns = 5;
    trace.expires_unix_ns = 6;
    trace.pin = &pin;
    pin.who = (char *)"me";
    pin.reason = (char *)"why";
    pin.end_unix_ns = 7;
    segment.host = (char *)"web-1";
    segment.orderer = (char *)"ops";
    segment.order = (char *)"cpu";
    segment.incarnation = (char *)"run";
    segment.number = 3;
    segment.bytes = 1500000;
    segment.begin_unix_ns = 2000000000;
    segment.end_unix_ns = 3500000000;
    segment.label = labels;
    segment.n_label = 2;
    segment.data_source = sources;
    segment.n_data_source = 1;
    segment.trigger = &trigger;
    trigger.name = (char *)"slow";
    segment.gap = &gap;
    gap.last = 9;
    segment.loss = losses;
    segment.n_loss = 2;
    one.count = 10;
    two.count = 11;
    pfl_buf_init(&out, 4096);
    assert_int_equal(pfl_trace_table_line(&trace, 0, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, wide);
    pfl_buf_clear(&out);
    assert_int_equal(pfl_trace_table_line(&trace, 60, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, narrow);
    pfl_buf_clear(&out);
    assert_int_equal(pfl_trace_table_json(&trace, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, json);
    pfl_buf_fini(&out);
    expect_whole_or_nothing(&trace, 0, strlen(wide));
    expect_whole_or_nothing(&trace, 60, strlen(narrow));
    pfl_sweep_assert_no_leak();
}

static void everything_of_a_trace_is_in_its_line_and_its_object(void **state)
{
    (void)state;
    expect_all("ID                          web-1            cpu                      3  "
               "1970-01-01 00:00:02      1.5       1.50  trigger slow  missing up to 9  21 losses  "
               "pinned: \"why\"\n",
               "ID                          web-1        1970-01-01 00:00:02  trigger slow  "
               "missing up to 9  21 losses  pinned: \"why\"\n",
               "{\"id\": \"ID\", \"host\": \"web-1\", \"orderer\": \"ops\", \"order\": \"cpu\", "
               "\"incarnation\": \"run\", \"number\": 3, \"bytes\": 1500000, "
               "\"begin_unix_ns\": 2000000000, \"end_unix_ns\": 3500000000, \"losses\": 21, "
               "\"labels\": [\"rack=1\", \"zone=2\"], \"data_sources\": [\"linux.ftrace\"], "
               "\"trigger\": \"slow\", \"missing_to\": 9, \"stored_unix_ns\": 5, "
               "\"expires_unix_ns\": 6, \"pinned_by\": \"me\", \"pin_reason\": \"why\", "
               "\"pin_end_unix_ns\": 7}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_has_a_line_and_an_object),
        cmocka_unit_test(a_narrow_terminal_has_the_columns_that_fit),
        cmocka_unit_test(an_object_is_one_line),
        cmocka_unit_test(missing_numbers_are_counted),
        cmocka_unit_test(everything_of_a_trace_is_in_its_line_and_its_object),
    };

    return cmocka_run_group_tests(tests, set_zone, NULL);
}
