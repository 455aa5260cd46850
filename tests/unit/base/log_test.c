/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: form, levels, and peers' strings that cannot break a line. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char captured[16384];

/* Runs `body` with stderr in a pipe; what it wrote is in `captured`. */
static void capture(void (*body)(void))
{
    int fds[2];
    int old = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    body();
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    close(old);
    n = read(fds[0], captured, sizeof(captured) - 1);
    assert_true(n >= 0);
    captured[n] = '\0';
    close(fds[0]);
}

static void write_levels(void)
{
    pfl_log_set_level(PFL_LOG_WARN);
    pfl_log_error("one", "a=%d", 1);
    pfl_log_warn("two", "b=%s", pfl_log_quote_str("x y"));
    pfl_log_info("three", "c=3");
    pfl_log_debug("four", "d=4");
}

static void line_has_level_event_and_text_and_lower_levels_are_left_out(void **state)
{
    (void)state;
    unsetenv("JOURNAL_STREAM");
    capture(write_levels);
    assert_string_equal(captured, "error one: a=1\nwarn two: b=\"x y\"\n");
}

static void journal_gets_priorities(void **state)
{
    (void)state;
    setenv("JOURNAL_STREAM", "1:2", 1);
    capture(write_levels);
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(captured, "<3>error one: a=1\n<4>warn two: b=\"x y\"\n");
}

static void write_long(void)
{
    static char text[5000];

    memset(text, 'x', sizeof(text) - 1);
    pfl_log_error("long", "%s", text);
    pfl_log_error(text, "%s", "y");
}

static void line_that_is_too_long_is_cut_and_still_one_line(void **state)
{
    char *end;

    (void)state;
    capture(write_long);
    end = strchr(captured, '\n');
    assert_non_null(end);
    assert_in_range(end - captured, 2000, 2047);
    assert_in_range(strlen(end + 1), 2000, 2048);
    assert_int_equal(captured[strlen(captured) - 1], '\n');
    assert_ptr_equal(strchr(end + 1, '\n'), captured + strlen(captured) - 1);
}

static void write_flood(void)
{
    struct pfl_log_limit limit = {0};

    for (unsigned i = 0; i < 100000; i++) {
        if (pfl_log_limit_take(&limit, "flood", 20000 + i / 100000))
            pfl_log_error("flood", "x");
    }
    if (pfl_log_limit_take(&limit, "flood", 20000 + PFL_LOG_LIMIT_WINDOW_MS))
        pfl_log_error("flood", "y");
    pfl_log_limit_flush(&limit, "flood");
}

static void write_many_events(void)
{
    pfl_log_limit_every_event();
    for (unsigned i = 0; i < 200; i++) {
        pfl_log_warn("one", "x");
        pfl_log_warn("other", "x");
        pfl_log_error("failure", "x");
    }
}

static unsigned count_lines(const char *line)
{
    unsigned lines = 0;

    for (const char *p = captured; (p = strstr(p, line)) != NULL; p++)
        lines++;
    return lines;
}

static void every_event_has_its_own_limit_and_errors_have_none(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_WARN);
    capture(write_many_events);
    assert_int_equal(count_lines("warn one: x\n"), PFL_LOG_LIMIT_LINES);
    assert_int_equal(count_lines("warn other: x\n"), PFL_LOG_LIMIT_LINES);
    assert_int_equal(count_lines("error failure: x\n"), 200);
}

static void a_flood_is_cut_to_a_few_lines_and_counted(void **state)
{
    unsigned lines = 0;

    (void)state;
    pfl_log_set_level(PFL_LOG_WARN);
    capture(write_flood);
    for (const char *p = captured; (p = strstr(p, "flood: x\n")) != NULL; p++)
        lines++;
    assert_int_equal(lines, PFL_LOG_LIMIT_LINES);
    assert_non_null(strstr(captured, "warn flood: left_out=99950 lines like the ones before\n"
                                     "error flood: y\n"));
    assert_string_equal(strstr(captured, "error flood: y\n"), "error flood: y\n");
}

static void quotes_escape_everything_that_is_not_plain(void **state)
{
    char all[256];
    const char *quoted;

    (void)state;
    assert_string_equal(pfl_log_quote("a\nb\"c\\d\x1b\xff\0e", 11),
                        "\"a\\x0ab\\\"c\\\\d\\x1b\\xff\\x00e\"");
    assert_string_equal(pfl_log_quote_str(NULL), "\"\"");
    assert_string_equal(pfl_log_quote("", 0), "\"\"");
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    for (size_t at = 0; at < 256; at += 100) {
        quoted = pfl_log_quote(all + at, 256 - at < 100 ? 256 - at : 100);
        for (const char *p = quoted; *p != '\0'; p++)
            assert_true(*p >= 0x20 && *p < 0x7f);
    }
}

static void long_strings_are_cut_with_dots(void **state)
{
    char text[200];
    const char *quoted;

    (void)state;
    memset(text, '\xff', sizeof(text));
    quoted = pfl_log_quote(text, 200);
    assert_int_equal(strlen(quoted), 1 + 120 * 4 + 4);
    assert_string_equal(quoted + strlen(quoted) - 4, "...\"");
    quoted = pfl_log_quote(text, 120);
    assert_int_equal(strlen(quoted), 1 + 120 * 4 + 1);
}

static void four_quotes_live_at_the_same_time(void **state)
{
    const char *a = pfl_log_quote_str("a");
    const char *b = pfl_log_quote_str("b");
    const char *c = pfl_log_quote_str("c");
    const char *d = pfl_log_quote_str("d");

    (void)state;
    assert_string_equal(a, "\"a\"");
    assert_string_equal(b, "\"b\"");
    assert_string_equal(c, "\"c\"");
    assert_string_equal(d, "\"d\"");
}

static void level_names_are_parsed(void **state)
{
    enum pfl_log_level level = PFL_LOG_INFO;

    (void)state;
    assert_true(pfl_log_level_parse("debug", &level));
    assert_int_equal(level, PFL_LOG_DEBUG);
    assert_true(pfl_log_level_parse("error", &level));
    assert_int_equal(level, PFL_LOG_ERROR);
    assert_false(pfl_log_level_parse("DEBUG", &level));
    assert_false(pfl_log_level_parse("", &level));
    assert_int_equal(level, PFL_LOG_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_level_event_and_text_and_lower_levels_are_left_out),
        cmocka_unit_test(journal_gets_priorities),
        cmocka_unit_test(line_that_is_too_long_is_cut_and_still_one_line),
        cmocka_unit_test(a_flood_is_cut_to_a_few_lines_and_counted),
        cmocka_unit_test(every_event_has_its_own_limit_and_errors_have_none),
        cmocka_unit_test(quotes_escape_everything_that_is_not_plain),
        cmocka_unit_test(long_strings_are_cut_with_dots),
        cmocka_unit_test(four_quotes_live_at_the_same_time),
        cmocka_unit_test(level_names_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
