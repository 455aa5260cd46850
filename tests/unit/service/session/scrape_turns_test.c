/* SPDX-License-Identifier: Apache-2.0 */
/* Producers' memory that is scraped in more than one turn of the loop: how much in each, who waits
 * for whom, and who goes in the middle. A turn is a call of pfl_session_due_run. */
#include "service/control/registry.h"
#include "service/session/scrape_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/state.h"
#include "service/buffer/smb_scrape.h"
#include "service/session/session_attach.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "tests/support/sweep.h"

#define CONSUMERS  2u
#define PRODUCERS  3u
#define PAGE       4096u
#define PAGES      256u /* 1 MiB: many turns */
#define WRITER     5u
#define MEMBER     1000u /* and the next ones */
#define CHUNK_COST PFL_SCRAPE_COST_CHUNK
/* The page at which the units end is done whole, and a page has one chunk here. */
#define TURN_CHUNKS (PFL_SCRAPE_TURN_UNITS / CHUNK_COST + 1)

struct client {
    struct pfl_consumer consumer;
    unsigned flushes;
    unsigned flushes_ok;
    unsigned disabled;
};

static uint64_t now_ns = 1000000000000ull;
static uint64_t step_ns; /* of each look at it */
static struct pfl_service service;
static struct client clients[CONSUMERS];
static struct pfl_producer *producers[PRODUCERS];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ns += step_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 1, len);
}

static void on_disabled(void *port, const char *why)
{
    struct client *client = port;

    (void)why;
    client->disabled++;
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    struct client *client = port;

    (void)flush;
    client->flushes++;
    client->flushes_ok += is_ok;
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

static int open_as(uint32_t who, uint32_t other)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    static const struct pfl_consumer_ops ops = {.on_disabled = on_disabled,
                                                .on_flush_done = on_flush_done,
                                                .on_session_gone = ignore,
                                                .on_observed = ignore};
    /* buffers { size_kb: 8192 } data_sources { config { name: "x" } } */
    static const uint8_t config[] = {0x0a, 0x03, 0x08, 0x80, 0x40, 0x12,
                                     0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};
    char why[PFL_PLAN_WHY_BYTES];

    memset(producers, 0, sizeof(producers));
    assert_int_equal(pfl_service_init(&service, &conf), 0);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        clients[i] = (struct client){0};
        clients[i].consumer =
            (struct pfl_consumer){.ops = &ops, .port = &clients[i], .who = i == 0 ? who : other};
        pfl_registry_add_consumer(&service, &clients[i].consumer);
        assert_int_equal(pfl_session_enable(&service, &clients[i].consumer,
                                            &(struct pfl_session_enable_conf){
                                                .config = pfl_span_of(config, sizeof(config))},
                                            why),
                         0);
    }
    return 0;
}

static int open_all(void **state)
{
    (void)state;
    return open_as(MEMBER, MEMBER + 1);
}

/* Both sessions are of one user. */
static int open_of_one(void **state)
{
    (void)state;
    return open_as(MEMBER, MEMBER);
}

static int close_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        if (producers[i] != NULL)
            (void)pfl_registry_remove_producer(&service, producers[i]);
    }
    for (uint32_t i = 0; i < CONSUMERS; i++)
        pfl_registry_remove_consumer(&service, &clients[i].consumer);
    while (service.leaving_len != 0)
        pfl_session_due_run(&service);
    assert_int_equal(service.shares.smb_bytes.used, 0);
    assert_int_equal(service.shares.peer_bytes.used, 0);
    pfl_service_fini(&service);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void write_chunk(struct pfl_producer *producer, uint32_t page)
{
    struct pfl_page_header *header = pfl_smb_page(&producer->smb.smb, page);
    struct pfl_chunk_header *chunk;
    uint32_t bitmap = 0;
    uint8_t *pos;

    assert_true(pfl_state_try_partition(header, PFL_PAGE_DIV1));
    assert_int_equal(pfl_state_begin_write(header, 0, &bitmap), PFL_STATE_DONE);
    chunk = pfl_smb_chunk(&producer->smb.smb, page, bitmap, 0);
    assert_non_null(chunk);
    if (chunk == NULL)
        return; /* never: gcc does not know that the assertion ends the test */
    pfl_chunk_set_header(chunk, WRITER, page, pfl_chunk_packets_of(1, 0));
    pos = pfl_chunk_payload(chunk);
    pos[0] = 2;
    assert_int_equal(pfl_state_complete(header, 0), PFL_STATE_DONE);
}

/* Its memory has so many chunks for that session, of which it commits none. */
static struct pfl_producer *add_producer(uint32_t index, uint64_t who, const struct client *client,
                                         uint32_t chunks)
{
    static const struct pfl_producer_ops ops = {.send_command = ignore_command};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .who = who, .wants_scraping = true, .ops = &ops};
    uint16_t buffer = client->consumer.session->buffers[0].id;
    struct pfl_producer *producer;

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_int_equal(
        pfl_smb_map_create(&producer->smb, (struct pfl_smb_size){PAGES * PAGE, PAGE}, true), 0);
    assert_int_equal(pfl_service_take_smb(&service, producer, PAGES * PAGE), 0);
    assert_int_equal(pfl_service_allow(&service, producer, buffer), 0);
    assert_int_equal(pfl_registry_set_writer(&service, producer, WRITER, buffer), 0);
    for (uint32_t i = 0; i < chunks; i++)
        write_chunk(producer, i);
    producers[index] = producer;
    return producer;
}

static void remove_producer(uint32_t index)
{
    (void)pfl_registry_remove_producer(&service, producers[index]);
    producers[index] = NULL;
}

static uint64_t count_chunks(const struct client *client)
{
    struct pfl_trace_buffer_stats stats;

    pfl_trace_buffer_stats_get(client->consumer.session->buffers[0].ring, &stats);
    return stats.chunks_written;
}

static void flush(struct client *client)
{
    const struct pfl_session_flush_conf conf = {.timeout_ms = 1, .then = PFL_FLUSH_THEN_REPLY};

    pfl_session_flush(&service, client->consumer.session, &conf);
}

static bool has_turn(void)
{
    return pfl_session_timers_next_ms(&service) == 0;
}

static void run_turn(void)
{
    assert_true(has_turn());
    pfl_session_due_run(&service);
}

/* Turns until nothing is due at once. */
static unsigned run_turns(void)
{
    unsigned turns = 0;

    for (; has_turn(); turns++) {
        assert_true(turns < 10000);
        run_turn();
    }
    return turns;
}

static void a_small_flush_is_over_at_once(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 3);
    service.scrape_units_left = UINT64_MAX;
    flush(&clients[0]);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), 3);
}

static void a_large_flush_is_whole_and_a_turn_scrapes_so_much(void **state)
{
    uint64_t before = 0;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    now_ns += 1000000000; /* its deadline is the producers' */
    for (;;) {
        uint64_t now = count_chunks(&clients[0]);

        assert_in_range(now, before, before + TURN_CHUNKS);
        before = now;
        if (clients[0].flushes != 0)
            break;
        run_turn();
    }
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(before, 2 * PAGES);
    assert_int_equal(run_turns(), 0);
}

/* Which were too many for a second's limit. */
static void a_flush_of_what_holds_millions_of_units_succeeds(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    for (unsigned i = 0; i < 2 * PFL_SCRAPING_UNITS / (PAGES * CHUNK_COST); i++) {
        flush(&clients[0]);
        (void)run_turns();
        assert_int_equal(clients[0].flushes_ok, i + 1);
    }
}

static void users_take_turns(void **state)
{
    unsigned turns = 0;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    (void)add_producer(2, MEMBER, &clients[1], TURN_CHUNKS);
    flush(&clients[0]);
    flush(&clients[1]);
    for (; clients[1].flushes == 0; turns++)
        run_turn();
    assert_in_range(turns, 1, 12);
    assert_int_equal(clients[0].flushes, 0);
    assert_int_equal(count_chunks(&clients[1]), TURN_CHUNKS);
    (void)run_turns();
    assert_int_equal(clients[0].flushes_ok, 1);
}

static void sessions_of_one_user_take_turns(void **state)
{
    unsigned turns = 0;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[1], TURN_CHUNKS);
    flush(&clients[0]);
    flush(&clients[1]);
    for (; clients[1].flushes == 0; turns++) {
        assert_in_range(turns, 0, 12);
        run_turn();
        flush(&clients[0]); /* its next pass is wanted before this one is over */
    }
    assert_int_equal(count_chunks(&clients[1]), TURN_CHUNKS);
    (void)run_turns();
}

static void a_pass_does_not_wait_for_who_comes_meanwhile(void **state)
{
    const struct pfl_list *at;
    uint32_t behind = 0;
    unsigned turns = 0;

    (void)state;
    (void)add_producer(0, MEMBER + 1, &clients[0], PAGES);
    (void)add_producer(1, MEMBER + 1, &clients[0], PAGES);
    flush(&clients[0]);
    for (; clients[0].flushes == 0; turns++) {
        assert_in_range(turns, 0, 2000);
        run_turn();
        at = clients[0].consumer.session->scrape.at;
        if (at != &producers[1 - behind]->permitted)
            continue;
        remove_producer(behind); /* leaves behind the pass, and comes again before it */
        (void)add_producer(behind, MEMBER + 1, &clients[0], PAGES);
        behind = 1 - behind;
    }
    assert_int_equal(clients[0].flushes_ok, 1);
    (void)run_turns();
}

static void a_flush_does_not_end_with_the_pass_before_its_own(void **state)
{
    const struct pfl_session_flush_conf last = {.timeout_ms = 5000, .then = PFL_FLUSH_THEN_DISABLE};
    struct pfl_producer *producer = add_producer(0, MEMBER, &clients[0], 0);

    (void)state;
    assert_int_equal(pfl_session_start(&service, clients[0].consumer.session), 0);
    for (uint32_t i = 10; i < PAGES; i++)
        write_chunk(producer, i);
    pfl_session_flush(&service, clients[0].consumer.session, &last);
    run_turn(); /* the pass is behind the first pages */
    for (uint32_t i = 0; i < 10; i++)
        write_chunk(producer, i);
    flush(&clients[0]);
    while (clients[0].flushes == 0)
        run_turn();
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), PAGES);
    (void)run_turns();
}

/* Its duration is over, its consumer stops it and detaches it, and a producer with a part in it
 * leaves while its last pass waits. */
static void a_producer_that_leaves_may_free_a_session(void **state)
{
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x', 0x10, 0x01};
    static const struct pfl_producer_ops ops = {.send_command = ignore_command};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"q", 1}, .who = 5, .wants_scraping = true, .ops = &ops};
    const struct pfl_session_flush_conf last = {.timeout_ms = 5000, .then = PFL_FLUSH_THEN_DISABLE};
    struct pfl_session *session = clients[1].consumer.session;
    struct pfl_producer *producer;

    (void)state;
    for (uint32_t i = 0; i < CONSUMERS; i++)
        assert_int_equal(pfl_session_start(&service, clients[i].consumer.session), 0);
    (void)add_producer(0, 6, &clients[0], 120);
    flush(&clients[0]);
    run_turn();
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_int_equal(pfl_registry_register_source(&service, producer,
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
    pfl_session_flush(&service, session, &last);
    pfl_session_disable(&service, session);
    assert_int_equal(
        pfl_session_detach(&service, &clients[1].consumer, pfl_span_of((const uint8_t *)"k", 1)),
        0);
    pfl_session_ack_flush(&service, producer, service.flushes.last_id);
    while (clients[0].flushes == 0)
        run_turn();
    (void)pfl_registry_remove_producer(&service, producer);
    (void)run_turns();
    assert_int_equal(service.sessions_len, 1);
}

/* A page that was gone over may be written before the next flush is asked for. */
/* Of two instances of one data source in a session, the one that it waits for is dropped first. */
static void a_data_source_that_is_unregistered_may_free_a_session(void **state)
{
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x', 0x10, 0x01};
    static const struct pfl_producer_ops ops = {.send_command = ignore_command};
    /* buffers { size_kb: 8192 } and twice data_sources { config { name: "x" } } */
    static const uint8_t config[] = {0x0a, 0x03, 0x08, 0x80, 0x40, 0x12, 0x05, 0x0a, 0x03, 0x0a,
                                     0x01, 'x',  0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"q", 1}, .who = 5, .is_emulated = true, .ops = &ops};
    const struct pfl_session_enable_conf enable = {.config = pfl_span_of(config, sizeof(config))};
    const struct pfl_session_flush_conf end = {.timeout_ms = 5000, .then = PFL_FLUSH_THEN_DISABLE};
    struct pfl_consumer *consumer = &clients[1].consumer;
    struct pfl_producer *producer;
    const struct pfl_instance *last;
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    pfl_session_end(&service, consumer->session);
    (void)add_producer(0, 6, &clients[0], 120);
    flush(&clients[0]);
    run_turn();
    assert_int_equal(pfl_session_enable(&service, consumer, &enable, why), 0);
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_int_equal(pfl_registry_register_source(&service, producer,
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
    pfl_session_flush(&service, consumer->session, &end);
    pfl_session_disable(&service, consumer->session);
    assert_int_equal(consumer->session->state, PFL_SESSION_STOP_WAIT);
    last = PFL_CONTAINER_OF(consumer->session->instances.prev, struct pfl_instance, of_session);
    pfl_session_on_stopped(&service, producer, last->id);
    assert_int_equal(pfl_session_detach(&service, consumer, pfl_span_of((const uint8_t *)"k", 1)),
                     0);
    pfl_session_ack_flush(&service, producer, service.flushes.last_id);
    assert_int_equal(service.sessions_len, 2);
    service.scrape_units_left = PFL_SCRAPE_TURN_UNITS; /* a turn that has some left */
    pfl_registry_unregister_source(&service, producer, pfl_span_of((const uint8_t *)"x", 1));
    assert_int_equal(service.sessions_len, 1);
    (void)pfl_registry_remove_producer(&service, producer);
}

static void a_flush_meanwhile_has_what_was_written_meanwhile(void **state)
{
    struct pfl_producer *producer = add_producer(0, MEMBER, &clients[0], 0);

    (void)state;
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    run_turn();
    assert_int_equal(clients[0].flushes, 0);
    write_chunk(producer, 0);
    flush(&clients[0]);
    while (clients[0].flushes == 0)
        run_turn();
    assert_int_equal(clients[0].flushes, 1);
    (void)run_turns();
    assert_int_equal(clients[0].flushes_ok, 2);
    assert_int_equal(count_chunks(&clients[0]), PAGES + 1);
}

static void flushes_that_wait_share_the_next_pass(void **state)
{
    unsigned turns;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    turns = run_turns();
    for (unsigned i = 0; i < 100; i++)
        flush(&clients[0]);
    assert_in_range(run_turns(), turns, 2 * turns + 2);
    assert_int_equal(clients[0].flushes_ok, 101);
}

static void a_stop_ends_when_all_is_scraped(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    run_turn();
    pfl_session_disable(&service, clients[0].consumer.session);
    pfl_session_disable(&service, clients[0].consumer.session);
    assert_int_equal(clients[0].disabled, 0);
    (void)run_turns();
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(clients[0].disabled, 1);
    assert_int_equal(count_chunks(&clients[0]), PAGES);
}

static void a_session_that_is_freed_meanwhile_waits_for_nothing(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    run_turn();
    pfl_session_end(&service, clients[0].consumer.session);
    assert_int_equal(clients[0].flushes, 1);
    assert_int_equal(clients[0].flushes_ok, 0);
    assert_int_equal(clients[0].disabled, 1);
    assert_in_range(run_turns(), 0, 1);
}

static void a_producer_that_is_gone_keeps_its_memory_until_that_is_scraped(void **state)
{
    struct pfl_producer *gone = add_producer(0, MEMBER, &clients[0], PAGES);
    uint16_t id = gone->id;
    uint64_t before;

    (void)state;
    remove_producer(0);
    assert_int_equal(service.producers_len, 0);
    assert_int_equal(service.shares.smb_bytes.used, PAGES * PAGE);
    assert_true(pfl_shares_get(&service.shares.peer_bytes, MEMBER) > 0);
    before = count_chunks(&clients[0]);
    while (service.leaving_len != 0) {
        uint64_t now = count_chunks(&clients[0]);

        assert_in_range(now, before, before + TURN_CHUNKS);
        before = now;
        assert_true((service.producer_ids[id / 64] >> id % 64 & 1) != 0);
        run_turn();
    }
    assert_int_equal(count_chunks(&clients[0]), PAGES);
    assert_true((service.producer_ids[id / 64] >> id % 64 & 1) == 0);
    assert_int_equal(service.shares.smb_bytes.used, 0);
}

static void a_stop_waits_for_a_producer_that_is_gone(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        (void)add_producer(i, MEMBER + i, &clients[0], PAGES);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        remove_producer(i);
    pfl_session_disable(&service, clients[0].consumer.session);
    while (clients[0].disabled == 0)
        run_turn();
    assert_int_equal(count_chunks(&clients[0]), PRODUCERS * PAGES);
    (void)run_turns();
    assert_int_equal(service.leaving_len, 0);
}

static void a_pass_goes_on_behind_a_producer_that_leaves(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        (void)add_producer(i, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    run_turn();
    assert_ptr_equal(clients[0].consumer.session->scrape.at, &producers[0]->permitted);
    service.scrape_units_left = UINT64_MAX; /* it is scraped at once */
    remove_producer(0);
    service.scrape_units_left = 0;
    assert_ptr_equal(clients[0].consumer.session->scrape.at, &producers[1]->permitted);
    (void)run_turns();
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), PRODUCERS * PAGES);
}

static void what_nobody_has_buffers_for_any_more_is_not_scraped(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    remove_producer(0);
    assert_int_equal(service.leaving_len, 1);
    pfl_session_end(&service, clients[0].consumer.session);
    assert_in_range(run_turns(), 1, 2);
    assert_int_equal(service.leaving_len, 0);
}

static void when_the_service_stops_a_user_has_his_share_of_a_bounded_time(void **state)
{
    struct pfl_loop_budget *scraping = &service.scrape_budget;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER + 1, &clients[0], PAGES);
    flush(&clients[0]);
    remove_producer(0);
    (void)pfl_loop_budget_begin(scraping, MEMBER, MEMBER, now_ns / 1000000);
    pfl_loop_budget_end(scraping, 0, MEMBER, PFL_SCRAPING_UNITS);
    pfl_scrape_turns_stop(&service);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(clients[0].flushes, 1);
    assert_false(has_turn() && service.is_scraping);
    /* Nothing is put off any more. */
    remove_producer(1);
    assert_int_equal(service.leaving_len, 0);
}

/* The clock is looked at after each page: a page may take long. */
static void a_turn_ends_when_a_page_took_long(void **state)
{
    uint64_t before;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    step_ns = 1000000;
    flush(&clients[0]);
    before = count_chunks(&clients[0]);
    assert_in_range(before, 0, 1);
    run_turn();
    assert_int_equal(count_chunks(&clients[0]), before + 1);
    step_ns = 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(a_small_flush_is_over_at_once),
        TEST(a_large_flush_is_whole_and_a_turn_scrapes_so_much),
        TEST(a_flush_of_what_holds_millions_of_units_succeeds),
        TEST(users_take_turns),
        cmocka_unit_test_setup_teardown(sessions_of_one_user_take_turns, open_of_one, close_all),
        TEST(a_turn_ends_when_a_page_took_long),
        TEST(a_pass_does_not_wait_for_who_comes_meanwhile),
        TEST(a_flush_does_not_end_with_the_pass_before_its_own),
        cmocka_unit_test_setup_teardown(a_producer_that_leaves_may_free_a_session, open_of_one,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_data_source_that_is_unregistered_may_free_a_session,
                                        open_of_one, close_all),
        TEST(a_flush_meanwhile_has_what_was_written_meanwhile),
        TEST(flushes_that_wait_share_the_next_pass),
        TEST(a_stop_ends_when_all_is_scraped),
        TEST(a_session_that_is_freed_meanwhile_waits_for_nothing),
        TEST(a_producer_that_is_gone_keeps_its_memory_until_that_is_scraped),
        TEST(a_stop_waits_for_a_producer_that_is_gone),
        TEST(a_pass_goes_on_behind_a_producer_that_leaves),
        TEST(what_nobody_has_buffers_for_any_more_is_not_scraped),
        TEST(when_the_service_stops_a_user_has_his_share_of_a_bounded_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
