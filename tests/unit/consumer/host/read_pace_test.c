/* SPDX-License-Identifier: Apache-2.0 */
/* How slowly a host may bring its trace, with time as a number. */
#include "consumer/host/read_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define STEP_MS 10000u
#define TICK_MS 250u
#define MIB     (1u << 20)

/* How long a host is read that brings so much a tick, until it is too slow or has brought all. */
static uint64_t run(uint64_t bytes_a_tick, uint64_t all, size_t hosts, bool *ret_is_whole)
{
    struct pfl_read_pace pace;
    uint64_t bytes = 0;
    uint64_t ms = 0;

    pfl_read_pace_begin(&pace, STEP_MS, 0);
    while (bytes < all) {
        bytes += bytes_a_tick;
        ms += TICK_MS;
        *ret_is_whole = pfl_read_pace_take(&pace, TICK_MS, bytes, hosts);
        if (!*ret_is_whole)
            break;
    }
    return ms;
}

static void a_host_on_a_link_of_a_megabyte_a_second_is_read_whole(void **state)
{
    bool is_whole;

    (void)state;
    assert_int_equal(run(250000, 64 * MIB, 1, &is_whole), 269 * TICK_MS);
    assert_true(is_whole);
}

static void a_link_of_a_megabyte_a_second_carries_many_hosts(void **state)
{
    bool is_whole;

    (void)state;
    (void)run(250000 / 100, 4 * MIB, 100, &is_whole);
    assert_true(is_whole);
    (void)run(250000 / 1000, 4 * MIB, 1000, &is_whole);
    assert_true(is_whole);
}

static void a_host_that_brings_a_little_in_each_step_is_soon_too_slow(void **state)
{
    bool is_whole;
    uint64_t ms = run(16 * 1024 / 40, 64 * MIB, 1, &is_whole); /* 16 KiB a step */

    (void)state;
    assert_false(is_whole);
    assert_in_range(ms, STEP_MS, STEP_MS * 11 / 10);
}

/* Whatever it does: what comes early is time for later, and all time is bounded by all bytes. */
static void a_read_out_is_no_longer_than_its_bytes_allow(void **state)
{
    struct pfl_read_pace pace;
    uint64_t ms = 0;

    (void)state;
    pfl_read_pace_begin(&pace, STEP_MS, 5);
    assert_true(pfl_read_pace_take(&pace, 0, 5 + 10 * PFL_READ_PACE_BYTES, 1));
    while (pfl_read_pace_take(&pace, TICK_MS, 5 + 10 * PFL_READ_PACE_BYTES, 1))
        ms += TICK_MS;
    assert_int_equal(ms, (1 + 10) * STEP_MS);
}

static void one_byte_at_a_time_counts_as_all_at_once(void **state)
{
    struct pfl_read_pace pace;

    (void)state;
    pfl_read_pace_begin(&pace, STEP_MS, 0);
    for (uint64_t bytes = 1; bytes <= PFL_READ_PACE_BYTES; bytes++)
        assert_true(pfl_read_pace_take(&pace, 0, bytes, 1));
    assert_true(pfl_read_pace_take(&pace, 19700, PFL_READ_PACE_BYTES, 1)); /* 38 of 38.1 us each */
    assert_false(pfl_read_pace_take(&pace, 301, PFL_READ_PACE_BYTES, 1));
}

static void the_largest_numbers_do_not_wrap_around(void **state)
{
    struct pfl_read_pace pace;

    (void)state;
    pfl_read_pace_begin(&pace, UINT64_MAX, 0);
    assert_true(pfl_read_pace_take(&pace, UINT64_MAX - 1, UINT64_MAX, SIZE_MAX));
    pfl_read_pace_begin(&pace, 1, UINT64_MAX);
    assert_true(pfl_read_pace_take(&pace, 1, 0, 1));
    assert_false(pfl_read_pace_take(&pace, 1, UINT64_MAX, 1));
}

/* How long a host that brings nothing is read; of each ten seconds it is away for `away_ms`. */
static uint64_t run_with_breaks(uint64_t away_ms)
{
    struct pfl_read_pace pace;
    uint64_t away_sum_ms = 0;
    uint64_t ms = 0;
    uint64_t bytes = 0;
    bool is_in_time = true;

    pfl_read_pace_begin(&pace, STEP_MS, 0);
    while (is_in_time && ms < 3600u * 1000) {
        uint64_t elapsed_ms = TICK_MS;

        if (ms % 10000 < away_ms)
            elapsed_ms = pfl_read_pace_charge_away(&away_sum_ms, elapsed_ms);
        else
            bytes += PFL_READ_PACE_BYTES / 40; /* as slow as it may be */
        ms += TICK_MS;
        is_in_time = pfl_read_pace_take(&pace, elapsed_ms, bytes, 1);
    }
    return ms;
}

static void a_host_that_is_away_counts_after_ten_minutes_in_sum(void **state)
{
    (void)state;
    assert_in_range(run_with_breaks(10000), PFL_READ_PACE_AWAY_MS, PFL_READ_PACE_AWAY_MS + 15000);
    assert_in_range(run_with_breaks(5000), 2 * PFL_READ_PACE_AWAY_MS,
                    2 * PFL_READ_PACE_AWAY_MS + 30000);
    assert_int_equal(run_with_breaks(0), 3600u * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_on_a_link_of_a_megabyte_a_second_is_read_whole),
        cmocka_unit_test(a_link_of_a_megabyte_a_second_carries_many_hosts),
        cmocka_unit_test(a_host_that_brings_a_little_in_each_step_is_soon_too_slow),
        cmocka_unit_test(a_read_out_is_no_longer_than_its_bytes_allow),
        cmocka_unit_test(one_byte_at_a_time_counts_as_all_at_once),
        cmocka_unit_test(the_largest_numbers_do_not_wrap_around),
        cmocka_unit_test(a_host_that_is_away_counts_after_ten_minutes_in_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
