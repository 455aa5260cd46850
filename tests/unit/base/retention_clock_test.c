/* SPDX-License-Identifier: Apache-2.0 */
#include "base/retention_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S    UINT64_C(1000000000)
#define DAY  (86400 * S)
#define WALL (1700000000 * S)

static uint64_t take(struct pfl_retention_clock *clock, uint64_t wall, uint64_t boot, bool expected)
{
    bool has_jumped = !expected;
    uint64_t taken = pfl_retention_clock_take(clock, wall, boot, &has_jumped);

    assert_int_equal(has_jumped, expected);
    return taken;
}

static void a_clock_that_is_adjusted_holds(void **state)
{
    struct pfl_retention_clock clock = {0};

    (void)state;
    assert_int_equal(take(&clock, WALL, 5 * S, false), WALL);
    assert_int_equal(take(&clock, WALL + 40 * S, 35 * S, false), WALL + 40 * S);
    assert_int_equal(take(&clock, WALL + 3000 * S, 65 * S, false), WALL + 3000 * S);
}

static void a_jump_back_holds_at_once(void **state)
{
    struct pfl_retention_clock clock = {0};

    (void)state;
    assert_int_equal(take(&clock, WALL, 5 * S, false), WALL);
    assert_int_equal(take(&clock, WALL - 300 * DAY, 35 * S, false), WALL - 300 * DAY);
}

static void a_jump_ahead_is_ignored_for_a_day(void **state)
{
    struct pfl_retention_clock clock = {0};
    uint64_t boot = 5 * S;

    (void)state;
    assert_int_equal(take(&clock, WALL, boot, false), WALL);
    assert_int_equal(take(&clock, WALL + 365 * DAY, boot + 30 * S, true), WALL + 30 * S);
    assert_int_equal(take(&clock, WALL + 365 * DAY, boot + DAY, false), WALL + DAY);
    assert_int_equal(take(&clock, WALL + 366 * DAY, boot + DAY + 30 * S, false), WALL + 366 * DAY);
    /* From there on, again. */
    assert_int_equal(take(&clock, WALL + 999 * DAY, boot + DAY + 60 * S, true),
                     WALL + 366 * DAY + 30 * S);
}

static void a_clock_that_is_set_right_again_was_never_ahead(void **state)
{
    struct pfl_retention_clock clock = {0};

    (void)state;
    assert_int_equal(take(&clock, WALL, 5 * S, false), WALL);
    assert_int_equal(take(&clock, WALL + 365 * DAY, 35 * S, true), WALL + 30 * S);
    assert_int_equal(take(&clock, WALL + 60 * S, 65 * S, false), WALL + 60 * S);
    assert_int_equal(take(&clock, WALL + 365 * DAY, 95 * S, true), WALL + 90 * S);
}

/* A collector that was stopped for a year begins with the present time. */
static void the_first_time_holds(void **state)
{
    struct pfl_retention_clock clock = {0};

    (void)state;
    assert_int_equal(take(&clock, WALL, 0, false), WALL);
    assert_int_equal(take(&clock, WALL + S, S, false), WALL + S);
}

/* It is not known how much of the time between them passed. */
static void a_clock_that_follows_another_takes_a_long_gap_as_a_jump(void **state)
{
    struct pfl_retention_clock soon = {.wall_ns = WALL, .boot_ns = 5 * S};
    struct pfl_retention_clock late = soon;

    (void)state;
    assert_int_equal(take(&soon, WALL + 3600 * S, 5 * S, false), WALL + 3600 * S);
    assert_int_equal(take(&late, WALL + 3601 * S, 5 * S, true), WALL);
    assert_int_equal(take(&late, WALL + 3601 * S + DAY, 5 * S + DAY, false), WALL + 3601 * S + DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_is_adjusted_holds),
        cmocka_unit_test(a_jump_back_holds_at_once),
        cmocka_unit_test(a_jump_ahead_is_ignored_for_a_day),
        cmocka_unit_test(a_clock_that_is_set_right_again_was_never_ahead),
        cmocka_unit_test(the_first_time_holds),
        cmocka_unit_test(a_clock_that_follows_another_takes_a_long_gap_as_a_jump),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
