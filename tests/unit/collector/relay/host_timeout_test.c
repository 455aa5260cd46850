/* SPDX-License-Identifier: Apache-2.0 */
/* How long a host may be waited for. */
#include "collector/relay/host_timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_byte_in_each_minute_is_too_slow(void **state)
{
    struct pfl_host_timeout pace = {.bytes = 0};
    uint64_t now_ms = 5000;

    (void)state;
    pfl_host_timeout_begin(&pace, now_ms);
    assert_true(pfl_host_timeout_get_left_ms(&pace, now_ms) == PFL_HOST_TIMEOUT_FREE_MS);
    now_ms += 7000;
    pfl_host_timeout_end(&pace, now_ms, 1);
    pfl_host_timeout_begin(&pace, now_ms);
    assert_true(pfl_host_timeout_get_left_ms(&pace, now_ms) == PFL_HOST_TIMEOUT_FREE_MS - 7000);
    now_ms += 7000;
    assert_true(pfl_host_timeout_get_left_ms(&pace, now_ms) == 0);
    assert_true(pfl_host_timeout_was_slow(&pace, now_ms));
}

static void who_has_to_hurry_has_no_credit_for_what_it_gave(void **state)
{
    struct pfl_host_timeout pace = {.bytes = 0};

    (void)state;
    pfl_host_timeout_begin(&pace, 0);
    pfl_host_timeout_end(&pace, 1000, UINT64_C(1) << 33);
    pfl_host_timeout_begin(&pace, 1000);
    assert_true(pfl_host_timeout_get_left_ms(&pace, 1000000) != 0);
    pfl_host_timeout_restart(&pace, 2000);
    assert_true(pfl_host_timeout_get_left_ms(&pace, 2000) == PFL_HOST_TIMEOUT_FREE_MS);
    assert_true(pfl_host_timeout_get_left_ms(&pace, 2000 + PFL_HOST_TIMEOUT_FREE_MS) == 0);
}

static void a_host_whose_answers_are_far_away_is_not_slow(void **state)
{
    struct pfl_host_timeout pace = {.bytes = 0};
    uint64_t now_ms = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        pfl_host_timeout_begin(&pace, now_ms);
        now_ms += PFL_HOST_TIMEOUT_ANSWER_MS;
        assert_true(pfl_host_timeout_get_left_ms(&pace, now_ms) != 0);
        pfl_host_timeout_end(&pace, now_ms, 0);
        pace.answers++;
    }
    assert_false(pfl_host_timeout_was_slow(&pace, now_ms));
    pfl_host_timeout_begin(&pace, now_ms);
    assert_false(pfl_host_timeout_was_slow(&pace, now_ms + PFL_HOST_TIMEOUT_SLOW_MS));
    assert_true(pfl_host_timeout_was_slow(&pace, now_ms + PFL_HOST_TIMEOUT_SLOW_MS + 1));
}

static void a_host_at_the_rate_is_never_too_slow(void **state)
{
    struct pfl_host_timeout pace = {.bytes = 0};
    uint64_t now_ms = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        pfl_host_timeout_begin(&pace, now_ms);
        now_ms += 1000;
        assert_true(pfl_host_timeout_get_left_ms(&pace, now_ms) != 0);
        pfl_host_timeout_end(&pace, now_ms, PFL_HOST_TIMEOUT_BYTES_PER_S);
    }
}

static void what_the_store_takes_does_not_count(void **state)
{
    struct pfl_host_timeout pace = {.bytes = 0};

    (void)state;
    pfl_host_timeout_begin(&pace, 0);
    pfl_host_timeout_end(&pace, 1000, 0);
    pfl_host_timeout_begin(&pace, 3600000);
    assert_true(pfl_host_timeout_get_left_ms(&pace, 3600000) == PFL_HOST_TIMEOUT_FREE_MS - 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_in_each_minute_is_too_slow),
        cmocka_unit_test(who_has_to_hurry_has_no_credit_for_what_it_gave),
        cmocka_unit_test(a_host_whose_answers_are_far_away_is_not_slow),
        cmocka_unit_test(a_host_at_the_rate_is_never_too_slow),
        cmocka_unit_test(what_the_store_takes_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
