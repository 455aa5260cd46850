/* SPDX-License-Identifier: Apache-2.0 */
/* Samples become rates; a relay that was away or started again is a gap; the oldest are replaced.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consumer/web/fleet/fleet_history.h"

static struct pfl_fleet_history history;
static double values[PFL_FLEET_HISTORY_LEN];

static void add(uint64_t at_ms, uint64_t up_ms, uint64_t bytes)
{
    const struct pfl_relay_facts facts = {.up_ms = up_ms,
                                          .cpu_ms = bytes / 10,
                                          .bytes_to_operator = bytes,
                                          .bytes_to_host = 2 * bytes,
                                          .streams = bytes + 1,
                                          .hosts_connected = bytes + 2};

    pfl_fleet_history_add(&history, at_ms, &facts);
}

static void begin(void)
{
    history = (struct pfl_fleet_history){.len = 0};
}

/* In thousandths; -1: not known. */
static void assert_series(enum pfl_fleet_series series, const int *expected, size_t len)
{
    assert_int_equal(pfl_fleet_history_get(&history, series, values), len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(isnan(values[i]) ? -1 : (int)lround(values[i] * 1000), expected[i]);
}

static void rates_are_between_samples(void **state)
{
    (void)state;
    begin();
    assert_series(PFL_FLEET_STREAMS, NULL, 0);
    assert_int_equal(pfl_fleet_history_get_span_ms(&history), 0);
    add(1000, 500, 100);
    assert_int_equal(pfl_fleet_history_get_span_ms(&history), 0);
    add(3000, 2500, 160);
    add(3500, 3000, 160);
    assert_series(PFL_FLEET_TO_OPERATOR, (const int[]){-1, 30000, 0}, 3);
    assert_series(PFL_FLEET_TO_HOST, (const int[]){-1, 60000, 0}, 3);
    assert_series(PFL_FLEET_CPU, (const int[]){-1, 3, 0}, 3);
    assert_series(PFL_FLEET_STREAMS, (const int[]){101000, 161000, 161000}, 3);
    assert_series(PFL_FLEET_HOSTS, (const int[]){102000, 162000, 162000}, 3);
    assert_int_equal(pfl_fleet_history_get_span_ms(&history), 2500);
}

static void relay_that_was_away_or_began_again_is_a_gap(void **state)
{
    (void)state;
    begin();
    add(1000, 9000, 100);
    pfl_fleet_history_add(&history, 2000, NULL);
    add(3000, 11000, 300); /* after a gap, no rate */
    add(4000, 12000, 301);
    add(5000, 200, 400); /* started again, although the counter is larger */
    add(6000, 1200, 50); /* a counter that went back */
    add(6000, 1200, 60); /* no time between */
    add(7000, 1200, 61);
    assert_series(PFL_FLEET_TO_OPERATOR, (const int[]){-1, -1, -1, 1000, -1, -1, -1, 1000}, 8);
    assert_series(PFL_FLEET_STREAMS,
                  (const int[]){101000, -1, 301000, 302000, 401000, 51000, 61000, 62000}, 8);
}

static void the_oldest_are_replaced(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < PFL_FLEET_HISTORY_LEN + 3; i++)
        add(1000 * (uint64_t)i, 1000 * (uint64_t)i, i);
    assert_int_equal(pfl_fleet_history_get(&history, PFL_FLEET_STREAMS, values),
                     PFL_FLEET_HISTORY_LEN);
    assert_true(values[0] == 4);
    assert_true(values[PFL_FLEET_HISTORY_LEN - 1] == PFL_FLEET_HISTORY_LEN + 3);
    assert_int_equal(pfl_fleet_history_get(&history, PFL_FLEET_TO_OPERATOR, values),
                     PFL_FLEET_HISTORY_LEN);
    assert_true(isnan(values[0])); /* what was before is not known any more */
    assert_true(values[1] == 1);
    assert_true(values[PFL_FLEET_HISTORY_LEN - 1] == 1);
    assert_int_equal(pfl_fleet_history_get_span_ms(&history), 1000 * (PFL_FLEET_HISTORY_LEN - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_between_samples),
        cmocka_unit_test(relay_that_was_away_or_began_again_is_a_gap),
        cmocka_unit_test(the_oldest_are_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
