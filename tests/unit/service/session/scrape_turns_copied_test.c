/* SPDX-License-Identifier: Apache-2.0 */
/* Producers' memory that copiers scrape: what flushes get, how long they wait, and who goes in the
 * middle. The copiers are the kit's: they answer when the test says so. A turn is a call of
 * pfl_session_due_run. */
#include "service/session/scrape_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/state.h"
#include "service/buffer/smb_scrape.h"
#include "service/control/registry.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/core/copies_kit.h"

#define CONSUMERS 2u
#define PRODUCERS 3u
#define PAGE      4096u
#define PAGES     256u /* 1 MiB: more than an area, and many turns */
#define WRITER    5u
#define MEMBER    1000u /* and the next ones */
#define LAST      (MEMBER + PRODUCERS)
#define WAIT_MS   100u /* of a flush */

struct client {
    struct pfl_consumer consumer;
    unsigned flushes;
    unsigned flushes_ok;
    unsigned disabled;
};

static uint64_t now_ns = 1000000000000ull;
static struct pfl_copies_kit kit;
static struct pfl_service service;
static struct client clients[CONSUMERS];
static struct pfl_producer *producers[PRODUCERS];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ns;
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

static int open_all(void **state)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    static const struct pfl_consumer_ops ops = {.on_disabled = on_disabled,
                                                .on_flush_done = on_flush_done,
                                                .on_session_gone = ignore,
                                                .on_observed = ignore};
    /* buffers { size_kb: 8192 } data_sources { config { name: "x" } } */
    static const uint8_t config[] = {0x0a, 0x03, 0x08, 0x80, 0x40, 0x12,
                                     0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};
    const struct pfl_service_conf conf = {.now_ns = read_clock,
                                          .random = read_random,
                                          .facts = &facts,
                                          .copies = &pfl_copies_kit_ops,
                                          .copies_user = &kit};
    char why[PFL_PLAN_WHY_BYTES];

    memset(producers, 0, sizeof(producers));
    pfl_copies_kit_open(&kit);
    (void)state;
    now_ns += 1000000000;
    assert_int_equal(pfl_service_init(&service, &conf), 0);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        clients[i] = (struct client){0};
        clients[i].consumer =
            (struct pfl_consumer){.ops = &ops, .port = &clients[i], .who = MEMBER + i};
        pfl_registry_add_consumer(&service, &clients[i].consumer);
        assert_int_equal(pfl_session_enable(&service, &clients[i].consumer,
                                            &(struct pfl_session_enable_conf){
                                                .config = pfl_span_of(config, sizeof(config))},
                                            why),
                         0);
    }
    return 0;
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
    for (uint64_t who = MEMBER; service.leaving_len != 0; who = who == LAST ? MEMBER : who + 1) {
        pfl_session_due_run(&service);
        if (pfl_copies_kit_has(&kit, who))
            (void)pfl_copies_kit_answer(&kit, who);
    }
    assert_int_equal(service.shares.smb_bytes.used, 0);
    assert_int_equal(service.shares.peer_bytes.used, 0);
    pfl_service_fini(&service);
    pfl_copies_kit_close(&kit);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* As the producer does. */
static void write_chunk(const struct pfl_smb *smb, uint32_t page)
{
    struct pfl_page_header *header = pfl_smb_page(smb, page);
    struct pfl_chunk_header *chunk;
    uint32_t bitmap = 0;
    uint8_t *pos;

    assert_true(pfl_state_try_partition(header, PFL_PAGE_DIV1));
    assert_int_equal(pfl_state_begin_write(header, 0, &bitmap), PFL_STATE_DONE);
    chunk = pfl_smb_chunk(smb, page, bitmap, 0);
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
    static const struct pfl_producer_ops ops = {.send_command = ignore_command,
                                                .on_copied = ignore};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .who = who, .wants_scraping = true, .ops = &ops};
    uint16_t buffer = client->consumer.session->buffers[0].id;
    struct pfl_producer *producer;

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_non_null(producer->copier);
    assert_int_equal(
        pfl_service_create_smb(&service, producer, (struct pfl_smb_size){PAGES * PAGE, PAGE}), 0);
    assert_true(producer->is_attached);
    assert_null(producer->smb.smb.base); /* only the copier maps it */
    assert_int_equal(pfl_service_allow(&service, producer, buffer), 0);
    assert_int_equal(pfl_registry_set_writer(&service, producer, WRITER, buffer), 0);
    for (uint32_t i = 0; i < chunks; i++)
        write_chunk(&pfl_copies_kit_map(&kit, who, producer->id)->smb, i);
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

static bool answer(uint64_t who)
{
    return pfl_copies_kit_has(&kit, who) && pfl_copies_kit_answer(&kit, who);
}

/* Turns and answers of that user's copier until there are none. */
static void run_with(uint64_t who)
{
    do
        (void)run_turns();
    while (answer(who));
}

static void pass_ms(uint64_t ms)
{
    now_ns += ms * 1000000;
}

static uint64_t get_due_in_ms(void)
{
    return pfl_session_timers_next_ms(&service) - now_ns / 1000000;
}

static bool is_id_used(uint16_t id)
{
    return (service.producer_ids[id / 64] >> id % 64 & 1) != 0;
}

static void a_flush_has_what_the_copier_found(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    (void)add_producer(2, MEMBER + 1, &clients[0], 3);
    flush(&clients[0]);
    (void)run_turns();
    assert_int_equal(clients[0].flushes, 0); /* until it answers */
    assert_int_equal(count_chunks(&clients[0]), 0);
    run_with(MEMBER);
    assert_int_equal(count_chunks(&clients[0]), 2 * PAGES);
    run_with(MEMBER + 1);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), 2 * PAGES + 3);
    assert_int_equal(run_turns(), 0);
}

/* Its copier is asked for a part while chunks of the last one go into the buffers. */
static void a_turn_uses_so_many_copies(void **state)
{
    uint64_t before = 0;

    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    assert_true(answer(MEMBER));
    while (clients[0].flushes == 0) {
        uint64_t now;

        run_turn();
        now = count_chunks(&clients[0]);
        assert_in_range(now, before, before + PFL_SCRAPE_TURN_UNITS / PFL_SCRAPE_COST_CHUNK + 1);
        before = now;
        (void)answer(MEMBER);
    }
    assert_int_equal(before, PAGES);
}

static void memory_without_chunks_is_over_with_the_answer(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 0);
    flush(&clients[0]);
    assert_true(answer(MEMBER));
    (void)run_turns();
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_false(answer(MEMBER));
}

static void a_copier_that_does_not_answer_holds_a_flush_up_a_little(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 1);
    (void)add_producer(1, MEMBER + 1, &clients[0], 2);
    flush(&clients[0]);
    (void)run_turns();
    assert_int_equal(get_due_in_ms(), WAIT_MS);
    pass_ms(WAIT_MS - 1);
    pfl_session_due_run(&service);
    assert_int_equal(clients[0].flushes, 0);
    assert_false(answer(MEMBER + 1)); /* not its turn */
    pass_ms(1);
    pfl_session_due_run(&service);
    run_with(MEMBER + 1);
    assert_int_equal(clients[0].flushes, 1);
    assert_int_equal(clients[0].flushes_ok, 0);
    assert_int_equal(count_chunks(&clients[0]), 2);
    /* Its late answer is nobody's; the next flush has what was left out. */
    assert_true(answer(MEMBER));
    flush(&clients[0]);
    run_with(MEMBER);
    run_with(MEMBER + 1);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), 3);
}

/* However many producers the user has. */
static void a_copier_that_does_not_answer_is_waited_for_once(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 1);
    (void)add_producer(1, MEMBER, &clients[0], 1);
    (void)add_producer(2, MEMBER, &clients[0], 1);
    flush(&clients[0]);
    (void)run_turns();
    pass_ms(WAIT_MS);
    pfl_session_due_run(&service);
    (void)run_turns();
    assert_int_equal(clients[0].flushes, 1);
    /* And by a flush that comes meanwhile not at all. */
    flush(&clients[0]);
    (void)run_turns();
    assert_int_equal(clients[0].flushes, 2);
    assert_int_equal(clients[0].flushes_ok, 0);
}

static void a_flush_waits_for_the_next_answer_as_long_again(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    for (unsigned i = 0; clients[0].flushes == 0; i++) {
        assert_in_range(i, 0, 100);
        pass_ms(WAIT_MS / 2);
        pfl_session_due_run(&service);
        assert_true(answer(MEMBER) || clients[0].flushes != 0);
        (void)run_turns();
    }
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), PAGES);
}

static void another_user_s_flush_does_not_wait(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 1);
    (void)add_producer(1, MEMBER + 1, &clients[1], PAGES);
    flush(&clients[0]);
    (void)run_turns();
    flush(&clients[1]);
    run_with(MEMBER + 1);
    assert_int_equal(clients[1].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[1]), PAGES);
    assert_int_equal(clients[0].flushes, 0);
}

static void two_sessions_have_the_area_in_turn(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[1], PAGES);
    flush(&clients[0]);
    flush(&clients[1]);
    run_with(MEMBER);
    for (unsigned i = 0; i < CONSUMERS; i++) {
        assert_int_equal(clients[i].flushes_ok, 1);
        assert_int_equal(count_chunks(&clients[i]), PAGES);
    }
}

static void a_producer_that_left_is_scraped_when_its_copier_answers(void **state)
{
    uint16_t id = add_producer(0, MEMBER, &clients[0], PAGES)->id;

    (void)state;
    remove_producer(0);
    assert_int_equal(service.leaving_len, 1);
    assert_false(pfl_list_is_empty(&service.copying));
    assert_int_equal(run_turns(), 0); /* it has none while it waits */
    pass_ms(10 * WAIT_MS);
    assert_int_equal(run_turns(), 0); /* however long: nobody else waits for it */
    assert_true(is_id_used(id));
    assert_int_equal(service.shares.smb_bytes.used, PAGES * PAGE);
    run_with(MEMBER);
    assert_int_equal(count_chunks(&clients[0]), PAGES);
    assert_int_equal(service.leaving_len, 0);
    assert_false(is_id_used(id));
    assert_int_equal(service.shares.smb_bytes.used, 0);
    assert_int_equal(kit.detached, 1);
}

static void producers_that_left_are_scraped_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        (void)add_producer(i, MEMBER, &clients[0], PAGES);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        remove_producer(i);
    assert_int_equal(service.leaving_len, PRODUCERS);
    run_with(MEMBER);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(count_chunks(&clients[0]), PRODUCERS * PAGES);
}

static void a_flush_has_what_a_producer_left_that_waits(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    remove_producer(0);
    flush(&clients[0]);
    run_with(MEMBER);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(count_chunks(&clients[0]), PAGES);
}

static void a_producer_may_leave_while_a_flush_waits_for_its_copy(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER + 1, &clients[0], 1);
    flush(&clients[0]);
    (void)run_turns();
    producers[0]->wants_scraping = false; /* it is freed at once */
    remove_producer(0);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(kit.detached, 1);
    run_with(MEMBER + 1);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), 1);
    assert_true(answer(MEMBER)); /* of memory that is gone */
    assert_int_equal(run_turns(), 0);
}

static void a_session_may_end_while_it_waits_for_a_copy(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    flush(&clients[0]);
    (void)run_turns();
    pfl_session_end(&service, clients[0].consumer.session);
    (void)run_turns();
    flush(&clients[1]);
    assert_int_equal(clients[1].flushes_ok, 1);
    assert_true(answer(MEMBER));
    assert_int_equal(run_turns(), 0);
}

/* The chunks are still there: the copier did not change the memory. */
static void a_session_that_waited_before_has_all_of_it(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[1], PAGES);
    flush(&clients[0]);
    flush(&clients[1]);
    (void)run_turns();
    pfl_session_end(&service, clients[0].consumer.session);
    run_with(MEMBER);
    assert_int_equal(clients[1].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[1]), PAGES);
}

static void check_lost(uint64_t who)
{
    assert_false(pfl_copies_kit_has(&kit, who));
    assert_false(pfl_service_shares_memory(&service, who));
    assert_true(pfl_service_shares_memory(&service, who + 1));
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        bool is_his = producers[i] != NULL && producers[i]->who == who;

        if (producers[i] == NULL)
            continue;
        assert_int_equal(producers[i]->smb.has_faulted, is_his);
        assert_int_equal(producers[i]->copier == NULL, is_his);
    }
}

/* Its user's chunks come in messages for so long. */
static void lose_copier(uint32_t unshared_ms)
{
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"p", 1}, .who = MEMBER};
    struct pfl_producer *later;

    remove_producer(1);
    (void)run_turns();
    pfl_copies_kit_end(&kit, MEMBER);
    check_lost(MEMBER);
    run_with(MEMBER + 1);
    assert_int_equal(clients[0].flushes, 1);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &later), 0);
    assert_true(later->is_emulated);
    assert_null(later->copier);
    (void)pfl_registry_remove_producer(&service, later);
    pass_ms(unshared_ms - 1);
    assert_false(pfl_service_shares_memory(&service, MEMBER));
    pass_ms(1);
    assert_true(pfl_service_shares_memory(&service, MEMBER));
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &later), 0);
    assert_false(later->is_emulated);
    assert_non_null(later->copier);
    (void)pfl_registry_remove_producer(&service, later);
}

static void add_three(void)
{
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    (void)add_producer(2, MEMBER + 1, &clients[0], 1);
    flush(&clients[0]);
}

static void a_lost_copier_ends_what_waits_for_it(void **state)
{
    (void)state;
    add_three();
    (void)answer(MEMBER);
    lose_copier(PFL_SERVICE_UNSHARED_MS);
}

static void a_copier_that_could_not_start_is_tried_again_soon(void **state)
{
    (void)state;
    add_three();
    lose_copier(PFL_SERVICE_UNSTARTED_MS);
}

static void a_copier_that_does_not_answer_for_long_is_lost(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    remove_producer(0);
    assert_in_range(get_due_in_ms(), 1, PFL_COPIES_LIMIT_MS);
    pass_ms(PFL_COPIES_LIMIT_MS);
    pfl_session_due_run(&service);
    assert_in_range(get_due_in_ms(), 1, PFL_COPIES_LAST_MS);
    pass_ms(PFL_COPIES_LAST_MS);
    pfl_session_due_run(&service);
    (void)run_turns();
    check_lost(MEMBER);
    assert_int_equal(service.leaving_len, 0);
}

/* Its process has ended, and the loop has not seen that yet. */
static void a_copier_that_takes_no_message_is_lost(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    pfl_copies_kit_block(&kit, MEMBER);
    flush(&clients[0]);
    (void)run_turns();
    check_lost(MEMBER);
    assert_int_equal(clients[0].flushes, 1);
}

static void a_producer_may_leave_whose_copier_takes_no_message(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    pfl_copies_kit_block(&kit, MEMBER);
    remove_producer(0);
    assert_int_equal(service.leaving_len, 0);
    check_lost(MEMBER);
    assert_int_equal(service.shares.smb_bytes.used, PAGES * PAGE);
}

/* Which the loop notices when it says that the memory is not needed any more. */
static void a_producer_may_be_freed_whose_copier_takes_no_message(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], PAGES);
    flush(&clients[0]); /* its pass waits */
    pfl_copies_kit_block(&kit, MEMBER);
    producers[1]->wants_scraping = false;
    remove_producer(1);
    check_lost(MEMBER);
    (void)run_turns();
    assert_int_equal(clients[0].flushes, 1);
}

/* The end of a flush that waited for it begins a pass, which asks the copier. */
static void a_copier_may_be_lost_while_a_producer_leaves(void **state)
{
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x'};
    const struct pfl_session_flush_conf conf = {.timeout_ms = 5000, .then = PFL_FLUSH_THEN_REPLY};

    (void)state;
    assert_int_equal(pfl_session_start(&service, clients[0].consumer.session), 0);
    (void)add_producer(0, MEMBER, &clients[0], 1);
    (void)add_producer(1, MEMBER, &clients[0], 1);
    assert_int_equal(pfl_registry_register_source(&service, producers[1],
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
    pfl_session_flush(&service, clients[0].consumer.session, &conf);
    (void)run_turns();
    assert_false(answer(MEMBER)); /* the flush waits for the producer */
    producers[1]->wants_scraping = false;
    pfl_copies_kit_block(&kit, MEMBER);
    remove_producer(1);
    (void)run_turns();
    check_lost(MEMBER);
    assert_int_equal(clients[0].flushes, 1);
}

static void a_copier_without_the_memory_loses_that_alone(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], PAGES);
    (void)add_producer(1, MEMBER, &clients[0], 2);
    flush(&clients[0]);
    (void)run_turns();
    pfl_copies_kit_refuse(&kit, MEMBER, PFL_ENOENT);
    run_with(MEMBER);
    assert_int_equal(clients[0].flushes, 1);
    assert_int_equal(count_chunks(&clients[0]), 2);
    assert_true(pfl_service_shares_memory(&service, MEMBER));
}

static void what_is_scraped_at_the_stop_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        (void)add_producer(i, MEMBER, &clients[0], PAGES);
    remove_producer(2); /* it waits, and others wait for the area */
    flush(&clients[0]);
    remove_producer(1);
    (void)run_turns();
    pfl_scrape_turns_stop(&service);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(count_chunks(&clients[0]), PRODUCERS * PAGES);
    assert_true(kit.waits > 0);
    /* Nothing is put off any more. */
    remove_producer(0);
    assert_int_equal(service.leaving_len, 0);
}

static void the_stop_does_not_wait_for_long(void **state)
{
    (void)state;
    (void)add_producer(0, MEMBER, &clients[0], 1);
    (void)add_producer(1, MEMBER + 1, &clients[0], 2);
    (void)add_producer(2, MEMBER, &clients[0], 1);
    flush(&clients[0]);
    remove_producer(2);
    (void)run_turns();
    kit.is_prompt = false;
    pfl_scrape_turns_stop(&service);
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(clients[0].flushes, 1);
    assert_int_equal(clients[0].flushes_ok, 0);
    assert_in_range(kit.waits, 1, 3);
}

/* It ends while producers wait that nobody stopped. */
static void the_service_may_end_while_producers_wait(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        (void)add_producer(i, MEMBER + i / 2, &clients[0], PAGES);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        remove_producer(i);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        pfl_registry_remove_consumer(&service, &clients[i].consumer);
    pfl_service_fini(&service);
    pfl_copies_kit_close(&kit);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(a_flush_has_what_the_copier_found),
        TEST(a_turn_uses_so_many_copies),
        TEST(memory_without_chunks_is_over_with_the_answer),
        TEST(a_copier_that_does_not_answer_holds_a_flush_up_a_little),
        TEST(a_copier_that_does_not_answer_is_waited_for_once),
        TEST(a_flush_waits_for_the_next_answer_as_long_again),
        TEST(another_user_s_flush_does_not_wait),
        TEST(two_sessions_have_the_area_in_turn),
        TEST(a_producer_that_left_is_scraped_when_its_copier_answers),
        TEST(producers_that_left_are_scraped_one_after_the_other),
        TEST(a_flush_has_what_a_producer_left_that_waits),
        TEST(a_producer_may_leave_while_a_flush_waits_for_its_copy),
        TEST(a_session_may_end_while_it_waits_for_a_copy),
        TEST(a_session_that_waited_before_has_all_of_it),
        TEST(a_lost_copier_ends_what_waits_for_it),
        TEST(a_copier_that_could_not_start_is_tried_again_soon),
        TEST(a_copier_that_does_not_answer_for_long_is_lost),
        TEST(a_copier_that_takes_no_message_is_lost),
        TEST(a_producer_may_leave_whose_copier_takes_no_message),
        TEST(a_producer_may_be_freed_whose_copier_takes_no_message),
        TEST(a_copier_may_be_lost_while_a_producer_leaves),
        TEST(a_copier_without_the_memory_loses_that_alone),
        TEST(what_is_scraped_at_the_stop_is_waited_for),
        TEST(the_stop_does_not_wait_for_long),
        cmocka_unit_test_setup(the_service_may_end_while_producers_wait, open_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
