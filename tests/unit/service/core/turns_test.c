/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's time by user: some at once, then a part. */
#include "service/core/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000u

static struct pfl_turns turns;
static const uint64_t now_ns = 1000000000u * 100u;

static struct pfl_turns_who user(uint64_t who)
{
    return (struct pfl_turns_who){.user = who, .subject = who};
}

static struct pfl_turns_who subject_of_7(uint64_t subject)
{
    return (struct pfl_turns_who){.user = 7, .subject = subject};
}

static int reset(void **state)
{
    (void)state;
    turns = (struct pfl_turns){0};
    return 0;
}

static void who_took_too_much_waits_alone(void **state)
{
    (void)state;
    pfl_turns_take(&turns, user(7), PFL_TURNS_AT_ONCE, now_ns);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, user(7), now_ns), 0);
    pfl_turns_take(&turns, user(7), 10 * MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, user(7), now_ns), 50, 51);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, user(8), now_ns), 0);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, user(7), now_ns + 51 * MS), 0);
}

static void a_fifth_of_the_time_may_be_taken_for_ever(void **state)
{
    uint64_t at_ns = now_ns;

    (void)state;
    for (unsigned i = 0; i < 1000; i++, at_ns += 10 * MS) {
        pfl_turns_take(&turns, user(7), 2 * MS, at_ns);
        assert_int_equal(pfl_turns_get_wait_ms(&turns, user(7), at_ns), 0);
    }
    for (unsigned i = 0; i < 1000; i++, at_ns += 10 * MS)
        pfl_turns_take(&turns, user(7), 3 * MS, at_ns);
    assert_int_not_equal(pfl_turns_get_wait_ms(&turns, user(7), at_ns), 0);
}

static void of_more_users_the_one_who_owes_least_is_forgotten(void **state)
{
    (void)state;
    pfl_turns_take(&turns, user(7), 2u * PFL_TURNS_AT_ONCE, now_ns);
    for (uint64_t who = 100; who < 100 + 3 * PFL_TURNS_USERS; who++)
        pfl_turns_take(&turns, user(who), MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, user(7), now_ns), 500, 501);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, user(100), now_ns), 0);
}

/* As an agent is, with a subject for each operator. */
static void subject_that_takes_little_does_not_wait_for_one_that_takes_much(void **state)
{
    (void)state;
    pfl_turns_take(&turns, subject_of_7(1001), PFL_TURNS_AT_ONCE + 40 * MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, subject_of_7(1001), now_ns), 200, 201);
    assert_in_range(pfl_turns_get_wait_ms(&turns, user(7), now_ns), 200, 201);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, subject_of_7(1002), now_ns), 0);
    pfl_turns_take(&turns, subject_of_7(1002), 2 * MS, now_ns);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, subject_of_7(1002), now_ns), 0);
    assert_true(pfl_turns_get_owed_ns(&turns, subject_of_7(1002), now_ns) <
                pfl_turns_get_owed_ns(&turns, subject_of_7(1001), now_ns));
}

static void subjects_together_have_the_reserve_and_no_more(void **state)
{
    (void)state;
    for (uint64_t subject = 1000; subject < 1050; subject++)
        pfl_turns_take(&turns, subject_of_7(subject), 4 * MS, now_ns);
    assert_int_equal(pfl_turns_get_wait_ms(&turns, subject_of_7(2000), now_ns), 0);
    pfl_turns_take(&turns, subject_of_7(1050), 4 * MS, now_ns);
    assert_in_range(pfl_turns_get_wait_ms(&turns, subject_of_7(2000), now_ns), 20, 21);
}

static void subject_that_took_much_is_forgiven(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        pfl_turns_take(&turns, subject_of_7(1001), 100 * MS, now_ns);
    assert_in_range(pfl_turns_get_owed_ns(&turns, subject_of_7(1001), now_ns), 19000ull * MS,
                    21000ull * MS);
    assert_int_equal(pfl_turns_get_owed_ns(&turns, subject_of_7(1001), now_ns + 21000ull * MS), 0);
    assert_int_equal(pfl_turns_get_owed_ns(&turns, user(7), now_ns), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_took_too_much_waits_alone),
        TEST(a_fifth_of_the_time_may_be_taken_for_ever),
        TEST(of_more_users_the_one_who_owes_least_is_forgotten),
        TEST(subject_that_takes_little_does_not_wait_for_one_that_takes_much),
        TEST(subjects_together_have_the_reserve_and_no_more),
        TEST(subject_that_took_much_is_forgiven),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
