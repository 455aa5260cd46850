/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of time as operators write them. */
#include "consumer/config/duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void all_units_are_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t ms;
    } rows[] = {{"90", 90000},  {"1500ms", 1500}, {"10s", 10000},  {"0.5s", 500},
                {"5m", 300000}, {"5min", 300000}, {"2h", 7200000}, {"3d", 259200000},
                {"1ms", 1},     {"7d", 604800000}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t ms = 0;

        assert_true(pfl_duration_parse(rows[i].text, &ms));
        assert_int_equal(ms, rows[i].ms);
    }
}

static void all_else_is_refused(void **state)
{
    static const char *const rows[] = {"",   "s",   "0",    "0.1ms", "-1s", "+1s", "1x",
                                       "8d", "inf", "nans", "10 s",  "1w",  " 1s"};
    uint32_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_false(pfl_duration_parse(rows[i], &ms));
}

static void ages_may_be_longer(void **state)
{
    uint64_t ms = 0;

    (void)state;
    assert_true(pfl_duration_parse_age("30d", &ms));
    assert_int_equal(ms, 2592000000);
    assert_true(pfl_duration_parse_age("3650d", &ms));
    assert_int_equal(ms, 315360000000);
    assert_true(pfl_duration_parse_age("1.5h", &ms));
    assert_int_equal(ms, 5400000);
    assert_false(pfl_duration_parse_age("3651d", &ms));
    assert_false(pfl_duration_parse_age("0", &ms));
    assert_false(pfl_duration_parse_age("inf", &ms));
    assert_false(pfl_duration_parse_age("-1d", &ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_units_are_read),
        cmocka_unit_test(all_else_is_refused),
        cmocka_unit_test(ages_may_be_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
