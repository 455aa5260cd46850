/* SPDX-License-Identifier: Apache-2.0 */
/* A line of progress fits into every terminal, and says the most important first. */
#include "consumer/report/progress_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TAIL "1.5 of 60.0 s, Ctrl-C stops and reads"

static char line[PFL_PROGRESS_LINE_BYTES];

static const char *draw(unsigned columns, double share, const char *tail)
{
    pfl_progress_line(columns, "recording", share, tail, line);
    return line;
}

static void a_wide_terminal_has_the_whole_bar(void **state)
{
    (void)state;
    assert_string_equal(draw(200, 0.5, TAIL), "recording [###############...............] " TAIL);
    assert_string_equal(draw(0, 2, "x"), "recording [##############################] x");
    assert_string_equal(draw(200, 0, "x"), "recording [..............................] x");
}

static void the_bar_shrinks_and_goes_before_the_words(void **state)
{
    (void)state;
    assert_string_equal(draw(61, 0.5, TAIL), "recording [#####.....] " TAIL);
    assert_string_equal(draw(59, 0.5, TAIL), "recording [####....] " TAIL);
    assert_string_equal(draw(58, 0.5, TAIL), "recording " TAIL);
    assert_string_equal(draw(40, 0.5, TAIL), "recording 1.5 of 60.0 s");
    assert_string_equal(draw(20, 0.5, TAIL), "recording 1.5 of 60");
    assert_string_equal(draw(1, 0.5, TAIL), "");
    assert_string_equal(draw(60, PFL_PROGRESS_NO_BAR, ""), "recording");
}

static void no_line_is_as_wide_as_its_terminal(void **state)
{
    char tail[2 * PFL_PROGRESS_LINE_BYTES];

    (void)state;
    for (unsigned len = 0; len < sizeof(tail); len += 37) {
        memset(tail, 'x', len);
        tail[len] = '\0';
        for (unsigned columns = 1; columns < 700; columns++)
            assert_true(strlen(draw(columns, 0.3, tail)) < columns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_terminal_has_the_whole_bar),
        cmocka_unit_test(the_bar_shrinks_and_goes_before_the_words),
        cmocka_unit_test(no_line_is_as_wide_as_its_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
