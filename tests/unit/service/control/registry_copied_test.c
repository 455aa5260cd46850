/* SPDX-License-Identifier: Apache-2.0 */
/* Commits of chunks that a copier takes out of the memory. The copiers are the kit's: they answer
 * when the test says so. */
#include "service/control/registry.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/state.h"
#include "base/bytes.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/core/copies_kit.h"

#define CONSUMERS 1u
#define PRODUCERS 2u
#define PAGE      4096u
#define PAGES     256u
#define WRITER    5u
#define MEMBER    1000u /* and the next ones */
#define DIV       4u    /* chunks of a page */
/* Moves that fit into the area: it has room for as many pages. */
#define FIT     (PFL_COPY_DATA_BYTES / PAGE)
#define REQUEST 65536u
#define LAST    (MEMBER + PRODUCERS)

struct client {
    struct pfl_consumer consumer;
    unsigned flushes;
    unsigned flushes_ok;
    unsigned disabled;
};

/* What a connection knows. */
struct port {
    unsigned copied;     /* on_copied */
    unsigned looks_left; /* may_continue */
};

static uint64_t now_ns = 1000000000000ull;
static struct pfl_copies_kit kit;
static struct pfl_service service;
static struct client clients[CONSUMERS];
static struct pfl_producer *producers[PRODUCERS];
static struct port ports[PRODUCERS];
static uint8_t bytes[REQUEST];
static struct pfl_writer request;

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

static void on_copied(void *port)
{
    ((struct port *)port)->copied++;
}

static bool may_continue(void *port)
{
    struct port *self = port;

    return self->looks_left == 0 || --self->looks_left != 0;
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
    memset(ports, 0, sizeof(ports));
    request = pfl_writer_of(bytes, sizeof(bytes));
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

/* It has no memory yet. */
static struct pfl_producer *introduce(uint32_t index, uint64_t who)
{
    static const struct pfl_producer_ops ops = {
        .send_command = ignore_command, .may_continue = may_continue, .on_copied = on_copied};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .who = who, .ops = &ops, .port = &ports[index]};
    uint16_t buffer = clients[0].consumer.session->buffers[0].id;
    struct pfl_producer *producer;

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_non_null(producer->copier);
    assert_int_equal(pfl_service_allow(&service, producer, buffer), 0);
    assert_int_equal(pfl_registry_set_writer(&service, producer, WRITER, buffer), 0);
    producers[index] = producer;
    return producer;
}

static struct pfl_producer *add_producer(uint32_t index)
{
    struct pfl_producer *producer = introduce(index, MEMBER);

    assert_int_equal(
        pfl_service_create_smb(&service, producer, (struct pfl_smb_size){PAGES * PAGE, PAGE}), 0);
    assert_true(producer->is_attached);
    return producer;
}

static struct pfl_page_header *page_of(const struct pfl_producer *producer, uint32_t page)
{
    return pfl_smb_page(&pfl_copies_kit_map(&kit, MEMBER, producer->id)->smb, page);
}

/* As the producer does: the chunk with this number, which is also its id. */
static void write_chunk(const struct pfl_producer *producer, uint32_t number, uint32_t flags)
{
    const struct pfl_smb *smb = &pfl_copies_kit_map(&kit, MEMBER, producer->id)->smb;
    struct pfl_page_header *header = pfl_smb_page(smb, number / DIV);
    struct pfl_chunk_header *chunk;
    uint32_t bitmap = 0;

    (void)pfl_state_try_partition(header, PFL_PAGE_DIV4);
    assert_int_equal(pfl_state_begin_write(header, number % DIV, &bitmap), PFL_STATE_DONE);
    chunk = pfl_smb_chunk(smb, number / DIV, bitmap, number % DIV);
    assert_non_null(chunk);
    if (chunk == NULL)
        return; /* never: gcc does not know that the assertion ends the test */
    pfl_chunk_set_header(chunk, WRITER, number, pfl_chunk_packets_of(1, flags));
    memset(pfl_chunk_payload(chunk), 9, 10); /* a packet of 9 bytes */
    assert_int_equal(pfl_state_complete(header, number % DIV), PFL_STATE_DONE);
}

static void request_move_of(uint32_t page, uint32_t chunk, struct pfl_span data)
{
    uint8_t move[64];
    struct pfl_writer m = pfl_writer_of(move, sizeof(move));

    pfl_writer_field_varint(&m, 1, page);
    pfl_writer_field_varint(&m, 2, chunk);
    pfl_writer_field_varint(&m, 3, clients[0].consumer.session->buffers[0].id);
    if (data.len != 0)
        pfl_writer_field_bytes(&m, 4, data.data, data.len);
    pfl_writer_field_bytes(&request, 1, move, sizeof(move) - m.left);
}

static void request_move(uint32_t number)
{
    request_move_of(number / DIV, number % DIV, (struct pfl_span){0});
}

/* A chunk that the message contains, of another writer. */
static void request_data(uint32_t chunk_id)
{
    const uint8_t data[] = {
        (uint8_t)chunk_id, (uint8_t)(chunk_id >> 8), 0, 0, WRITER + 1, 0, 1, 0, 2, 'a', 'b'};

    request_move_of(0, 0, pfl_span_of(data, sizeof(data)));
}

static void write_and_request(const struct pfl_producer *producer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        write_chunk(producer, i, 0);
        request_move(i);
    }
}

static void request_patch(uint32_t chunk_id)
{
    uint8_t one[16];
    uint8_t list[64];
    struct pfl_writer p = pfl_writer_of(one, sizeof(one));
    struct pfl_writer l = pfl_writer_of(list, sizeof(list));

    pfl_writer_field_varint(&p, 1, 1);
    pfl_writer_field_bytes(&p, 2, "PQRS", 4);
    pfl_writer_field_varint(&l, 1, clients[0].consumer.session->buffers[0].id);
    pfl_writer_field_varint(&l, 2, WRITER);
    pfl_writer_field_varint(&l, 3, chunk_id);
    pfl_writer_field_bytes(&l, 4, one, sizeof(one) - p.left);
    pfl_writer_field_bytes(&request, 2, list, sizeof(list) - l.left);
}

static int commit(uint32_t index)
{
    return pfl_registry_commit(&service, producers[index],
                               pfl_span_of(bytes, sizeof(bytes) - request.left));
}

static void answer(void)
{
    assert_true(pfl_copies_kit_answer(&kit, MEMBER));
}

/* Until it has ended. */
static void commit_all(uint32_t index)
{
    int rc;

    while ((rc = commit(index)) == PFL_EAGAIN)
        if (producers[index]->copy.state == PFL_COPY_JOB_ASKED)
            answer();
    assert_int_equal(rc, 0);
    assert_int_equal(producers[index]->copy.state, PFL_COPY_JOB_IDLE);
}

static void remove_producer(uint32_t index)
{
    (void)pfl_registry_remove_producer(&service, producers[index]);
    producers[index] = NULL;
}

static struct pfl_trace_buffer_stats get_stats(void)
{
    struct pfl_trace_buffer_stats stats;

    pfl_trace_buffer_stats_get(clients[0].consumer.session->buffers[0].ring, &stats);
    return stats;
}

static void a_commit_is_applied_when_its_chunks_are_copied(void **state)
{
    const struct pfl_producer *producer = add_producer(0);

    (void)state;
    write_and_request(producer, 2);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(commit(0), PFL_EAGAIN);
    assert_int_equal(kit.commits, 1); /* it is asked once */
    assert_int_equal(get_stats().chunks_written, 0);
    assert_int_equal(ports[0].copied, 0);
    answer();
    assert_int_equal(ports[0].copied, 1);
    assert_int_equal(commit(0), 0);
    assert_int_equal(get_stats().chunks_written, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pfl_page_chunk_state(pfl_page_bitmap(page_of(producer, 0)), i),
                         PFL_CHUNK_FREE);
    assert_int_equal(service.commits.entries_skipped, 0);
}

/* The copier is at work for no longer than the limit. */
static void the_loop_looks_after_a_copier_that_was_asked(void **state)
{
    write_and_request(add_producer(0), 1);
    (void)state;
    assert_int_equal(commit(0), PFL_EAGAIN);
    now_ns += PFL_COPIES_LIMIT_MS * 1000000ull;
    pfl_session_due_run(&service);
    assert_int_equal(commit(0), PFL_EAGAIN);
    now_ns += PFL_COPIES_LAST_MS * 1000000ull;
    pfl_session_due_run(&service);
    assert_int_equal(ports[0].copied, 1);
    assert_int_equal(commit(0), PFL_EIO);
}

static void a_long_commit_is_applied_whole_and_in_order(void **state)
{
    const uint32_t count = 4 * FIT + 1;
    const struct pfl_producer *producer = add_producer(0);

    (void)state;
    assert_true(count > PFL_COPY_ENTRIES);
    write_and_request(producer, count);
    write_chunk(producer, count, PFL_CHUNK_NEEDS_PATCH);
    request_patch(count);
    request_move(count); /* the patches come behind it */
    commit_all(0);
    assert_int_equal(kit.commits, 5);
    assert_int_equal(get_stats().chunks_written, count + 1);
    assert_int_equal(get_stats().chunks_committed_out_of_order, 0);
    assert_int_equal(get_stats().patches_succeeded, 1);
    assert_int_equal(service.commits.entries_skipped, 0);
}

static void a_commit_that_just_fits_is_asked_for_once(void **state)
{
    write_and_request(add_producer(0), FIT);
    (void)state;
    commit_all(0);
    assert_int_equal(kit.commits, 1);
    assert_int_equal(get_stats().chunks_written, FIT);
}

static void chunks_in_the_message_are_in_their_place(void **state)
{
    const struct pfl_producer *producer = add_producer(0);

    (void)state;
    for (uint32_t i = 0; i < 2 * FIT; i++) {
        write_chunk(producer, i, 0);
        request_data(2 * i);
        request_move(i);
        request_data(2 * i + 1);
    }
    request_patch(0);
    commit_all(0);
    assert_int_equal(get_stats().chunks_written, 3 * 2 * FIT);
    assert_int_equal(get_stats().chunks_committed_out_of_order, 0);
    assert_int_equal(service.commits.entries_skipped, 0);
}

static void producers_of_one_user_take_turns(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        write_chunk(add_producer(i), 0, 0);
    request_move(0);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(commit(i), PFL_EAGAIN);
    answer();
    assert_int_equal(ports[0].copied, 1);
    assert_int_equal(ports[1].copied, 0);
    assert_int_equal(commit(1), PFL_EAGAIN);
    assert_int_equal(commit(0), 0);
    assert_int_equal(ports[1].copied, 1); /* the area is its own */
    assert_int_equal(commit(1), PFL_EAGAIN);
    answer();
    assert_int_equal(ports[1].copied, 2);
    assert_int_equal(commit(1), 0);
    assert_int_equal(get_stats().chunks_written, 2);
}

static void another_user_s_producer_does_not_wait(void **state)
{
    struct pfl_producer *producer = introduce(1, MEMBER + 1);

    (void)state;
    write_and_request(add_producer(0), 1);
    assert_int_equal(
        pfl_service_create_smb(&service, producer, (struct pfl_smb_size){PAGES * PAGE, PAGE}), 0);
    assert_int_equal(commit(0), PFL_EAGAIN);
    assert_int_equal(commit(1), PFL_EAGAIN);
    assert_true(pfl_copies_kit_answer(&kit, MEMBER + 1));
    assert_int_equal(commit(1), 0);
    assert_int_equal(commit(0), PFL_EAGAIN);
}

static void a_long_commit_gives_the_area_away_in_between(void **state)
{
    const struct pfl_producer *first = add_producer(0);

    (void)state;
    write_and_request(first, 2 * FIT);
    write_chunk(add_producer(1), 0, 0);
    assert_int_equal(commit(0), PFL_EAGAIN);
    assert_int_equal(commit(1), PFL_EAGAIN);
    answer();
    assert_int_equal(commit(0), PFL_EAGAIN); /* it waits for the area */
    assert_int_equal(first->copy.state, PFL_COPY_JOB_WAITS);
    assert_int_equal(producers[1]->copy.state, PFL_COPY_JOB_OWNS);
    assert_int_equal(get_stats().chunks_written, FIT);
    assert_int_equal(commit(1), PFL_EAGAIN);
    answer();
    assert_int_equal(commit(1), PFL_EAGAIN);
    commit_all(0);
    commit_all(1);
    assert_int_equal(get_stats().chunks_written, 2 * FIT + 1);
}

static void a_flush_is_acknowledged_when_its_chunks_are_there(void **state)
{
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x'};
    const struct pfl_session_flush_conf conf = {.timeout_ms = 5000, .then = PFL_FLUSH_THEN_REPLY};
    struct pfl_producer *producer = add_producer(0);

    (void)state;
    assert_int_equal(pfl_session_start(&service, clients[0].consumer.session), 0);
    assert_int_equal(pfl_registry_register_source(&service, producer,
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
    write_and_request(producer, FIT + 1);
    pfl_session_flush(&service, clients[0].consumer.session, &conf);
    pfl_writer_field_varint(&request, 3, service.flushes.last_id);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(commit(0), PFL_EAGAIN);
        assert_int_equal(clients[0].flushes, 0);
        answer();
    }
    assert_int_equal(commit(0), 0);
    assert_int_equal(clients[0].flushes_ok, 1);
    assert_int_equal(get_stats().chunks_written, FIT + 1);
}

static void numbers_of_no_chunk_are_skipped(void **state)
{
    static const uint32_t numbers[][2] = {{PAGES, 0},           {UINT32_MAX, 0}, {0, DIV},
                                          {0, UINT32_MAX},      {1, 0},          {PAGES - 1, 13},
                                          {UINT32_MAX, DIV - 1}};
    const uint32_t count = sizeof(numbers) / sizeof(numbers[0]);

    write_and_request(add_producer(0), 1);
    (void)state;
    request_move(0); /* again */
    for (uint32_t i = 0; i < count; i++)
        request_move_of(numbers[i][0], numbers[i][1], (struct pfl_span){0});
    write_chunk(producers[0], 1, 0);
    request_move(1);
    commit_all(0);
    assert_int_equal(get_stats().chunks_written, 2);
    assert_int_equal(service.commits.entries_skipped, count + 1);
}

static void chunks_without_a_buffer_are_discarded(void **state)
{
    write_and_request(add_producer(0), 1);
    (void)state;
    assert_int_equal(commit(0), PFL_EAGAIN);
    answer();
    pfl_session_end(&service, clients[0].consumer.session); /* meanwhile */
    assert_int_equal(commit(0), 0);
    assert_int_equal(service.commits.chunks_discarded, 1);
}

/* Its turn is over in the middle of the copies. */
static void a_commit_goes_on_in_the_next_turn(void **state)
{
    unsigned turns = 0;

    write_and_request(add_producer(0), 3 * FIT);
    (void)state;
    for (int rc = PFL_EAGAIN; rc == PFL_EAGAIN; turns++) {
        uint64_t before = get_stats().chunks_written;

        assert_in_range(turns, 0, 100);
        if (producers[0]->copy.state == PFL_COPY_JOB_ASKED)
            answer();
        ports[0].looks_left = 1;
        rc = commit(0);
        assert_in_range(get_stats().chunks_written, before, before + FIT);
    }
    assert_true(turns > 6);
    assert_int_equal(kit.commits, 3);
    assert_int_equal(get_stats().chunks_written, 3 * FIT);
    assert_int_equal(get_stats().chunks_committed_out_of_order, 0);
}

static void a_commit_without_chunks_in_memory_asks_for_nothing(void **state)
{
    (void)add_producer(0);
    (void)state;
    assert_int_equal(commit(0), 0);
    request_patch(3);
    assert_int_equal(commit(0), 0);
    assert_int_equal(kit.commits, 0);
    assert_int_equal(get_stats().patches_failed, 1);
}

static void a_malformed_commit_asks_for_nothing(void **state)
{
    write_and_request(add_producer(0), 1);
    (void)state;
    pfl_writer_field_bytes(&request, 2, "\x22", 1); /* a field without its length */
    assert_int_equal(commit(0), PFL_EPARSE);
    assert_int_equal(kit.commits, 0);
    assert_int_equal(producers[0]->copy.state, PFL_COPY_JOB_IDLE);
    request = pfl_writer_of(bytes, sizeof(bytes));
    request_move(0);
    commit_all(0);
    assert_int_equal(get_stats().chunks_written, 1);
}

static void a_commit_before_there_is_memory_fails(void **state)
{
    (void)introduce(0, MEMBER);
    (void)state;
    request_move(0);
    assert_int_equal(commit(0), PFL_ESTATE);
    assert_int_equal(kit.commits, 0);
}

static void a_lost_copier_ends_its_commits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        write_chunk(add_producer(i), 0, 0);
    request_move(0);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(commit(i), PFL_EAGAIN);
    pfl_copies_kit_end(&kit, MEMBER);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        assert_int_equal(ports[i].copied, 1);
        assert_int_equal(commit(i), PFL_EIO);
    }
}

static void a_copier_that_takes_no_message_ends_its_commits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        write_chunk(add_producer(i), 0, 0);
    request_move(0);
    pfl_copies_kit_block(&kit, MEMBER);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(commit(i), PFL_EIO);
}

static void a_copier_without_the_memory_fails_its_commit(void **state)
{
    write_and_request(add_producer(0), 1);
    (void)state;
    (void)add_producer(1);
    assert_int_equal(commit(0), PFL_EAGAIN);
    pfl_copies_kit_refuse(&kit, MEMBER, PFL_ENOENT);
    assert_int_equal(ports[0].copied, 1);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(commit(0), PFL_EIO);
    commit_all(1);
}

static void a_producer_may_leave_while_its_commit_waits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        write_chunk(add_producer(i), 0, 0);
    request_move(0);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(commit(i), PFL_EAGAIN);
    remove_producer(0); /* its own */
    assert_int_equal(service.leaving_len, 1);
    assert_int_equal(kit.detached, 0);
    assert_int_equal(pfl_copies_kit_answer(&kit, MEMBER), true);
    assert_int_equal(ports[0].copied, 0);
    pfl_session_due_run(&service);
    assert_int_equal(get_stats().chunks_written, 1); /* it is nowhere else */
    assert_int_equal(service.leaving_len, 0);
    assert_int_equal(kit.detached, 1);
    commit_all(1);
    (void)add_producer(0);
    assert_int_equal(commit(0), PFL_EAGAIN);
    assert_int_equal(commit(1), PFL_EAGAIN);
    remove_producer(1); /* behind another's */
    commit_all(0);
}

/* A part of its copies is in the buffers, the others are nowhere else. */
static void a_producer_may_leave_in_the_middle_of_its_copies(void **state)
{
    write_and_request(add_producer(0), FIT);
    (void)state;
    assert_int_equal(commit(0), PFL_EAGAIN);
    answer();
    ports[0].looks_left = 1;
    assert_int_equal(commit(0), PFL_EAGAIN);
    assert_in_range(get_stats().chunks_written, 1, FIT - 1);
    remove_producer(0);
    while (service.leaving_len != 0)
        pfl_session_due_run(&service);
    assert_int_equal(get_stats().chunks_written, FIT);
    assert_int_equal(get_stats().chunks_committed_out_of_order, 0);
}

/* The copier is at work for the one, the other waits for it. */
static void commits_are_whole_when_the_service_stops(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PRODUCERS; i++)
        write_chunk(add_producer(i), 0, 0);
    request_move(0);
    assert_int_equal(commit(0), PFL_EAGAIN);
    assert_int_equal(commit(1), PFL_EAGAIN); /* that copier has not taken it out */
    pfl_scrape_turns_stop(&service);
    assert_int_equal(get_stats().chunks_written, 1);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(pfl_page_chunk_state(pfl_page_bitmap(page_of(producers[i], 0)), 0),
                         i == 0 ? PFL_CHUNK_FREE : PFL_CHUNK_COMPLETE);
}

static void a_commit_is_not_waited_for_long_when_the_service_stops(void **state)
{
    write_and_request(add_producer(0), 1);
    (void)state;
    assert_int_equal(commit(0), PFL_EAGAIN);
    kit.is_prompt = false;
    pfl_scrape_turns_stop(&service);
    assert_int_equal(kit.waits, 1);
    assert_int_equal(producers[0]->copy.state, PFL_COPY_JOB_IDLE);
}

static void memory_that_a_producer_brings_is_passed_on(void **state)
{
    struct pfl_producer *producer = introduce(0, MEMBER);
    struct pfl_smb_map map;

    (void)state;
    pfl_smb_map_init(&map);
    assert_int_equal(pfl_smb_map_create(&map, (struct pfl_smb_size){PAGES * PAGE, PAGE}, false), 0);
    producer->page_hint_bytes = PAGE;
    assert_int_equal(pfl_service_adopt_smb(&service, producer, fcntl(map.fd, F_DUPFD_CLOEXEC, 0)),
                     0);
    pfl_smb_map_fini(&map);
    assert_true(producer->is_attached);
    assert_int_equal(service.shares.smb_bytes.used, PAGES * PAGE);
    write_and_request(producer, FIT + 1);
    commit_all(0);
    assert_int_equal(get_stats().chunks_written, FIT + 1);
}

static void memory_that_cannot_be_passed_on_is_passed_when_it_is_needed(void **state)
{
    struct pfl_producer *producer = introduce(0, MEMBER);

    (void)state;
    pfl_copies_kit_block(&kit, MEMBER);
    assert_int_equal(
        pfl_service_create_smb(&service, producer, (struct pfl_smb_size){PAGES * PAGE, PAGE}), 0);
    assert_false(producer->is_attached);
    request_move(0);
    assert_int_equal(commit(0), PFL_EIO); /* it takes nothing: it is lost */
    assert_null(producer->copier);
}

/* The owner's memory is the service's to map; without a copier chunks come in messages. */
static void some_producers_have_no_copier(void **state)
{
    struct pfl_producer_conf conf = {.name = {(const uint8_t *)"p", 1}};
    struct pfl_producer *producer;

    (void)state;
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_null(producer->copier);
    assert_false(producer->is_emulated);
    (void)pfl_registry_remove_producer(&service, producer);
    kit.can_open = false;
    conf.who = MEMBER;
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_null(producer->copier);
    assert_true(producer->is_emulated);
    (void)pfl_registry_remove_producer(&service, producer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(a_commit_is_applied_when_its_chunks_are_copied),
        TEST(the_loop_looks_after_a_copier_that_was_asked),
        TEST(a_long_commit_is_applied_whole_and_in_order),
        TEST(a_commit_that_just_fits_is_asked_for_once),
        TEST(chunks_in_the_message_are_in_their_place),
        TEST(producers_of_one_user_take_turns),
        TEST(another_user_s_producer_does_not_wait),
        TEST(a_long_commit_gives_the_area_away_in_between),
        TEST(a_flush_is_acknowledged_when_its_chunks_are_there),
        TEST(numbers_of_no_chunk_are_skipped),
        TEST(chunks_without_a_buffer_are_discarded),
        TEST(a_commit_goes_on_in_the_next_turn),
        TEST(a_commit_without_chunks_in_memory_asks_for_nothing),
        TEST(a_malformed_commit_asks_for_nothing),
        TEST(a_commit_before_there_is_memory_fails),
        TEST(a_lost_copier_ends_its_commits),
        TEST(a_copier_that_takes_no_message_ends_its_commits),
        TEST(a_copier_without_the_memory_fails_its_commit),
        TEST(a_producer_may_leave_while_its_commit_waits),
        TEST(a_producer_may_leave_in_the_middle_of_its_copies),
        TEST(commits_are_whole_when_the_service_stops),
        TEST(a_commit_is_not_waited_for_long_when_the_service_stops),
        TEST(memory_that_a_producer_brings_is_passed_on),
        TEST(memory_that_cannot_be_passed_on_is_passed_when_it_is_needed),
        TEST(some_producers_have_no_copier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
