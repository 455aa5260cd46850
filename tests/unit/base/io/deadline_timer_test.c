/* SPDX-License-Identifier: Apache-2.0 */
/* The timer expires once, in time, and not after it was cleared. */
#include "base/io/deadline_timer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io/loop.h"

static uv_loop_t loop;
static struct pfl_deadline_timer timer;
static unsigned expired;

static uint64_t get_now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

static void on_deadline(void *user)
{
    (*(unsigned *)user)++;
}

static int open_alarm(void **state)
{
    (void)state;
    expired = 0;
    return pfl_loop_init(&loop) != 0 ||
           pfl_deadline_timer_open(&timer, &loop, on_deadline, &expired) != 0;
}

static int close_alarm(void **state)
{
    (void)state;
    pfl_deadline_timer_close(&timer);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void it_rings_once_and_not_too_early(void **state)
{
    uint64_t at_ms = get_now_ms() + 20;

    (void)state;
    pfl_deadline_timer_set(&timer, at_ms);
    while (expired == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_true(get_now_ms() >= at_ms);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(expired, 1);
}

static void what_is_over_rings_at_once(void **state)
{
    (void)state;
    pfl_deadline_timer_set(&timer, 0);
    (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(expired, 1);
}

static void never_takes_it_back(void **state)
{
    (void)state;
    pfl_deadline_timer_set(&timer, 0);
    pfl_deadline_timer_set(&timer, PFL_DEADLINE_NEVER);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(expired, 0);
}

static void the_same_time_rings_again_when_set_again(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        pfl_deadline_timer_set(&timer, 5);
        (void)uv_run(&loop, UV_RUN_ONCE);
        assert_int_equal(expired, i);
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
