/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers over real sockets: what starts, stops or is announced, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "service/control/query.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS ((struct pfl_span){0})
#define CONFIG(mode, trigger)                                                                      \
    "buffers { size_kb: 64 } trigger_config { trigger_mode: " mode                                 \
    " trigger_timeout_ms: 60000 triggers { name: \"go\" " trigger " } }"

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;
static struct pfl_kit_client producer;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    (void)pfl_kit_producer_open(&producer, &kit, NULL, 0);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_kit_client_close(&producer);
    pfl_port_kit_close(&kit);
    return 0;
}

static void activate(const char *name)
{
    uint64_t id =
        pfl_kit_client_call(&producer, KIT_TRIGGERS, (struct pfl_kit_args){.string1 = name});

    pfl_kit_client_expect_empty(&producer, id, true, false);
}

static enum pfl_session_state state_of_session(void)
{
    return PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node)->state;
}

static unsigned count_triggers_of(struct pfl_kit_client *reader)
{
    struct pfl_buf trace;
    struct pfl_reader r;
    struct pfl_field packet;
    unsigned count = 0;

    pfl_kit_client_read_trace(reader, pfl_kit_client_invoke(reader, KIT_READ, NO_ARGS), &trace);
    r = pfl_reader_of(pfl_buf_get(&trace));
    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);
        struct pfl_field f;

        while (pfl_reader_field(&fields, &f))
            count += f.id == TRACE_PACKET__TRIGGER;
    }
    pfl_buf_fini(&trace);
    return count;
}

static unsigned count_triggers(void)
{
    return count_triggers_of(&consumer);
}

/* In a clone of session 1, of a consumer of its own. */
static unsigned count_triggers_of_clone(void)
{
    struct pfl_kit_client cloner;
    struct pfl_kit_reply reply;
    unsigned count;
    uint64_t id;

    pfl_kit_consumer_open(&cloner, &kit);
    id = pfl_kit_client_call(&cloner, KIT_CLONE, (struct pfl_kit_args){.number1 = 1});
    reply = pfl_kit_client_expect(&cloner, id, true, false);
    pfl_kit_reply_free(&reply);
    count = count_triggers_of(&cloner);
    pfl_kit_client_close(&cloner);
    pfl_port_kit_run(&kit);
    return count;
}

static void a_start_trigger_starts_and_its_delay_is_the_duration(void **state)
{
    uint64_t enable =
        pfl_kit_consumer_enable(&consumer, CONFIG("START_TRACING", "stop_delay_ms: 700"));

    (void)state;
    pfl_port_kit_run(&kit);
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
    activate("other");
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_STARTED);
    pfl_port_kit_pass_ms(&kit, 699);
    assert_int_equal(state_of_session(), PFL_SESSION_STARTED);
    pfl_port_kit_pass_ms(&kit, 1);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(count_triggers(), 1);
    assert_int_equal(count_triggers(), 0); /* reported once */
}

static void a_start_that_never_comes_ends_at_the_timeout_with_nothing(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, CONFIG("START_TRACING", ""));

    (void)state;
    pfl_port_kit_pass_ms(&kit, 59999);
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
    pfl_port_kit_pass_ms(&kit, 1);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS),
                                true, false);
}

static void a_stop_trigger_stops_after_its_delay_the_first_time(void **state)
{
    uint64_t enable =
        pfl_kit_consumer_enable(&consumer, CONFIG("STOP_TRACING", "stop_delay_ms: 300"));

    (void)state;
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS),
                                true, false);
    activate("go");
    pfl_port_kit_pass_ms(&kit, 200);
    activate("go");
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 100);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(count_triggers(), 2);
}

static void a_stop_that_never_comes_ends_at_the_timeout_with_nothing(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, CONFIG("STOP_TRACING", ""));

    (void)state;
    pfl_port_kit_pass_ms(&kit, 59999);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 1);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS),
                                true, false);
}

static void expect_clone_hit(uint64_t observe)
{
    struct pfl_kit_reply reply = pfl_kit_client_expect(&consumer, observe, true, true);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field f;

    assert_true(pfl_reader_field(&r, &f)); /* ObservableEvents */
    r = pfl_reader_of(f.bytes);
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 3); /* clone_trigger_hit */
    pfl_kit_reply_free(&reply);
}

static void a_clone_trigger_is_announced_every_time_after_its_delay(void **state)
{
    static const uint8_t mask[] = {0x08, 0x04};
    uint64_t observe =
        pfl_kit_client_invoke(&consumer, KIT_OBSERVE, pfl_span_of(mask, sizeof(mask)));

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, CONFIG("CLONE_SNAPSHOT", "stop_delay_ms: 50"));
    for (int i = 0; i < 2; i++) {
        activate("go");
        pfl_kit_client_expect_nothing(&consumer);
        pfl_port_kit_pass_ms(&kit, 50);
        expect_clone_hit(observe);
    }
    assert_int_equal(state_of_session(), PFL_SESSION_STARTED);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS),
                                true, false);
}

/* docs/abi/service.md section 10, step 5; tests/fixtures/configs has the stock service. */
static void a_clone_has_all_triggers_so_far_also_those_whose_delay_is_not_over(void **state)
{
    static const uint8_t mask[] = {0x08, 0x04};
    uint64_t observe =
        pfl_kit_client_invoke(&consumer, KIT_OBSERVE, pfl_span_of(mask, sizeof(mask)));

    (void)state;
    (void)pfl_kit_consumer_enable(
        &consumer, "buffers { size_kb: 64 } trigger_config { trigger_mode: CLONE_SNAPSHOT "
                   "trigger_timeout_ms: 60000 triggers { name: \"go\" stop_delay_ms: 50 } "
                   "triggers { name: \"late\" stop_delay_ms: 9000 } }");
    activate("go");
    activate("late");
    pfl_port_kit_pass_ms(&kit, 50);
    expect_clone_hit(observe);
    assert_int_equal(count_triggers_of_clone(), 2);
    assert_int_equal(count_triggers_of_clone(), 0);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 9000);
    expect_clone_hit(observe); /* it is still announced */
    assert_int_equal(count_triggers_of_clone(), 0);
    activate("late");
    assert_int_equal(count_triggers_of_clone(), 1);
}

/* Of the only session. */
static unsigned count_reported(uint64_t *ret_ends_in_ms)
{
    struct pfl_query query = {.service = &kit.service, .sessions_only = true};
    struct pfl_buf part;
    struct pfl_reader r;
    struct pfl_field f;
    unsigned count = 0;
    bool has_more;

    pfl_buf_init(&part, PFL_RPC_REPLY_BODY_MAX);
    assert_int_equal(pfl_query_next(&query, &part, &has_more), 0);
    assert_false(has_more);
    r = pfl_reader_of(pfl_buf_get(&part));
    assert_true(pfl_reader_field(&r, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f) && f.id != 6)
        ;
    *ret_ends_in_ms = UINT64_MAX;
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f)) {
        count += f.id == TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS;
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_ENDS_IN_MS)
            *ret_ends_in_ms = f.value;
    }
    pfl_query_fini(&query);
    pfl_buf_fini(&part);
    return count;
}

static void the_state_has_the_triggers_of_a_clone_and_how_long_it_lasts(void **state)
{
    uint64_t ends_in_ms;

    (void)state;
    (void)pfl_kit_consumer_enable(
        &consumer,
        CONFIG("CLONE_SNAPSHOT", "stop_delay_ms: 50") "data_sources { config { name: \"x\" } "
                                                      "producer_name_filter: \"no trigger\" }");
    pfl_port_kit_pass_ms(&kit, 1000);
    assert_int_equal(count_reported(&ends_in_ms), 1);
    assert_int_equal(ends_in_ms, 59000);
}

static void the_state_has_no_triggers_that_do_not_clone(void **state)
{
    uint64_t ends_in_ms;

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, CONFIG("STOP_TRACING", ""));
    pfl_port_kit_run(&kit);
    assert_int_equal(count_reported(&ends_in_ms), 0);
}

static void a_clone_of_a_session_that_a_trigger_stopped_has_it_too(void **state)
{
    uint64_t enable =
        pfl_kit_consumer_enable(&consumer, CONFIG("STOP_TRACING", "stop_delay_ms: 300"));

    (void)state;
    activate("go");
    assert_int_equal(count_triggers_of_clone(), 1);
    assert_int_equal(count_triggers_of_clone(), 1);
    pfl_port_kit_pass_ms(&kit, 300);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(count_triggers(), 1);
}

static void a_producer_whose_name_does_not_match_activates_nothing(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&consumer,
                                  CONFIG("START_TRACING", "producer_name_regex: \"kit\""));
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
}

static void a_producer_whose_name_matches_as_a_whole_activates(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&consumer,
                                  CONFIG("START_TRACING", "producer_name_regex: \"kit[.].*\""));
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_STARTED);
}

static void a_trigger_that_is_always_skipped_does_nothing(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, CONFIG("START_TRACING", "skip_probability: 1"));
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
}

static void the_limit_counts_a_day_over_all_sessions(void **state)
{
    struct pfl_kit_client other;

    (void)state;
    pfl_kit_consumer_open(&other, &kit);
    (void)pfl_kit_consumer_enable(&other, CONFIG("CLONE_SNAPSHOT", ""));
    pfl_port_kit_run(&kit);
    activate("go");
    pfl_kit_client_close(&other);
    pfl_port_kit_run(&kit);
    (void)pfl_kit_consumer_enable(
        &consumer, "buffers { size_kb: 64 } trigger_config { trigger_mode: START_TRACING "
                   "trigger_timeout_ms: 600000000 triggers { name: \"go\" max_per_24_h: 1 } }");
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_CONFIGURED);
    pfl_port_kit_pass_ms(&kit, 24ull * 3600 * 1000);
    activate("go");
    assert_int_equal(state_of_session(), PFL_SESSION_STARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_start_trigger_starts_and_its_delay_is_the_duration,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_that_never_comes_ends_at_the_timeout_with_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_trigger_stops_after_its_delay_the_first_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_stop_that_never_comes_ends_at_the_timeout_with_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clone_trigger_is_announced_every_time_after_its_delay,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_clone_has_all_triggers_so_far_also_those_whose_delay_is_not_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_state_has_the_triggers_of_a_clone_and_how_long_it_lasts,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_state_has_no_triggers_that_do_not_clone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_clone_of_a_session_that_a_trigger_stopped_has_it_too,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_producer_whose_name_does_not_match_activates_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_producer_whose_name_matches_as_a_whole_activates, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_trigger_that_is_always_skipped_does_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_limit_counts_a_day_over_all_sessions, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
