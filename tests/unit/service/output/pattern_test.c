/* SPDX-License-Identifier: Apache-2.0 */
#include "service/output/pattern_set.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static struct pfl_span span(const char *s)
{
    return pfl_span_of(s, strlen(s));
}

/* The whole text, once for strings of filters and once as producers' names are matched. */
static bool is_match(const char *pattern, const char *text)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *plain;
    struct pfl_pattern *counted;
    uint64_t credit = 10000;
    int rc;

    if (pfl_pattern_new(span(pattern), &plain, why) != 0)
        return false;
    rc = pfl_pattern_match(plain, span(text));
    pfl_pattern_free(plain);
    assert_int_equal(pfl_pattern_new_counted(span(pattern), &counted, why), 0);
    assert_int_equal(pfl_pattern_match_within(counted, span(text), &credit), rc);
    pfl_pattern_free(counted);
    assert_true(credit < 10000);
    return rc == 0;
}

static int check(struct pfl_span text)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    int rc = pfl_pattern_new(text, &pattern, why);

    if (rc == 0)
        pfl_pattern_free(pattern);
    return rc;
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
        {"a|ab", "ab", true},
        {"[0-9]+", "042", true},
        {"\\d{1,3}", "042", true},
        {"\\d{1,3}", "0421", false},
        {"[0-9]+", "", false},
        {"", "", true},
        {"org\\..*", "org.x", true},
        {"org\\..*", "orgx", false},
        {"(?:a|b)*?c", "abac", true},
        {".*", "a\nb", false},
        {"a$", "a\n", false},
        {"(a*)*b", "aaaaaaaaaaaaaac", false},
        {"[^b]*", "\xff\xc3", true},
        {"..", "\xc3\xa9", false},
        {".", "\xc3\xa9", true},
        {"..", "\xc3\xff", true},
        {"[\xc3\xa4\xc3\xb6]x", "\xc3\xb6x", true},
        {"(?i)\xc3\xa9", "\xc3\x89", true},
        {"\\x{20ac}", "\xe2\x82\xac", true},
        {"\\x{20ac}", "\xe2\x82", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(is_match(cases[i].pattern, cases[i].text), cases[i].is_match);
}

static void what_is_no_pattern_is_refused_with_its_place(void **state)
{
    static const char *const bad[] = {"(",  "[",       "a)",  "*",   "a{2,1}",
                                      "\\", "(*UTF)a", "\\C", "\xff"};
    char longest[PFL_PATTERN_MAX_BYTES + 1];
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(pfl_pattern_new(span(bad[i]), &pattern, why), PFL_EPARSE);
        assert_non_null(strstr(why, "at byte "));
    }
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(check(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES)), 0);
    assert_int_equal(check(pfl_span_of(longest, PFL_PATTERN_MAX_BYTES + 1)), PFL_EPARSE);
    memset(longest, '(', sizeof(longest));
    assert_int_equal(check(pfl_span_of(longest, 200)), PFL_EPARSE);
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
}

/* Each step may look at the whole text. */
static void a_match_of_a_long_text_ends_when_it_is_cancelled(void **state)
{
    static const char *const patterns[] = {".*?.*?a*+[bd]", "(?:a*+[bd]|.)*",
                                           "(?=a*+[bd]).|.*?a++c"};
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    static char text[100000];
    atomic_bool is_cancelled;

    (void)state;
    atomic_init(&is_cancelled, true);
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        assert_int_equal(pfl_pattern_new(span(patterns[i]), &pattern, why), 0);
        pfl_pattern_set_cancel(pattern, &is_cancelled);
        assert_int_equal(pfl_pattern_match(pattern, pfl_span_of(text, sizeof(text))), PFL_ELIMIT);
        assert_int_equal(pfl_pattern_search(pattern, pfl_span_of(text, sizeof(text)), 0),
                         PFL_ELIMIT);
        pfl_pattern_free(pattern);
    }
}

/* Plain code, plain code that gives up, and counted code. */
static void texts_of_any_length_are_matched_alike(void **state)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    static char text[3000];

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(pfl_pattern_new(span(".*.*(x)y"), &pattern, why), 0);
    for (size_t len = 2; len < 1000; len += len < 300 ? 1 : 100) {
        size_t begin = 0;
        size_t end = 0;

        assert_int_equal(pfl_pattern_match(pattern, pfl_span_of(text, len)), PFL_ENOENT);
        assert_int_equal(pfl_pattern_search(pattern, pfl_span_of(text, len), 0), PFL_ENOENT);
        memcpy(text + len - 2, "xy", 2);
        assert_int_equal(pfl_pattern_match(pattern, pfl_span_of(text, len)), 0);
        assert_int_equal(pfl_pattern_search(pattern, pfl_span_of(text, len), 0), 0);
        assert_true(pfl_pattern_get_group(pattern, 1, &begin, &end));
        assert_true(begin == len - 2 && end == len - 1);
        assert_int_equal(pfl_pattern_search(pattern, pfl_span_of(text, len), len), PFL_ENOENT);
        memset(text, 'a', sizeof(text));
    }
    pfl_pattern_free(pattern);
}

/* A class that ignores case is compiled character by character. */
static void patterns_that_take_long_to_compile_are_refused(void **state)
{
    static const struct {
        const char *range;
        bool is_wide;
    } cases[] = {
        {"(?i)[a-z]", false},
        {"(?i)[\xd0\xb0-\xd1\x8f]", false},
        {"[\\x{100}-\\x{10ffff}]", false},
        {"(?<i>)[\\x{100}-\\x{10ffff}]", false},
        {"(?i)[\\x{100}-\\x{10ffff}]", true},
        {"(?x-si:[\\x{100}-\xf4\x8f\xbf\xbf])", true},
        {"(?^i)[ -\\E\\x{ 10ffff }]", true},
        {"(?xxi)[a- \\o{4177777}]", true},
        {"(?i)[a-\\Q\xf4\x8f\xbf\xbf\\E]", true},
    };
    static struct pfl_pattern_set set;
    static char longest[PFL_PATTERN_MAX_BYTES];
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(pfl_pattern_get_work(span(cases[i].range)) > PFL_PATTERN_MAX_WORK / 4,
                         cases[i].is_wide);
    memset(longest, 'a', sizeof(longest));
    assert_true(pfl_pattern_get_work(pfl_span_of(longest, sizeof(longest))) <=
                PFL_PATTERN_MAX_WORK);
    assert_int_equal(pfl_pattern_set_get(&set, span("(?i)[\\x{100}-\\x{10ffff}]"), &pattern, why),
                     0);
    assert_int_equal(pfl_pattern_set_get(&set, span("(?i)b[\\x{100}-\\x{10ffff}]"), &pattern, why),
                     PFL_EPARSE);
    assert_non_null(strstr(why, "together are too long"));
    assert_int_equal(pfl_pattern_set_get(&set, span("(?i)[\\x{100}-\\x{10ffff}]"), &pattern, why),
                     0);
    assert_int_equal(pfl_pattern_set_get(&set, span("(?i)b[a-z]"), &pattern, why), 0);
    pfl_pattern_set_fini(&set);
}

static void a_name_costs_no_more_than_the_credit(void **state)
{
    static const char *const patterns[] = {"((a+)+)+[bd]", ".*.*.*.*[bd]", "(?:a|a)*[bd]",
                                           "(?:(?:)|(?:)|a)*[bd]", "(a(?1)?)+[bd]"};
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    static char name[8192];

    (void)state;
    memset(name, 'a', sizeof(name));
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        uint64_t credit = 200000;

        assert_int_equal(pfl_pattern_new_counted(span(patterns[i]), &pattern, why), 0);
        assert_int_equal(
            pfl_pattern_match_within(pattern, pfl_span_of(name, sizeof(name)), &credit),
            PFL_ELIMIT);
        assert_int_equal(credit, 0);
        assert_int_equal(pfl_pattern_match_within(pattern, span("b"), &credit), PFL_ELIMIT);
        pfl_pattern_free(pattern);
    }
}

static void a_set_compiles_each_once_and_is_bounded(void **state)
{
    static struct pfl_pattern_set set;
    static char texts[PFL_PATTERN_SET_MAX][8];
    static char huge[PFL_PATTERN_SET_MAX][32];
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *first = NULL;
    struct pfl_pattern *again = NULL;
    struct pfl_pattern *other = NULL;
    size_t large = 1;

    (void)state;
    assert_int_equal(pfl_pattern_set_get(&set, span("ab"), &first, why), 0);
    assert_int_equal(pfl_pattern_set_get(&set, span("ab"), &again, why), 0);
    assert_ptr_equal(first, again);
    for (size_t i = 1; i < PFL_PATTERN_SET_MAX; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "x%zu", i);
        (void)snprintf(huge[i], sizeof(huge[i]), "(?:b{9}){500}%zu", i);
        assert_int_equal(pfl_pattern_set_get(&set, span(texts[i]), &other, why), 0);
    }
    assert_int_equal(pfl_pattern_set_get(&set, span("y"), &other, why), PFL_EPARSE);
    assert_non_null(strstr(why, "128"));
    assert_int_equal(pfl_pattern_set_get(&set, span("ab"), &again, why), 0);
    pfl_pattern_set_fini(&set);
    while (large < PFL_PATTERN_SET_MAX &&
           pfl_pattern_set_get(&set, span(huge[large]), &other, why) == 0)
        large++;
    assert_in_range(large, 1, 64);
    assert_non_null(strstr(why, "too large"));
    pfl_pattern_set_fini(&set);
    pfl_sweep_assert_no_leak();
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

static void search_goes_on_behind_a_character(void **state)
{
    static const char text[] = "\xc3\xa9 \xe2\x82\xac x";
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;
    size_t begin = 0;
    size_t end = 0;

    (void)state;
    assert_int_equal(pfl_pattern_new(span("(\\W)(?:$|)"), &pattern, why), 0);
    for (unsigned i = 0; i < 4; i++) {
        static const size_t begins[] = {0, 2, 3, 6};

        assert_int_equal(pfl_pattern_search(pattern, span(text), i == 0 ? 0 : begin + 1), 0);
        assert_true(pfl_pattern_get_group(pattern, 1, &begin, &end));
        assert_int_equal(begin, begins[i]);
    }
    assert_int_equal(pfl_pattern_search(pattern, span(text), end), PFL_ENOENT);
    pfl_pattern_free(pattern);
}

static void a_text_for_which_a_pattern_has_no_meaning_is_not_judged(void **state)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern;

    (void)state;
    assert_int_equal(pfl_pattern_new(span("\\x{20ac}"), &pattern, why), 0);
    assert_int_equal(pfl_pattern_match(pattern, span("\xff")), PFL_ELIMIT);
    assert_int_equal(pfl_pattern_match(pattern, span("\xe2\x82\xac")), 0);
    assert_int_equal(pfl_pattern_search(pattern, span("ab\xff"), 0), PFL_ELIMIT);
    assert_int_equal(pfl_pattern_search(pattern, span("ab\xff"), 1), PFL_ELIMIT);
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

static void what_stands_behind_a_pattern_costs_nothing(void **state)
{
    static const char text[] = "(?i)[a-  \\E \xf4\x8f\xbf\xbf";
    size_t blanks = strlen("(?i)[a-  \\E ");

    (void)state;
    for (size_t len = 0; len <= blanks; len++) {
        if (len != blanks - 2) /* ends with the backslash */
            assert_int_equal(pfl_pattern_get_work(pfl_span_of(text, len)), len * len);
    }
    assert_true(pfl_pattern_get_work(span(text)) > PFL_PATTERN_MAX_WORK / 4);
}

static void an_empty_pattern_is_one_of_a_set_like_others(void **state)
{
    static struct pfl_pattern_set set;
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *pattern = NULL;
    struct pfl_pattern *again = NULL;
    uint64_t credit = 1000;

    (void)state;
    assert_int_equal(pfl_pattern_set_get(&set, span(""), &pattern, why), 0);
    assert_non_null(pattern);
    assert_int_equal(pfl_pattern_match_within(pattern, span(""), &credit), 0);
    assert_int_equal(pfl_pattern_match_within(pattern, span("x"), &credit), PFL_ENOENT);
    assert_int_equal(pfl_pattern_set_get(&set, span(""), &again, why), 0);
    assert_ptr_equal(again, pattern);
    pfl_pattern_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static size_t get_libc_bytes(void)
{
    struct mallinfo2 info = mallinfo2(); /* all 0 where a sanitizer has the heap */

    return info.uordblks + info.hblkhd;
}

/* Of forty groups at each of 4000 places. */
static void what_a_match_needs_is_given_back(void **state)
{
    static char text[4000];
    struct pfl_pattern *patterns[20];
    char regex[128] = "";
    char why[PFL_PATTERN_WHY_BYTES];
    size_t before;

    (void)state;
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < 40; i++)
        memcpy(regex + 2 * i, "()", 2);
    memcpy(regex + 80, "(?:a|b)*[cd]", 12);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(pfl_pattern_new(span(regex), &patterns[i], why), 0);
    before = get_libc_bytes();
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(pfl_pattern_match(patterns[i], pfl_span_of(text, sizeof(text))),
                         PFL_ENOENT);
    assert_true(get_libc_bytes() <= before + 1024);
    for (size_t i = 0; i < 20; i++)
        pfl_pattern_free(patterns[i]);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_matches_the_whole_name_or_nothing),
        cmocka_unit_test(what_is_no_pattern_is_refused_with_its_place),
        cmocka_unit_test(a_match_that_costs_too_much_is_given_up),
        cmocka_unit_test(a_match_of_a_long_text_ends_when_it_is_cancelled),
        cmocka_unit_test(texts_of_any_length_are_matched_alike),
        cmocka_unit_test(patterns_that_take_long_to_compile_are_refused),
        cmocka_unit_test(a_name_costs_no_more_than_the_credit),
        cmocka_unit_test(a_set_compiles_each_once_and_is_bounded),
        cmocka_unit_test(groups_say_where_they_matched),
        cmocka_unit_test(search_goes_on_behind_a_character),
        cmocka_unit_test(a_text_for_which_a_pattern_has_no_meaning_is_not_judged),
        cmocka_unit_test(making_one_survives_each_failed_allocation),
        cmocka_unit_test(what_stands_behind_a_pattern_costs_nothing),
        cmocka_unit_test(what_a_match_needs_is_given_back),
        cmocka_unit_test(an_empty_pattern_is_one_of_a_set_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
