/* SPDX-License-Identifier: Apache-2.0 */
#include "service/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_span span(const char *s)
{
    return pfl_span_of(s, strlen(s));
}

static void a_pattern_matches_the_whole_name_or_nothing(void **state)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool is_match;
    } cases[] = {
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"abc", "xabc", false},
        {"a.*", "abc", true},
        {"a|b", "b", true},
        {"a|b", "ab", false},
        {"[0-9]+", "042", true},
        {"[0-9]+", "", false},
        {"", "", true},
        {"org\\..*", "org.x", true},
        {"org\\..*", "orgx", false},
        {"(a*)*b", "aaaaaaaaaaaaaac", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_pattern_is_match(span(cases[i].pattern), span(cases[i].text)),
                         cases[i].is_match);
}

static void patterns_whose_cost_is_not_bounded_are_no_patterns(void **state)
{
    static const char *const bad[] = {"(", "a{1,255}", "(a)\\1", "[", "((a{1,255}){1,255})"};
    char longest[PFL_PATTERN_MAX_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(pfl_pattern_is_valid(span(bad[i])));
        assert_false(pfl_pattern_is_match(span(bad[i]), span("a")));
    }
    memset(longest, 'a', sizeof(longest));
    assert_true(pfl_pattern_is_valid(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES)));
    assert_false(pfl_pattern_is_valid(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_matches_the_whole_name_or_nothing),
        cmocka_unit_test(patterns_whose_cost_is_not_bounded_are_no_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
