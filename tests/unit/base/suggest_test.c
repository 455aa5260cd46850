/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": what is close is offered, what is not close is not. */
#include "base/suggest.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *const commands[] = {"record", "start", "ps",     "stats", "read",
                                       "hosts",  "query", "doctor", "pki",   "presets"};
static const char *const sources[] = {"linux.ftrace", "linux.process_stats", "linux.sys_stats",
                                      "track_event", "org.example.frames"};

static const char *closest(const char *word, const char *const *list, size_t len)
{
    struct pfl_suggest s;

    pfl_suggest_init(&s, word);
    for (size_t i = 0; i < len; i++)
        pfl_suggest_offer(&s, list[i]);
    return pfl_suggest_get(&s);
}

#define CLOSEST(word, list) closest(word, list, sizeof(list) / sizeof((list)[0]))

static void a_distance_counts_inserted_deleted_changed_and_swapped_letters(void **state)
{
    (void)state;
    assert_int_equal(pfl_suggest_distance("", ""), 0);
    assert_int_equal(pfl_suggest_distance("", "abc"), 3);
    assert_int_equal(pfl_suggest_distance("abc", ""), 3);
    assert_int_equal(pfl_suggest_distance("record", "record"), 0);
    assert_int_equal(pfl_suggest_distance("Record", "rECORD"), 0);
    assert_int_equal(pfl_suggest_distance("recrod", "record"), 1);
    assert_int_equal(pfl_suggest_distance("rcord", "record"), 1);
    assert_int_equal(pfl_suggest_distance("rrecord", "record"), 1);
    assert_int_equal(pfl_suggest_distance("kitten", "sitting"), 3);
    assert_int_equal(pfl_suggest_distance("ca", "abc"), 3);
}

static void a_misspelt_word_finds_the_one_that_was_meant(void **state)
{
    (void)state;
    assert_string_equal(CLOSEST("recrod", commands), "record");
    assert_string_equal(CLOSEST("hots", commands), "hosts");
    assert_string_equal(CLOSEST("host", commands), "hosts");
    assert_string_equal(CLOSEST("docter", commands), "doctor");
    assert_string_equal(CLOSEST("track_events", sources), "track_event");
    assert_string_equal(CLOSEST("linux.frace", sources), "linux.ftrace");
    assert_string_equal(CLOSEST("LINUX.FTRACE", sources), "linux.ftrace");
    assert_string_equal(CLOSEST("track-event", sources), "track_event");
}

static void of_equally_close_words_the_first_is_offered(void **state)
{
    static const char *const alike[] = {"cart", "cast", "cave"};

    (void)state;
    assert_string_equal(CLOSEST("caat", alike), "cart");
    assert_string_equal(CLOSEST("case", alike), "cast");
    assert_string_equal(CLOSEST("cast", alike), "cast");
}

static void the_beginning_of_a_word_finds_it(void **state)
{
    (void)state;
    assert_string_equal(CLOSEST("rec", commands), "record");
    assert_string_equal(CLOSEST("org.example", sources), "org.example.frames");
}

static void what_is_not_alike_is_not_offered(void **state)
{
    (void)state;
    assert_null(CLOSEST("frobnicate", commands));
    assert_null(CLOSEST("", commands));
    assert_null(CLOSEST("x", commands));
    assert_null(CLOSEST("android.power", sources));
    assert_null(closest("record", NULL, 0));
}

static void words_that_are_too_long_are_never_close(void **state)
{
    char longest[PFL_SUGGEST_MAX + 1];
    char longer[PFL_SUGGEST_MAX + 2];
    const char *list[1] = {longest};

    (void)state;
    memset(longest, 'a', PFL_SUGGEST_MAX);
    longest[PFL_SUGGEST_MAX] = '\0';
    memset(longer, 'a', PFL_SUGGEST_MAX + 1);
    longer[PFL_SUGGEST_MAX + 1] = '\0';
    assert_int_equal(pfl_suggest_distance(longest, longest), 0);
    assert_int_equal(pfl_suggest_distance(longer, longest), UINT_MAX);
    assert_int_equal(pfl_suggest_distance(longest, longer), UINT_MAX);
    assert_null(CLOSEST(longer, list));
    assert_string_equal(CLOSEST(longest, list), longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distance_counts_inserted_deleted_changed_and_swapped_letters),
        cmocka_unit_test(a_misspelt_word_finds_the_one_that_was_meant),
        cmocka_unit_test(of_equally_close_words_the_first_is_offered),
        cmocka_unit_test(the_beginning_of_a_word_finds_it),
        cmocka_unit_test(what_is_not_alike_is_not_offered),
        cmocka_unit_test(words_that_are_too_long_are_never_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
