/* SPDX-License-Identifier: Apache-2.0 */
/* Points of relays' clocks: which are kept, and which a segment gets. */
#include "agent/daemon/segment/clock_points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

#define SECOND_NS UINT64_C(1000000000)

static struct pfl_clock_points points;
static Perfleet__ClockPoint *chosen[PFL_CLOCK_POINTS_OF_ONE];

static int teardown(void **state)
{
    (void)state;
    pfl_clock_points_fini(&points);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void add(const char *relay, uint64_t host_s)
{
    Perfleet__ClockPoint point = PERFLEET__CLOCK_POINT__INIT;

    point.relay = (char *)(uintptr_t)relay;
    point.relay_boot_id = (char *)(uintptr_t) "1e1f";
    point.has_host_boot_ns = 1;
    point.host_boot_ns = host_s * SECOND_NS;
    pfl_clock_points_add(&points, &point);
}

/* So many points around that time, the first and the last at these seconds. */
static void assert_chosen(uint64_t at_s, size_t len, uint64_t first_s, uint64_t last_s)
{
    assert_int_equal(pfl_clock_points_choose(&points, at_s * SECOND_NS, at_s * SECOND_NS, chosen),
                     len);
    assert_true(chosen[0]->host_boot_ns == first_s * SECOND_NS);
    assert_true(chosen[len - 1]->host_boot_ns == last_s * SECOND_NS);
}

static void the_newest_is_known(void **state)
{
    (void)state;
    assert_true(points.newest_ns == 0);
    add("meet", 100);
    assert_true(points.newest_ns == 100 * SECOND_NS);
    add("meet", 101);
    add("meet", 102);
    assert_true(points.newest_ns == 102 * SECOND_NS);
}

/* Segments of a second have a point each: they are not all kept. */
static void points_that_come_often_are_thinned_out_but_for_the_newest(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 120; s++) {
        add("meet", s);
        assert_true(points.newest_ns == s * SECOND_NS);
    }
    assert_int_equal(points.len, 6);
    assert_chosen(60, 6, 1, 120);
}

static void each_relay_has_its_own(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 100; s++)
        add((s & 1) != 0 ? "meet" : "other", s);
    assert_int_equal(points.len, 10);
    assert_chosen(50, 10, 1, 100);
}

/* Of one more than a segment may have, one in the middle is left out. */
static void the_first_and_the_last_that_fit_are_chosen(void **state)
{
    (void)state;
    for (uint64_t i = 0; i <= PFL_CLOCK_POINTS_OF_ONE; i++) {
        char relay[16];

        (void)snprintf(relay, sizeof(relay), "relay%u", (unsigned)i); /* none is thinned out */
        add(relay, 100 + i);
    }
    assert_chosen(100, PFL_CLOCK_POINTS_OF_ONE, 100, 100 + PFL_CLOCK_POINTS_OF_ONE);
}

static void the_oldest_goes(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < PFL_CLOCK_POINTS_MAX + 100; s++)
        add("meet", 60 * (s + 1));
    assert_int_equal(points.len, PFL_CLOCK_POINTS_MAX);
    assert_true(points.newest_ns == 60 * (PFL_CLOCK_POINTS_MAX + 100) * SECOND_NS);
    assert_chosen(60 * 110, 5, 60 * 108, 60 * 112);
    add("meet", 60 * (PFL_CLOCK_POINTS_MAX + 100) + 1);
    assert_int_equal(points.len, PFL_CLOCK_POINTS_MAX);
}

static void without_memory_a_point_is_left_out(void **state)
{
    (void)state;
    add("meet", 1);
    add("meet", 2);
    for (size_t n = 1; n <= 2; n++) {
        pfl_mem_fail_at(n);
        add("meet", 3);
        pfl_mem_fail_at(0);
        assert_true(points.newest_ns == 2 * SECOND_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_newest_is_known, teardown),
        cmocka_unit_test_teardown(points_that_come_often_are_thinned_out_but_for_the_newest,
                                  teardown),
        cmocka_unit_test_teardown(each_relay_has_its_own, teardown),
        cmocka_unit_test_teardown(the_first_and_the_last_that_fit_are_chosen, teardown),
        cmocka_unit_test_teardown(the_oldest_goes, teardown),
        cmocka_unit_test_teardown(without_memory_a_point_is_left_out, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
