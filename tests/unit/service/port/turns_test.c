/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's time by user: some at once, then a part. */
#include "service/port/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000u

static struct pfl_turns turns;
static const uint64_t now_ns = 1000000000u * 100u;

static int reset(void **state)
{
    (void)state;
    turns = (struct pfl_turns){0};
    return 0;
}

static void who_took_too_much_waits_alone(void **state)
{
    (void)state;
    pfl_turns_take(&turns, 7, PFL_TURNS_AT_ONCE, now_ns);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, 7, now_ns), 0);
    pfl_turns_take(&turns, 7, 10 * MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, 7, now_ns), 50, 51);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, 8, now_ns), 0);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, 7, now_ns + 51 * MS), 0);
}

static void a_fifth_of_the_time_may_be_taken_for_ever(void **state)
{
    uint64_t at_ns = now_ns;

    (void)state;
    for (unsigned i = 0; i < 1000; i++, at_ns += 10 * MS) {
        pfl_turns_take(&turns, 7, 2 * MS, at_ns);
        assert_int_equal(pfl_turns_get_wait_ms(&turns, 7, at_ns), 0);
    }
    for (unsigned i = 0; i < 1000; i++, at_ns += 10 * MS)
        pfl_turns_take(&turns, 7, 3 * MS, at_ns);
    assert_int_not_equal(pfl_turns_get_wait_ms(&turns, 7, at_ns), 0);
}

static void of_more_users_the_one_who_owes_least_is_forgotten(void **state)
{
    (void)state;
    pfl_turns_take(&turns, 7, 2u * PFL_TURNS_AT_ONCE, now_ns);
    for (uint64_t who = 100; who < 100 + 3 * PFL_TURNS_USERS; who++)
        pfl_turns_take(&turns, who, MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, 7, now_ns), 500, 501);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, 100, now_ns), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_took_too_much_waits_alone),
        TEST(a_fifth_of_the_time_may_be_taken_for_ever),
        TEST(of_more_users_the_one_who_owes_least_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
