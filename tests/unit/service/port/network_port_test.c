/* SPDX-License-Identifier: Apache-2.0 */
/* Producers of other machines over TCP: identities, chunks in commits, filters by machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "tests/unit/service/port/network_kit.h"

#define ONLY_ON SOURCE "machine_name_filter: "

/* A producer of the machine `name`; NULL: it does not say who it is. */
static void open_producer(const char *name)
{
    pfl_net_connect(&pfl_net.producer);
    if (name != NULL)
        pfl_net_identify(&pfl_net.producer, HINT, name);
    pfl_net_bind(&pfl_net.producer, "ProducerPort");
    pfl_net_introduce(&pfl_net.producer, false);
    pfl_net_register_source(&pfl_net.producer, false);
}

static struct pfl_producer *the_producer(void)
{
    assert_int_equal(pfl_net.kit.service.producers_len, 1);
    return PFL_CONTAINER_OF(pfl_net.kit.service.producers.next, struct pfl_producer, node);
}

static uint64_t expect_start(void)
{
    uint64_t page_kb = pfl_kit_producer_expect(&pfl_net.producer, KIT_CMD_SETUP_TRACING, NULL);
    uint64_t instance = pfl_kit_producer_expect(&pfl_net.producer, KIT_CMD_SETUP, NULL);

    assert_int_equal(pfl_kit_producer_expect(&pfl_net.producer, KIT_CMD_START, NULL), instance);
    assert_int_equal(pfl_net.producer.received_fd, -1);
    return page_kb;
}

static void chunks_in_commits_reach_the_trace_with_the_peers_identity(void **state)
{
    struct pfl_net_found found;

    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}" ALL);
    assert_int_equal(expect_start(), 4);
    pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, 0);
    found = pfl_net_read_and_find(TRACE_PACKET__FOR_TESTING);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, MACHINE);
    assert_int_equal(found.uid, 1234);
    assert_int_equal(found.pid, 4321);
    pfl_kit_client_close(&pfl_net.producer);
}

/* Commits a packet and reads it with this request; the answer's fields `id`. */
static unsigned count_in_answer(struct pfl_span request, uint32_t id)
{
    struct pfl_kit_reply reply = {.has_more = true};
    unsigned count = 0;
    uint64_t request_id;

    pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, 0);
    request_id = pfl_kit_client_invoke(&pfl_net.consumer, KIT_READ, request);
    while (reply.has_more) {
        struct pfl_reader r;
        struct pfl_field f;

        assert_true(pfl_kit_client_take(&pfl_net.consumer, &reply));
        assert_int_equal(reply.request_id, request_id);
        r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
        while (pfl_reader_field(&r, &f))
            count += f.id == id;
        assert_false(r.failed);
        pfl_kit_reply_free(&reply);
    }
    return count;
}

static void packets_come_in_runs_to_who_asks_for_them(void **state)
{
    static const struct {
        bool has_field;
        uint64_t accepts;
        unsigned runs;
    } cases[] = {{false, 0, 0}, {true, 1, 1}, {true, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t request[8];
        struct pfl_writer w = pfl_writer_of(request, sizeof(request));

        if (cases[i].has_field)
            pfl_writer_field_varint(&w, READ_BUFFERS_REQUEST__PERFLEET_ACCEPTS_RUNS,
                                    cases[i].accepts);
        open_producer("vm");
        (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}" ALL);
        assert_int_equal(expect_start(), 4);
        assert_int_equal(count_in_answer(pfl_span_of(request, sizeof(request) - w.left),
                                         READ_BUFFERS_RESPONSE__PERFLEET_RUNS),
                         cases[i].runs);
        (void)pfl_kit_client_invoke_drop(&pfl_net.consumer, KIT_FREE, (struct pfl_span){0});
        pfl_kit_client_close(&pfl_net.producer);
        pfl_kit_client_close(&pfl_net.consumer);
        pfl_kit_consumer_open(&pfl_net.consumer, &pfl_net.kit);
    }
}

/* TraceStats.writer_stats.sequence_id of the one writer there is. */
static uint64_t get_counted_sequence(void)
{
    uint64_t id = pfl_kit_client_invoke(&pfl_net.consumer, KIT_STATS, (struct pfl_span){0});
    struct pfl_kit_reply reply = pfl_kit_client_expect(&pfl_net.consumer, id, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field stats = {0}, writer, f;
    uint64_t sequence_id = 0;

    assert_true(pfl_reader_field(&r, &stats));
    for (r = pfl_reader_of(stats.bytes); pfl_reader_field(&r, &writer);) {
        struct pfl_reader w = pfl_reader_of(writer.bytes);

        if (writer.id != 18)
            continue;
        assert_int_equal(sequence_id, 0);
        while (pfl_reader_field(&w, &f))
            sequence_id = f.id == 1 ? f.value : sequence_id;
    }
    pfl_kit_reply_free(&reply);
    return sequence_id;
}

static void a_writer_of_another_machine_is_counted_under_its_own_sequence(void **state)
{
    struct pfl_net_found found;

    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}" ALL);
    (void)expect_start();
    pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, 0);
    found = pfl_net_read_and_find(TRACE_PACKET__FOR_TESTING);
    assert_int_equal(found.machine_id, MACHINE);
    assert_int_not_equal(found.sequence_id, 0);
    assert_int_equal(get_counted_sequence(), found.sequence_id);
    pfl_kit_client_close(&pfl_net.producer);
}

static void a_chunk_for_a_foreign_buffer_is_discarded(void **state)
{
    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}");
    pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, 0);
    assert_int_equal(pfl_net_read_and_find(TRACE_PACKET__FOR_TESTING).packets, 0);
    assert_int_equal(pfl_net.kit.service.commits.chunks_discarded, 1);
    pfl_kit_client_close(&pfl_net.producer);
}

static void the_page_size_of_the_config_reaches_a_producer_without_shared_memory(void **state)
{
    (void)state;
    open_producer("vm");
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE
                                  "}" ALL "producers { producer_name: \"kit.producer\" "
                                  "shm_size_kb: 512 page_size_kb: 16 }");
    assert_int_equal(expect_start(), 16);
    assert_int_equal(the_producer()->smb.fd, -1);
    pfl_kit_client_close(&pfl_net.producer);
}

static void who_does_not_say_otherwise_is_of_this_machine(void **state)
{
    struct pfl_net_found found;

    (void)state;
    open_producer(NULL);
    (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}");
    (void)expect_start();
    pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, 0);
    found = pfl_net_read_and_find(TRACE_PACKET__FOR_TESTING);
    assert_int_equal(found.packets, 1);
    assert_int_equal(found.machine_id, 0);
    assert_int_equal(found.pid, 0); /* unknown, so left out */
    pfl_kit_client_close(&pfl_net.producer);
}

static void an_identity_counts_once_and_never_on_a_unix_socket(void **state)
{
    (void)state;
    pfl_net_connect(&pfl_net.producer);
    pfl_net_identify(&pfl_net.producer, HINT, "vm");
    pfl_net_identify(&pfl_net.producer, "other", "other");
    pfl_net_bind(&pfl_net.producer, "ProducerPort");
    pfl_net_introduce(&pfl_net.producer, false);
    assert_int_equal(the_producer()->machine_id, MACHINE);
    assert_string_equal(the_producer()->machine_name, "vm");
    pfl_kit_client_close(&pfl_net.producer);
    pfl_kit_client_open(&pfl_net.producer, &pfl_net.kit, pfl_net.kit.producer_address);
    pfl_net_identify(&pfl_net.producer, HINT, "vm");
    pfl_kit_client_expect_empty(
        &pfl_net.producer,
        pfl_kit_client_call(&pfl_net.producer, KIT_SYNC, (struct pfl_kit_args){0}), false, false);
    (void)pfl_kit_client_invoke_drop(&pfl_net.producer, KIT_INITIALIZE, (struct pfl_span){0});
    pfl_port_kit_run(&pfl_net.kit);
    assert_int_equal(the_producer()->machine_id, 0);
    assert_int_equal(the_producer()->uid, getuid());
    pfl_kit_client_close(&pfl_net.producer);
}

static void machines_are_chosen_by_their_names(void **state)
{
    static const struct {
        const char *config;
        bool joins;
    } cases[] = {
        {BUFFER SOURCE "}", false},
        {BUFFER SOURCE "}" ALL, true},
        {BUFFER ONLY_ON "\"vm\" }", true},
        {BUFFER ONLY_ON "\"vm\" }" ALL, true},
        {BUFFER ONLY_ON "\"host\" }" ALL, false},
        {BUFFER ONLY_ON "\"vm2\" }" ALL, false},
        {BUFFER ONLY_ON "\"vm2\" machine_name_filter: \"vm\" }", true},
    };

    (void)state;
    open_producer("vm");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t enable = pfl_kit_consumer_enable(&pfl_net.consumer, cases[i].config);

        assert_int_equal(pfl_net_get_session()->instances_len, cases[i].joins);
        (void)pfl_kit_client_invoke_drop(&pfl_net.consumer, KIT_DISABLE, (struct pfl_span){0});
        pfl_kit_consumer_expect_disabled(&pfl_net.consumer, enable, NULL);
        (void)pfl_kit_client_invoke_drop(&pfl_net.consumer, KIT_FREE, (struct pfl_span){0});
        pfl_port_kit_run(&pfl_net.kit);
    }
    pfl_kit_client_close(&pfl_net.producer);
}

/* Sends a flush; whether the producer gets it. */
static bool is_asked_to_flush(void)
{
    uint64_t flush_id = 0;
    struct pfl_kit_reply reply;
    bool is_asked;

    (void)pfl_kit_client_call(&pfl_net.consumer, KIT_FLUSH, (struct pfl_kit_args){1000, 0, NULL});
    is_asked = pfl_kit_client_take(&pfl_net.producer, &reply);
    if (is_asked) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
        struct pfl_field f;

        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, KIT_CMD_FLUSH);
        r = pfl_reader_of(f.bytes);
        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, 2); /* no data source in front of the request's id */
        flush_id = f.value;
        pfl_kit_reply_free(&reply);
        pfl_net_commit(&pfl_net.producer, pfl_net_get_session()->buffers[0].id, flush_id);
    }
    assert_true(pfl_kit_client_take(&pfl_net.consumer, &reply));
    assert_true(reply.success);
    pfl_kit_reply_free(&reply);
    return is_asked;
}

static void a_remote_producer_that_wants_scraping_is_asked_to_look_itself(void **state)
{
    (void)state;
    for (int wants = 0; wants < 2; wants++) {
        pfl_net_connect(&pfl_net.producer);
        pfl_net_identify(&pfl_net.producer, HINT, "vm");
        pfl_net_bind(&pfl_net.producer, "ProducerPort");
        pfl_net_introduce(&pfl_net.producer, wants != 0);
        pfl_net_register_source(&pfl_net.producer, true);
        (void)pfl_kit_consumer_enable(&pfl_net.consumer, BUFFER SOURCE "}" ALL);
        (void)expect_start();
        assert_int_equal(is_asked_to_flush(), wants != 0);
        assert_int_equal(pfl_net_read_and_find(TRACE_PACKET__FOR_TESTING).packets, wants);
        (void)pfl_kit_client_invoke_drop(&pfl_net.consumer, KIT_FREE, (struct pfl_span){0});
        pfl_kit_client_close(&pfl_net.producer);
        pfl_kit_client_close(&pfl_net.consumer);
        pfl_kit_consumer_open(&pfl_net.consumer, &pfl_net.kit);
    }
}

static void a_claimed_uid_opens_no_locked_service(void **state)
{
    (void)state;
    pfl_net.kit.facts.uid = 1234; /* what the producers of this test claim */
    pfl_net.kit.service.is_locked_down = true;
    pfl_net_connect(&pfl_net.producer);
    pfl_net_identify(&pfl_net.producer, HINT, "vm");
    pfl_net_bind(&pfl_net.producer, "ProducerPort");
    pfl_kit_client_expect_empty(
        &pfl_net.producer,
        pfl_kit_client_invoke(&pfl_net.producer, KIT_INITIALIZE, (struct pfl_span){0}), false,
        false);
    assert_int_equal(pfl_net.kit.service.producers_len, 0);
    pfl_kit_client_close(&pfl_net.producer);
}

int main(void)
{
#define WITH_PORTS(test) cmocka_unit_test_setup_teardown(test, pfl_net_set_up, pfl_net_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PORTS(chunks_in_commits_reach_the_trace_with_the_peers_identity),
        WITH_PORTS(packets_come_in_runs_to_who_asks_for_them),
        WITH_PORTS(a_writer_of_another_machine_is_counted_under_its_own_sequence),
        WITH_PORTS(a_chunk_for_a_foreign_buffer_is_discarded),
        WITH_PORTS(the_page_size_of_the_config_reaches_a_producer_without_shared_memory),
        WITH_PORTS(who_does_not_say_otherwise_is_of_this_machine),
        WITH_PORTS(an_identity_counts_once_and_never_on_a_unix_socket),
        WITH_PORTS(machines_are_chosen_by_their_names),
        WITH_PORTS(a_remote_producer_that_wants_scraping_is_asked_to_look_itself),
        WITH_PORTS(a_claimed_uid_opens_no_locked_service),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
