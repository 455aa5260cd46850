/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs: known texts, order by time, what is none. */
#include "base/ulid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void known_values_have_known_texts(void **state)
{
    static const uint8_t zeros[PFL_ULID_RANDOM_BYTES];
    static const uint8_t ones[PFL_ULID_RANDOM_BYTES] = {255, 255, 255, 255, 255,
                                                        255, 255, 255, 255, 255};
    char text[PFL_ULID_BYTES];

    (void)state;
    pfl_ulid_write(0, zeros, text);
    assert_string_equal(text, "00000000000000000000000000");
    pfl_ulid_write((UINT64_C(1) << 48) - 1, ones, text);
    assert_string_equal(text, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    assert_true(pfl_ulid_get_ms(text) == (UINT64_C(1) << 48) - 1);
    pfl_ulid_write(1469918176385, zeros, text);
    assert_string_equal(text, "01ARYZ6S410000000000000000");
}

static void those_of_one_moment_differ(void **state)
{
    char one[PFL_ULID_BYTES];
    char other[PFL_ULID_BYTES];

    (void)state;
    assert_int_equal(pfl_ulid_make(1469918176385, one), 0);
    assert_int_equal(pfl_ulid_make(1469918176385, other), 0);
    assert_true(pfl_ulid_is_valid(one));
    assert_memory_equal(one, "01ARYZ6S41", 10);
    assert_memory_equal(one, other, 10);
    assert_string_not_equal(one, other);
}

static void later_ones_sort_later(void **state)
{
    static const uint8_t random[PFL_ULID_RANDOM_BYTES] = {200, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    char before[PFL_ULID_BYTES];
    char after[PFL_ULID_BYTES];

    (void)state;
    for (uint64_t ms = 1; ms < UINT64_C(1) << 48; ms = ms * 3 + 7) {
        pfl_ulid_write(ms - 1, random, before);
        pfl_ulid_write(ms, random, after);
        assert_true(pfl_ulid_get_ms(after) == ms);
        assert_true(strcmp(before, after) < 0);
        assert_true(pfl_ulid_is_valid(after));
    }
}

static void other_texts_are_none(void **state)
{
    (void)state;
    assert_false(pfl_ulid_is_valid(""));
    assert_false(pfl_ulid_is_valid("0000000000000000000000000"));
    assert_false(pfl_ulid_is_valid("000000000000000000000000000"));
    assert_false(pfl_ulid_is_valid("0000000000000000000000000I"));
    assert_false(pfl_ulid_is_valid("0000000000000000000000000a"));
    assert_false(pfl_ulid_is_valid("80000000000000000000000000"));
    assert_false(pfl_ulid_is_valid("../../../../../etc/passwd0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_have_known_texts),
        cmocka_unit_test(those_of_one_moment_differ),
        cmocka_unit_test(later_ones_sort_later),
        cmocka_unit_test(other_texts_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
