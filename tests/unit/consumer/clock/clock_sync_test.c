/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets and their bounds, against exchanges whose true offset is known. */
#include "consumer/clock/clock_sync.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TRUE_OFFSET 5000000000000ll

/* An exchange that takes `there` to the host, `inside` in it and `back`. */
static struct pfl_clock_sample exchange(int64_t at, int64_t offset, int64_t there, int64_t inside,
                                        int64_t back)
{
    return (struct pfl_clock_sample){
        .sent_ns = at,
        .host_first_ns = at + there + offset,
        .host_last_ns = at + there + inside + offset,
        .received_ns = at + there + inside + back,
    };
}

static void assert_within(int64_t value, int64_t expected, int64_t error)
{
    assert_true(value >= expected - error && value <= expected + error);
}

static void one_exchange_bounds_the_offset_by_half_its_way(void **state)
{
    struct pfl_clock_sample s = exchange(1000, TRUE_OFFSET, 300, 5000, 100);
    struct pfl_clock_line line;

    (void)state;
    assert_int_equal(pfl_clock_sync_fit(&s, 1, &line), 0);
    assert_int_equal(line.error_ns, 200);
    assert_within(line.begin_offset_ns, TRUE_OFFSET, line.error_ns);
}

static void lopsided_exchanges_together_bound_tighter_than_the_fastest(void **state)
{
    const struct pfl_clock_sample s[] = {
        exchange(1000, -TRUE_OFFSET, 10, 100, 1000),
        exchange(9000, -TRUE_OFFSET, 1000, 100, 20),
        exchange(19000, -TRUE_OFFSET, 200, 100, 200),
    };
    struct pfl_clock_line line;

    (void)state;
    assert_int_equal(pfl_clock_sync_fit(s, 3, &line), 0);
    assert_int_equal(line.error_ns, 15);
    assert_within(line.begin_offset_ns, -TRUE_OFFSET, line.error_ns);
}

static void impossible_samples_are_ignored(void **state)
{
    struct pfl_clock_sample s[] = {exchange(1000, TRUE_OFFSET, 300, 5000, 100),
                                   {5000, 10, 20, 4000},
                                   {0, 100, 50, 1000},
                                   {INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX}};
    struct pfl_clock_line line;

    (void)state;
    assert_int_equal(pfl_clock_sync_fit(s, 4, &line), 0);
    assert_within(line.begin_offset_ns, TRUE_OFFSET, 200);
    assert_int_equal(pfl_clock_sync_fit(s + 1, 3, &line), PFL_EINVAL);
    assert_int_equal(pfl_clock_sync_fit(s, 0, &line), PFL_EINVAL);
}

static void contradicting_samples_leave_the_fastest(void **state)
{
    const struct pfl_clock_sample s[] = {
        exchange(1000, TRUE_OFFSET, 10, 0, 10),
        exchange(9000, TRUE_OFFSET + 1000000, 500, 0, 500),
    };
    struct pfl_clock_line line;

    (void)state;
    assert_int_equal(pfl_clock_sync_fit(s, 2, &line), 0);
    assert_int_equal(line.error_ns, 10);
    assert_within(line.begin_offset_ns, TRUE_OFFSET, 10);
}

static void fits_that_agree_join_to_a_constant_with_the_smaller_error(void **state)
{
    const struct pfl_clock_line before = {1000, 1000, 1000, 1000, 100};
    const struct pfl_clock_line after = {9000000000, 1150, 9000000000, 1150, 100};
    struct pfl_clock_line line;

    (void)state;
    pfl_clock_sync_join(&before, &after, &line);
    assert_int_equal(line.begin_ns, line.end_ns);
    assert_int_equal(line.begin_offset_ns, 1075);
    assert_int_equal(line.error_ns, 25);
    pfl_clock_sync_join(&before, NULL, &line);
    assert_int_equal(line.begin_offset_ns, 1000);
    pfl_clock_sync_join(NULL, &after, &line);
    assert_int_equal(line.begin_offset_ns, 1150);
}

static void fits_that_disagree_join_to_a_drifting_line(void **state)
{
    const struct pfl_clock_line before = {0, 1000, 0, 1000, 100};
    const struct pfl_clock_line after = {10000000000, 501000, 10000000000, 501000, 50};
    struct pfl_clock_line line;

    (void)state;
    pfl_clock_sync_join(&before, &after, &line);
    assert_int_equal(line.error_ns, 100);
    assert_int_equal(pfl_clock_line_offset(&line, 0), 1000);
    assert_within(pfl_clock_line_offset(&line, 5000000000), 251000, 1);
    assert_within(pfl_clock_line_offset(&line, 10000000000), 501000, 1);
    assert_within(pfl_clock_line_offset(&line, 20000000000), 1001000, 1);
}

static void points_are_as_dense_as_the_drift_needs(void **state)
{
    const struct pfl_clock_line still = {0, 100, 0, 100, 1};
    const struct pfl_clock_line drifting = {0, 1000, 10000000000, 11000, 1};
    const struct pfl_clock_span span = {0, 10000000000};
    struct pfl_clock_point p[64];
    size_t len;

    (void)state;
    len = pfl_clock_sync_points(&still, &still, (struct pfl_clock_span){5, 10000000000}, p, 64);
    assert_int_equal(len, 1);
    assert_int_equal(p[0].host_ns, p[0].reference_ns);
    len = pfl_clock_sync_points(&drifting, &still, span, p, 64);
    assert_int_equal(len, 21);
    for (size_t i = 1; i < len; i++) {
        int64_t step =
            (p[i].host_ns - p[i].reference_ns) - (p[i - 1].host_ns - p[i - 1].reference_ns);

        assert_true(p[i].host_ns > p[i - 1].host_ns);
        assert_true(p[i].reference_ns > p[i - 1].reference_ns);
        assert_within(step, 500, 50);
    }
    assert_int_equal(pfl_clock_sync_points(&drifting, &still, span, p, 4), 4);
}

static void the_fastest_is_the_one_with_the_narrowest_bounds_wherever_it_stands(void **state)
{
    const struct pfl_clock_sample s[] = {
        exchange(1000, TRUE_OFFSET + 5000000, 400, 0, 400),
        exchange(9000, TRUE_OFFSET + 9000000, 10, 0, 10),
        exchange(19000, TRUE_OFFSET - 3000000, 300, 0, 300),
        exchange(29000, TRUE_OFFSET - 9000000, 10, 0, 11),
    };
    struct pfl_clock_line line;

    (void)state;
    assert_int_equal(pfl_clock_sync_fit(s, 4, &line), 0);
    assert_int_equal(line.error_ns, 10);
    assert_within(line.begin_offset_ns, TRUE_OFFSET + 9000000, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_exchange_bounds_the_offset_by_half_its_way),
        cmocka_unit_test(lopsided_exchanges_together_bound_tighter_than_the_fastest),
        cmocka_unit_test(impossible_samples_are_ignored),
        cmocka_unit_test(contradicting_samples_leave_the_fastest),
        cmocka_unit_test(fits_that_agree_join_to_a_constant_with_the_smaller_error),
        cmocka_unit_test(fits_that_disagree_join_to_a_drifting_line),
        cmocka_unit_test(points_are_as_dense_as_the_drift_needs),
        cmocka_unit_test(the_fastest_is_the_one_with_the_narrowest_bounds_wherever_it_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
