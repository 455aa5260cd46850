/* SPDX-License-Identifier: Apache-2.0 */
/* Rates by user: a burst, then a rate, and no user's shortens another's. */
#include "base/user_rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NS_PER_S 1000000000u

static struct pfl_user_rates rates;

static int setup(void **state)
{
    (void)state;
    rates = (struct pfl_user_rates){.at_once = 20, .per_s = 100};
    return 0;
}

static unsigned use_up(uint64_t who, uint64_t now_ns)
{
    unsigned taken = 0;

    while (pfl_user_rates_take(&rates, who, now_ns))
        taken++;
    return taken;
}

static void a_burst_is_taken_at_once_and_then_a_rate(void **state)
{
    uint64_t taken = 0;

    (void)state;
    assert_int_equal(use_up(1000, 5), 20);
    assert_false(pfl_user_rates_take(&rates, 1000, 9000005));
    for (uint64_t ms = 1; ms <= 10000; ms++)
        taken += use_up(1000, 5 + ms * 1000000);
    assert_int_equal(taken, 1000); /* 10 s, however often it was refused */
    assert_int_equal(use_up(1000, 60ull * NS_PER_S), 20);
}

static void root_is_not_limited(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_true(pfl_user_rates_take(&rates, 0, 5));
}

static void no_number_of_a_user_shares_the_rate_of_another(void **state)
{
    (void)state;
    (void)use_up(1000, 5);
    for (uint64_t other = 1001; other < 1000 + PFL_USER_RATES; other++)
        assert_true(pfl_user_rates_take(&rates, other, 5));
    assert_true(pfl_user_rates_take(&rates, 1000 + PFL_USER_RATES, 5));
    assert_true(pfl_user_rates_take(&rates, (1ull << 32) + 1000, 5));
}

static void of_many_users_the_one_that_took_least_is_forgotten(void **state)
{
    (void)state;
    for (uint64_t who = 1; who <= PFL_USER_RATES; who++)
        (void)use_up(who, 5);
    assert_true(pfl_user_rates_take(&rates, 7, 5 + 10000000)); /* 7 owes most now */
    assert_true(pfl_user_rates_take(&rates, 1000, 5 + 10000000));
    for (uint64_t who = 1001; who < 1300; who++)
        assert_true(pfl_user_rates_take(&rates, who, 5 + 10000000));
    assert_false(pfl_user_rates_take(&rates, 7, 5 + 10000000));
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_burst_is_taken_at_once_and_then_a_rate),
        T(root_is_not_limited),
        T(no_number_of_a_user_shares_the_rate_of_another),
        T(of_many_users_the_one_that_took_least_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
