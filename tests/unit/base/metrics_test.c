/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text: what the format asks for, labels from outside, limits and failed allocations. */
#include "base/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static void assert_text(const struct pfl_metrics *m, const char *expected)
{
    struct pfl_span text;

    assert_int_equal(pfl_metrics_get(m, &text), 0);
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void a_family_is_its_help_its_type_and_its_rows(void **state)
{
    const struct pfl_metrics_label one = {"host", "a"};
    const struct pfl_metrics_label two[] = {{"host", "b"}, {"side", "x"}};
    struct pfl_metrics m;

    (void)state;
    pfl_metrics_init(&m, 4096);
    pfl_metrics_family(&m, PFL_METRICS_COUNTER, "x_bytes_total", "Bytes of x.");
    pfl_metrics_row(&m, &one, 1, 5);
    pfl_metrics_row(&m, two, 2, 0.25);
    pfl_metrics_single(&m, PFL_METRICS_GAUGE, "y", "Y.", -1);
    assert_text(&m, "# HELP x_bytes_total Bytes of x.\n# TYPE x_bytes_total counter\n"
                    "x_bytes_total{host=\"a\"} 5\nx_bytes_total{host=\"b\",side=\"x\"} 0.25\n"
                    "# HELP y Y.\n# TYPE y gauge\ny -1\n");
    pfl_metrics_fini(&m);
    pfl_sweep_assert_no_leak();
}

static void a_label_cannot_end_its_row(void **state)
{
    const struct pfl_metrics_label evil = {"l", "a\"} 9\nb\\c\r\t\xff\x7f"};
    struct pfl_metrics m;

    (void)state;
    pfl_metrics_init(&m, 4096);
    m.family = "z";
    pfl_metrics_row(&m, &evil, 1, 1);
    assert_text(&m, "z{l=\"a\\\"} 9\\nb\\\\c????\"} 1\n");
    pfl_metrics_fini(&m);
}

static void numbers_lose_nothing(void **state)
{
    struct pfl_metrics m;

    (void)state;
    pfl_metrics_init(&m, 4096);
    m.family = "n";
    pfl_metrics_row(&m, NULL, 0, 9007199254740992.0);
    pfl_metrics_row(&m, NULL, 0, 1e300);
    pfl_metrics_row(&m, NULL, 0, 0.1);
    pfl_metrics_row(&m, NULL, 0, (double)NAN);
    pfl_metrics_row(&m, NULL, 0, (double)INFINITY);
    pfl_metrics_row(&m, NULL, 0, -(double)INFINITY);
    assert_text(&m, "n 9007199254740992\nn 1.0000000000000001e+300\nn 0.10000000000000001\nn NaN\n"
                    "n +Inf\nn -Inf\n");
    pfl_metrics_fini(&m);
}

static void too_much_is_reported_and_not_cut(void **state)
{
    struct pfl_metrics m;
    struct pfl_span text;

    (void)state;
    for (size_t max = 1; max < 46; max++) {
        pfl_metrics_init(&m, max);
        pfl_metrics_single(&m, PFL_METRICS_GAUGE, "abc", "Help me.", 1);
        assert_int_equal(pfl_metrics_get(&m, &text), max < 43 ? PFL_ELIMIT : 0);
        pfl_metrics_fini(&m);
    }
    pfl_sweep_assert_no_leak();
}

static int encode(void *arg)
{
    struct pfl_metrics m;
    struct pfl_span text;
    int rc;

    (void)arg;
    pfl_metrics_init(&m, 1u << 20);
    for (int i = 0; i < 1000; i++)
        pfl_metrics_single(&m, PFL_METRICS_GAUGE, "abc", "Help me.", i);
    rc = pfl_metrics_get(&m, &text);
    pfl_metrics_fini(&m);
    return rc;
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    pfl_sweep(encode, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_its_help_its_type_and_its_rows),
        cmocka_unit_test(a_label_cannot_end_its_row),
        cmocka_unit_test(numbers_lose_nothing),
        cmocka_unit_test(too_much_is_reported_and_not_cut),
        cmocka_unit_test(no_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
