/* SPDX-License-Identifier: Apache-2.0 */
/* The alarm rings once, in time, and not when it was taken back. */
#include "base/io/alarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io/loop.h"

static uv_loop_t loop;
static struct pfl_alarm alarm_;
static unsigned rung;

static uint64_t get_now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

static void on_alarm(void *user)
{
    (*(unsigned *)user)++;
}

static int open_alarm(void **state)
{
    (void)state;
    rung = 0;
    return pfl_loop_init(&loop) != 0 || pfl_alarm_open(&alarm_, &loop, on_alarm, &rung) != 0;
}

static int close_alarm(void **state)
{
    (void)state;
    pfl_alarm_close(&alarm_);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void it_rings_once_and_not_too_early(void **state)
{
    uint64_t at_ms = get_now_ms() + 20;

    (void)state;
    pfl_alarm_set(&alarm_, at_ms);
    while (rung == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_true(get_now_ms() >= at_ms);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(rung, 1);
}

static void what_is_over_rings_at_once(void **state)
{
    (void)state;
    pfl_alarm_set(&alarm_, 0);
    (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(rung, 1);
}

static void never_takes_it_back(void **state)
{
    (void)state;
    pfl_alarm_set(&alarm_, 0);
    pfl_alarm_set(&alarm_, PFL_ALARM_NEVER);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(rung, 0);
}

static void the_same_time_rings_again_when_set_again(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        pfl_alarm_set(&alarm_, 5);
        (void)uv_run(&loop, UV_RUN_ONCE);
        assert_int_equal(rung, i);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_alarm, close_alarm)
    const struct CMUnitTest tests[] = {
        TEST(it_rings_once_and_not_too_early),
        TEST(what_is_over_rings_at_once),
        TEST(never_takes_it_back),
        TEST(the_same_time_rings_again_when_set_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
