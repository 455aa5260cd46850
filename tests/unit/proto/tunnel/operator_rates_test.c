/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator may have. */
#include "proto/tunnel/operator_rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define PER_S 10u
#define BURST 100u

static struct pfl_operator_rates rates;

static int begin(void **state)
{
    (void)state;
    rates = (struct pfl_operator_rates){.per_s = PER_S, .burst = BURST};
    return 0;
}

static unsigned take_all(const char *name, uint64_t now_ms)
{
    unsigned n = 0;

    while (n < 1000 && pfl_operator_rates_take(&rates, name, 1, now_ms))
        n++;
    return n;
}

static void an_operator_has_a_burst_and_a_rate(void **state)
{
    (void)state;
    assert_int_equal(take_all("ann", 5000), BURST);
    assert_int_equal(take_all("ann", 5000 + 1000 / PER_S), 1);
    assert_int_equal(take_all("ann", 60000), BURST);
    assert_int_equal(take_all("ann", 1), 0); /* a clock that goes back gives nothing */
}

static void others_are_not_held_up(void **state)
{
    (void)state;
    assert_int_equal(take_all("ann", 5000), BURST);
    assert_int_equal(take_all("bob", 5000), BURST);
    assert_false(pfl_operator_rates_take(&rates, "ann", 1, 5000));
}

static void an_amount_is_taken_whole_or_not(void **state)
{
    (void)state;
    assert_true(pfl_operator_rates_take(&rates, "ann", BURST - 3, 5000));
    assert_false(pfl_operator_rates_take(&rates, "ann", 4, 5000));
    assert_true(pfl_operator_rates_take(&rates, "ann", 3, 5000));
}

static void the_oldest_makes_room(void **state)
{
    char name[16];

    (void)state;
    for (unsigned i = 0; i < PFL_OPERATOR_RATES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        assert_int_equal(take_all(name, 5000 + i % 2), BURST);
    }
    assert_false(pfl_operator_rates_take(&rates, "o0", 1, 5002)); /* asked last */
    assert_true(pfl_operator_rates_take(&rates, "new", 1, 5002));
    assert_int_equal(rates.len, PFL_OPERATOR_RATES_MAX);
    assert_false(pfl_operator_rates_take(&rates, "o0", 1, 5002));
    assert_false(pfl_operator_rates_take(&rates, "o1", 1, 5002));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_operator_has_a_burst_and_a_rate, begin),
        cmocka_unit_test_setup(others_are_not_held_up, begin),
        cmocka_unit_test_setup(an_amount_is_taken_whole_or_not, begin),
        cmocka_unit_test_setup(the_oldest_makes_room, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
