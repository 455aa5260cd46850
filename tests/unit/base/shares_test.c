/* SPDX-License-Identifier: Apache-2.0 */
/* A total that users share: something is left for who comes later. */
#include "base/shares.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void one_user_has_half_and_the_next_half_of_the_rest(void **state)
{
    struct pfl_shares s = {.max = 64};
    unsigned taken = 0;

    (void)state;
    while (pfl_shares_take(&s, 1, 1))
        taken++;
    assert_int_equal(taken, 32);
    assert_int_equal(pfl_shares_get_room(&s, 1), 0);
    assert_int_equal(pfl_shares_get_room(&s, 2), 16);
    assert_int_equal(pfl_shares_get_room(&s, 0), 32);
    for (taken = 0; pfl_shares_take(&s, 2, 1);)
        taken++;
    assert_int_equal(taken, 16);
    assert_false(pfl_shares_take(&s, 1, 1));
    assert_true(pfl_shares_take(&s, 3, 8));
    assert_false(pfl_shares_take(&s, 3, 1));
    assert_true(pfl_shares_take(&s, 0, 8));
    assert_false(pfl_shares_take(&s, 0, 1));
    pfl_shares_give(&s, 0, 8);
    pfl_shares_give(&s, 1, 32);
    assert_true(pfl_shares_take(&s, 3, 9));
    pfl_shares_give(&s, 3, 17);
    pfl_shares_give(&s, 2, 16);
    assert_int_equal(s.used, 0);
    assert_int_equal(s.users_len, 0);
}

static void root_may_have_all(void **state)
{
    struct pfl_shares s = {.max = 8};

    (void)state;
    assert_true(pfl_shares_take(&s, 0, 8));
    assert_false(pfl_shares_take(&s, 0, 1));
    assert_false(pfl_shares_take(&s, 1, 1));
    assert_false(pfl_shares_take(&s, 1, UINT64_MAX));
}

static void users_past_the_table_count_as_one_and_are_found_again(void **state)
{
    struct pfl_shares s = {.max = 1u << 20};

    (void)state;
    for (uint32_t uid = 1; uid <= PFL_SHARES_USERS + 10; uid++)
        assert_true(pfl_shares_take(&s, uid, 2));
    assert_int_equal(s.others, 20);
    pfl_shares_give(&s, 1, 2); /* a place is free */
    assert_true(pfl_shares_take(&s, PFL_SHARES_USERS + 1, 2));
    assert_int_equal(s.others, 22);
    for (uint32_t uid = 2; uid <= PFL_SHARES_USERS + 10; uid++)
        pfl_shares_give(&s, uid, uid == PFL_SHARES_USERS + 1 ? 4 : 2);
    assert_int_equal(s.used, 0);
    assert_int_equal(s.others, 0);
    assert_int_equal(s.users_len, 0);
}

static void an_amount_that_stays_is_never_refused(void **state)
{
    struct pfl_shares shares = {.max = 100};
    uint64_t held = 50;

    (void)state;
    assert_true(pfl_shares_take(&shares, 7, 50));
    assert_true(pfl_shares_take(&shares, 8, 25)); /* now user 7 has more than a share */
    assert_true(pfl_shares_set(&shares, 7, &held, 50));
    assert_false(pfl_shares_set(&shares, 7, &held, 51));
    assert_int_equal(held, 50);
    assert_int_equal(shares.used, 75);
    assert_true(pfl_shares_set(&shares, 7, &held, 10));
    assert_int_equal(held, 10);
    assert_int_equal(shares.used, 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_user_has_half_and_the_next_half_of_the_rest),
        cmocka_unit_test(root_may_have_all),
        cmocka_unit_test(users_past_the_table_count_as_one_and_are_found_again),
        cmocka_unit_test(an_amount_that_stays_is_never_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
