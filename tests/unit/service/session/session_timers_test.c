/* SPDX-License-Identifier: Apache-2.0 */
/* Time that a machine sleeps: what counts it and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/core/session.h"
#include "service/session/session_timers.h"
#include "tests/unit/service/port/role_kit.h"

#define BUFFER   "buffers { size_kb: 64 } "
#define SLEEP_NS 6000000000ull

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;

static int open_kit(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    kit = (struct pfl_port_kit){0};
    return 0;
}

static struct pfl_session *enable(const char *config)
{
    (void)pfl_kit_consumer_enable(&consumer, config);
    pfl_port_kit_run(&kit);
    return pfl_service_find_session(&kit.service, 1);
}

static void a_duration_counts_sleep_where_that_is_asked_for(void **state)
{
    const struct pfl_session *session =
        enable(BUFFER "duration_ms: 5000 prefer_suspend_clock_for_duration: true");

    (void)state;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_int_equal(session->state, PFL_SESSION_STARTED);
    kit.slept_ns += SLEEP_NS;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_int_equal(session->state, PFL_SESSION_DISABLED);
}

static void a_duration_does_not_count_sleep_unasked(void **state)
{
    const struct pfl_session *session = enable(BUFFER "duration_ms: 5000");

    (void)state;
    kit.slept_ns += SLEEP_NS;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_int_equal(session->state, PFL_SESSION_STARTED);
    pfl_port_kit_pass_ms(&kit, 5000);
    assert_int_equal(session->state, PFL_SESSION_DISABLED);
}

static void snapshots_count_sleep_where_that_is_asked_for(void **state)
{
    struct pfl_session *session = enable(BUFFER "builtin_data_sources { snapshot_interval_ms: 5000 "
                                                "prefer_suspend_clock_for_snapshot: true }");

    (void)state;
    session->pending.sync_marker = false;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_false(session->pending.sync_marker);
    kit.slept_ns += SLEEP_NS;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_true(session->pending.sync_marker);
}

static void snapshots_do_not_count_sleep_unasked(void **state)
{
    struct pfl_session *session =
        enable(BUFFER "builtin_data_sources { snapshot_interval_ms: 5000 }");

    (void)state;
    session->pending.sync_marker = false;
    kit.slept_ns += SLEEP_NS;
    pfl_port_kit_pass_ms(&kit, 10);
    assert_false(session->pending.sync_marker);
    pfl_port_kit_pass_ms(&kit, 5000);
    assert_true(session->pending.sync_marker);
}

static void the_loop_looks_often_enough_to_notice_a_sleep(void **state)
{
    uint64_t now_ms;

    (void)state;
    (void)enable(BUFFER "duration_ms: 600000 prefer_suspend_clock_for_duration: true");
    now_ms = pfl_service_now_ms(&kit.service);
    assert_true(pfl_session_timers_next_ms(&kit.service) <= now_ms + 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        TEST(a_duration_counts_sleep_where_that_is_asked_for),
        TEST(a_duration_does_not_count_sleep_unasked),
        TEST(snapshots_count_sleep_where_that_is_asked_for),
        TEST(snapshots_do_not_count_sleep_unasked),
        TEST(the_loop_looks_often_enough_to_notice_a_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
