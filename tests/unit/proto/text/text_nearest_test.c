/* SPDX-License-Identifier: Apache-2.0 */
/* Which known name is meant. */
#include "proto/text/text_nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *find(const char *wanted, const char *const *names, size_t len)
{
    struct pfl_text_nearest nearest;

    pfl_text_nearest_init(&nearest, pfl_span_of(wanted, strlen(wanted)));
    for (size_t i = 0; i < len; i++)
        pfl_text_nearest_try(&nearest, names[i]);
    return nearest.name;
}

static bool is_near(const char *wanted, const char *name)
{
    return find(wanted, &name, 1) != NULL;
}

static void a_third_of_the_longer_name_may_differ(void **state)
{
    (void)state;
    assert_true(is_near("size_kb", "size_kb"));
    assert_true(is_near("xize", "size"));
    assert_true(is_near("abcdef", "abcdxx"));
    assert_false(is_near("abcdef", "abcxxx"));
    assert_true(is_near("ab", "ax"));
    assert_false(is_near("a", "x"));
    assert_false(is_near("", "x"));
    assert_false(is_near("", ""));
}

static void three_letters_of_a_names_begin_or_end_are_near_and_two_are_not(void **state)
{
    (void)state;
    assert_true(is_near("buf", "buffer_size_kb"));
    assert_true(is_near("BUF", "buffer_size_kb"));
    assert_true(is_near("_kb", "buffer_size_kb"));
    assert_true(is_near("buffer_size_kb", "buf"));
    assert_false(is_near("_k", "_k_size_of_buffer"));
    assert_false(is_near("kb", "buffer_size_kb"));
    assert_false(is_near("_si", "buffer_size_kb"));
    assert_false(is_near("buz", "buffer_size_kb"));
}

static void the_first_of_the_nearest_is_kept(void **state)
{
    static const char *const names[] = {"buffer_size_kb", "buffer", "buffe9", "buff"};

    (void)state;
    assert_string_equal(find("buffer", names, 4), "buffer");
    assert_string_equal(find("buffex", names, 4), "buffer");
    assert_string_equal(find("buffer_s", names, 4), "buffer");
    assert_string_equal(find("buffer_size", names, 4), "buffer_size_kb");
}

static void names_of_eighty_bytes_are_compared_and_longer_ones_are_not(void **state)
{
    char name[82];

    (void)state;
    memset(name, 'n', 81);
    name[81] = '\0';
    assert_false(is_near(name, name));
    assert_false(is_near("nnnn", name));
    assert_false(is_near(name, "nnnn"));
    name[80] = '\0';
    assert_true(is_near(name, name));
    assert_true(is_near("nnnn", name));
    assert_true(is_near(name, "nnnn"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_third_of_the_longer_name_may_differ),
        cmocka_unit_test(three_letters_of_a_names_begin_or_end_are_near_and_two_are_not),
        cmocka_unit_test(the_first_of_the_nearest_is_kept),
        cmocka_unit_test(names_of_eighty_bytes_are_compared_and_longer_ones_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
