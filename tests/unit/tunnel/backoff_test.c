/* SPDX-License-Identifier: Apache-2.0 */
/* Waits between attempts: they grow, have a maximum, and are spread. */
#include "tunnel/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void waits_grow_to_the_maximum_and_never_pass_it(void **state)
{
    struct pfl_backoff b = {0};

    (void)state;
    assert_in_range(pfl_backoff_next(&b, UINT64_MAX), PFL_BACKOFF_MIN_MS, PFL_BACKOFF_FIRST_MS);
    for (unsigned i = 0; i < 100; i++)
        assert_in_range(pfl_backoff_next(&b, i * 7919u), PFL_BACKOFF_MIN_MS, PFL_BACKOFF_MAX_MS);
    /* Full jitter: from the shortest to the longest. */
    assert_int_equal(pfl_backoff_next(&b, 0), PFL_BACKOFF_MIN_MS);
    assert_int_equal(pfl_backoff_next(&b, PFL_BACKOFF_MAX_MS - PFL_BACKOFF_MIN_MS),
                     PFL_BACKOFF_MAX_MS);
}

static void a_maximum_of_ones_own_is_kept_however_small(void **state)
{
    struct pfl_backoff b = {.max_ms = 1};

    (void)state;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(pfl_backoff_next(&b, i), PFL_BACKOFF_MIN_MS);
}

static void a_connection_that_lived_shortens_the_next_wait(void **state)
{
    struct pfl_backoff b = {.failures = 9};

    (void)state;
    pfl_backoff_lived(&b, 1);
    assert_int_equal(b.failures, PFL_BACKOFF_LIVED_FAILURES);
    pfl_backoff_lived(&b, PFL_BACKOFF_PROVED_MS);
    assert_int_equal(b.failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_grow_to_the_maximum_and_never_pass_it),
        cmocka_unit_test(a_maximum_of_ones_own_is_kept_however_small),
        cmocka_unit_test(a_connection_that_lived_shortens_the_next_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
