/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of producers that come and go: whose they are, and which id their writers have. */
#include "service/session/session_sequences.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/buffer/sequence_table.h"
#include "service/control/registry.h"
#include "service/session/session_read.h"
#include "service/session/session_run.h"
#include "tests/support/sweep.h"

static struct pfl_service service;
static struct pfl_consumer consumer;

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return 1000000000000u;
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

static void on_session_gone(void *port)
{
    (void)port;
}

static int setup(void **state)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    static const struct pfl_consumer_ops ops = {.on_disabled = on_disabled,
                                                .on_session_gone = on_session_gone};
    /* buffers { size_kb: 8192 } data_sources { config { name: "x" } } */
    static const uint8_t config[] = {0x0a, 0x03, 0x08, 0x80, 0x40, 0x12,
                                     0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};
    const struct pfl_session_enable_conf conf = {.config = pfl_span_of(config, sizeof(config))};
    const struct pfl_service_conf service_conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(pfl_service_init(&service, &service_conf), 0);
    consumer = (struct pfl_consumer){.ops = &ops};
    pfl_registry_add_consumer(&service, &consumer);
    assert_int_equal(pfl_session_enable(&service, &consumer, &conf, why), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_session_end(&service, consumer.session);
    pfl_registry_remove_consumer(&service, &consumer);
    assert_int_equal(service.shares.sequence_id_bytes.used, 0);
    pfl_service_fini(&service);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_producer *add_producer(uint32_t uid)
{
    const struct pfl_producer_conf conf = {.uid = uid, .who = uid, .pid = -1};
    struct pfl_producer *producer;

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    return producer;
}

static void remove_producer(struct pfl_producer *producer)
{
    assert_true(pfl_registry_remove_producer(&service, producer));
}

static void write_one(const struct pfl_producer *producer, uint16_t writer)
{
    static const uint8_t payload[] = {2, 8, 1};
    static uint32_t chunk_id;

    pfl_trace_buffer_commit(consumer.session->buffers[0].ring,
                            &(struct pfl_trace_buffer_chunk){
                                .producer_id = producer->id,
                                .producer_serial = (uint32_t)producer->serial,
                                .writer_id = writer,
                                .chunk_id = chunk_id++,
                                .fragments = 1,
                                .is_complete = true,
                                .payload = payload,
                                .payload_bytes = sizeof(payload),
                                .producer_uid = producer->uid,
                                .producer_pid = -1,
                                .who = producer->who,
                            });
}

struct identity {
    uint64_t uid;
    uint64_t sequence;
};

/* Reads all. Returns how many packets of producers there were; sets the last one's identity. */
static unsigned read_all(struct identity *ret_last)
{
    struct pfl_session_read read = {0};
    struct pfl_readback_packet packet;
    unsigned count = 0;

    assert_int_equal(pfl_session_read_start(&read, &service, consumer.session, 1), 0);
    while (pfl_session_read_next_packet(&read, &packet) == 0) {
        struct pfl_reader r = pfl_reader_of(packet.trusted);
        struct pfl_field f;

        while (packet.buffer != PFL_READBACK_PUSHED && pfl_reader_field(&r, &f)) {
            if (f.id == 3)
                ret_last->uid = f.value;
            if (f.id == 10)
                ret_last->sequence = f.value;
        }
        count += packet.buffer != PFL_READBACK_PUSHED;
    }
    pfl_session_read_stop(&read);
    return count;
}

static void a_producer_with_the_id_of_one_that_is_gone_is_not_taken_for_it(void **state)
{
    struct pfl_producer *first = add_producer(7);
    struct pfl_producer *second;
    struct identity last = {0};

    (void)state;
    write_one(first, 1);
    assert_int_equal(read_all(&last), 1);
    assert_int_equal(last.uid, 7);
    assert_int_equal(last.sequence, 2);
    service.last_producer_id = (uint16_t)(first->id - 1);
    remove_producer(first);
    second = add_producer(8);
    assert_int_equal(second->id, 1);
    write_one(second, 1);
    assert_int_equal(read_all(&last), 1);
    assert_int_equal(last.uid, 8);
    assert_int_equal(last.sequence, 3);
    remove_producer(second);
}

static void a_writer_without_an_id_loses_its_packets_and_others_have_theirs(void **state)
{
    struct pfl_producer *greedy = add_producer(7);
    struct pfl_producer *other = add_producer(8);
    struct identity last = {0};

    (void)state;
    consumer.session->sequences.numbers.max = 20;
    for (uint16_t writer = 1; writer <= 30; writer++)
        write_one(greedy, writer);
    assert_int_equal(read_all(&last), 10);
    assert_int_equal(consumer.session->counters.invalid_packets, 20);
    write_one(other, 1);
    assert_int_equal(read_all(&last), 1);
    assert_int_equal(last.uid, 8);
    assert_int_equal(last.sequence, 12);
    remove_producer(greedy);
    remove_producer(other);
}

static void writers_that_come_and_go_use_no_more_memory_over_time(void **state)
{
    struct pfl_producer *stays = add_producer(7);
    struct identity first = {0};
    struct identity last = {0};
    /* by the buffer: in records, without records, forgotten */
    size_t known = 2000 + PFL_SEQUENCES_MAX_EMPTY + PFL_RETIRED_WRITER_STATS_MAX;
    size_t most = 0;

    (void)state;
    write_one(stays, 1);
    assert_int_equal(read_all(&first), 1);
    for (unsigned round = 0; round < 100; round++) {
        struct pfl_producer *producer = add_producer(8);

        for (uint16_t writer = 1; writer <= 2000; writer++)
            write_one(producer, writer);
        remove_producer(producer);
        assert_int_equal(read_all(&last), 2000);
        if (consumer.session->sequences.table.used > most)
            most = consumer.session->sequences.table.used;
    }
    assert_int_equal(consumer.session->sequences.last_id, 2 + 100 * 2000);
    assert_in_range(most, 2000, 3 * known);
    write_one(stays, 1);
    assert_int_equal(read_all(&last), 1);
    assert_int_equal(last.sequence, first.sequence);
    remove_producer(stays);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_producer_with_the_id_of_one_that_is_gone_is_not_taken_for_it),
        T(a_writer_without_an_id_loses_its_packets_and_others_have_theirs),
        T(writers_that_come_and_go_use_no_more_memory_over_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
