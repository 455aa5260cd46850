/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for strings, by address: what fills the arena to the last byte fits, one more does not.
 */
#include "producer/track_event/intern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LONG (PFL_INTERN_STRING_MAX + 1) /* with its end */

static char strings[PFL_INTERN_BYTES / LONG + 1][LONG + 1];
static char tail[LONG + 1];
static char empty[2];

/* The arena is the process's: one test. */
static void the_arena_is_filled_to_the_last_byte_and_no_further(void **state)
{
    size_t len = PFL_INTERN_BYTES / LONG;

    (void)state;
    memset(strings, 's', sizeof(strings));
    memset(tail, 't', sizeof(tail));
    strings[0][LONG] = '\0';
    assert_int_equal(pfl_intern_get(strings[0]), 0); /* one byte too long */
    for (size_t i = 0; i < len; i++)
        strings[i][LONG - 1] = '\0';
    for (size_t i = 0; i < len - 1; i++)
        assert_int_equal(pfl_intern_get(strings[i]), i + 1);
    tail[LONG - 2] = '\0'; /* leaves one byte */
    assert_int_equal(pfl_intern_get(tail), len);
    strings[len - 1][2] = '\0';
    assert_int_equal(pfl_intern_get(strings[len - 1]), 0);
    strings[len - 1][1] = '\0';
    assert_int_equal(pfl_intern_get(strings[len - 1]), 0);
    assert_int_equal(pfl_intern_get(empty), len + 1);
    assert_int_equal(pfl_intern_get(empty + 1), 0);
    for (size_t i = 0; i < len - 1; i++) {
        assert_int_equal(pfl_intern_get(strings[i]), i + 1);
        strings[i][0] = 'x'; /* another string at this address has no number */
        assert_int_equal(pfl_intern_get(strings[i]), 0);
    }
}

static void other_numbers_are_from_1_to_the_last_and_then_none(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < PFL_INTERN_MAX; i++)
        assert_int_equal(pfl_intern_take_number(), i);
    assert_int_equal(pfl_intern_take_number(), 0);
    assert_int_equal(pfl_intern_take_number(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_arena_is_filled_to_the_last_byte_and_no_further),
        cmocka_unit_test(other_numbers_are_from_1_to_the_last_and_then_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
