/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading out while others work: a reader that does not read its socket costs nobody anything, and
 * a reader that does is served in turns between which requests of others are answered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "service/control/query.h"
#include "service/control/registry.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS    ((struct pfl_span){0})
#define PAGES      64u
#define PAGE_BYTES 4096u
#define ROUNDS     64u /* of 64 pages: 16 MiB */

static struct pfl_port_kit kit;
static struct pfl_kit_client producer;
static struct pfl_kit_client reader;
static struct pfl_kit_client other;
static uint8_t *smb;

/* Fills every page with one packet and commits them all. */
static void commit_round(uint32_t first_chunk_id)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, 65536);
    for (uint32_t page = 0; page < PAGES; page++) {
        uint8_t *at = smb + (size_t)page * PAGE_BYTES;
        uint32_t id = first_chunk_id + page;
        size_t mark;

        memset(at + 8, 0, PAGE_BYTES - 8);
        memcpy(at + 8, &id, 4);
        at[12] = 1;    /* writer */
        at[14] = 1;    /* one fragment */
        at[16] = 0xe8; /* of 4072 bytes: a field of 4069 and its header */
        at[17] = 0x1f;
        at[18] = 0x0a;
        at[19] = 0xe5;
        at[20] = 0x1f;
        __atomic_store_n((uint32_t *)(void *)at, 0x10000003u, __ATOMIC_RELEASE);
        mark = pfl_message_begin(&m, 1);
        pfl_message_varint(&m, 1, page);
        pfl_message_varint(&m, 2, 0);
        pfl_message_varint(&m, 3, 1);
        pfl_message_end(&m, mark);
    }
    (void)pfl_kit_client_invoke_drop(&producer, KIT_COMMIT, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&reader, &kit);
    pfl_kit_consumer_open(&other, &kit);
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(
        &reader, "buffers { size_kb: 32768 } data_sources { config { name: \"kit.source\" } }");
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    smb = producer.memory;
    assert_true(producer.memory_bytes >= (size_t)PAGES * PAGE_BYTES);
    for (uint32_t round = 0; round < ROUNDS; round++)
        commit_round(round * PAGES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&producer);
    pfl_kit_client_close(&reader);
    pfl_kit_client_close(&other);
    pfl_port_kit_close(&kit);
    return 0;
}

static void a_reader_that_stops_reading_holds_up_only_itself(void **state)
{
    uint64_t read = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    struct pfl_mem_stats stats;
    struct pfl_kit_reply reply;
    struct pfl_buf trace;

    (void)state;
    for (int i = 0; i < 100; i++)
        pfl_port_kit_run(&kit);
    pfl_mem_stats_get(&stats);
    assert_true(stats.live_bytes < 3u << 20); /* the buffer table, and little that is queued */
    reply = pfl_kit_client_expect(&other, pfl_kit_client_invoke(&other, KIT_QUERY, NO_ARGS), true,
                                  false);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_expect_empty(&producer, pfl_kit_client_invoke(&producer, KIT_SYNC, NO_ARGS),
                                true, false);
    pfl_kit_client_read_trace(&reader, read, &trace);
    assert_true(trace.len >= (size_t)ROUNDS * PAGES * 4072);
    pfl_buf_fini(&trace);
}

static void freeing_while_reading_ends_the_read(void **state)
{
    uint64_t read = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    struct pfl_kit_reply reply;
    bool is_failed = false;

    (void)state;
    pfl_port_kit_run(&kit);
    (void)pfl_kit_client_invoke_drop(&reader, KIT_FREE, NO_ARGS);
    while (pfl_kit_client_take(&reader, &reply)) {
        is_failed = is_failed || (reply.request_id == read && !reply.success && !reply.has_more);
        pfl_kit_reply_free(&reply);
    }
    assert_true(is_failed);
    assert_int_equal(kit.service.sessions_len, 0);
}

static void a_second_read_fails_the_first_and_goes_on_where_it_was(void **state)
{
    uint64_t first = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    uint64_t second = pfl_kit_client_invoke(&reader, KIT_READ, NO_ARGS);
    struct pfl_kit_reply reply;
    bool is_first_failed = false;
    bool is_second_done = false;
    size_t bytes = 0;

    (void)state;
    for (int idle = 0; idle < 10 && !is_second_done;) {
        if (!pfl_kit_client_take(&reader, &reply)) {
            idle++;
            continue;
        }
        is_first_failed = is_first_failed || (reply.request_id == first && !reply.success);
        is_second_done = reply.request_id == second && reply.success && !reply.has_more;
        bytes += reply.body_len;
        pfl_kit_reply_free(&reply);
    }
    assert_true(is_first_failed);
    assert_true(is_second_done);
    assert_true(bytes >= (size_t)ROUNDS * PAGES * 4072);
}

/* 24 MB of descriptors: more than an answer has room for, or replies to a consumer may queue. */
#define LARGE_BYTES 100000u
#define LARGE_COUNT 240u

static void register_large_sources(struct pfl_producer **ret_producers, size_t producers_len)
{
    static uint8_t descriptor[LARGE_BYTES];
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"large", 5}};
    struct pfl_writer w = pfl_writer_of(descriptor, sizeof(descriptor));

    pfl_writer_field_bytes(&w, 1, "x", 1);
    pfl_writer_field_header(&w, 6, w.left - 4);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        struct pfl_producer **owner = &ret_producers[i * producers_len / LARGE_COUNT];

        if (*owner == NULL)
            assert_int_equal(pfl_registry_add_producer(&kit.service, &conf, owner), 0);
        assert_int_equal(pfl_registry_register_source(&kit.service, *owner,
                                                      pfl_span_of(descriptor, sizeof(descriptor))),
                         0);
    }
}

/* Replies until the last of `id`; counts their bytes. */
static size_t take_answer(struct pfl_kit_client *client, uint64_t id)
{
    struct pfl_kit_reply reply;
    size_t bytes = 0;
    bool has_more = true;

    for (int idle = 0; idle < 10 && has_more;) {
        if (!pfl_kit_client_take(client, &reply)) {
            idle++;
            continue;
        }
        assert_int_equal(reply.request_id, id);
        assert_true(reply.success);
        has_more = reply.has_more;
        bytes += reply.body_len;
        pfl_kit_reply_free(&reply);
    }
    assert_false(has_more);
    return bytes;
}

static void a_large_answer_waits_for_its_reader_and_costs_nobody_memory(void **state)
{
    struct pfl_producer *producers[8] = {NULL};
    struct pfl_mem_stats before;
    struct pfl_mem_stats stats;
    uint64_t queries[3];
    struct pfl_kit_reply reply;

    (void)state;
    register_large_sources(producers, 8);
    pfl_mem_stats_get(&before);
    for (size_t i = 0; i < 3; i++)
        queries[i] = pfl_kit_client_invoke(&reader, KIT_QUERY, NO_ARGS);
    for (int i = 0; i < 100; i++)
        pfl_port_kit_run(&kit);
    pfl_mem_stats_get(&stats);
    assert_true(stats.live_bytes < before.live_bytes + (1u << 20));
    reply = pfl_kit_client_expect(&other, pfl_kit_client_invoke(&other, KIT_CAPABILITIES, NO_ARGS),
                                  true, false);
    pfl_kit_reply_free(&reply);
    for (size_t i = 0; i < 3; i++)
        assert_true(take_answer(&reader, queries[i]) > PFL_QUERY_MAX_BYTES - 2 * LARGE_BYTES);
    (void)pfl_kit_client_invoke(&reader, KIT_QUERY, NO_ARGS);
    pfl_port_kit_run(&kit);
    pfl_kit_client_close(&reader); /* in the middle of an answer */
    pfl_kit_consumer_open(&reader, &kit);
    for (size_t i = 0; i < 8; i++)
        pfl_registry_remove_producer(&kit.service, producers[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reader_that_stops_reading_holds_up_only_itself),
        TEST(freeing_while_reading_ends_the_read),
        TEST(a_second_read_fails_the_first_and_goes_on_where_it_was),
        TEST(a_large_answer_waits_for_its_reader_and_costs_nobody_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
