/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines on pages are what a shell would take. */
#include "consumer/web/html/command_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void words_are_quoted_where_a_shell_would_change_them(void **state)
{
    struct pfl_command_line c;

    (void)state;
    pfl_command_line_begin(&c, "hosts");
    pfl_command_line_quoted(&c, " --relay r:9910");
    pfl_command_line_option(&c, "--select", "role=web,zone!=b*");
    pfl_command_line_option(&c, "--host", "a-b_c.d");
    pfl_command_line_option(&c, "--none", "");
    pfl_command_line_option(&c, "--null", NULL);
    pfl_command_line_word(&c, "it's; $(rm -rf x) `y`\n");
    pfl_command_line_word(&c, "");
    assert_string_equal(c.text, "perfleet hosts --relay r:9910 --select 'role=web,zone!=b*' --host "
                                "a-b_c.d 'it'\\''s; $(rm -rf x) `y`\n' ''");
}

static void line_that_is_too_long_says_so(void **state)
{
    struct pfl_command_line c;

    (void)state;
    pfl_command_line_begin(&c, "hosts");
    for (unsigned i = 0; i < PFL_COMMAND_LINE_MAX_BYTES; i++)
        pfl_command_line_option(&c, "--host", "web");
    assert_true(c.is_cut);
    assert_true(strlen(c.text) < PFL_COMMAND_LINE_MAX_BYTES);
    assert_string_equal(c.text + strlen(c.text) - 4, " ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_quoted_where_a_shell_would_change_them),
        cmocka_unit_test(line_that_is_too_long_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
