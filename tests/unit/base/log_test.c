/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as they arrive on stderr: one write each, cut when too long, peers' strings escaped. */
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char captured[8192];

/* Runs one log call with stderr in a pipe; the captured text is what one read gives. */
static void capture_begin(int *ret_saved, int *ret_pipe)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    *ret_saved = dup(STDERR_FILENO);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    *ret_pipe = fds[0];
}

static void capture_end(int saved, int pipe_fd)
{
    ssize_t n;

    dup2(saved, STDERR_FILENO);
    close(saved);
    n = read(pipe_fd, captured, sizeof(captured) - 1);
    captured[n > 0 ? n : 0] = '\0';
    close(pipe_fd);
}

static void a_line_is_level_event_and_text(void **state)
{
    int saved, fd;

    (void)state;
    unsetenv("JOURNAL_STREAM");
    capture_begin(&saved, &fd);
    pfl_log_warn("consumer-refused", "uid=%u reason=%s", 7u, "x");
    capture_end(saved, fd);
    assert_string_equal(captured, "warn consumer-refused: uid=7 reason=x\n");
}

static void the_journal_gets_its_priority_first(void **state)
{
    int saved, fd;

    (void)state;
    setenv("JOURNAL_STREAM", "1:2", 1);
    capture_begin(&saved, &fd);
    pfl_log_error("e", "%s", "");
    capture_end(saved, fd);
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(captured, "<3>error e: \n");
}

static void a_line_too_long_is_cut_and_still_one_line(void **state)
{
    char text[6000];
    int saved, fd;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    capture_begin(&saved, &fd);
    pfl_log_info("long", "%s", text);
    capture_end(saved, fd);
    assert_in_range(strlen(captured), 2000, 2048);
    assert_int_equal(captured[strlen(captured) - 1], '\n');
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void what_is_below_the_level_is_not_written(void **state)
{
    enum pfl_log_level level;
    int saved, fd;

    (void)state;
    assert_true(pfl_log_level_parse("warn", &level));
    assert_int_equal(level, PFL_LOG_WARN);
    assert_false(pfl_log_level_parse("loud", &level));
    capture_begin(&saved, &fd);
    pfl_log_debug("quiet", "%d", 1);
    pfl_log_warn("said", "%d", 1);
    capture_end(saved, fd);
    assert_string_equal(captured, "warn said: 1\n");
}

static void a_peers_string_cannot_leave_its_quotes_or_its_line(void **state)
{
    char text[300];

    (void)state;
    assert_string_equal(pfl_log_quote("a\"b\\c\n\x1b[31m\xff", 12),
                        "\"a\\\"b\\\\c\\x0a\\x1b[31m\\xff\"");
    assert_string_equal(pfl_log_quote_str(NULL), "\"\"");
    memset(text, 0x01, sizeof(text));
    assert_int_equal(strlen(pfl_log_quote(text, sizeof(text))), 1 + 120 * 4 + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_level_event_and_text),
        cmocka_unit_test(the_journal_gets_its_priority_first),
        cmocka_unit_test(a_line_too_long_is_cut_and_still_one_line),
        cmocka_unit_test(what_is_below_the_level_is_not_written),
        cmocka_unit_test(a_peers_string_cannot_leave_its_quotes_or_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
