/* SPDX-License-Identifier: Apache-2.0 */
/* Clones that take more than one turn of the loop: what they have, who waits for whom, and who goes
 * in the middle. A turn is a call of pfl_session_due_run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/buffer/trace_ring.h"
#include "service/control/registry.h"
#include "service/session/clone.h"
#include "service/session/session_attach.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

#define CLONERS 3u

struct cloner {
    struct pfl_consumer consumer;
    unsigned answers;
    bool is_ok;
};

static uint64_t now_ns = 1000000000000ull;
static uint64_t step_ns; /* how long anything takes */
static struct pfl_service service;
static struct pfl_consumer owner;
static struct cloner cloners[CLONERS];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    now_ns += step_ns;
    return now_ns;
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

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    struct cloner *cloner = port;

    cloner->answers++;
    cloner->is_ok = result->is_ok;
}

static void ignore(void *port)
{
    (void)port;
}

static const struct pfl_consumer_ops ops = {.on_disabled = on_disabled,
                                            .on_session_gone = ignore,
                                            .on_cloned = on_cloned,
                                            .on_observed = ignore};

/* buffers { size_kb: 8192 } */
static const uint8_t copied_config[] = {0x0a, 0x03, 0x08, 0x80, 0x40};
/* buffers { size_kb: 8192 transfer_on_clone: true } buffers { size_kb: 8192 } */
static const uint8_t both_config[] = {0x0a, 0x05, 0x08, 0x80, 0x40, 0x28,
                                      0x01, 0x0a, 0x03, 0x08, 0x80, 0x40};
/* buffers { size_kb: 8192 clear_before_clone: true } */
static const uint8_t cleared_config[] = {0x0a, 0x05, 0x08, 0x80, 0x40, 0x30, 0x01};

static int try_open(struct pfl_span config)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};
    char why[PFL_PLAN_WHY_BYTES];
    int rc = pfl_service_init(&service, &conf);

    if (rc != 0)
        return rc;
    owner = (struct pfl_consumer){.ops = &ops};
    pfl_registry_add_consumer(&service, &owner);
    for (uint32_t i = 0; i < CLONERS; i++) {
        cloners[i] = (struct cloner){0};
        cloners[i].consumer =
            (struct pfl_consumer){.ops = &ops, .port = &cloners[i], .who = 1000 + i};
        pfl_registry_add_consumer(&service, &cloners[i].consumer);
    }
    return pfl_session_enable(&service, &owner, &(struct pfl_session_enable_conf){.config = config},
                              why);
}

static void close_service(void)
{
    for (uint32_t i = 0; i < CLONERS; i++)
        pfl_registry_remove_consumer(&service, &cloners[i].consumer);
    pfl_registry_remove_consumer(&service, &owner);
    pfl_service_fini(&service);
}

#define OPEN(config) assert_int_equal(try_open(pfl_span_of((config), sizeof(config))), 0)

static int close_all(void **state)
{
    (void)state;
    close_service();
    pfl_sweep_assert_no_leak();
    return 0;
}

#define CHUNK_BYTES 60000u
#define CHUNKS      100u /* 6 MB: many turns */
#define MORE_CHUNKS 150u /* which go round */

static void fill(size_t buffer, char fill, uint32_t from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kit_commit(owner.session->buffers[buffer].ring, .writer = 1, .chunk_id = from + i,
                   .fill = fill, .len = CHUNK_BYTES);
}

static void start_clone(struct cloner *cloner)
{
    const struct pfl_clone_request request = {.session_id = 1};

    pfl_clone_start(&service, &cloner->consumer, &request);
}

/* Turns until nothing is due at once. */
static unsigned run_turns(void)
{
    unsigned turns = 0;

    for (; pfl_session_timers_next_ms(&service) == 0; turns++) {
        assert_true(turns < 1000);
        pfl_session_due_run(&service);
    }
    return turns;
}

static void expect_chunks(const struct cloner *cloner, size_t buffer, char fill, unsigned count)
{
    struct pfl_trace_buffer *ring = cloner->consumer.session->buffers[buffer].ring;

    assert_int_equal(cloner->answers, 1);
    assert_true(cloner->is_ok);
    pfl_trace_buffer_begin_read(ring);
    for (unsigned i = 0; i < count; i++)
        kit_expect(ring, fill, CHUNK_BYTES, 0);
    kit_expect_end(ring);
}

static void a_small_clone_is_there_at_once(void **state)
{
    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, 1);
    start_clone(&cloners[0]);
    expect_chunks(&cloners[0], 0, 'a', 1);
    assert_int_not_equal(pfl_session_timers_next_ms(&service), 0);
}

static void a_large_clone_is_what_was_there_when_its_flush_was_over(void **state)
{
    unsigned turns;

    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    assert_int_equal(cloners[0].answers, 0);
    fill(0, 'b', CHUNKS, MORE_CHUNKS);
    turns = run_turns();
    assert_true(turns >= 1 && turns <= CHUNKS * CHUNK_BYTES / PFL_CLONE_TURN_BYTES);
    expect_chunks(&cloners[0], 0, 'a', CHUNKS);
}

static void each_turn_copies_so_much(void **state)
{
    unsigned turns = (CHUNKS * pfl_record_outer_bytes(CHUNK_BYTES) - 1) / PFL_CLONE_TURN_BYTES + 1;

    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    start_clone(&cloners[1]);
    /* The first part of the first one at once, and the second one begins when that is whole. */
    assert_int_equal(run_turns(), turns - 1 + turns);
    expect_chunks(&cloners[0], 0, 'a', CHUNKS);
    expect_chunks(&cloners[1], 0, 'a', CHUNKS);
}

/* A clone that is begun, ended and begun again. */
static bool clone_again(struct cloner *cloner)
{
    if (cloner->consumer.session != NULL)
        pfl_session_end(&service, cloner->consumer.session);
    cloner->answers = 0;
    start_clone(cloner);
    (void)run_turns();
    return cloner->answers != 0;
}

static void who_clones_all_the_time_waits_until_that_is_paid(void **state)
{
    const uint64_t second_ns = 1000000000u;
    uint64_t waits_until_ms;
    unsigned clones = 0;

    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, 1);
    step_ns = 1000000;
    while (clones < 1000 && clone_again(&cloners[0]))
        clones++;
    assert_in_range(clones, 2, 100); /* what they took is 0.1 s of the loop at once */
    step_ns = 0;
    waits_until_ms = service.clone_due_ms;
    assert_in_range(waits_until_ms, now_ns / 1000000 + 1, (now_ns + second_ns) / 1000000);
    assert_true(clone_again(&cloners[1])); /* another user does not wait */
    pfl_session_due_run(&service);
    assert_int_equal(cloners[0].answers, 0);
    assert_in_range(pfl_session_timers_next_ms(&service), waits_until_ms,
                    waits_until_ms + 100); /* the look at it counts, too */
    now_ns = pfl_session_timers_next_ms(&service) * 1000000;
    pfl_session_due_run(&service);
    assert_int_equal(cloners[0].answers, 1);
    assert_true(cloners[0].is_ok);
}

static void ignore_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)body;
    (void)fd;
    (void)is_setup;
}

static void vms_that_move_to_a_clone_are_not_charged_to_its_source(void **state)
{
    /* buffers { size_kb: 8192 transfer_on_clone: true }
     * data_sources { config { name: "x" protovm_config { memory_limit_kb: 16 } } } */
    static const uint8_t config[] = {0x0a, 0x05, 0x08, 0x80, 0x40, 0x28, 0x01, 0x12, 0x09,
                                     0x0a, 0x07, 0x0a, 0x01, 'x',  0x62, 0x02, 0x08, 0x10};
    /* name: "x" protovm_program: merge */
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x', 0x52, 0x04, 0x12, 0x02, 0x1a, 0x00};
    static const struct pfl_producer_ops producer_ops = {.send_command = ignore_command};
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .is_emulated = true, .ops = &producer_ops};
    struct pfl_producer *producer;
    uint64_t held_bytes;

    (void)state;
    OPEN(config);
    fill(0, 'a', 0, 1);
    held_bytes = owner.session->held_bytes;
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producer), 0);
    assert_int_equal(pfl_registry_register_source(&service, producer,
                                                  pfl_span_of(descriptor, sizeof(descriptor))),
                     0);
    assert_true(owner.session->held_bytes > held_bytes);
    start_clone(&cloners[0]);
    pfl_session_ack_flush(&service, producer, service.flushes.last_id);
    (void)run_turns();
    assert_true(cloners[0].is_ok);
    assert_int_equal(pfl_trace_buffer_get_vm_bytes(owner.session->buffers[0].ring), 0);
    assert_int_equal(owner.session->held_bytes, held_bytes);
    (void)pfl_registry_remove_producer(&service, producer);
}

static void a_source_that_ends_meanwhile_is_cloned(void **state)
{
    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    start_clone(&cloners[1]); /* which has nothing yet */
    pfl_session_end(&service, owner.session);
    assert_int_equal(cloners[1].answers, 1);
    assert_false(cloners[1].is_ok);
    (void)run_turns();
    expect_chunks(&cloners[0], 0, 'a', CHUNKS);
}

static void who_frees_a_clone_meanwhile_is_answered_and_holds_up_no_other(void **state)
{
    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    start_clone(&cloners[1]);
    pfl_session_end(&service, cloners[0].consumer.session);
    assert_int_equal(cloners[0].answers, 1);
    assert_false(cloners[0].is_ok);
    (void)run_turns();
    expect_chunks(&cloners[1], 0, 'a', CHUNKS);
}

static void who_waits_and_leaves_gets_nothing(void **state)
{
    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    start_clone(&cloners[1]);
    pfl_registry_remove_consumer(&service, &cloners[1].consumer);
    (void)run_turns();
    assert_true(pfl_list_is_empty(&service.clones));
    assert_int_equal(cloners[1].answers, 0);
    expect_chunks(&cloners[0], 0, 'a', CHUNKS);
    pfl_registry_add_consumer(&service, &cloners[1].consumer);
}

static void a_clone_that_is_not_whole_is_neither_detached_nor_cloned(void **state)
{
    const struct pfl_clone_request request = {.session_id = 2};

    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    assert_int_equal(cloners[0].consumer.session->id, 2);
    assert_int_equal(pfl_session_detach(&service, &cloners[0].consumer, pfl_span_of("k", 1)),
                     PFL_ENOENT);
    pfl_clone_start(&service, &cloners[1].consumer, &request);
    assert_int_equal(cloners[1].answers, 1);
    assert_false(cloners[1].is_ok);
    (void)run_turns();
    cloners[1].answers = 0;
    pfl_clone_start(&service, &cloners[1].consumer, &request);
    (void)run_turns();
    expect_chunks(&cloners[1], 0, 'a', CHUNKS);
}

static void users_take_turns(void **state)
{
    (void)state;
    OPEN(copied_config);
    for (size_t i = 0; i < CLONERS; i++) {
        char why[PFL_PLAN_WHY_BYTES];
        struct pfl_consumer *first = &owner;

        /* A session each, so that none waits for the buffer. */
        if (i != 0) {
            assert_int_equal(
                pfl_session_enable(&service, &cloners[i].consumer,
                                   &(struct pfl_session_enable_conf){
                                       .config = pfl_span_of(copied_config, sizeof(copied_config))},
                                   why),
                0);
            first = &cloners[i].consumer;
        }
        for (uint32_t c = 0; c < CHUNKS; c++)
            kit_commit(first->session->buffers[0].ring, .writer = 1, .chunk_id = c, .fill = 'a',
                       .len = CHUNK_BYTES);
    }
    assert_int_equal(pfl_session_detach(&service, &cloners[1].consumer, pfl_span_of("1", 1)), 0);
    assert_int_equal(pfl_session_detach(&service, &cloners[2].consumer, pfl_span_of("2", 1)), 0);
    for (uint32_t i = 0; i < CLONERS; i++) {
        const struct pfl_clone_request request = {.session_id = i + 1};

        cloners[i].consumer.who = 1000 + (i == 2); /* the third one is another user's */
        pfl_clone_start(&service, &cloners[i].consumer, &request);
    }
    while (cloners[2].answers == 0)
        pfl_session_due_run(&service);
    assert_int_equal(cloners[1].answers, 0); /* though asked for before */
    (void)run_turns();
    expect_chunks(&cloners[0], 0, 'a', CHUNKS);
    expect_chunks(&cloners[1], 0, 'a', CHUNKS);
    expect_chunks(&cloners[2], 0, 'a', CHUNKS);
    pfl_session_end_detached(&service);
}

static void what_is_transferred_and_what_is_copied_come_together(void **state)
{
    (void)state;
    OPEN(both_config);
    fill(0, 't', 0, CHUNKS);
    fill(1, 'a', 0, CHUNKS);
    start_clone(&cloners[0]);
    assert_int_equal(cloners[0].answers, 0);
    fill(0, 'u', CHUNKS, 10);
    (void)run_turns();
    expect_chunks(&cloners[0], 0, 't', CHUNKS);
    expect_chunks(&cloners[0], 1, 'a', CHUNKS);
    start_clone(&cloners[1]);
    (void)run_turns();
    expect_chunks(&cloners[1], 0, 'u', 10);
    expect_chunks(&cloners[1], 1, 'a', CHUNKS);
}

static void a_buffer_that_is_cleared_for_the_next_clone_is_the_first_ones(void **state)
{
    (void)state;
    OPEN(cleared_config);
    start_clone(&cloners[0]); /* of nothing: what comes now is newer than the clearing */
    assert_int_equal(cloners[0].answers, 1);
    pfl_session_end(&service, cloners[0].consumer.session);
    fill(0, 'a', 0, CHUNKS);
    cloners[0].answers = 0;
    start_clone(&cloners[0]);
    (void)run_turns();
    expect_chunks(&cloners[0], 0, 'a', 0);
    fill(0, 'b', CHUNKS, 5);
    start_clone(&cloners[1]);
    expect_chunks(&cloners[1], 0, 'b', 0);
}

static void shares_are_given_back(void **state)
{
    uint64_t before;

    (void)state;
    OPEN(copied_config);
    fill(0, 'a', 0, CHUNKS);
    before = service.shares.buffer_bytes.used;
    start_clone(&cloners[0]);
    start_clone(&cloners[1]);
    assert_true(service.shares.buffer_bytes.used > before + CHUNKS * CHUNK_BYTES);
    pfl_session_end(&service, cloners[0].consumer.session);
    (void)run_turns();
    pfl_session_end(&service, cloners[1].consumer.session);
    assert_int_equal(service.shares.buffer_bytes.used, before);
}

static int live(void *arg)
{
    const struct pfl_span *config = arg;
    int rc = try_open(*config);

    if (rc == 0) {
        size_t last = owner.session->plan->buffers_len - 1;

        fill(0, 'a', 0, CHUNKS / 2);
        fill(last, 'b', CHUNKS, CHUNKS / 2);
        start_clone(&cloners[0]);
        start_clone(&cloners[1]);
        pfl_session_due_run(&service);
        fill(last, 'c', 2 * CHUNKS, 5);
        (void)run_turns();
        assert_int_equal(cloners[0].answers, 1);
        assert_int_equal(cloners[1].answers, 1);
        assert_true(pfl_list_is_empty(&service.clones));
        if (cloners[0].is_ok && cloners[1].is_ok)
            assert_ptr_not_equal(cloners[0].consumer.session, NULL);
        else
            rc = PFL_ENOMEM;
    }
    if (service.buffers != NULL)
        close_service();
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    struct pfl_span configs[] = {pfl_span_of(copied_config, sizeof(copied_config)),
                                 pfl_span_of(both_config, sizeof(both_config)),
                                 pfl_span_of(cleared_config, sizeof(cleared_config))};

    (void)state;
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
        pfl_sweep(live, &configs[i], true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, close_all)
    const struct CMUnitTest tests[] = {
        TEST(a_small_clone_is_there_at_once),
        TEST(a_large_clone_is_what_was_there_when_its_flush_was_over),
        TEST(each_turn_copies_so_much),
        TEST(vms_that_move_to_a_clone_are_not_charged_to_its_source),
        TEST(who_clones_all_the_time_waits_until_that_is_paid),
        TEST(a_source_that_ends_meanwhile_is_cloned),
        TEST(who_frees_a_clone_meanwhile_is_answered_and_holds_up_no_other),
        TEST(who_waits_and_leaves_gets_nothing),
        TEST(a_clone_that_is_not_whole_is_neither_detached_nor_cloned),
        TEST(users_take_turns),
        TEST(what_is_transferred_and_what_is_copied_come_together),
        TEST(a_buffer_that_is_cleared_for_the_next_clone_is_the_first_ones),
        TEST(shares_are_given_back),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
