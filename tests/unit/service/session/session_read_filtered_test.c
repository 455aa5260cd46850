/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that filter or compress, read over the socket, with a worker that works when the test
 * says so: nobody waits for it but the reader, and everything may end meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/work.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS     ((struct pfl_span){0})
#define HELD_MAX    8u
#define CONTENT_MAX (1u << 20)

/* Trace.packet -> {service_event}: everything else of a packet goes. */
#define EVENTS_ONLY                                                                                \
    "trace_filter { bytecode_v2: \"\\013\\001\\000\\251\\004\\000\\320\\267\\343\\362\\004\" }"

/* Trace.packet -> {synchronization_marker {}}: but its bytes are no message. */
#define MARKERS_ARE_NONE                                                                           \
    "trace_filter { bytecode_v2: "                                                                 \
    "\"\\013\\001\\000\\243\\002\\002\\000\\000\\245\\225\\320\\341\\006\" }"

static struct pfl_port_kit kit;
static struct pfl_kit_client reader;
static struct pfl_kit_client other;
static struct pfl_work *held[HELD_MAX];
static size_t held_len;
static size_t most_held;

static int hold(void *user, struct pfl_work *work)
{
    (void)user;
    assert_true(held_len < HELD_MAX);
    held[held_len++] = work;
    most_held = held_len > most_held ? held_len : most_held;
    return 0;
}

static bool work_once(void)
{
    struct pfl_work *work;

    if (held_len == 0)
        return false;
    work = held[--held_len];
    work->run(work);
    work->on_done(work);
    pfl_port_kit_run(&kit);
    return true;
}

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    kit.service.conf.submit = hold;
    pfl_kit_consumer_open(&reader, &kit);
    pfl_kit_consumer_open(&other, &kit);
    most_held = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&other);
    pfl_kit_client_close(&reader);
    pfl_port_kit_run(&kit);
    while (work_once())
        continue;
    pfl_port_kit_close(&kit);
    return 0;
}

static void read_all(uint64_t read_id, struct pfl_buf *ret_trace)
{
    pfl_port_kit_run(&kit);
    while (work_once())
        continue;
    pfl_kit_client_read_trace(&reader, read_id, ret_trace);
}

struct seen {
    unsigned packets;
    unsigned compressed;
    unsigned empty;
    unsigned configs;
    unsigned events;
    unsigned stats;
    bool has_filter_stats;
    uint64_t filtered; /* what these say */
    uint64_t malformed;
};

static void look(struct pfl_span trace, struct seen *seen);

static void look_inside(struct pfl_span bytes, struct seen *seen)
{
    static uint8_t content[CONTENT_MAX];
    uLongf len = sizeof(content);

    seen->compressed++;
    assert_int_equal(uncompress(content, &len, bytes.data, bytes.len), Z_OK);
    look(pfl_span_of(content, len), seen);
}

static void look_at_filter_stats(struct pfl_span bytes, struct seen *seen)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    seen->has_filter_stats = true;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            seen->filtered = f.value;
        if (f.id == 4)
            seen->malformed = f.value;
    }
}

static void look_at_stats(struct pfl_span bytes, struct seen *seen)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    seen->stats++;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 11)
            look_at_filter_stats(f.bytes, seen);
    }
}

static void look(struct pfl_span trace, struct seen *seen)
{
    struct pfl_reader packets = pfl_reader_of(trace);
    struct pfl_field packet;
    struct pfl_field f;

    while (pfl_reader_field(&packets, &packet)) {
        struct pfl_reader r = pfl_reader_of(packet.bytes);

        seen->packets++;
        seen->empty += packet.bytes.len == 0;
        while (pfl_reader_field(&r, &f)) {
            seen->configs += f.id == 33;
            seen->events += f.id == 69;
            if (f.id == 35)
                look_at_stats(f.bytes, seen);
            if (f.id == 50)
                look_inside(f.bytes, seen);
        }
        assert_false(r.failed);
    }
    assert_false(packets.failed);
}

static struct seen read_and_look(uint64_t read_id)
{
    struct pfl_buf trace;
    struct seen seen = {0};

    read_all(read_id, &trace);
    look(pfl_buf_get(&trace), &seen);
    pfl_buf_fini(&trace);
    return seen;
}

static void a_compressed_session_holds_the_same_packets(void **state)
{
    struct seen seen;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, "compression_type: COMPRESSION_TYPE_DEFLATE");
    seen = read_and_look(pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS));
    assert_int_equal(seen.compressed, 2); /* packets, then the statistics */
    assert_int_equal(seen.configs, 1);
    assert_true(seen.events >= 2);
    assert_int_equal(seen.stats, 1);
    assert_false(seen.has_filter_stats);
    assert_int_equal(most_held, 1);
}

static void a_filtered_session_keeps_emptied_packets_and_the_statistics(void **state)
{
    struct seen seen;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, EVENTS_ONLY);
    seen = read_and_look(pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS));
    assert_int_equal(seen.compressed, 0);
    assert_int_equal(seen.configs, 0);
    assert_true(seen.events >= 2);
    assert_true(seen.empty >= 3);
    assert_int_equal(seen.stats, 1);
    assert_true(seen.has_filter_stats);
    assert_int_equal(seen.packets, seen.events + seen.empty + seen.stats);
}

static void of_a_malformed_packet_nothing_is_sent(void **state)
{
    struct seen seen;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, MARKERS_ARE_NONE);
    seen = read_and_look(pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS));
    assert_int_equal(seen.malformed, 1);
    assert_int_equal(seen.packets, seen.filtered - 1 + seen.stats);
}

static void filter_and_compression_work_together(void **state)
{
    struct seen seen;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, EVENTS_ONLY " compression { deflate {} }");
    seen = read_and_look(pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS));
    assert_int_equal(seen.compressed, 2);
    assert_int_equal(seen.configs, 0);
    assert_true(seen.events >= 2);
    assert_true(seen.empty >= 3);
    assert_true(seen.has_filter_stats);
}

static void others_are_served_while_a_batch_is_with_the_worker(void **state)
{
    uint64_t read_id;
    uint64_t query_id;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, "compression_type: COMPRESSION_TYPE_DEFLATE");
    read_id = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    pfl_port_kit_run(&kit);
    assert_int_equal(held_len, 1);
    pfl_kit_client_expect_nothing(&reader);
    query_id = pfl_kit_client_invoke(&other, KIT_CAPABILITIES, NO_ARGS);
    {
        struct pfl_kit_reply reply = pfl_kit_client_expect(&other, query_id, true, false);

        pfl_kit_reply_free(&reply);
    }
    assert_int_equal(read_and_look(read_id).compressed, 2);
}

static void a_second_call_goes_on_where_the_first_waits(void **state)
{
    uint64_t first_id;
    uint64_t second_id;

    (void)state;
    (void)pfl_kit_consumer_enable(&reader, "compression_type: COMPRESSION_TYPE_DEFLATE");
    first_id = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    pfl_port_kit_run(&kit);
    second_id = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    pfl_kit_client_expect_empty(&reader, first_id, false, false);
    assert_int_equal(read_and_look(second_id).configs, 1);
}

static void a_reader_may_leave_while_its_batch_is_with_the_worker(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&reader, EVENTS_ONLY " compression { zstd { level: 1 } }");
    (void)pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    pfl_port_kit_run(&kit);
    assert_int_equal(held_len, 1);
    pfl_kit_client_close(&reader);
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.sessions_len, 0);
    assert_true(work_once());
    pfl_kit_consumer_open(&reader, &kit);
}

static void a_session_may_end_while_its_batch_is_with_the_worker(void **state)
{
    uint64_t enable_id;
    uint64_t read_id;
    uint64_t free_id;

    (void)state;
    enable_id = pfl_kit_consumer_enable(&reader, "compression { zstd {} }");
    read_id = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    pfl_port_kit_run(&kit);
    free_id = pfl_kit_client_invoke(&reader, KIT_FREE, NO_ARGS);
    pfl_kit_client_expect_empty(&reader, free_id, true, false);
    pfl_kit_consumer_expect_disabled(&reader, enable_id, NULL);
    pfl_kit_client_expect_empty(&reader, read_id, false, false);
    assert_int_equal(kit.service.sessions_len, 0);
}

static void what_cannot_compress_or_filter_is_refused_by_field(void **state)
{
    static const char *const cases[][2] = {
        {"trace_filter {}", "trace_filter.bytecode: empty"},
        {"trace_filter { string_filter_chain { rules { policy: SFP_MATCH_BREAK "
         "regex_pattern: \"(\" } } }",
         "trace_filter.string_filter_chain.rules[0]: missing closing parenthesis"},
        {"trace_filter { bytecode: \"\\011\\000\\215\\226\\354\\303\\011\" }",
         "trace_filter.bytecode"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        pfl_kit_consumer_expect_disabled(&reader, pfl_kit_consumer_enable(&reader, cases[i][0]),
                                         cases[i][1]);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_compressed_session_holds_the_same_packets),
        CASE(a_filtered_session_keeps_emptied_packets_and_the_statistics),
        CASE(of_a_malformed_packet_nothing_is_sent),
        CASE(filter_and_compression_work_together),
        CASE(others_are_served_while_a_batch_is_with_the_worker),
        CASE(a_second_call_goes_on_where_the_first_waits),
        CASE(a_reader_may_leave_while_its_batch_is_with_the_worker),
        CASE(a_session_may_end_while_its_batch_is_with_the_worker),
        CASE(what_cannot_compress_or_filter_is_refused_by_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
