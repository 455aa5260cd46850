/* SPDX-License-Identifier: Apache-2.0 */
/* How long a host may be waited for. */
#include "collector/pull/visit_timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_byte_in_each_minute_is_too_slow(void **state)
{
    struct pfl_visit_timeout pace = {.bytes = 0};
    uint64_t now_ms = 5000;

    (void)state;
    pfl_visit_timeout_begin(&pace, now_ms);
    assert_true(pfl_visit_timeout_get_left_ms(&pace, now_ms) == PFL_VISIT_TIMEOUT_FREE_MS);
    now_ms += 40000;
    pfl_visit_timeout_end(&pace, now_ms, 1);
    pfl_visit_timeout_begin(&pace, now_ms);
    assert_true(pfl_visit_timeout_get_left_ms(&pace, now_ms) == PFL_VISIT_TIMEOUT_FREE_MS - 40000);
    now_ms += 40000;
    assert_true(pfl_visit_timeout_get_left_ms(&pace, now_ms) == 0);
}

static void a_host_at_the_rate_is_never_too_slow(void **state)
{
    struct pfl_visit_timeout pace = {.bytes = 0};
    uint64_t now_ms = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        pfl_visit_timeout_begin(&pace, now_ms);
        now_ms += 1000;
        assert_true(pfl_visit_timeout_get_left_ms(&pace, now_ms) != 0);
        pfl_visit_timeout_end(&pace, now_ms, PFL_VISIT_TIMEOUT_BYTES_PER_S);
    }
}

static void what_the_store_takes_does_not_count(void **state)
{
    struct pfl_visit_timeout pace = {.bytes = 0};

    (void)state;
    pfl_visit_timeout_begin(&pace, 0);
    pfl_visit_timeout_end(&pace, 1000, 0);
    pfl_visit_timeout_begin(&pace, 3600000);
    assert_true(pfl_visit_timeout_get_left_ms(&pace, 3600000) == PFL_VISIT_TIMEOUT_FREE_MS - 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_in_each_minute_is_too_slow),
        cmocka_unit_test(a_host_at_the_rate_is_never_too_slow),
        cmocka_unit_test(what_the_store_takes_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
