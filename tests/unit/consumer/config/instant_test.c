/* SPDX-License-Identifier: Apache-2.0 */
/* Moments as operators write them. */
#include "consumer/config/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define NOW_S 1795521600 /* 2026-11-24T12:00:00Z */

static int set_zone(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "XXX-2", 1), 0); /* two hours east */
    tzset();
    return 0;
}

static int64_t seconds(const char *text)
{
    uint64_t ns;

    return pfl_instant_parse(text, NOW_S, &ns) ? (int64_t)(ns / 1000000000) - NOW_S : INT64_MAX;
}

static void moments_are_local_or_utc(void **state)
{
    (void)state;
    assert_int_equal(seconds("14:00"), 0);
    assert_int_equal(seconds("14:00:05"), 5);
    assert_int_equal(seconds("12:00Z"), 0);
    assert_int_equal(seconds("2026-11-24T14:00"), 0);
    assert_int_equal(seconds("2026-11-24 14:00:09"), 9);
    assert_int_equal(seconds("2026-11-24T12:00:01Z"), 1);
    assert_int_equal(seconds("2026-11-24"), -14 * 3600);
    assert_int_equal(seconds("2026-11-24Z"), -12 * 3600);
}

static void ages_are_before_now(void **state)
{
    (void)state;
    assert_int_equal(seconds("90s"), -90);
    assert_int_equal(seconds("2h"), -7200);
    assert_int_equal(seconds("7d"), -7 * 86400);
}

static void all_else_is_refused(void **state)
{
    static const char *const bad[] = {"",           "x",         "5",
                                      "14",         "25:00",     "14:61",
                                      "2026-13-01", "14:00 x",   "2026-11-24T14:00+02",
                                      "-2h",        "1969-01-01"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (seconds(bad[i]) != INT64_MAX)
            fail_msg("%s", bad[i]);
}

/* At 23:00 UTC it is one o'clock of the next day here. */
static void a_time_of_day_is_of_the_day_that_its_clock_has_now(void **state)
{
    const int64_t now_s = NOW_S + 11 * 3600;
    uint64_t ns;

    (void)state;
    assert_true(pfl_instant_parse("22:00Z", now_s, &ns));
    assert_int_equal(ns / 1000000000, now_s - 3600);
    assert_true(pfl_instant_parse("00:30", now_s, &ns));
    assert_int_equal(ns / 1000000000, now_s - 1800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_local_or_utc),
        cmocka_unit_test(ages_are_before_now),
        cmocka_unit_test(all_else_is_refused),
        cmocka_unit_test(a_time_of_day_is_of_the_day_that_its_clock_has_now),
    };

    return cmocka_run_group_tests(tests, set_zone, NULL);
}
