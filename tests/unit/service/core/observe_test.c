/* SPDX-License-Identifier: Apache-2.0 */
/* Observable events, byte for byte; those that do not fit are left out whole. */
#include "service/core/observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/service_state.fields.h"
#include "tests/support/sweep.h"

#define SPAN(s) pfl_span_of((s), sizeof(s) - 1)

static const struct pfl_observe_clone_hit hit = {.session_id = 1,
                                                 .trigger_name = {(const uint8_t *)"t", 1},
                                                 .producer_name = {(const uint8_t *)"p", 1},
                                                 .producer_uid = 2,
                                                 .boottime_ns = 3,
                                                 .delay_ms = 4};

static void expect(struct pfl_observe *observe, struct pfl_span bytes)
{
    struct pfl_span events = pfl_observe_get(observe);

    assert_int_equal(events.len, bytes.len);
    if (bytes.len != 0)
        assert_memory_equal(events.data, bytes.data, bytes.len);
    pfl_observe_clear(observe);
}

/* Lengths of nested messages have as many bytes as the builder reserves: read, not compared. */
static struct pfl_span find(struct pfl_span message, uint32_t id, uint64_t *ret_value)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    *ret_value = 0;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == id) {
            *ret_value = f.value;
            return f.bytes;
        }
    }
    return (struct pfl_span){0};
}

static void an_instance_that_runs_or_does_not_is_reported_and_other_states_are_not(void **state)
{
    static const struct {
        enum pfl_instance_state state;
        uint64_t reported; /* 0: not */
    } cases[] = {
        {PFL_INSTANCE_CONFIGURED, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_STOPPED},
        {PFL_INSTANCE_STARTING, 0},
        {PFL_INSTANCE_STARTED, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_STARTED},
        {PFL_INSTANCE_STOPPING, 0},
        {PFL_INSTANCE_STOPPED, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_STOPPED},
    };
    struct pfl_observe observe;

    (void)state;
    pfl_observe_init(&observe);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_instance instance = {.producer_name = "p", .state = cases[i].state};
        struct pfl_span change;
        uint64_t value;

        observe.mask = PFL_OBSERVE_ALL_STARTED | PFL_OBSERVE_CLONE_TRIGGER;
        pfl_observe_instance(&observe, &instance, SPAN("source"));
        assert_false(pfl_observe_has_events(&observe));
        observe.mask = PFL_OBSERVE_INSTANCES;
        pfl_observe_instance(&observe, &instance, SPAN("source"));
        assert_int_equal(pfl_observe_has_events(&observe), cases[i].reported != 0);
        change = find(pfl_observe_get(&observe), OBSERVABLE_EVENTS__INSTANCE_STATE_CHANGES, &value);
        (void)find(change, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__STATE, &value);
        assert_int_equal(value, cases[i].reported);
        change = find(
            change, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__DATA_SOURCE_NAME, &value);
        assert_int_equal(change.len, cases[i].reported != 0 ? 6 : 0);
        pfl_observe_clear(&observe);
        assert_false(pfl_observe_has_events(&observe));
    }
    pfl_observe_fini(&observe);
    pfl_sweep_assert_no_leak();
}

static void that_all_have_started_is_reported_once(void **state)
{
    struct pfl_observe observe;

    (void)state;
    pfl_observe_init(&observe);
    pfl_observe_all_started(&observe);
    assert_false(pfl_observe_has_events(&observe));
    observe.mask = PFL_OBSERVE_ALL_STARTED;
    pfl_observe_all_started(&observe);
    pfl_observe_all_started(&observe);
    assert_true(pfl_observe_has_events(&observe));
    expect(&observe, SPAN("\x10\x01"));
    expect(&observe, SPAN(""));
    pfl_observe_all_started(&observe);
    pfl_observe_clear(&observe);
    assert_false(pfl_observe_has_events(&observe));
    pfl_observe_fini(&observe);
}

static void a_trigger_for_a_clone_is_reported_with_all_its_facts(void **state)
{
    static const uint64_t values[] = {1, 0, 0, 2, 3, 4};
    struct pfl_observe observe;
    struct pfl_span event;
    uint64_t value;

    (void)state;
    pfl_observe_init(&observe);
    pfl_observe_clone_hit(&observe, &hit);
    assert_false(pfl_observe_has_events(&observe));
    observe.mask = PFL_OBSERVE_CLONE_TRIGGER;
    pfl_observe_clone_hit(&observe, &hit);
    event = find(pfl_observe_get(&observe), OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT, &value);
    for (uint32_t i = 0; i < 6; i++) {
        struct pfl_span text = find(event, i + 1, &value);

        assert_int_equal(value, values[i]);
        assert_int_equal(text.len, i == 1 || i == 2);
        if (text.len != 0)
            assert_int_equal(text.data[0], i == 1 ? 't' : 'p');
    }
    pfl_observe_fini(&observe);
}

/* How many events are whole; there is nothing else. */
static unsigned count_events(struct pfl_span events)
{
    struct pfl_reader r = pfl_reader_of(events);
    struct pfl_field f;
    unsigned count = 0;

    while (pfl_reader_field(&r, &f))
        count++;
    assert_false(r.failed);
    return count;
}

static void events_that_do_not_fit_are_left_out_whole(void **state)
{
    static uint8_t name[40000];
    struct pfl_instance instance = {.producer_name = "p", .state = PFL_INSTANCE_STARTED};
    struct pfl_observe_clone_hit large = hit;
    struct pfl_observe observe;

    (void)state;
    memset(name, 'n', sizeof(name));
    pfl_observe_init(&observe);
    observe.mask = PFL_OBSERVE_INSTANCES | PFL_OBSERVE_CLONE_TRIGGER;
    large.trigger_name = pfl_span_of(name, sizeof(name));
    pfl_observe_clone_hit(&observe, &large);
    pfl_observe_clone_hit(&observe, &large);
    pfl_observe_instance(&observe, &instance, large.trigger_name);
    assert_int_equal(count_events(pfl_observe_get(&observe)), 1);
    pfl_observe_clone_hit(&observe, &hit);
    pfl_observe_instance(&observe, &instance, SPAN("source"));
    assert_int_equal(count_events(pfl_observe_get(&observe)), 3);
    assert_in_range(pfl_observe_get(&observe).len, sizeof(name), PFL_OBSERVE_MAX_BYTES);
    pfl_observe_fini(&observe);
    pfl_sweep_assert_no_leak();
}

static int observe_all(void *arg)
{
    struct pfl_instance instance = {.producer_name = "p", .state = PFL_INSTANCE_STARTED};
    struct pfl_observe observe;
    unsigned count;

    (void)arg;
    pfl_observe_init(&observe);
    observe.mask = PFL_OBSERVE_INSTANCES | PFL_OBSERVE_CLONE_TRIGGER | PFL_OBSERVE_ALL_STARTED;
    pfl_observe_instance(&observe, &instance, SPAN("source"));
    pfl_observe_clone_hit(&observe, &hit);
    pfl_observe_all_started(&observe);
    count = count_events(pfl_observe_get(&observe));
    assert_in_range(count, 0, 3);
    pfl_observe_fini(&observe);
    return count == 3 ? 0 : PFL_ENOMEM;
}

static void events_without_memory_are_left_out_whole(void **state)
{
    (void)state;
    pfl_sweep(observe_all, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_instance_that_runs_or_does_not_is_reported_and_other_states_are_not),
        cmocka_unit_test(that_all_have_started_is_reported_once),
        cmocka_unit_test(a_trigger_for_a_clone_is_reported_with_all_its_facts),
        cmocka_unit_test(events_that_do_not_fit_are_left_out_whole),
        cmocka_unit_test(events_without_memory_are_left_out_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
