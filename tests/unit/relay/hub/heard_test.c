/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that agents tell: what they mean, and what means nothing. */
#include "relay/hub/heard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_heard heard;

static enum pfl_heard_kind read_line(const char *line)
{
    pfl_heard_read(pfl_span_of(line, strlen(line)), &heard);
    return heard.kind;
}

static void requests_have_their_operator_stream_and_method(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"request\",\"operator\":\"me\","
                               "\"stream\":\"9f86d081884c7d659a2feaa0c55ad015\","
                               "\"method\":\"EnableTracing\"}"),
                     PFL_HEARD_REQUEST);
    assert_string_equal(heard.who, "me");
    assert_string_equal(heard.stream, "9f86d081884c7d659a2feaa0c55ad015");
    assert_string_equal(heard.method, "EnableTracing");
    assert_string_equal(heard.detail, "");
    assert_int_equal(read_line("{\"kind\":\"refused\",\"operator\":\"me\",\"stream\":\"../x\","
                               "\"method\":\"\\u001b[2J\",\"reason\":\"no\\n\"}"),
                     PFL_HEARD_REFUSED);
    assert_string_equal(heard.stream, "");
    assert_string_equal(heard.method, "unknown");
    assert_string_equal(heard.detail, "no\n");
}

static void triggers_have_names_and_maybe_a_time(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\","
                               "\"trigger\":\"t\",\"at_ms\":4711}"),
                     PFL_HEARD_TRIGGER);
    assert_string_equal(heard.session, "s");
    assert_string_equal(heard.trigger, "t");
    assert_true(heard.has_at);
    assert_int_equal(heard.at_ms, 4711);
    assert_int_equal(read_line("{ \"trigger\": \"t\", \"session\":\"s\", \"operator\":\"me\", "
                               "\"at_ms\":-1, \"kind\" : \"trigger\" }"),
                     PFL_HEARD_TRIGGER);
    assert_false(heard.has_at);
}

static void losses_are_counted_and_bounded(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":3}"), PFL_HEARD_LOST);
    assert_int_equal(heard.count, 3);
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":-3}"), PFL_HEARD_LOST);
    assert_int_equal(heard.count, 1);
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":9223372036854775807}"),
                     PFL_HEARD_LOST);
    assert_int_equal(heard.count, PFL_HEARD_LOST_MAX);
}

static void what_makes_no_sense_is_nothing(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"kind\":7}",
        "{\"kind\":\"new\",\"operator\":\"me\"}",
        "{\"kind\":\"request\"}",
        "{\"kind\":\"request\",\"operator\":\"../me\"}",
        "{\"kind\":\"request\",\"operator\":[\"me\"]}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"a/b\",\"trigger\":\"t\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\",\"trigger\":\"t\\r\\n\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\",\"trigger\":\"t\"} x",
        "{\"kind\":\"trigger\",\"operator\":\"\xff\",\"session\":\"s\",\"trigger\":\"t\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_int_equal(read_line(lines[i]), PFL_HEARD_NOTHING);
}

static void a_line_cut_anywhere_is_nothing(void **state)
{
    const char *line = "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\","
                       "\"trigger\":\"t\",\"at_ms\":4711}";

    (void)state;
    assert_true(pfl_heard_is_trigger(pfl_span_of(line, strlen(line))));
    for (size_t len = 0; len < strlen(line); len++) {
        pfl_heard_read(pfl_span_of(line, len), &heard);
        assert_int_equal(heard.kind, PFL_HEARD_NOTHING);
    }
    assert_false(pfl_heard_is_trigger(pfl_span_of(NULL, 0)));
    assert_false(pfl_heard_is_trigger(pfl_span_of(line, 10)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_their_operator_stream_and_method),
        cmocka_unit_test(triggers_have_names_and_maybe_a_time),
        cmocka_unit_test(losses_are_counted_and_bounded),
        cmocka_unit_test(what_makes_no_sense_is_nothing),
        cmocka_unit_test(a_line_cut_anywhere_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
