/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets: a rate holds however often it is asked for. */
#include "base/token_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint64_t take_all(struct pfl_token_bucket *b, uint64_t now_ms)
{
    uint64_t got = pfl_token_bucket_get(b, now_ms);

    pfl_token_bucket_take(b, got);
    return got;
}

static void the_rate_holds_to_the_byte(void **state)
{
    struct pfl_token_bucket b = {0};
    uint64_t sum = 0;

    (void)state;
    pfl_token_bucket_set(&b, 12345, 1000, 50);
    assert_int_equal(take_all(&b, 50), 1000);
    for (uint64_t ms = 51; ms <= 10050; ms++)
        sum += take_all(&b, ms);
    assert_int_equal(sum, 123450);
}

static void a_pause_fills_it_up_and_no_more(void **state)
{
    struct pfl_token_bucket b = {0};

    (void)state;
    pfl_token_bucket_set(&b, 10, 20, 0);
    assert_int_equal(take_all(&b, 0), 20);
    assert_int_equal(take_all(&b, UINT64_MAX), 20);
    assert_int_equal(take_all(&b, 0), 0);
    pfl_token_bucket_set(&b, 1ull << 50, 1ull << 50, 0);
    assert_int_equal(take_all(&b, UINT64_MAX / 2), 1ull << 50);
}

static void without_a_rate_there_is_no_limit(void **state)
{
    struct pfl_token_bucket b = {0};

    (void)state;
    assert_int_equal(pfl_token_bucket_get(&b, 7), UINT64_MAX);
    pfl_token_bucket_take(&b, 1000);
    assert_int_equal(pfl_token_bucket_get(&b, 7), UINT64_MAX);
    pfl_token_bucket_set(&b, 5, 10, 7);
    assert_int_equal(pfl_token_bucket_get(&b, 7), 10);
    /* A new rate is no present. */
    pfl_token_bucket_take(&b, 10);
    pfl_token_bucket_set(&b, 5, 10, 7);
    assert_int_equal(pfl_token_bucket_get(&b, 7), 0);
}

static void what_was_taken_too_much_is_paid_first(void **state)
{
    struct pfl_token_bucket b = {0};

    (void)state;
    pfl_token_bucket_set(&b, 1000, 100, 0);
    pfl_token_bucket_take(&b, 400);
    assert_int_equal(pfl_token_bucket_get(&b, 300), 0);
    assert_int_equal(pfl_token_bucket_get(&b, 301), 1);
    pfl_token_bucket_take(&b, 1);
    assert_int_equal(pfl_token_bucket_get(&b, 501), 100);
}

static void what_is_given_back_pays_the_debt_and_then_fills_up(void **state)
{
    struct pfl_token_bucket b = {0};

    (void)state;
    pfl_token_bucket_set(&b, 1000, 100, 0);
    pfl_token_bucket_take(&b, 130);
    pfl_token_bucket_give(&b, 20);
    assert_int_equal(pfl_token_bucket_get(&b, 0), 0);
    pfl_token_bucket_give(&b, 25);
    assert_int_equal(pfl_token_bucket_get(&b, 0), 15);
    pfl_token_bucket_give(&b, 1000);
    assert_int_equal(pfl_token_bucket_get(&b, 0), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_holds_to_the_byte),
        cmocka_unit_test(a_pause_fills_it_up_and_no_more),
        cmocka_unit_test(what_was_taken_too_much_is_paid_first),
        cmocka_unit_test(what_is_given_back_pays_the_debt_and_then_fills_up),
        cmocka_unit_test(without_a_rate_there_is_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
