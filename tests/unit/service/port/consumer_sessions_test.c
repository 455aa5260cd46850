/* SPDX-License-Identifier: Apache-2.0 */
/* Detach, attach, clones and changed configs over real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perfetto/service_state.fields.h"
#include "tests/unit/service/port/role_kit.h"

#define ONE_SOURCE "buffers { size_kb: 64 } data_sources { config { name: \"kit.source\" } } "
#define NO_ARGS                                                                                    \
    (struct pfl_span)                                                                              \
    {                                                                                              \
        0                                                                                          \
    }

static struct pfl_port_kit kit;
static struct pfl_kit_client first;
static struct pfl_kit_client second;

static int open_kit(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&first, &kit);
    pfl_kit_consumer_open(&second, &kit);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    pfl_kit_client_close(&first);
    pfl_kit_client_close(&second);
    pfl_port_kit_close(&kit);
    return 0;
}

static void call_string(struct pfl_kit_client *client, unsigned method, const char *key,
                        bool success)
{
    uint64_t id = pfl_kit_client_call(client, method, (struct pfl_kit_args){.string1 = key});
    struct pfl_kit_reply reply = pfl_kit_client_expect(client, id, success, false);

    pfl_kit_reply_free(&reply);
}

static void a_detached_session_outlives_its_connection_and_is_attached_once(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    call_string(&first, KIT_DETACH, "key", true);
    call_string(&first, KIT_DETACH, "key", false); /* it has none any more */
    pfl_kit_client_close(&first);
    pfl_kit_consumer_open(&first, &kit);
    assert_int_equal(kit.service.sessions_len, 1);
    call_string(&second, KIT_ATTACH, "other", false);
    call_string(&second, KIT_ATTACH, "", false);
    call_string(&second, KIT_ATTACH, "key", true);
    call_string(&first, KIT_ATTACH, "key", false);
    call_string(&second, KIT_ATTACH, "key", false);
}

static void a_key_may_be_any_bytes(void **state)
{
    static const char key[] = "\x0a\x03"
                              "a\0b";
    static const char other[] = "\x0a\x03"
                                "a\0c";
    struct pfl_kit_reply reply;

    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    pfl_kit_client_expect_empty(
        &first, pfl_kit_client_invoke(&first, KIT_DETACH, pfl_span_of(key, 5)), true, false);
    pfl_kit_client_expect_empty(
        &second, pfl_kit_client_invoke(&second, KIT_ATTACH, pfl_span_of(other, 5)), false, false);
    call_string(&second, KIT_ATTACH, "a", false);
    reply = pfl_kit_client_expect(
        &second, pfl_kit_client_invoke(&second, KIT_ATTACH, pfl_span_of(key, 5)), true, false);
    pfl_kit_reply_free(&reply);
}

static void a_key_is_used_once_and_never_empty(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    (void)pfl_kit_consumer_enable(&second, ONE_SOURCE);
    call_string(&first, KIT_DETACH, "", false);
    call_string(&first, KIT_DETACH, "key", true);
    call_string(&second, KIT_DETACH, "key", false);
    call_string(&second, KIT_DETACH, "key2", true);
}

static void who_attaches_waits_for_the_end_but_not_for_one_that_was(void **state)
{
    static const uint8_t notification_only[] = {0x10, 1};
    uint64_t enable;

    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    call_string(&first, KIT_DETACH, "key", true);
    call_string(&second, KIT_ATTACH, "key", true);
    enable = pfl_kit_client_invoke(&second, KIT_ENABLE,
                                   pfl_span_of(notification_only, sizeof(notification_only)));
    pfl_kit_client_expect_nothing(&second);
    pfl_kit_client_expect_empty(&second, pfl_kit_client_invoke(&second, KIT_DISABLE, NO_ARGS), true,
                                false);
    pfl_kit_consumer_expect_disabled(&second, enable, NULL);
    enable = pfl_kit_client_invoke(&second, KIT_ENABLE,
                                   pfl_span_of(notification_only, sizeof(notification_only)));
    pfl_kit_consumer_expect_disabled(&second, enable, NULL);
}

#define MANY_TRIGGERS 3000u

/* As many as fit into a config; two of one name are refused, wherever they stand. */
static void thousands_of_triggers_are_served(void **state)
{
    static char config[32 * (MANY_TRIGGERS + 2) + 128];
    size_t len = (size_t)snprintf(config, sizeof(config),
                                  "trigger_config { trigger_mode: STOP_TRACING "
                                  "trigger_timeout_ms: 1000 ");

    (void)state;
    for (unsigned i = 0; i < MANY_TRIGGERS; i++)
        len +=
            (size_t)snprintf(config + len, sizeof(config) - len, "triggers { name: \"t%u\" } ", i);
    (void)snprintf(config + len, sizeof(config) - len, "} " ONE_SOURCE);
    (void)pfl_kit_consumer_enable(&first, config);
    pfl_kit_client_expect_nothing(&first);
    assert_int_equal(kit.service.sessions_len, 1);
    (void)snprintf(config + len, sizeof(config) - len, "triggers { name: \"t7\" } }");
    pfl_kit_consumer_expect_disabled(&second, pfl_kit_consumer_enable(&second, config),
                                     "trigger_config.triggers[3000].name: \"t7\" is the name of "
                                     "triggers[7] too");
}

/* `first` asks for it. */
static uint64_t begin_flush(struct pfl_kit_client *ret_producer, uint64_t *ret_flush_id)
{
    uint64_t flush;

    (void)pfl_kit_producer_open(ret_producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    (void)pfl_kit_producer_expect(ret_producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(ret_producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(ret_producer, KIT_CMD_START, NULL);
    flush = pfl_kit_client_invoke(&first, KIT_FLUSH, NO_ARGS);
    (void)pfl_kit_producer_expect(ret_producer, KIT_CMD_FLUSH, ret_flush_id);
    return flush;
}

static void who_asked_for_a_flush_is_answered_after_he_detached(void **state)
{
    struct pfl_kit_client producer;
    uint64_t flush_id;
    uint64_t flush = begin_flush(&producer, &flush_id);

    (void)state;
    call_string(&first, KIT_DETACH, "key", true);
    pfl_kit_client_expect_nothing(&first);
    pfl_kit_producer_ack(&producer, flush_id);
    pfl_kit_client_expect_empty(&first, flush, true, false);
    pfl_kit_client_close(&producer);
}

static void a_flush_outlives_the_connection_that_asked_for_it(void **state)
{
    const struct pfl_session *session;
    struct pfl_kit_client producer;
    uint64_t flush_id;

    (void)state;
    (void)begin_flush(&producer, &flush_id);
    session = PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
    call_string(&first, KIT_DETACH, "key", true);
    pfl_kit_client_close(&first);
    pfl_kit_consumer_open(&first, &kit);
    pfl_kit_producer_ack(&producer, flush_id);
    call_string(&second, KIT_ATTACH, "key", true);
    assert_int_equal(session->counters.flushes_succeeded, 1);
    pfl_kit_client_close(&producer);
}

static void who_attaches_is_reported_that_all_started_meanwhile(void **state)
{
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;
    uint64_t instance;
    uint64_t observe;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_START);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    instance = pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    call_string(&first, KIT_DETACH, "key", true);
    (void)pfl_kit_client_call(&producer, KIT_STARTED, (struct pfl_kit_args){instance, 0, NULL});
    call_string(&second, KIT_ATTACH, "key", true);
    observe = pfl_kit_client_call(&second, KIT_OBSERVE, (struct pfl_kit_args){2, 0, NULL});
    reply = pfl_kit_client_expect(&second, observe, true, true);
    assert_int_equal(reply.body_len, 4); /* all_data_sources_started */
    pfl_kit_reply_free(&reply);
    pfl_kit_client_expect_nothing(&second);
    pfl_kit_client_close(&producer);
}

static void a_detached_session_whose_duration_is_over_is_freed(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE "duration_ms: 1000");
    call_string(&first, KIT_DETACH, "key", true);
    pfl_port_kit_pass_ms(&kit, 1000);
    assert_int_equal(kit.service.sessions_len, 0);
    call_string(&second, KIT_ATTACH, "key", false);
}

static bool is_cloned(struct pfl_kit_client *client, struct pfl_kit_args args)
{
    uint64_t id = pfl_kit_client_call(client, KIT_CLONE, args);
    struct pfl_kit_reply reply = pfl_kit_client_expect(client, id, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field f;
    bool success = false;

    while (pfl_reader_field(&r, &f))
        success = f.id == 1 ? f.value != 0 : success;
    pfl_kit_reply_free(&reply);
    return success;
}

static void a_clone_is_read_while_its_source_goes_on(void **state)
{
    struct pfl_buf trace;
    struct pfl_session *clone;
    uint64_t id;

    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    assert_false(is_cloned(&second, (struct pfl_kit_args){.number1 = 77}));
    assert_true(is_cloned(&second, (struct pfl_kit_args){.number1 = 1}));
    assert_int_equal(kit.service.sessions_len, 2);
    clone = pfl_service_find_session(&kit.service, 2);
    assert_int_equal(clone->state, PFL_SESSION_CLONED);
    assert_int_equal(pfl_service_find_session(&kit.service, 1)->state, PFL_SESSION_STARTED);
    id = pfl_kit_client_invoke(&second, KIT_READ, NO_ARGS);
    pfl_kit_client_read_trace(&second, id, &trace);
    assert_int_not_equal(trace.len, 0);
    pfl_buf_fini(&trace);
    assert_false(is_cloned(&second, (struct pfl_kit_args){.number1 = 1})); /* it has one */
    pfl_kit_client_close(&second);
    assert_int_equal(kit.service.sessions_len, 1);
    pfl_kit_consumer_open(&second, &kit);
    assert_true(is_cloned(&second, (struct pfl_kit_args){.number1 = 1}));
}

/* TracingServiceState.tracing_sessions.start_realtime_ns of the only session. */
static uint64_t get_start_time(void)
{
    uint64_t id = pfl_kit_client_invoke(&second, KIT_QUERY, NO_ARGS);
    struct pfl_kit_reply reply = pfl_kit_client_expect(&second, id, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field f = {0};
    uint64_t time_ns = 0;

    assert_true(pfl_reader_field(&r, &f)); /* service_state */
    for (r = pfl_reader_of(f.bytes); pfl_reader_field(&r, &f) && f.id != 6;)
        ;
    assert_int_equal(f.id, 6);
    for (r = pfl_reader_of(f.bytes); pfl_reader_field(&r, &f);)
        time_ns = f.id == 8 ? f.value : time_ns;
    pfl_kit_reply_free(&reply);
    return time_ns;
}

static void the_time_of_the_start_is_reported_until_the_first_read(void **state)
{
    struct pfl_buf trace;

    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    assert_int_not_equal(get_start_time(), 0);
    pfl_kit_client_read_trace(&first, pfl_kit_client_invoke(&first, KIT_READ, NO_ARGS), &trace);
    pfl_buf_fini(&trace);
    assert_int_equal(get_start_time(), 0);
}

static void a_clone_is_never_one_too_many_but_counts(void **state)
{
    struct pfl_kit_client others[PFL_SERVICE_MAX_SESSIONS_PER_UID - 1];
    const size_t others_len = sizeof(others) / sizeof(*others);

    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    for (size_t i = 0; i < others_len; i++) {
        pfl_kit_consumer_open(&others[i], &kit);
        (void)pfl_kit_consumer_enable(&others[i], ONE_SOURCE);
    }
    assert_true(is_cloned(&second, (struct pfl_kit_args){.number1 = 1}));
    assert_int_equal(kit.service.sessions_len, PFL_SERVICE_MAX_SESSIONS_PER_UID + 1);
    pfl_kit_client_close(&first);
    pfl_kit_consumer_open(&first, &kit);
    assert_int_equal(kit.service.sessions_len, PFL_SERVICE_MAX_SESSIONS_PER_UID);
    pfl_kit_consumer_expect_disabled(&first, pfl_kit_consumer_enable(&first, ONE_SOURCE),
                                     "the most a user may have");
    for (size_t i = 0; i < others_len; i++)
        pfl_kit_client_close(&others[i]);
}

static void only_a_session_with_a_score_is_cloned_for_a_bugreport(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    assert_false(is_cloned(&second, (struct pfl_kit_args){.number1 = UINT64_MAX}));
    pfl_kit_client_close(&first);
    pfl_kit_consumer_open(&first, &kit);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE "bugreport_score: 3");
    assert_true(is_cloned(&second, (struct pfl_kit_args){.number1 = UINT64_MAX}));
}

static void a_clone_waits_for_the_flush_and_fails_with_its_source(void **state)
{
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;
    uint64_t id;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    id = pfl_kit_client_call(&second, KIT_CLONE, (struct pfl_kit_args){.number1 = 1});
    pfl_kit_client_expect_nothing(&second);
    pfl_kit_client_close(&first);
    reply = pfl_kit_client_expect(&second, id, true, false);
    assert_non_null(memmem(reply.body, reply.body_len, "ended while", 11));
    pfl_kit_reply_free(&reply);
    pfl_kit_consumer_open(&first, &kit);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    id = pfl_kit_client_call(&second, KIT_CLONE, (struct pfl_kit_args){.number1 = 2});
    pfl_kit_client_expect_nothing(&second);
    pfl_port_kit_pass_ms(&kit, 5000); /* nobody acknowledges: the clone still comes */
    reply = pfl_kit_client_expect(&second, id, true, false);
    pfl_kit_reply_free(&reply);
    assert_int_equal(pfl_service_find_session(&kit.service, 3)->counters.final_flush_outcome, 2);
    pfl_kit_client_close(&producer);
}

static void a_consumer_that_leaves_is_given_no_clone(void **state)
{
    struct pfl_kit_client producer;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    (void)pfl_kit_client_call(&second, KIT_CLONE, (struct pfl_kit_args){.number1 = 1});
    pfl_kit_client_expect_nothing(&second);
    pfl_kit_client_close(&second);
    pfl_kit_consumer_open(&second, &kit);
    pfl_port_kit_pass_ms(&kit, 5000);
    assert_int_equal(kit.service.sessions_len, 1);
    assert_true(pfl_list_is_empty(&kit.service.clones));
    pfl_kit_client_close(&producer);
}

static void a_changed_filter_lets_a_producer_join(void **state)
{
    struct pfl_kit_client producer;
    struct pfl_span config;
    uint64_t id;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&first, "buffers { size_kb: 64 } data_sources { config { name: "
                                          "\"kit.source\" } producer_name_filter: \"nobody\" }");
    pfl_kit_client_expect_nothing(&producer);
    id = pfl_kit_consumer_change(&first, "data_sources { config { name: \"other\" } }");
    pfl_kit_client_expect_empty(&first, id, true, false);
    pfl_kit_client_expect_nothing(&producer);
    id = pfl_kit_consumer_change(&first, "data_sources { config { name: \"kit.source\" } "
                                         "producer_name_regex_filter: \".*\" }");
    pfl_kit_client_expect_empty(&first, id, true, false);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    config = pfl_session_plan_get_config(pfl_service_find_session(&kit.service, 1)->plan);
    assert_null(memmem(config.data, config.len, "nobody", 6));
    assert_non_null(memmem(config.data, config.len, ".*", 2));
    id = pfl_kit_client_invoke(&second, KIT_CHANGE, NO_ARGS); /* without a session: nothing */
    pfl_kit_client_expect_empty(&second, id, true, false);
    pfl_kit_client_close(&producer);
}

/* The only session of the service's state. */
static struct pfl_kit_reply query_session(struct pfl_span *ret_session)
{
    uint64_t id = pfl_kit_client_invoke(&second, KIT_QUERY, NO_ARGS);
    struct pfl_kit_reply reply = pfl_kit_client_expect(&second, id, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field f = {0};

    assert_true(pfl_reader_field(&r, &f)); /* service_state */
    for (r = pfl_reader_of(f.bytes);
         pfl_reader_field(&r, &f) && f.id != TRACING_SERVICE_STATE__TRACING_SESSIONS;)
        ;
    assert_int_equal(f.id, TRACING_SERVICE_STATE__TRACING_SESSIONS);
    *ret_session = f.bytes;
    return reply;
}

/* The number in that field, or its length and first byte; 0: it is not there. */
static uint64_t value_in(struct pfl_span session, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(session);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f.type == PFL_WIRE_BYTES ? f.bytes.len * 256 + f.bytes.data[0] : f.value;
    }
    return 0;
}

static void what_a_session_is_is_told_with_the_services_state(void **state)
{
    struct pfl_kit_reply reply;
    struct pfl_span s;

    (void)state;
    (void)pfl_kit_consumer_enable(&first,
                                  ONE_SOURCE "duration_ms: 5000 unique_session_name: \"name\" "
                                             "bugreport_score: -3 bugreport_filename: \"file\"");
    reply = query_session(&s);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__ID), 1);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__CONSUMER_UID), geteuid());
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__STATE), 7 * 256 + 'S');
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__UNIQUE_SESSION_NAME),
                     4 * 256 + 'n');
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__BUFFER_SIZE_KB), 64);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__DURATION_MS), 5000);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__BUGREPORT_SCORE),
                     (uint64_t)-3);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__BUGREPORT_FILENAME),
                     4 * 256 + 'f');
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__IS_STARTED), 1);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY), 0);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_IS_OWN), 0);
    pfl_kit_reply_free(&reply);
    call_string(&first, KIT_DETACH, "key", true);
    reply = query_session(&s);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY),
                     3 * 256 + 'k');
    pfl_kit_reply_free(&reply);
    call_string(&first, KIT_ATTACH, "key", true);
    call_string(&first, KIT_DETACH, "name", true); /* said by the name already */
    reply = query_session(&s);
    assert_int_equal(value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY), 0);
    pfl_kit_reply_free(&reply);
    call_string(&first, KIT_ATTACH, "name", true);
}

/* Whether the only session is said to be that of who connects in this name. */
static bool is_own_of(const char *subject)
{
    struct pfl_kit_reply reply;
    struct pfl_span s;
    bool is_own;

    pfl_kit_client_close(&second);
    kit.subject = subject;
    pfl_kit_consumer_open(&second, &kit);
    kit.subject = NULL;
    reply = query_session(&s);
    is_own = value_in(s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_IS_OWN) != 0;
    pfl_kit_reply_free(&reply);
    return is_own;
}

static void session_is_told_to_be_own_to_who_asks_in_the_name_that_made_it(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    assert_false(is_own_of("me"));
    pfl_kit_client_close(&first);
    kit.subject = "me";
    pfl_kit_consumer_open(&first, &kit);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    assert_true(is_own_of("me"));
    assert_false(is_own_of("you"));
    assert_false(is_own_of(NULL));
    call_string(&first, KIT_DETACH, "key", true);
    assert_true(is_own_of("me"));
}

static void that_all_have_started_meanwhile_is_told_to_who_attaches(void **state)
{
    static const uint8_t mask[] = {0x08, 0x02}; /* all data sources started */
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;
    uint64_t instance;
    uint64_t id;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_START);
    (void)pfl_kit_consumer_enable(&first, ONE_SOURCE);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    instance = pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    call_string(&first, KIT_DETACH, "key", true);
    id = pfl_kit_client_call(&producer, KIT_STARTED, (struct pfl_kit_args){.number1 = instance});
    pfl_kit_client_expect_empty(&producer, id, true, false);
    assert_false(pfl_service_find_session(&kit.service, 1)->is_all_started_sent);
    call_string(&second, KIT_ATTACH, "key", true);
    id = pfl_kit_client_invoke(&second, KIT_OBSERVE, pfl_span_of(mask, sizeof(mask)));
    reply = pfl_kit_client_expect(&second, id, true, true);
    assert_int_equal(reply.body_len, 4);
    assert_memory_equal(reply.body, "\x0a\x02\x10\x01", 4);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_close(&producer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_detached_session_outlives_its_connection_and_is_attached_once, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_key_may_be_any_bytes, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_key_is_used_once_and_never_empty, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_flush_outlives_the_connection_that_asked_for_it, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(who_asked_for_a_flush_is_answered_after_he_detached,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(who_attaches_is_reported_that_all_started_meanwhile,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_detached_session_whose_duration_is_over_is_freed,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_clone_is_read_while_its_source_goes_on, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(who_attaches_waits_for_the_end_but_not_for_one_that_was,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(thousands_of_triggers_are_served, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(the_time_of_the_start_is_reported_until_the_first_read,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_clone_is_never_one_too_many_but_counts, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(only_a_session_with_a_score_is_cloned_for_a_bugreport,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_clone_waits_for_the_flush_and_fails_with_its_source,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_changed_filter_lets_a_producer_join, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(that_all_have_started_meanwhile_is_told_to_who_attaches,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_a_session_is_is_told_with_the_services_state, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(
            session_is_told_to_be_own_to_who_asks_in_the_name_that_made_it, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_consumer_that_leaves_is_given_no_clone, open_kit,
                                        close_kit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
