/* SPDX-License-Identifier: Apache-2.0 */
/* What a user's sockets cost: that user waits, and no other. */
#include "base/io/wake_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ALICE  1000000001u
#define BOB    1000000002u
#define MS     UINT64_C(1000000)
#define NOW_NS (1000 * MS)

static struct pfl_wake_cost costs;

static int setup(void **state)
{
    (void)state;
    costs = (struct pfl_wake_cost){0};
    return 0;
}

static void who_costs_waits_a_hundred_times_as_long(void **state)
{
    (void)state;
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS), 0);
    pfl_wake_cost_charge(&costs, ALICE, 3 * MS, NOW_NS);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS), 301);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, BOB, NOW_NS), 0);
    pfl_wake_cost_charge(&costs, ALICE, 3 * MS, NOW_NS + 100 * MS);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS + 100 * MS), 501);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS + 600 * MS), 0);
    pfl_wake_cost_charge(&costs, ALICE, 3 * MS, NOW_NS + 1000 * MS);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS + 1000 * MS), 301);
}

static void of_many_users_the_one_who_waits_least_is_forgotten(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= PFL_WAKE_COST_USERS; i++)
        pfl_wake_cost_charge(&costs, ALICE + i, (3 + i) * MS, NOW_NS);
    assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE, NOW_NS), 0);
    for (uint32_t i = 1; i <= PFL_WAKE_COST_USERS; i++)
        assert_int_equal(pfl_wake_cost_get_wait_ms(&costs, ALICE + i, NOW_NS), (3 + i) * 100 + 1);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    assert_int_equal(clock_gettime(clock, &ts), 0);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool call(uint32_t uid, bool is_busy)
{
    struct pfl_wake_cost_call begin = pfl_wake_cost_begin(&costs);
    uint64_t end_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) + PFL_WAKE_COST_NS;

    (void)usleep(PFL_WAKE_COST_NS / 1000);
    while (is_busy && read_clock(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        continue;
    return pfl_wake_cost_end(&costs, uid, begin);
}

/* After a call that took long, CPU time counts: not that others have the processor. */
static void cpu_time_of_others_calls_is_charged(void **state)
{
    (void)state;
    assert_false(call(0, true));
    assert_false(call(getuid(), true));
    assert_int_equal(costs.watched_until_ns, 0);
    assert_false(call(ALICE, true)); /* not known yet */
    assert_false(call(ALICE, false));
    assert_true(call(ALICE, true));
    assert_in_range(pfl_wake_cost_get_wait_ms(&costs, ALICE, read_clock(CLOCK_MONOTONIC)), 100,
                    60000);
    assert_false(call(0, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_costs_waits_a_hundred_times_as_long, setup),
        cmocka_unit_test_setup(of_many_users_the_one_who_waits_least_is_forgotten, setup),
        cmocka_unit_test_setup(cpu_time_of_others_calls_is_charged, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
