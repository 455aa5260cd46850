/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that agents tell: what they mean, and what means nothing. */
#include "relay/hub/agent_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_agent_event event;

static enum pfl_agent_event_kind read_line(const char *line)
{
    pfl_agent_event_parse(pfl_span_of(line, strlen(line)), &event);
    return event.kind;
}

static void requests_have_their_operator_stream_and_method(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"request\",\"operator\":\"me\","
                               "\"stream\":\"9f86d081884c7d659a2feaa0c55ad015\","
                               "\"method\":\"EnableTracing\"}"),
                     PFL_AGENT_EVENT_REQUEST);
    assert_string_equal(event.who, "me");
    assert_string_equal(event.stream, "9f86d081884c7d659a2feaa0c55ad015");
    assert_string_equal(event.method, "EnableTracing");
    assert_string_equal(event.detail, "");
    assert_int_equal(read_line("{\"kind\":\"refused\",\"operator\":\"me\",\"stream\":\"../x\","
                               "\"method\":\"\\u001b[2J\",\"reason\":\"no\\n\"}"),
                     PFL_AGENT_EVENT_REFUSED);
    assert_string_equal(event.stream, "");
    assert_string_equal(event.method, "unknown");
    assert_string_equal(event.detail, "no\n");
}

static void triggers_have_names_and_maybe_a_time(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\","
                               "\"trigger\":\"t\",\"at_ms\":4711}"),
                     PFL_AGENT_EVENT_TRIGGER);
    assert_string_equal(event.session, "s");
    assert_string_equal(event.trigger, "t");
    assert_true(event.has_at);
    assert_int_equal(event.at_ms, 4711);
    assert_string_equal(event.order, "");
    assert_int_equal(read_line("{\"kind\":\"trigger\",\"operator\":\"me\",\"order\":\"o\",\"id\":"
                               "\"01J0000000000000000000000A\",\"trigger\":\"t\"}"),
                     PFL_AGENT_EVENT_TRIGGER);
    assert_string_equal(event.order, "o");
    assert_string_equal(event.session, "");
    assert_string_equal(event.trigger_id, "01J0000000000000000000000A");
    assert_int_equal(read_line("{ \"trigger\": \"t\", \"session\":\"s\", \"operator\":\"me\", "
                               "\"at_ms\":-1, \"kind\" : \"trigger\" }"),
                     PFL_AGENT_EVENT_TRIGGER);
    assert_false(event.has_at);
}

static void losses_are_counted_and_bounded(void **state)
{
    (void)state;
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":3}"), PFL_AGENT_EVENT_LOST);
    assert_int_equal(event.count, 3);
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":-3}"), PFL_AGENT_EVENT_LOST);
    assert_int_equal(event.count, 1);
    assert_int_equal(read_line("{\"kind\":\"lost\",\"count\":9223372036854775807}"),
                     PFL_AGENT_EVENT_LOST);
    assert_int_equal(event.count, PFL_AGENT_EVENT_LOST_MAX);
}

static void spools_have_numbers_and_maybe_orders(void **state)
{
    static const char *const without[] = {
        "{\"kind\":\"spool\"}",
        "{\"kind\":\"spool\",\"segments\":-3,\"bytes\":\"9\",\"oldest_ms\":1.5}",
        "{\"kind\":\"spool\",\"orders\":\"0123456789abcde\"}",
        "{\"kind\":\"spool\",\"orders\":\"0123456789abcdef0\"}",
        "{\"kind\":\"spool\",\"orders\":\"0123456789ABCDEF\"}",
        "{\"kind\":\"spool\",\"orders\":7}",
    };

    (void)state;
    assert_int_equal(read_line("{\"kind\":\"spool\",\"segments\":3,\"bytes\":4096,"
                               "\"oldest_ms\":60000,\"orders\":\"0123456789abcdef\"}"),
                     PFL_AGENT_EVENT_SPOOL);
    assert_true(event.spool.is_known);
    assert_int_equal(event.spool.segments, 3);
    assert_int_equal(event.spool.bytes, 4096);
    assert_int_equal(event.spool.oldest_ms, 60000);
    assert_string_equal(event.spool.orders, "0123456789abcdef");
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        assert_int_equal(read_line(without[i]), PFL_AGENT_EVENT_SPOOL);
        assert_int_equal(event.spool.segments + event.spool.bytes + event.spool.oldest_ms, 0);
        assert_string_equal(event.spool.orders, "");
    }
    assert_int_equal(pfl_agent_event_guess(pfl_span_of(without[0], strlen(without[0]))),
                     PFL_AGENT_EVENT_SPOOL);
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
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"order\":\"o\",\"id\":\"7\",\"trigger\":\"t\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"order\":\"o\",\"trigger\":\"t\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"a/b\",\"trigger\":\"t\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\",\"trigger\":\"t\\r\\n\"}",
        "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\",\"trigger\":\"t\"} x",
        "{\"kind\":\"trigger\",\"operator\":\"\xff\",\"session\":\"s\",\"trigger\":\"t\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_int_equal(read_line(lines[i]), PFL_AGENT_EVENT_NOTHING);
}

static void a_line_cut_anywhere_is_nothing(void **state)
{
    const char *line = "{\"kind\":\"trigger\",\"operator\":\"me\",\"session\":\"s\","
                       "\"trigger\":\"t\",\"at_ms\":4711}";

    (void)state;
    assert_int_equal(pfl_agent_event_guess(pfl_span_of(line, strlen(line))),
                     PFL_AGENT_EVENT_TRIGGER);
    for (size_t len = 0; len < strlen(line); len++) {
        pfl_agent_event_parse(pfl_span_of(line, len), &event);
        assert_int_equal(event.kind, PFL_AGENT_EVENT_NOTHING);
    }
    assert_int_equal(pfl_agent_event_guess(pfl_span_of(NULL, 0)), PFL_AGENT_EVENT_NOTHING);
    assert_int_equal(pfl_agent_event_guess(pfl_span_of(line, 10)), PFL_AGENT_EVENT_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_their_operator_stream_and_method),
        cmocka_unit_test(triggers_have_names_and_maybe_a_time),
        cmocka_unit_test(losses_are_counted_and_bounded),
        cmocka_unit_test(spools_have_numbers_and_maybe_orders),
        cmocka_unit_test(what_makes_no_sense_is_nothing),
        cmocka_unit_test(a_line_cut_anywhere_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
