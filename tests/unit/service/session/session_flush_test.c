/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a session's flush asks, what it costs its user, and how long it waits. */
#include "service/session/session_flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/producer_port.fields.h"
#include "service/control/registry.h"
#include "service/session/session_due.h"
#include "service/session/session_instances.h"
#include "service/session/session_run.h"
#include "tests/support/sweep.h"

#define PRODUCERS 64u
#define MEMBER    1000u
#define STRANGER  1001u

struct peer {
    struct pfl_producer *producer;
    unsigned flushes;
    unsigned clears;
};

static uint64_t now_ms = 1000000;
static struct pfl_service service;
static struct pfl_consumer consumer;
static unsigned answers;
static unsigned answers_ok;
static struct peer peers[PRODUCERS];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ms * 1000000;
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

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    answers++;
    answers_ok += is_ok;
}

static void ignore(void *port)
{
    (void)port;
}

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    struct peer *peer = port;

    (void)fd;
    (void)is_setup;
    peer->flushes += body.data[0] >> 3 == GET_ASYNC_COMMAND_RESPONSE__FLUSH;
    peer->clears += body.data[0] >> 3 == GET_ASYNC_COMMAND_RESPONSE__CLEAR_INCREMENTAL_STATE;
}

static int set_up(void **state)
{
    static const struct pfl_service_facts facts = {.version = "test", .machine_name = "m"};
    static const struct pfl_consumer_ops ops = {.on_disabled = on_disabled,
                                                .on_flush_done = on_flush_done,
                                                .on_session_gone = ignore,
                                                .on_observed = ignore};
    /* buffers { size_kb: 64 } and data sources x and y, of that buffer */
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x40, 0x12, 0x05, 0x0a, 0x03, 0x0a,
                                     0x01, 'x',  0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'y'};
    const struct pfl_session_enable_conf conf = {.config = pfl_span_of(config, sizeof(config))};
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    memset(peers, 0, sizeof(peers));
    answers = answers_ok = 0;
    assert_int_equal(pfl_service_init(&service, &(struct pfl_service_conf){.now_ns = read_clock,
                                                                           .random = read_random,
                                                                           .facts = &facts}),
                     0);
    consumer = (struct pfl_consumer){.ops = &ops, .port = &consumer, .who = MEMBER};
    pfl_registry_add_consumer(&service, &consumer);
    assert_int_equal(pfl_session_enable(&service, &consumer, &conf, why), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        if (peers[i].producer != NULL)
            (void)pfl_registry_remove_producer(&service, peers[i].producer);
    }
    pfl_registry_remove_consumer(&service, &consumer);
    assert_int_equal(service.shares.peer_bytes.used, 0);
    assert_int_equal(service.flushes.waits.used, 0);
    pfl_service_fini(&service);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* Of the network: its commands need no shared memory. */
static struct peer *add_peer(unsigned index, const char *sources)
{
    static const struct pfl_producer_ops ops = {.send_command = on_command};
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"p", 1},
                                           .who = STRANGER,
                                           .is_emulated = true,
                                           .ops = &ops,
                                           .port = &peers[index]};

    assert_int_equal(pfl_registry_add_producer(&service, &conf, &peers[index].producer), 0);
    for (; *sources != '\0'; sources++) {
        /* name, handles_incremental_state_clear */
        const uint8_t descriptor[] = {0x0a, 0x01, (uint8_t)*sources, 0x20, 0x01};

        assert_int_equal(pfl_registry_register_source(&service, peers[index].producer,
                                                      pfl_span_of(descriptor, sizeof(descriptor))),
                         0);
    }
    return &peers[index];
}

static void flush_for(uint32_t timeout_ms)
{
    const struct pfl_session_flush_conf conf = {.timeout_ms = timeout_ms,
                                                .then = PFL_FLUSH_THEN_REPLY};

    pfl_session_flush(&service, consumer.session, &conf);
}

static void each_producer_of_the_session_is_asked_once(void **state)
{
    struct peer *first = add_peer(0, "xyx");
    struct peer *idle = add_peer(1, "z");
    struct peer *second = add_peer(2, "yx");

    (void)state;
    flush_for(5000);
    pfl_session_clear_state(&service, consumer.session);
    assert_int_equal(first->flushes, 1);
    assert_int_equal(second->flushes, 1);
    assert_int_equal(idle->flushes, 0);
    assert_int_equal(first->clears, 1);
    assert_int_equal(second->clears, 1);
    assert_int_equal(idle->clears, 0);
    pfl_session_ack_flush(&service, first->producer, UINT64_MAX);
    assert_int_equal(answers, 0);
    pfl_session_ack_flush(&service, second->producer, UINT64_MAX);
    pfl_session_due_run(&service);
    assert_int_equal(answers_ok, 1);
}

static void a_flush_costs_its_user_what_takes_part(void **state)
{
    const uint64_t each = sizeof(struct pfl_flush) + sizeof(struct pfl_flush_wait);
    uint64_t of_plan = pfl_shares_get(&service.shares.peer_bytes, MEMBER);

    (void)state;
    for (unsigned i = 1; i < PRODUCERS; i++)
        (void)add_peer(i, "z");
    (void)add_peer(0, "x");
    for (unsigned i = 1; i <= 100; i++) {
        flush_for(5000);
        assert_int_equal(pfl_shares_get(&service.shares.peer_bytes, MEMBER), of_plan + i * each);
        assert_int_equal(pfl_shares_get(&service.flushes.waits, MEMBER), i);
    }
    pfl_session_ack_flush(&service, peers[0].producer, UINT64_MAX);
    pfl_session_due_run(&service);
    assert_int_equal(answers_ok, 100);
    assert_int_equal(pfl_shares_get(&service.shares.peer_bytes, MEMBER), of_plan);
}

static void no_flush_waits_longer_than_the_limit(void **state)
{
    (void)state;
    (void)add_peer(0, "x");
    flush_for(UINT32_MAX);
    now_ms += PFL_FLUSH_TIMEOUT_MAX_MS - 1;
    pfl_session_due_run(&service);
    assert_int_equal(answers, 0);
    now_ms += 1;
    pfl_session_due_run(&service);
    assert_int_equal(answers, 1);
    assert_int_equal(answers_ok, 0);
}

static void a_producer_that_leaves_is_not_waited_for(void **state)
{
    (void)state;
    (void)add_peer(0, "x");
    (void)add_peer(1, "x");
    flush_for(5000);
    flush_for(5000);
    pfl_session_ack_flush(&service, peers[1].producer, UINT64_MAX);
    (void)pfl_registry_remove_producer(&service, peers[0].producer);
    peers[0].producer = NULL;
    pfl_session_due_run(&service);
    assert_int_equal(answers, 2);
    assert_int_equal(answers_ok, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_producer_of_the_session_is_asked_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_flush_costs_its_user_what_takes_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_flush_waits_longer_than_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_producer_that_leaves_is_not_waited_for, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
