/* SPDX-License-Identifier: Apache-2.0 */
#include "service/mill/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

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
        {"abc", "abc", true},         {"abc", "abcd", false},
        {"abc", "xabc", false},       {"a.*", "abc", true},
        {"a|b", "b", true},           {"a|b", "ab", false},
        {"a|ab", "ab", true},         {"[0-9]+", "042", true},
        {"\\d{1,3}", "042", true},    {"\\d{1,3}", "0421", false},
        {"[0-9]+", "", false},        {"", "", true},
        {"org\\..*", "org.x", true},  {"org\\..*", "orgx", false},
        {"(?:a|b)*?c", "abac", true}, {".*", "a\nb", false},
        {"a$", "a\n", false},         {"(a*)*b", "aaaaaaaaaaaaaac", false},
        {"[^b]*", "\xff\xc3", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_pattern_is_match(span(cases[i].pattern), span(cases[i].text)),
                         cases[i].is_match);
}

static void what_is_no_pattern_is_refused_with_its_place(void **state)
{
    static const char *const bad[] = {"(", "[", "a)", "*", "a{2,1}", "\\", "(*UTF)a", "\\C"};
    char longest[PFL_PATTERN_MAX_BYTES + 1];
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(pfl_pattern_new(span(bad[i]), &pattern, why), PFL_EPARSE);
        assert_non_null(strstr(why, "at byte "));
        assert_false(pfl_pattern_is_match(span(bad[i]), span("a")));
    }
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(pfl_pattern_check(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES)), 0);
    assert_int_equal(pfl_pattern_check(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES + 1)),
                     PFL_EPARSE);
    memset(longest, '(', sizeof(longest));
    assert_int_equal(pfl_pattern_check(pfl_span_of(longest, 200)), PFL_EPARSE);
}

static void a_match_that_costs_too_much_is_given_up(void **state)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    char text[64];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = 'c';
    assert_int_equal(pfl_pattern_new(span("((a+)+)+[bd]"), &pattern, why), 0);
    assert_int_equal(pfl_pattern_match(pattern, pfl_span_of(text, sizeof(text))), PFL_ELIMIT);
    pfl_pattern_free(pattern);
    assert_false(pfl_pattern_is_match(span("((a+)+)+[bd]"), pfl_span_of(text, sizeof(text))));
}

static void groups_say_where_they_matched(void **state)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    size_t begin = 0;
    size_t end = 0;

    (void)state;
    assert_int_equal(pfl_pattern_new(span("x:(\\d+)|y:(\\w+)"), &pattern, why), 0);
    assert_int_equal(pfl_pattern_count_groups(pattern), 2);
    assert_int_equal(pfl_pattern_search(pattern, span("a x:12 y:b"), 0), 0);
    assert_true(pfl_pattern_get_group(pattern, 1, &begin, &end));
    assert_int_equal(begin, 4);
    assert_int_equal(end, 6);
    assert_false(pfl_pattern_get_group(pattern, 2, &begin, &end));
    assert_false(pfl_pattern_get_group(pattern, 3, &begin, &end));
    assert_int_equal(pfl_pattern_search(pattern, span("a x:12 y:b"), 6), 0);
    assert_true(pfl_pattern_get_group(pattern, 2, &begin, &end));
    assert_int_equal(begin, 9);
    assert_int_equal(pfl_pattern_search(pattern, span("a x:12 y:b"), 11), PFL_ENOENT);
    pfl_pattern_free(pattern);
}

static int make_one(void *arg)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    int rc = pfl_pattern_new(span("(a|b)+[xyz]{2,5}(?:c|d)"), &pattern, why);

    (void)arg;
    if (rc == 0)
        pfl_pattern_free(pattern);
    return rc;
}

static void making_one_survives_each_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_matches_the_whole_name_or_nothing),
        cmocka_unit_test(what_is_no_pattern_is_refused_with_its_place),
        cmocka_unit_test(a_match_that_costs_too_much_is_given_up),
        cmocka_unit_test(groups_say_where_they_matched),
        cmocka_unit_test(making_one_survives_each_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
