/* SPDX-License-Identifier: Apache-2.0 */
/* When a program is started again, by numbers alone. */
#include "agent/supervisor/restarts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>

#define EXITED(status) ((status) << 8)

static const struct pfl_life stillborn = {0};

static uint64_t wait_longest(struct pfl_restarts *self, const struct pfl_life *life)
{
    struct pfl_restarts before = *self;
    uint64_t longest = 0;

    /* 1440 is no divisor of what the jitter is taken of, so the tries spread */
    for (uint64_t random = 0; random < 100000; random += 1440) {
        uint64_t wait_ms;

        *self = before;
        wait_ms = pfl_restarts_wait_ms(self, life, random);
        if (wait_ms > longest)
            longest = wait_ms;
    }
    return longest;
}

static void the_first_death_is_not_waited_for(void **state)
{
    struct pfl_restarts r = {0};

    (void)state;
    assert_int_equal(pfl_restarts_wait_ms(&r, &stillborn, 12345), 0);
    assert_true(pfl_restarts_wait_ms(&r, &stillborn, 0) >= PFL_BACKOFF_MIN_MS);
}

static void one_that_dies_again_and_again_is_waited_for_ever_longer_up_to_the_maximum(void **state)
{
    struct pfl_restarts r = {.backoff.max_ms = 7000};
    uint64_t last = 0;

    (void)state;
    assert_int_equal(wait_longest(&r, &stillborn), 0);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t wait_ms = wait_longest(&r, &stillborn);

        assert_in_range(wait_ms, PFL_BACKOFF_MIN_MS, 7000);
        assert_true(i > 3 || wait_ms > last);
        last = wait_ms;
    }
    assert_true(last > 6000);
    assert_int_equal(pfl_restarts_wait_ms(&r, &stillborn, 0), PFL_BACKOFF_MIN_MS);
}

static void one_that_was_ready_is_never_waited_for_longer_than_two_seconds(void **state)
{
    const struct pfl_life life = {.up_ms = 10, .was_ready = true};
    struct pfl_restarts r = {0};

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        assert_in_range(wait_longest(&r, &life), 0, 2000);
}

static void a_long_life_forgets_all_short_ones(void **state)
{
    const struct pfl_life life = {.up_ms = PFL_BACKOFF_PROVED_MS};
    struct pfl_restarts r = {.backoff.max_ms = 9000};

    (void)state;
    for (unsigned i = 0; i < 20; i++)
        (void)pfl_restarts_wait_ms(&r, &stillborn, 1);
    assert_int_equal(pfl_restarts_wait_ms(&r, &life, 12345), 0);
    assert_int_equal(pfl_restarts_wait_ms(&r, &stillborn, 12345), 0);
    assert_in_range(wait_longest(&r, &stillborn), PFL_BACKOFF_MIN_MS, PFL_BACKOFF_FIRST_MS);
    assert_int_equal(r.backoff.max_ms, 9000);
}

static void only_failures_nobody_asked_for_are_followed_by_a_start(void **state)
{
    (void)state;
    assert_true(pfl_restarts_is_due(EXITED(1), false));
    assert_true(pfl_restarts_is_due(EXITED(127), false));
    assert_true(pfl_restarts_is_due(SIGKILL, false));
    assert_true(pfl_restarts_is_due(SIGTERM, false));
    assert_false(pfl_restarts_is_due(EXITED(0), false));
    assert_false(pfl_restarts_is_due(EXITED(2), false));
    assert_false(pfl_restarts_is_due(EXITED(1), true));
    assert_false(pfl_restarts_is_due(SIGKILL, true));
}

static void the_exit_status_says_how_the_program_ended(void **state)
{
    (void)state;
    assert_int_equal(pfl_restarts_exit_status(EXITED(0)), 0);
    assert_int_equal(pfl_restarts_exit_status(EXITED(7)), 7);
    assert_int_equal(pfl_restarts_exit_status(SIGKILL), 137);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_death_is_not_waited_for),
        cmocka_unit_test(one_that_dies_again_and_again_is_waited_for_ever_longer_up_to_the_maximum),
        cmocka_unit_test(one_that_was_ready_is_never_waited_for_longer_than_two_seconds),
        cmocka_unit_test(a_long_life_forgets_all_short_ones),
        cmocka_unit_test(only_failures_nobody_asked_for_are_followed_by_a_start),
        cmocka_unit_test(the_exit_status_says_how_the_program_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
