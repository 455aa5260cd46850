/* SPDX-License-Identifier: Apache-2.0 */
/* Configs that have one name a thousand times, beside thousands of data sources of that name: what
 * is set up, in which order, and how many matches are tried. */
#include "service/session/session_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/control/registry.h"
#include "service/session/session_change.h"
#include "service/session/session_run.h"
#include "tests/support/sweep.h"

#define PRODUCERS 64u
#define ENTRIES   1024u
#define MEMBER    1000u
#define STRANGER  1001u

static struct pfl_service service;
static struct pfl_consumer consumer;
static struct pfl_producer *producers[PRODUCERS];
static uint8_t config[65536];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return 1000000000000ull;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 1, len);
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void ignore(void *port)
{
    (void)port;
}

static void ignore_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)body;
    (void)fd;
    (void)is_setup;
}

static int set_up(void **state)
{
    static const struct pfl_service_facts facts = {.version = "test", .machine_name = "m"};
    static const struct pfl_consumer_ops ops = {
        .on_disabled = on_disabled, .on_session_gone = ignore, .on_observed = ignore};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};

    (void)state;
    memset(producers, 0, sizeof(producers));
    assert_int_equal(pfl_service_init(&service, &conf), 0);
    consumer = (struct pfl_consumer){.ops = &ops, .port = &consumer, .who = MEMBER};
    pfl_registry_add_consumer(&service, &consumer);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        if (producers[i] != NULL)
            (void)pfl_registry_remove_producer(&service, producers[i]);
    }
    pfl_registry_remove_consumer(&service, &consumer);
    pfl_service_fini(&service);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void add_source(unsigned index, char name)
{
    const uint8_t descriptor[] = {0x0a, 0x01, (uint8_t)name};

    assert_int_equal(pfl_registry_register_source(&service, producers[index],
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
}

/* Of the network: its commands need no shared memory. */
static void add_producer(unsigned index, uint64_t who, const char *names)
{
    static const struct pfl_producer_ops ops = {.send_command = ignore_command};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .who = who, .is_emulated = true, .ops = &ops};

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producers[index]), 0);
    for (; *names != '\0'; names++)
        add_source(index, *names);
}

/* A buffer, and a data source for each name; with a filter that no producer's name passes. */
static struct pfl_span make_config(const char *names, size_t len, bool has_filter)
{
    static const uint8_t buffer[] = {0x0a, 0x02, 0x08, 0x40};
    static const uint8_t filter[] = {0x12, 0x01, 'q'};
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));

    pfl_writer_bytes(&w, buffer, sizeof(buffer));
    for (size_t i = 0; i < len; i++) {
        const uint8_t source[] = {0x0a, 0x03, 0x0a, 0x01, (uint8_t)names[i % strlen(names)]};

        pfl_writer_field_header(&w, 2, sizeof(source) + (has_filter ? sizeof(filter) : 0));
        pfl_writer_bytes(&w, source, sizeof(source));
        if (has_filter)
            pfl_writer_bytes(&w, filter, sizeof(filter));
    }
    assert_false(w.failed);
    return pfl_span_of(config, sizeof(config) - w.left);
}

static struct pfl_session *enable(struct pfl_span bytes)
{
    char why[PFL_PLAN_WHY_BYTES];

    assert_int_equal(pfl_session_enable(&service, &consumer,
                                        &(struct pfl_session_enable_conf){.config = bytes}, why),
                     0);
    return consumer.session;
}

/* Each instance as its producer's index and its place in the config. */
static void expect_instances(const struct pfl_session *session, const char *wanted)
{
    struct pfl_list *it;
    char said[256] = "";
    size_t len = 0;

    PFL_LIST_EACH (it, &session->instances) {
        const struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);
        unsigned index = 0;

        while (producers[index] != instance->producer)
            index++;
        assert_true(len + 3 < sizeof(said));
        said[len++] = (char)('0' + index);
        said[len++] = (char)('a' + (int)instance->source);
        said[len++] = ' ';
    }
    assert_string_equal(said, wanted);
}

static void each_of_the_config_is_set_up_in_each_producer(void **state)
{
    (void)state;
    add_producer(0, MEMBER, "yx");
    add_producer(1, MEMBER, "z");
    add_producer(2, MEMBER, "xx");
    add_source(0, 'x'); /* registered last, set up with its producer */
    expect_instances(enable(make_config("xyx", 3, false)), "0a 0a 0b 0c 0c 2a 2a 2c 2c ");
}

static void a_change_sets_up_what_takes_no_part_yet(void **state)
{
    struct pfl_session *session;
    uint8_t none[4];
    struct pfl_span without = pfl_span_of(none, sizeof(none));

    (void)state;
    add_producer(0, MEMBER, "x");
    add_producer(1, MEMBER, "yxx");
    memcpy(none, make_config("x", 2, true).data, sizeof(none));
    session = enable(make_config("xyx", 3, true));
    expect_instances(session, "");
    assert_int_equal(pfl_session_change(&service, session, without), 0);
    expect_instances(session, "");
    /* Its first data source that matches brings a producer in, and no later one. */
    assert_int_equal(pfl_session_change(&service, session, make_config("xy", 2, false)), 0);
    expect_instances(session, "0a 1a 1a ");
    assert_int_equal(pfl_session_change(&service, session, make_config("xy", 2, false)), 0);
    expect_instances(session, "0a 1a 1a ");
}

static void fill_with_sources(uint64_t who)
{
    for (unsigned i = 0; i < PRODUCERS / 2; i++) {
        add_producer(i, who, "");
        for (unsigned j = 0; j < PFL_PRODUCER_MAX_SOURCES; j++)
            add_source(i, 'x');
    }
}

static void what_is_left_out_once_is_not_tried_for_each_of_the_config(void **state)
{
    const struct pfl_session *session;
    size_t sources = PRODUCERS / 2 * PFL_PRODUCER_MAX_SOURCES;

    (void)state;
    fill_with_sources(STRANGER);
    add_producer(PRODUCERS - 1, MEMBER, "x");
    session = enable(make_config("x", ENTRIES, false));
    /* Half for the stranger; all that the member wants of what is left. */
    assert_int_equal(pfl_shares_get(&session->instance_shares, STRANGER),
                     PFL_SESSION_MAX_INSTANCES / 2);
    assert_int_equal(pfl_shares_get(&session->instance_shares, MEMBER), ENTRIES);
    /* With the one of those tried for the second time that did not fail for the first. */
    assert_int_equal(session->left_out, sources);
}

static void filters_of_one_name_share_the_budget(void **state)
{
    struct pfl_session *session;
    uint64_t used;

    (void)state;
    fill_with_sources(STRANGER);
    session = enable(make_config("x", 250, true));
    used = pfl_shares_get(&session->judging.shares, STRANGER);
    assert_int_equal(used, PFL_JUDGING_UNITS / 2);
    assert_int_equal(session->instances_len, 0);
    /* Another user's producer is matched nevertheless. */
    add_producer(PRODUCERS - 1, MEMBER, "x");
    assert_int_equal(pfl_session_change(&service, session, make_config("x", 250, false)), 0);
    assert_true(pfl_shares_get(&session->instance_shares, MEMBER) != 0);
}

static void an_instance_is_found_by_its_producer_alone(void **state)
{
    const struct pfl_session *session;
    struct pfl_list *it;

    (void)state;
    add_producer(0, MEMBER, "xy");
    add_producer(1, MEMBER, "x");
    session = enable(make_config("xy", 20, false));
    PFL_LIST_EACH (it, &session->instances) {
        const struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);
        const struct pfl_producer *other = producers[instance->producer == producers[0]];

        assert_ptr_equal(pfl_service_find_instance(&service, instance->producer, instance->id),
                         instance);
        assert_null(pfl_service_find_instance(&service, other, instance->id));
        assert_null(pfl_service_find_instance(&service, instance->producer,
                                              instance->id + PFL_SERVICE_INSTANCE_LISTS));
    }
}

static void unregistering_drops_all_of_that_name_and_no_others(void **state)
{
    const struct pfl_session *session;

    (void)state;
    add_producer(0, MEMBER, "xy");
    add_producer(1, MEMBER, "x");
    session = enable(make_config("xyx", 3, false));
    expect_instances(session, "0a 0b 0c 1a 1c ");
    assert_true(pfl_session_are_all(session, PFL_INSTANCE_STARTED));
    pfl_registry_unregister_source(&service, producers[0], pfl_span_of("x", 1));
    expect_instances(session, "0b 1a 1c ");
    assert_int_equal(session->instances_len, 3);
    assert_true(pfl_session_are_all(session, PFL_INSTANCE_STARTED));
    assert_int_equal(session->instances_in[PFL_INSTANCE_STOPPED], 0);
    pfl_registry_unregister_source(&service, producers[0], pfl_span_of("y", 1));
    pfl_registry_unregister_source(&service, producers[1], pfl_span_of("x", 1));
    expect_instances(session, "");
    assert_true(pfl_session_are_all(session, PFL_INSTANCE_STARTED)); /* as of none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_of_the_config_is_set_up_in_each_producer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_change_sets_up_what_takes_no_part_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_out_once_is_not_tried_for_each_of_the_config,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(filters_of_one_name_share_the_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_instance_is_found_by_its_producer_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unregistering_drops_all_of_that_name_and_no_others, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
