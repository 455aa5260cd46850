/* SPDX-License-Identifier: Apache-2.0 */
/* ConsumerPort over real sockets: what is answered, when, and in which order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS      ((struct pfl_span){0})
#define NUMBERED     300u
#define FIRST_NUMBER 1000u
#define ONE_BUFFER   "buffers { size_kb: 64 } "
#define ONE_SOURCE   ONE_BUFFER "data_sources { config { name: \"kit.source\" } } "

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    assert_int_equal(kit.service.sessions_len, 0);
    pfl_port_kit_close(&kit);
    return 0;
}

static uint64_t call(unsigned method)
{
    return pfl_kit_client_invoke(&consumer, method, NO_ARGS);
}

static void enable_is_answered_when_the_session_is_disabled(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);

    (void)state;
    pfl_kit_client_expect_nothing(&consumer);
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
}

static void freeing_a_live_session_answers_free_first_and_enable_then(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);

    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_nothing(&consumer);
}

static void a_config_without_anything_is_valid(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, "");

    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
}

static void a_second_enable_fails_the_first_and_is_refused(void **state)
{
    uint64_t first = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    uint64_t second = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);

    (void)state;
    pfl_kit_client_expect_empty(&consumer, first, false, false);
    pfl_kit_consumer_expect_disabled(&consumer, second, "has a session already");
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_client_expect_nothing(&consumer);
}

static void a_deferred_session_starts_when_it_is_asked_to(void **state)
{
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER "deferred_start: true");
    (void)state;
    assert_string_equal(
        pfl_session_state_str(
            PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node)->state),
        "CONFIGURED");
    pfl_kit_client_expect_empty(&consumer, call(KIT_START), true, false);
    assert_string_equal(
        pfl_session_state_str(
            PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node)->state),
        "STARTED");
    pfl_kit_client_expect_empty(&consumer, call(KIT_START), true, false);
}

static void a_session_ends_when_its_duration_is_over(void **state)
{
    uint64_t enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER "duration_ms: 1000");

    (void)state;
    pfl_port_kit_pass_ms(&kit, 999);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 1);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
}

static void flush_without_session_is_never_answered(void **state)
{
    (void)state;
    (void)call(KIT_FLUSH);
    pfl_kit_client_expect_nothing(&consumer);
}

static void flush_before_the_start_fails_and_after_it_succeeds(void **state)
{
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER "deferred_start: true");
    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_FLUSH), false, false);
    pfl_kit_client_expect_empty(&consumer, call(KIT_START), true, false);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FLUSH), true, false);
}

static void flush_waits_for_the_producer_and_fails_by_its_deadline(void **state)
{
    struct pfl_kit_client producer;
    uint64_t flush_id;
    uint64_t flush;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    flush = call(KIT_FLUSH);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_FLUSH, &flush_id);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_kit_producer_ack(&producer, flush_id);
    pfl_kit_client_expect_empty(&consumer, flush, true, false);
    flush = call(KIT_FLUSH);
    pfl_port_kit_pass_ms(&kit, 5000);
    pfl_kit_client_expect_empty(&consumer, flush, false, false);
    pfl_kit_client_close(&producer);
}

static void producers_are_reported_why_there_is_a_flush(void **state)
{
    static const uint8_t args[] = {0x10, 0x93, 0x01}; /* flags: 0x93 */
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;
    struct pfl_reader r;
    struct pfl_field f;
    uint64_t flags = 0;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    (void)pfl_kit_client_invoke(&consumer, KIT_FLUSH, pfl_span_of(args, sizeof(args)));
    assert_true(pfl_kit_client_take(&producer, &reply));
    r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, KIT_CMD_FLUSH);
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f))
        flags = f.id == 3 ? f.value : flags;
    assert_int_equal(flags, 0x93);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_close(&producer);
}

static void the_end_of_the_session_fails_its_flushes(void **state)
{
    struct pfl_kit_client producer;
    uint64_t enable;
    uint64_t flush;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    enable = pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    flush = call(KIT_FLUSH);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_client_expect_empty(&consumer, flush, false, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_close(&producer);
}

static void reading_without_session_is_one_empty_frame(void **state)
{
    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_READ), true, false);
}

static bool has_packet(struct pfl_span trace, uint32_t field)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field packet;
    struct pfl_field f;

    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);

        while (pfl_reader_field(&fields, &f)) {
            if (f.id == field)
                return true;
        }
    }
    return false;
}

static void the_first_pass_tells_everything_and_the_next_only_what_is_new(void **state)
{
    static const uint32_t first_fields[] = {6, 33, 35, 36, 45, 69, 89, 124};
    struct pfl_buf trace;

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &trace);
    for (size_t i = 0; i < sizeof(first_fields) / sizeof(first_fields[0]); i++)
        assert_true(has_packet(pfl_buf_get(&trace), first_fields[i]));
    pfl_buf_fini(&trace);
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &trace);
    for (size_t i = 0; i < sizeof(first_fields) / sizeof(first_fields[0]); i++)
        assert_int_equal(has_packet(pfl_buf_get(&trace), first_fields[i]), first_fields[i] == 69);
    pfl_buf_fini(&trace);
    pfl_port_kit_pass_ms(&kit, 10000);
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &trace);
    assert_true(has_packet(pfl_buf_get(&trace), 36));
    assert_true(has_packet(pfl_buf_get(&trace), 35));
    pfl_buf_fini(&trace);
}

static void stats_need_a_session(void **state)
{
    struct pfl_kit_reply reply;

    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_STATS), false, false);
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    reply = pfl_kit_client_expect(&consumer, call(KIT_STATS), true, false);
    assert_true(reply.body_len > 40);
    pfl_kit_reply_free(&reply);
}

#define WRITERS 5000u

/* A packet of each, in a buffer that has room for few of them. */
static void let_many_write(void)
{
    static const uint8_t payload[] = {4, 0x0a, 2, 'h', 'i'};
    const struct pfl_session *session =
        PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
    struct pfl_trace_buffer_chunk chunk = {.producer_id = 1,
                                           .fragments = 1,
                                           .is_complete = true,
                                           .payload = payload,
                                           .payload_bytes = sizeof(payload)};

    for (uint16_t w = 1; w <= WRITERS; w++) {
        chunk.writer_id = w;
        pfl_trace_buffer_commit(session->buffers[0].ring, &chunk);
    }
}

/* How many fields are at the end of `path` (which ends in 0), beginning in `bytes`. */
static unsigned count_fields(struct pfl_span bytes, const uint32_t *path)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    unsigned count = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == path[0])
            count += path[1] == 0 ? 1 : count_fields(f.bytes, path + 1);
    }
    return count;
}

static void
every_writer_is_reported_in_the_trace_and_as_many_as_fit_in_a_frame_by_request(void **state)
{
    static const uint32_t in_stats[] = {1, 35, 18, 0};
    static const uint32_t in_provenance[] = {1, 124, 2, 1, 0};
    static const uint32_t in_reply[] = {1, 18, 0};
    struct pfl_kit_reply reply;
    struct pfl_buf trace;

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, "buffers { size_kb: 16 }");
    let_many_write();
    reply = pfl_kit_client_expect(&consumer, call(KIT_STATS), true, false);
    assert_in_range(count_fields(pfl_span_of(reply.body, reply.body_len), in_reply), 2000, WRITERS);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &trace);
    assert_int_equal(count_fields(pfl_buf_get(&trace), in_stats), WRITERS);
    assert_int_equal(count_fields(pfl_buf_get(&trace), in_provenance), WRITERS);
    pfl_buf_fini(&trace);
}

static void observing_ends_with_a_new_call_or_an_empty_list(void **state)
{
    uint64_t first = pfl_kit_client_call(&consumer, KIT_OBSERVE, (struct pfl_kit_args){2, 0, NULL});
    struct pfl_kit_reply reply;

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    reply = pfl_kit_client_expect(&consumer, first, true, true);
    assert_int_equal(reply.body_len, 4); /* all_data_sources_started */
    pfl_kit_reply_free(&reply);
    {
        uint64_t second = call(KIT_OBSERVE);

        pfl_kit_client_expect_empty(&consumer, first, true, false);
        pfl_kit_client_expect_empty(&consumer, second, true, false);
    }
}

static void instance_changes_of_one_turn_come_in_one_message(void **state)
{
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;
    struct pfl_reader r;
    struct pfl_field f;
    unsigned changes = 0;
    uint64_t observe;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    observe = pfl_kit_client_call(&consumer, KIT_OBSERVE, (struct pfl_kit_args){1, 0, NULL});
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    reply = pfl_kit_client_expect(&consumer, observe, true, true);
    r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    assert_true(pfl_reader_field(&r, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f))
        changes++;
    assert_int_equal(changes, 2); /* configured, reported as stopped; started */
    pfl_kit_reply_free(&reply);
    pfl_kit_client_close(&producer);
}

static void absent_features_answer_as_the_protocol_fails_them(void **state)
{
    static const unsigned with_text[] = {KIT_SAVE, KIT_CLONE};
    struct pfl_kit_reply reply;

    (void)state;
    pfl_kit_client_expect_empty(&consumer, call(KIT_DETACH), false, false);
    pfl_kit_client_expect_empty(&consumer, call(KIT_ATTACH), false, false);
    pfl_kit_client_expect_empty(&consumer, call(KIT_CHANGE), true, false);
    for (size_t i = 0; i < 2; i++) {
        reply = pfl_kit_client_expect(&consumer, call(with_text[i]), true, false);
        assert_int_equal(reply.body[0], 0x08); /* success ... */
        assert_int_equal(reply.body[1], 0);    /* ... false */
        assert_true(reply.body_len > 10);
        pfl_kit_reply_free(&reply);
    }
}

static void queries_are_answered_without_a_session(void **state)
{
    struct pfl_kit_client producer;
    struct pfl_kit_reply reply;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    reply = pfl_kit_client_expect(&consumer, call(KIT_QUERY), true, false);
    assert_non_null(memmem(reply.body, reply.body_len, "kit.source", 10));
    assert_non_null(memmem(reply.body, reply.body_len, "kit.producer", 12));
    pfl_kit_reply_free(&reply);
    reply = pfl_kit_client_expect(
        &consumer, pfl_kit_client_call(&consumer, KIT_QUERY, (struct pfl_kit_args){1, 0, NULL}),
        true, false);
    assert_null(memmem(reply.body, reply.body_len, "kit.source", 10));
    pfl_kit_reply_free(&reply);
    reply = pfl_kit_client_expect(&consumer, call(KIT_CAPABILITIES), true, false);
    assert_true(reply.body_len > 10);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_close(&producer);
}

static void a_user_may_have_five_sessions(void **state)
{
    struct pfl_kit_client others[5];
    uint64_t enable;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        pfl_kit_consumer_open(&others[i], &kit);
        (void)pfl_kit_consumer_enable(&others[i], ONE_BUFFER);
        pfl_kit_client_expect_nothing(&others[i]);
    }
    enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    pfl_kit_consumer_expect_disabled(&consumer, enable, "5 sessions already");
    pfl_kit_client_close(&others[0]);
    enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER);
    pfl_kit_client_expect_nothing(&consumer);
    for (size_t i = 1; i < 5; i++)
        pfl_kit_client_close(&others[i]);
}

static void an_exclusive_session_ends_the_others_and_keeps_them_out(void **state)
{
    struct pfl_kit_client other;
    uint64_t other_enable;
    uint64_t enable;

    (void)state;
    pfl_kit_consumer_open(&other, &kit);
    other_enable = pfl_kit_consumer_enable(&other, ONE_BUFFER);
    enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER "exclusive_prio: 2");
    pfl_kit_consumer_expect_disabled(&other, other_enable, "exclusive_prio 2");
    pfl_kit_client_expect_nothing(&consumer);
    other_enable = pfl_kit_consumer_enable(&other, ONE_BUFFER "exclusive_prio: 2");
    pfl_kit_consumer_expect_disabled(&other, other_enable, "exclusive_prio");
    (void)enable;
    pfl_kit_client_close(&other);
}

static void refused_configs_name_the_field(void **state)
{
    static const struct {
        const char *config;
        const char *error;
    } cases[] = {
        {"duration_ms: 604800001", "duration_ms: 604800001"},
        {"duration_ms: 86400001 enable_extra_guardrails: true", "enable_extra_guardrails"},
        {"trigger_config { trigger_mode: STOP_TRACING }", "trigger_timeout_ms: 0"},
        {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1 } duration_ms: 1",
         "duration_ms: 1 together"},
        {"bugreport_filename: \"a/b\"", "bugreport_filename: \"a/b\""},
        {ONE_BUFFER "deferred_start: true enable_extra_guardrails: true", "deferred_start"},
        {"buffers { size_kb: 5 } enable_extra_guardrails: true", "buffers[0].size_kb: 5"},
        {"buffers { size_kb: 131076 } enable_extra_guardrails: true", "131076 kB"},
        {"buffers { size_kb: 4 name: \"a\" } buffers { size_kb: 4 name: \"a\" }",
         "buffers[1].name: \"a\""},
        {"data_sources { config { name: \"x\" } }", "data_sources[0].config.target_buffer: 0"},
        {ONE_BUFFER "data_sources { config { name: \"x\" target_buffer_name: \"b\" } }",
         "no buffer is named \"b\""},
        {ONE_BUFFER "data_sources { config { name: \"x\" } producer_name_regex_filter: \"(\" }",
         "producer_name_regex_filter: \"(\""},
        {"trace_filter { bytecode: \"x\" }", "trace_filter.bytecode: checksum"},
        {"priority_boost { policy: POLICY_SCHED_FIFO }", "priority_boost.priority: 0"},
        {"priority_boost { policy: POLICY_SCHED_FIFO priority: 2 }", "CAP_SYS_NICE"},
        {"write_into_file: true", "write_into_file: pass a descriptor"},
        {"write_into_file: true output_path: \"/nowhere/at/all\"", "No such file"},
        {"trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 9 "
         "triggers { name: \"a\" } triggers { name: \"a\" } }",
         "triggers[1].name: \"a\""},
        {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 9 "
         "triggers { name: \"a\" producer_name_regex: \"(\" } }",
         "producer_name_regex: \"(\""},
        {"buffers { size_kb: 0 }", "buffers[0].size_kb: 0"},
        {"buffers { size_kb: 4194304 }", "buffers[0].size_kb: 4194304"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t enable = pfl_kit_consumer_enable(&consumer, cases[i].config);

        pfl_kit_consumer_expect_disabled(&consumer, enable, cases[i].error);
        assert_int_equal(kit.service.sessions_len, 0);
        assert_int_equal(kit.service.buffers_len, 0);
    }
}

static void a_config_that_is_none_is_refused_as_arguments_are(void **state)
{
    static const uint8_t bad[] = {0x0a, 0x02, 0x0a, 0x7f};
    struct pfl_kit_reply reply;

    (void)state;
    reply = pfl_kit_client_expect(
        &consumer, pfl_kit_client_invoke(&consumer, KIT_ENABLE, pfl_span_of(bad, sizeof(bad))),
        false, false);
    assert_true(reply.has_success);
    pfl_kit_reply_free(&reply);
}

static void a_session_name_is_unique_until_it_is_freed(void **state)
{
    struct pfl_kit_client other;
    uint64_t enable;

    (void)state;
    pfl_kit_consumer_open(&other, &kit);
    (void)pfl_kit_consumer_enable(&other, ONE_BUFFER "unique_session_name: \"n\"");
    enable = pfl_kit_consumer_enable(&consumer, ONE_BUFFER "unique_session_name: \"n\"");
    pfl_kit_consumer_expect_disabled(&consumer, enable, "unique_session_name: \"n\"");
    pfl_kit_client_close(&other);
    (void)pfl_kit_consumer_enable(&consumer, ONE_BUFFER "unique_session_name: \"n\"");
    pfl_kit_client_expect_nothing(&consumer);
}

static void a_semaphore_admits_as_many_as_the_strictest_allows(void **state)
{
    static const char holder[] =
        ONE_BUFFER "session_semaphores { name: \"s\" max_other_session_count: 1 }";
    struct pfl_kit_client others[2];
    uint64_t enable;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pfl_kit_consumer_open(&others[i], &kit);
        (void)pfl_kit_consumer_enable(&others[i], holder);
        pfl_kit_client_expect_nothing(&others[i]);
    }
    enable = pfl_kit_consumer_enable(
        &consumer, ONE_BUFFER "session_semaphores { name: \"s\" max_other_session_count: 9 }");
    pfl_kit_consumer_expect_disabled(&consumer, enable, "session_semaphores: \"s\"");
    (void)pfl_kit_client_invoke_drop(&others[0], KIT_DISABLE, NO_ARGS);
    (void)pfl_kit_consumer_enable(&consumer, holder);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_kit_client_close(&others[0]);
    pfl_kit_client_close(&others[1]);
}

static void the_config_in_the_trace_is_the_consumers_byte_for_byte(void **state)
{
    /* an unknown field 1000 after a buffer: kept as it came */
    static const uint8_t request[] = {0x0a, 0x08, 0x0a, 0x02, 0x08, 0x40, 0xc0, 0x3e, 0x81, 0x00};
    struct pfl_buf trace;

    (void)state;
    (void)pfl_kit_client_invoke(&consumer, KIT_ENABLE, pfl_span_of(request, sizeof(request)));
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &trace);
    assert_non_null(memmem(pfl_buf_get(&trace).data, trace.len, request + 2, 8));
    pfl_buf_fini(&trace);
}

/* The first field of this number that has bytes. */
static struct pfl_span find_bytes(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id && f.type == PFL_WIRE_BYTES)
            return f.bytes;
    }
    return (struct pfl_span){0};
}

/* Reads a trace, in which one event names the slow data sources. */
static void expect_slow_source(struct pfl_kit_client *reader, const char *name, const char *other)
{
    struct pfl_buf trace;
    struct pfl_field packet;
    struct pfl_reader r;
    unsigned count = 0;

    pfl_kit_client_read_trace(reader, pfl_kit_client_invoke(reader, KIT_READ, NO_ARGS), &trace);
    r = pfl_reader_of(pfl_buf_get(&trace));
    while (pfl_reader_field(&r, &packet)) {
        struct pfl_span event = find_bytes(packet.bytes, TRACE_PACKET__SERVICE_EVENT);
        struct pfl_span slow = find_bytes(event, PFL_EVENT_SLOW_FLUSH);

        if (slow.len == 0)
            continue;
        count++;
        assert_non_null(memmem(slow.data, slow.len, name, strlen(name)));
        assert_null(memmem(slow.data, slow.len, other, strlen(other)));
    }
    assert_int_equal(count, 1);
    pfl_buf_fini(&trace);
}

/* The request that enabled a session of a minute with both. */
static uint64_t open_two_sources(struct pfl_kit_client *quick, struct pfl_kit_client *slow)
{
    uint64_t enable;

    (void)pfl_kit_producer_open(quick, &kit, "kit.quick", 0);
    (void)pfl_kit_producer_open(slow, &kit, "kit.slow", 0);
    enable = pfl_kit_consumer_enable(&consumer,
                                     ONE_BUFFER "data_sources { config { name: \"kit.quick\" } } "
                                                "data_sources { config { name: \"kit.slow\" } } "
                                                "duration_ms: 60000");
    (void)pfl_kit_producer_expect(quick, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(quick, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(quick, KIT_CMD_START, NULL);
    return enable;
}

static void the_flush_at_the_end_that_fails_names_who_was_slow_and_nobody_else(void **state)
{
    struct pfl_kit_client quick;
    struct pfl_kit_client slow;
    uint64_t flush_id;
    uint64_t enable;

    (void)state;
    enable = open_two_sources(&quick, &slow);
    pfl_port_kit_pass_ms(&kit, 60000);
    (void)pfl_kit_producer_expect(&quick, KIT_CMD_FLUSH, &flush_id);
    pfl_kit_producer_ack(&quick, flush_id);
    pfl_port_kit_pass_ms(&kit, 5000);
    pfl_port_kit_pass_ms(&kit, 5000);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    expect_slow_source(&consumer, "kit.slow", "kit.quick");
    pfl_kit_client_close(&quick);
    pfl_kit_client_close(&slow);
}

static void the_flush_of_a_clone_that_fails_names_who_was_slow_and_nobody_else(void **state)
{
    struct pfl_kit_client cloner;
    struct pfl_kit_client quick;
    struct pfl_kit_client slow;
    struct pfl_kit_reply reply;
    uint64_t flush_id;
    uint64_t id;

    (void)state;
    (void)open_two_sources(&quick, &slow);
    pfl_kit_consumer_open(&cloner, &kit);
    id = pfl_kit_client_call(&cloner, KIT_CLONE, (struct pfl_kit_args){.number1 = 1});
    (void)pfl_kit_producer_expect(&quick, KIT_CMD_FLUSH, &flush_id);
    pfl_kit_producer_ack(&quick, flush_id);
    pfl_port_kit_pass_ms(&kit, 5000);
    reply = pfl_kit_client_expect(&cloner, id, true, false);
    pfl_kit_reply_free(&reply);
    expect_slow_source(&cloner, "kit.slow", "kit.quick");
    pfl_kit_client_close(&cloner);
    pfl_kit_client_close(&quick);
    pfl_kit_client_close(&slow);
}

/* Frames of no known kind, which are answered by an error with their number. */
static void send_numbered(int fd)
{
    uint8_t bytes[NUMBERED * 9];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    for (unsigned i = 0; i < NUMBERED; i++) {
        pfl_writer_u32(&w, 5);
        pfl_writer_field_varint(&w, 2, FIRST_NUMBER + i);
        pfl_writer_field_varint(&w, 15, 1);
    }
    assert_int_equal(w.left, 0);
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

/* Runs the loop once, at least, and until that many answers are there; checks their order. */
static size_t take_numbered(int fd, size_t from, size_t wanted)
{
    size_t count = from;

    do {
        uint8_t prefix[4];

        (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
        kit.now_ns += 1000000;
        while (count < NUMBERED && recv(fd, prefix, sizeof(prefix), MSG_DONTWAIT) == 4) {
            uint8_t frame[64];
            struct pfl_reader r = pfl_reader_of(pfl_span_of(frame, prefix[0]));
            struct pfl_field f;

            assert_int_equal(recv(fd, frame, prefix[0], MSG_DONTWAIT), prefix[0]);
            assert_true(pfl_reader_field(&r, &f));
            assert_int_equal(f.value, FIRST_NUMBER + count++);
        }
    } while (count < wanted);
    return count;
}

static void requests_of_one_read_wait_from_that_on_which_uses_up_the_user_s_time(void **state)
{
    struct pfl_kit_client other;
    bool is_cut = false;
    uid_t me = geteuid();

    (void)state;
    if (me == 0) /* root's time is not counted */
        assert_int_equal(seteuid(61991), 0);
    else
        pfl_service_set_owner(&kit.service, me + 1);
    pfl_kit_consumer_open(&other, &kit);
    assert_int_equal(seteuid(me), 0);
    kit.step_ns = 10000; /* what a request takes, or a few times as much */
    for (unsigned i = 0; i < 5000 && !is_cut; i++) {
        size_t count;

        send_numbered(other.fd);
        count = take_numbered(other.fd, 0, 0);
        is_cut = count != 0 && count != NUMBERED;
        assert_int_equal(take_numbered(other.fd, count, NUMBERED), NUMBERED);
    }
    assert_true(is_cut);
    send_numbered(other.fd);
    (void)take_numbered(other.fd, 0, 0);
    pfl_kit_client_close(&other); /* while they wait */
}

/* Until the service closes one. */
static unsigned connect_many(const char *address, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        bool is_closed;
        char byte;
        int fd;

        assert_int_equal(pfl_fdsock_connect_unix(address, &fd), 0);
        pfl_port_kit_run(&kit);
        is_closed = read(fd, &byte, 1) == 0;
        close(fd);
        pfl_port_kit_run(&kit);
        if (is_closed)
            return i;
    }
    return max;
}

static void a_user_connects_so_often_and_no_more(void **state)
{
    uid_t me = geteuid();

    (void)state;
    if (me == 0) /* root is not counted */
        assert_int_equal(seteuid(61991), 0);
    else
        pfl_service_set_owner(&kit.service, me + 1);
    assert_int_equal(connect_many(kit.producer_address, PFL_SERVICE_CONNECT_AT_ONCE / 2), 500);
    assert_int_equal(connect_many(kit.consumer_address, PFL_SERVICE_CONNECT_AT_ONCE), 500);
    assert_int_equal(connect_many(kit.producer_address, 1), 0);
    assert_int_equal(kit.service.connections_refused, 2);
    pfl_port_kit_pass_ms(&kit, 100);
    assert_int_equal(connect_many(kit.producer_address, 100), PFL_SERVICE_CONNECT_PER_S / 10);
    assert_int_equal(seteuid(me), 0);
    if (me == 0)
        assert_int_equal(seteuid(61992), 0);
    else
        pfl_service_set_owner(&kit.service, me);
    assert_int_equal(connect_many(kit.consumer_address, 10), 10); /* another user, or the owner */
    assert_int_equal(seteuid(me), 0);
    pfl_port_kit_run(&kit);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(enable_is_answered_when_the_session_is_disabled),
        TEST(a_user_connects_so_often_and_no_more),
        TEST(freeing_a_live_session_answers_free_first_and_enable_then),
        TEST(a_config_without_anything_is_valid),
        TEST(a_second_enable_fails_the_first_and_is_refused),
        TEST(a_deferred_session_starts_when_it_is_asked_to),
        TEST(a_session_ends_when_its_duration_is_over),
        TEST(flush_without_session_is_never_answered),
        TEST(flush_before_the_start_fails_and_after_it_succeeds),
        TEST(flush_waits_for_the_producer_and_fails_by_its_deadline),
        TEST(producers_are_reported_why_there_is_a_flush),
        TEST(the_end_of_the_session_fails_its_flushes),
        TEST(reading_without_session_is_one_empty_frame),
        TEST(the_first_pass_tells_everything_and_the_next_only_what_is_new),
        TEST(stats_need_a_session),
        TEST(every_writer_is_reported_in_the_trace_and_as_many_as_fit_in_a_frame_by_request),
        TEST(observing_ends_with_a_new_call_or_an_empty_list),
        TEST(instance_changes_of_one_turn_come_in_one_message),
        TEST(absent_features_answer_as_the_protocol_fails_them),
        TEST(queries_are_answered_without_a_session),
        TEST(a_user_may_have_five_sessions),
        TEST(an_exclusive_session_ends_the_others_and_keeps_them_out),
        TEST(refused_configs_name_the_field),
        TEST(a_config_that_is_none_is_refused_as_arguments_are),
        TEST(a_session_name_is_unique_until_it_is_freed),
        TEST(a_semaphore_admits_as_many_as_the_strictest_allows),
        TEST(the_config_in_the_trace_is_the_consumers_byte_for_byte),
        TEST(the_flush_at_the_end_that_fails_names_who_was_slow_and_nobody_else),
        TEST(the_flush_of_a_clone_that_fails_names_who_was_slow_and_nobody_else),
        TEST(requests_of_one_read_wait_from_that_on_which_uses_up_the_user_s_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
