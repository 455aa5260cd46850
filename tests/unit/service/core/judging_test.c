/* SPDX-License-Identifier: Apache-2.0 */
/* What matching producers may cost: shares of users, in windows of time. */
#include "service/core/judging.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/core/producer.h"

#define OWNER 1000u

static struct pfl_producer producer = {.name = (char[]){"p"}, .who = 7};

static void a_match_costs_what_it_used_and_no_more_than_there_was_room_for(void **state)
{
    struct pfl_judging judging = {0};
    uint64_t credit = pfl_judging_begin(&judging, OWNER, 7, 1);

    (void)state;
    assert_int_equal(credit, PFL_JUDGING_UNITS / 2 + 1);
    pfl_judging_end(&judging, 1, &producer, credit); /* cost nothing */
    assert_int_equal(judging.shares.used, 0);
    credit = pfl_judging_begin(&judging, OWNER, 7, 1);
    pfl_judging_end(&judging, 1, &producer, credit - 100);
    assert_int_equal(pfl_shares_get(&judging.shares, 7), 100);
    assert_false(judging.was_reported);
    credit = pfl_judging_begin(&judging, OWNER, 7, 1);
    assert_int_equal(credit, (PFL_JUDGING_UNITS - 200) / 2 + 1);
    pfl_judging_end(&judging, 1, &producer, 0); /* it did not suffice */
    assert_int_equal(pfl_shares_get(&judging.shares, 7), 100 + credit - 1);
    assert_true(judging.was_reported);
    assert_int_equal(pfl_judging_begin(&judging, OWNER, 7, 1), 1); /* room for nothing more */
    pfl_judging_end(&judging, 1, &producer, 1);
    assert_true(pfl_judging_begin(&judging, OWNER, 8, 1) > 100000); /* others have theirs */
    assert_int_equal(pfl_judging_begin(&judging, OWNER, OWNER, 1),
                     PFL_JUDGING_UNITS - judging.shares.used + 1);
}

static void a_window_that_is_over_is_forgotten(void **state)
{
    struct pfl_judging judging = {0};

    (void)state;
    (void)pfl_judging_begin(&judging, OWNER, 7, 5);
    pfl_judging_end(&judging, 1, &producer, 0);
    assert_int_equal(pfl_judging_begin(&judging, OWNER, 7, 5 + PFL_JUDGING_WINDOW_MS - 1), 1);
    assert_true(judging.was_reported);
    assert_int_equal(pfl_judging_begin(&judging, OWNER, 7, 5 + PFL_JUDGING_WINDOW_MS),
                     PFL_JUDGING_UNITS / 2 + 1);
    assert_false(judging.was_reported);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_match_costs_what_it_used_and_no_more_than_there_was_room_for),
        cmocka_unit_test(a_window_that_is_over_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
