/* SPDX-License-Identifier: Apache-2.0 */
/* Segments as the index has them: by machine, run and number. */
#include "consumer/collector/segment_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/collector/segment_merge.h"
#include "tests/support/sweep.h"

static Perfleet__Segment segment_of(const char *host, uint32_t number, uint64_t begin_ns,
                                    uint64_t end_ns)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;

    s.host = (char *)(uintptr_t)host;
    s.boot_id = (char *)"boot";
    s.incarnation = (char *)"run";
    s.order = (char *)"cpu";
    s.number = number;
    s.begin_boot_ns = begin_ns;
    s.end_boot_ns = end_ns;
    return s;
}

static int add_all(void *arg)
{
    Perfleet__Segment segments[] = {segment_of("b", 2, 500, 600), segment_of("a", 1, 100, 200),
                                    segment_of("b", 3, 550, 900), segment_of("b", 1, 300, 500),
                                    segment_of("b", 1, 300, 500)};
    struct pfl_segment_runs runs;
    int rc = pfl_segment_runs_init(&runs);

    (void)arg;
    for (size_t i = 0; rc == 0 && i < 5; i++)
        rc = pfl_segment_runs_add(&runs, &segments[i]);
    if (rc == 0)
        rc = pfl_segment_runs_sort(&runs);
    if (rc == 0) {
        assert_int_equal(runs.added, 5);
        assert_int_equal(runs.hosts_len, 2);
        assert_string_equal(runs.hosts[0].host, "b");
        assert_int_equal(runs.hosts[0].begin_ns, 300);
        assert_int_equal(runs.hosts[0].end_ns, 900);
        assert_int_equal(runs.hosts[1].begin_ns, 100);
        assert_int_equal(runs.hosts[1].end_ns, 200);
        assert_int_equal(runs.rows_len, 4); /* one was there twice */
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(runs.rows[i].number, i + 1);
        assert_string_equal(runs.rows[0].run, "/cpu/run");
        assert_true(pfl_segment_runs_is_same(&runs.rows[0], &runs.rows[1]));
        assert_false(pfl_segment_runs_is_same(&runs.rows[2], &runs.rows[3]));
    }
    pfl_segment_runs_fini(&runs);
    return rc;
}

static void segments_are_sorted_and_their_hosts_span_all_of_them(void **state)
{
    (void)state;
    pfl_sweep(add_all, NULL, false);
}

static void what_no_collector_sends_is_refused(void **state)
{
    struct pfl_segment_runs runs;
    Perfleet__Segment s = segment_of("a", 1, 200, 200);

    (void)state;
    assert_int_equal(pfl_segment_runs_init(&runs), 0);
    assert_int_equal(pfl_segment_runs_add(&runs, &s), 0);
    s.begin_boot_ns = 201;
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    s = segment_of(NULL, 1, 1, 2);
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    s = segment_of("a b", 1, 1, 2);
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    s = segment_of("a", 1, 1, 2);
    s.incarnation = NULL;
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    s = segment_of("a", 1, 1, UINT64_MAX);
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    s = segment_of("a", 1, 1, 2);
    s.begin_unix_ns = UINT64_MAX;
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_EINVAL);
    assert_int_equal(runs.added, 1);
    assert_int_equal(runs.rows_len, 1);
    pfl_segment_runs_fini(&runs);
    pfl_sweep_assert_no_leak();
}

/* Runs of `host` in the order of adding, a segment each. */
static void add_runs(struct pfl_segment_runs *runs, const char *host, const char *boot, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        Perfleet__Segment s = segment_of(host, 1, 100, 200);
        char run[32];

        (void)snprintf(run, sizeof(run), "run%04zu", i);
        s.incarnation = run;
        s.boot_id = (char *)(uintptr_t)boot;
        assert_int_equal(pfl_segment_runs_add(runs, &s), 0);
    }
}

static void each_host_keeps_its_runs_or_as_many_as_any_other(void **state)
{
    static const size_t kept[] = {16, 15, 9, 3, 0};
    struct pfl_segment_runs runs;

    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        assert_int_equal(pfl_segment_runs_init(&runs), 0);
        add_runs(&runs, "a", "boot", 2);
        add_runs(&runs, "b", "boot1", 7);
        add_runs(&runs, "b", "boot2", 3);
        add_runs(&runs, "c", "boot", 4);
        assert_int_equal(pfl_segment_runs_sort(&runs), 0);
        if (kept[i] == 0) {
            assert_int_equal(pfl_segment_runs_limit(&runs, 2), PFL_ELIMIT);
            assert_int_equal(runs.rows_len, 16);
        } else {
            assert_int_equal(pfl_segment_runs_limit(&runs, kept[i]), 0);
            assert_int_equal(runs.rows_len, kept[i] == 9 ? 8 : kept[i]);
            assert_int_equal(runs.hosts[0].left_out + runs.hosts[1].left_out +
                                 runs.hosts[2].left_out + runs.hosts[3].left_out,
                             16 - runs.rows_len);
            assert_int_equal(runs.hosts[0].left_out, kept[i] == 3 ? 1 : 0);
            assert_int_equal(runs.hosts[2].left_out, 0); /* it is with b's first boot */
            assert_string_equal(runs.rows[0].run, "/cpu/run0000");
        }
        pfl_segment_runs_fini(&runs);
    }
    pfl_sweep_assert_no_leak();
}

static void segments_of_too_many_boots_are_left_out(void **state)
{
    struct pfl_segment_runs runs;
    char boot[32];

    (void)state;
    assert_int_equal(pfl_segment_runs_init(&runs), 0);
    for (size_t i = 0; i < PFL_CLOCK_GRAPH_HOST_BOOTS + 2; i++) {
        (void)snprintf(boot, sizeof(boot), "boot%zu", i);
        add_runs(&runs, "b", boot, 1);
    }
    add_runs(&runs, "a", "boot", 1);
    assert_int_equal(runs.hosts_len, PFL_CLOCK_GRAPH_HOST_BOOTS + 1);
    assert_int_equal(runs.hosts[0].left_out, 2);
    assert_int_equal(runs.added, PFL_CLOCK_GRAPH_HOST_BOOTS + 3);
    pfl_segment_runs_fini(&runs);
    pfl_sweep_assert_no_leak();
}

static void gaps_count_up_to_the_most_segments(void **state)
{
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    Perfleet__Segment s = segment_of("a", 1, 1, 2);
    struct pfl_segment_runs runs;

    (void)state;
    assert_int_equal(pfl_segment_runs_init(&runs), 0);
    s.gap = &gap;
    for (size_t i = 0; i < PFL_SEGMENT_MERGE_MAX_SEGMENTS; i++)
        assert_int_equal(pfl_segment_runs_add(&runs, &s), 0);
    assert_int_equal(pfl_segment_runs_add(&runs, &s), PFL_ELIMIT);
    assert_int_equal(runs.rows_len + runs.hosts_len, 0);
    pfl_segment_runs_fini(&runs);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_sorted_and_their_hosts_span_all_of_them),
        cmocka_unit_test(what_no_collector_sends_is_refused),
        cmocka_unit_test(each_host_keeps_its_runs_or_as_many_as_any_other),
        cmocka_unit_test(segments_of_too_many_boots_are_left_out),
        cmocka_unit_test(gaps_count_up_to_the_most_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
