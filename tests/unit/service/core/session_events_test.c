/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/session_events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define NONE ((struct pfl_span){0})

static void flush_events_keep_64_and_the_others_the_newest(void **state)
{
    struct pfl_session_events e = {0};

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        pfl_session_events_record(&e, i, PFL_EVENT_FLUSH_STARTED, NONE);
        pfl_session_events_record(&e, i, PFL_EVENT_ALL_FLUSHED, NONE);
        pfl_session_events_record(&e, i, PFL_EVENT_TRACING_STARTED, NONE);
    }
    assert_int_equal(e.events_len, 129);
    assert_int_equal(e.events[0].boottime_ns, 36);
    assert_int_equal(e.events[128].boottime_ns, 99);
    for (size_t i = 1; i < e.events_len; i++)
        assert_true(e.events[i - 1].boottime_ns <= e.events[i].boottime_ns);
    pfl_session_events_clear(&e);
    assert_int_equal(e.events_len, 0);
    pfl_session_events_fini(&e);
    pfl_sweep_assert_no_leak();
}

static void an_event_has_a_copy_of_its_payload_or_a_value(void **state)
{
    struct pfl_session_events e = {0};
    struct pfl_session_events copy = {0};
    char text[] = "payload";

    (void)state;
    pfl_session_events_record(&e, 7, PFL_EVENT_SLOW_FLUSH, pfl_span_of(text, 7));
    pfl_session_events_record_value(&e, 8, PFL_EVENT_TRACING_STARTED, 5);
    memset(text, 'x', 7);
    pfl_session_events_copy(&copy, &e);
    pfl_session_events_fini(&e);
    assert_int_equal(copy.events_len, 2);
    assert_int_equal(copy.events[0].boottime_ns, 7);
    assert_int_equal(copy.events[0].kind, PFL_EVENT_SLOW_FLUSH);
    assert_int_equal(copy.events[0].value, 1);
    assert_int_equal(copy.events[0].payload_len, 7);
    assert_memory_equal(copy.events[0].payload, "payload", 7);
    assert_int_equal(copy.events[1].kind, PFL_EVENT_TRACING_STARTED);
    assert_int_equal(copy.events[1].value, 5);
    assert_null(copy.events[1].payload);
    pfl_session_events_fini(&copy);
    pfl_sweep_assert_no_leak();
}

static struct pfl_clock_snapshot snapshot_at(uint64_t boot, uint64_t real)
{
    return (struct pfl_clock_snapshot){.clocks = {{6, boot}, {1, real}}, .clocks_len = 2};
}

static void a_snapshot_is_kept_when_a_clock_drifted_or_none_is_there(void **state)
{
    struct pfl_session_events e = {0};
    struct pfl_clock_snapshot s = snapshot_at(0, 0);

    (void)state;
    pfl_session_events_snapshot(&e, &s);
    assert_int_equal(e.ring_len, 1);
    s = snapshot_at(1000000000, 1000000000 + PFL_SESSION_DRIFT_NS - 1);
    pfl_session_events_snapshot(&e, &s);
    assert_int_equal(e.ring_len, 1);
    s = snapshot_at(1000000000, 1000000000 - PFL_SESSION_DRIFT_NS);
    pfl_session_events_snapshot(&e, &s);
    assert_int_equal(e.ring_len, 2);
    pfl_session_events_clear_snapshots(&e);
    pfl_session_events_snapshot(&e, &s);
    assert_int_equal(e.ring_len, 1);
    pfl_session_events_fini(&e);
}

static void the_ring_of_snapshots_drops_the_oldest(void **state)
{
    struct pfl_session_events e = {0};

    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct pfl_clock_snapshot s = snapshot_at(i, i * 1000000000);

        pfl_session_events_snapshot(&e, &s);
    }
    assert_int_equal(e.ring_len, PFL_SESSION_SNAPSHOTS_MAX);
    assert_int_equal(e.ring[0].clocks[0].value, 4);
    assert_int_equal(e.ring[15].clocks[0].value, 19);
    pfl_session_events_fini(&e);
    pfl_sweep_assert_no_leak();
}

static int record_one(void *arg)
{
    struct pfl_session_events e = {0};

    (void)arg;
    pfl_session_events_record(&e, 1, PFL_EVENT_SLOW_FLUSH, pfl_span_of("x", 1));
    pfl_session_events_fini(&e);
    return 0;
}

static void without_memory_an_event_is_only_missing(void **state)
{
    (void)state;
    pfl_sweep(record_one, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flush_events_keep_64_and_the_others_the_newest),
        cmocka_unit_test(an_event_has_a_copy_of_its_payload_or_a_value),
        cmocka_unit_test(a_snapshot_is_kept_when_a_clock_drifted_or_none_is_there),
        cmocka_unit_test(the_ring_of_snapshots_drops_the_oldest),
        cmocka_unit_test(without_memory_an_event_is_only_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
