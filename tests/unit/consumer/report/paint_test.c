/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines of a report have a colour, and how lines are cut for a narrow terminal. */
#include "consumer/report/paint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BAD(text)  PFL_PAINT_BAD text PFL_PAINT_END
#define WARN(text) PFL_PAINT_WARN text PFL_PAINT_END

static void assert_painted(const char *text, const char *want)
{
    struct pfl_buf out;

    pfl_buf_init(&out, 1000);
    assert_int_equal(pfl_paint_lines(pfl_span_of(text, strlen(text)), &out), 0);
    assert_int_equal(out.len, strlen(want));
    if (out.len != 0)
        assert_memory_equal(pfl_buf_get(&out).data, want, out.len);
    pfl_buf_fini(&out);
}

static void assert_cut(const char *text, unsigned width, const char *want)
{
    struct pfl_buf out;

    pfl_buf_init(&out, 1000);
    assert_int_equal(pfl_paint_cut_lines(pfl_span_of(text, strlen(text)), width, &out), 0);
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(pfl_buf_get(&out).data, want, out.len);
    pfl_buf_fini(&out);
}

static void bad_lines_are_red_and_doubtful_ones_yellow(void **state)
{
    (void)state;
    assert_painted("web-1: FAILED: gone\n", BAD("web-1: FAILED: gone") "\n");
    assert_painted("  CUT SHORT: x", BAD("  CUT SHORT: x"));
    assert_painted("  EMPTY: x\n", BAD("  EMPTY: x") "\n");
    assert_painted("BAD \n", BAD("BAD ") "\n");
    assert_painted("INCOMPLETE: \n", BAD("INCOMPLETE: ") "\n");
    assert_painted("  lost: 3 packets\n", WARN("  lost: 3 packets") "\n");
    assert_painted("warning x\nx\n", WARN("warning x") "\nx\n");
}

static void other_lines_stay_as_they_are(void **state)
{
    static const char text[] = "a\n\nab\nBAD\n a warning \nx BAD y\n  lost:3\n:FAILED";

    (void)state;
    assert_painted("", "");
    assert_painted("\n", "\n");
    assert_painted(text, text);
}

static void a_report_without_room_is_refused(void **state)
{
    static const char text[] = "BAD luck\n";
    static const char painted[] = BAD("BAD luck") "\n";
    struct pfl_buf out;

    (void)state;
    for (size_t room = 1; room < sizeof(painted) - 1; room++) {
        pfl_buf_init(&out, room);
        assert_int_equal(pfl_paint_lines(pfl_span_of(text, sizeof(text) - 1), &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
}

static void lines_are_cut_to_characters_and_keep_their_colours(void **state)
{
    (void)state;
    assert_cut("12345\n123456\n1\n\n", 5, "12345\n12345\n1\n\n");
    assert_cut(BAD("12345") "\n" WARN("6789"), 3, BAD("123") "\n" WARN("678"));
    assert_cut("\xc3\xa4\xe2\x82\xac"
               "bc",
               3,
               "\xc3\xa4\xe2\x82\xac"
               "b");
    assert_cut("\033[1;31mab", 1, "\033[1;31ma");
}

static void bytes_that_are_no_escape_sequence_take_room(void **state)
{
    (void)state;
    assert_cut("\033[3", 2, "\033[");      /* has no end */
    assert_cut("\033]31mab", 3, "\033]3"); /* another kind */
    assert_cut("\033[", 1, "\033");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lines_are_red_and_doubtful_ones_yellow),
        cmocka_unit_test(other_lines_stay_as_they_are),
        cmocka_unit_test(a_report_without_room_is_refused),
        cmocka_unit_test(lines_are_cut_to_characters_and_keep_their_colours),
        cmocka_unit_test(bytes_that_are_no_escape_sequence_take_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
