/* SPDX-License-Identifier: Apache-2.0 */
/* The totals of a service: one user has half, another still finds something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "proto/ipc/frame.h"
#include "service/buffer/gather.h"
#include "service/buffer/retired_rings.h"
#include "service/buffer/trace_ring.h"
#include "service/control/guardrails.h"
#include "service/control/registry.h"
#include "service/session/clone.h"
#include "service/session/session_run.h"
#include "service/session/trigger.h"
#include "service/vm/vm_set.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

#define SERVICE_USER 5u

static struct pfl_service service;
static struct pfl_producer *producers[200];
static size_t producers_len;
static struct pfl_consumer consumers[20];

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return 1;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 7, len);
}

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)body;
    (void)fd;
    (void)is_setup;
}

static int set_up(void **state)
{
    static const struct pfl_service_facts facts = {.version = "test", .uid = SERVICE_USER};
    const struct pfl_service_conf conf = {.now_ns = read_clock,
                                          .random = read_random,
                                          .facts = &facts,
                                          .fds_max = 64,
                                          .buffer_bytes_max = 64u << 20};

    (void)state;
    producers_len = 0;
    memset(consumers, 0, sizeof(consumers));
    return pfl_service_init(&service, &conf);
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(consumers) / sizeof(consumers[0]); i++) {
        if (consumers[i].ops != NULL)
            pfl_registry_remove_consumer(&service, &consumers[i]);
    }
    while (producers_len > 0)
        pfl_registry_remove_producer(&service, producers[--producers_len]);
    assert_int_equal(service.shares.sources.used, 0);
    assert_int_equal(service.shares.peer_bytes.used, 0);
    pfl_service_fini(&service);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_producer *add_producer(uint32_t uid)
{
    static const struct pfl_producer_ops ops = {.send_command = on_command};
    /* Of the network: its commands need no shared memory. */
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"p", 1},
                                           .uid = uid,
                                           .who = uid,
                                           .is_emulated = true,
                                           .ops = &ops};

    assert_true(producers_len < sizeof(producers) / sizeof(producers[0]));
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producers[producers_len]), 0);
    return producers[producers_len++];
}

static int add_source(struct pfl_producer *producer, size_t bytes)
{
    static uint8_t descriptor[PFL_FRAME_PAYLOAD_MAX];
    struct pfl_writer w = pfl_writer_of(descriptor, bytes);

    pfl_writer_field_bytes(&w, 1, "x", 1);
    if (w.left > 10)
        pfl_writer_field_header(&w, 6, w.left - 4);
    return pfl_registry_register_source(&service, producer, pfl_span_of(descriptor, bytes));
}

/* How many sources the user can register at most. */
static size_t add_sources(uint32_t uid, size_t bytes, size_t of_producer)
{
    size_t added = 0;

    for (;;) {
        struct pfl_producer *producer = add_producer(uid);

        for (size_t i = 0; i < of_producer; i++) {
            if (add_source(producer, bytes) != 0)
                return added;
            added++;
        }
    }
}

static void one_user_has_half_of_all_data_sources(void **state)
{
    (void)state;
    assert_int_equal(add_sources(7, 3, PFL_PRODUCER_MAX_SOURCES), PFL_SERVICE_MAX_SOURCES / 2);
    assert_int_equal(add_source(add_producer(8), 3), 0);
    assert_int_equal(add_source(add_producer(0), 3), 0);
}

static void one_user_has_half_of_the_memory_for_what_is_registered(void **state)
{
    uint64_t used;

    (void)state;
    (void)add_sources(7, 131008, 31);
    used = pfl_shares_get(&service.shares.peer_bytes, 7);
    assert_in_range(used, PFL_SERVICE_MAX_PEER_BYTES / 2 - 132000, PFL_SERVICE_MAX_PEER_BYTES / 2);
    assert_int_equal(add_source(add_producer(8), 131008), 0);
    assert_int_equal(pfl_guardrails_get_limit(&service),
                     PFL_GUARDRAILS_MEMORY_BYTES + service.shares.peer_bytes.used);
}

static void a_writers_table_and_a_larger_descriptor_count_as_memory(void **state)
{
    struct pfl_producer *producer = add_producer(7);
    uint64_t before = pfl_shares_get(&service.shares.peer_bytes, 7);
    uint8_t larger[] = {10, 1, 'x', 16, 1, 24, 1, 56, 1};
    uint8_t with_id[] = {10, 1, 'x', 56, 1};

    (void)state;
    assert_int_equal(pfl_registry_set_writer(&service, producer, 32767, 1), 0);
    assert_int_equal(pfl_shares_get(&service.shares.peer_bytes, 7), before + 65536);
    assert_int_equal(
        pfl_registry_register_source(&service, producer, pfl_span_of(with_id, sizeof(with_id))), 0);
    before = pfl_shares_get(&service.shares.peer_bytes, 7);
    assert_int_equal(
        pfl_registry_update_source(&service, producer, pfl_span_of(larger, sizeof(larger))), 0);
    assert_int_equal(pfl_shares_get(&service.shares.peer_bytes, 7),
                     before + sizeof(larger) - sizeof(with_id));
    service.shares.peer_bytes.max = service.shares.peer_bytes.used; /* nothing is left */
    assert_int_equal(
        pfl_registry_update_source(&service, producer, pfl_span_of(larger, sizeof(larger))), 0);
    assert_int_equal(add_source(producer, 3), PFL_ELIMIT);
    producer = producers[0];
    assert_int_equal(producer->sources_len, 1);
}

static void one_user_has_half_of_the_connections_and_the_owner_all(void **state)
{
    struct pfl_shares *share = &service.shares.consumers;
    size_t taken = 0;
    size_t owners = 0;

    (void)state;
    while (pfl_service_take_connection(&service, share, 7))
        taken++;
    assert_int_equal(taken, 64 / PFL_SERVICE_CONN_FDS / 2);
    assert_true(pfl_service_take_connection(&service, share, 8));
    while (owners < 1000 && pfl_service_take_connection(&service, share, SERVICE_USER))
        owners++;
    assert_int_equal(owners, 1000);
    while (owners-- > 0)
        pfl_service_give_connection(&service, share, SERVICE_USER);
    pfl_service_give_connection(&service, share, 8);
    while (taken-- > 0)
        pfl_service_give_connection(&service, share, 7);
    assert_int_equal(service.shares.fds.used, 0);
    assert_int_equal(share->used, 0);
}

static void on_event(void *port)
{
    (void)port;
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    (void)port;
    assert_true(result->is_ok);
}

static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_cloned = on_cloned,
                                                     .on_session_gone = on_event,
                                                     .on_read_ready = on_event,
                                                     .on_observed = on_event};

static struct pfl_consumer *add_consumer(size_t i, uint32_t uid)
{
    consumers[i] = (struct pfl_consumer){.uid = uid, .ops = &consumer_ops};
    pfl_registry_add_consumer(&service, &consumers[i]);
    return &consumers[i];
}

static int enable(struct pfl_consumer *consumer, uint32_t size_kb, char *why)
{
    uint8_t config[64];
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));
    uint8_t buffer[8];
    struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));
    static const uint8_t source[] = {10, 3, 10, 1, 'x'}; /* config { name: "x" } */

    pfl_writer_field_varint(&b, 1, size_kb);
    pfl_writer_field_bytes(&w, 1, buffer, sizeof(buffer) - b.left);
    pfl_writer_field_bytes(&w, 2, source, sizeof(source));
    return pfl_session_enable(
        &service, consumer,
        &(struct pfl_session_enable_conf){.config = pfl_span_of(config, sizeof(config) - w.left)},
        why);
}

static void one_user_has_half_of_the_instances_of_a_session(void **state)
{
    struct pfl_consumer *root = add_consumer(0, 0);
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(enable(root, 64, why), 0);
    for (size_t i = 0; i < PFL_SESSION_MAX_INSTANCES / 2 / PFL_PRODUCER_MAX_SOURCES + 1; i++) {
        struct pfl_producer *producer = add_producer(7);

        for (size_t k = 0; k < PFL_PRODUCER_MAX_SOURCES; k++)
            assert_int_equal(add_source(producer, 3), 0);
    }
    assert_int_equal(root->session->instances_len, PFL_SESSION_MAX_INSTANCES / 2);
    assert_int_equal(root->session->left_out, PFL_PRODUCER_MAX_SOURCES);
    assert_int_equal(add_source(add_producer(8), 3), 0);
    assert_int_equal(root->session->instances_len, PFL_SESSION_MAX_INSTANCES / 2 + 1);
    pfl_session_end(&service, root->session);
    assert_true(pfl_list_is_empty(&service.permitted));
    /* The same when they were there before the session. */
    assert_int_equal(enable(root, 64, why), 0);
    assert_int_equal(root->session->instances_len, PFL_SESSION_MAX_INSTANCES / 2 + 1);
}

static void one_user_has_half_of_the_memory_for_buffers(void **state)
{
    struct pfl_consumer *greedy = add_consumer(0, 7);
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(enable(greedy, 33 << 10, why), PFL_EINVAL);
    assert_string_equal(why, "buffers: 33 MiB; user 7 has 0 MiB of the 64 MiB for all buffers of "
                             "this host, and may have as much as is then left for others (all have "
                             "0 MiB); ask for smaller ones, or free sessions");
    assert_int_equal(enable(greedy, 32 << 10, why), 0);
    assert_int_equal(enable(add_consumer(1, 8), 16 << 10, why), 0);
    pfl_session_end(&service, consumers[0].session);
    pfl_session_end(&service, consumers[1].session);
    assert_int_equal(service.shares.buffer_bytes.used, 0);
}

/* A user who has this id as a subordinate one. */
static void ids_of_one_user_share_his_memory_and_sessions(void **state)
{
    struct pfl_consumer *first = add_consumer(0, 7);
    struct pfl_consumer *second = add_consumer(1, 700001);
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    second->who = 7;
    assert_int_equal(enable(first, 32 << 10, why), 0);
    assert_int_equal(enable(second, 64, why), PFL_EINVAL);
    pfl_session_end(&service, first->session);
    service.conf.sessions_per_uid_max = 1;
    assert_int_equal(enable(first, 64, why), 0);
    assert_int_equal(enable(second, 64, why), PFL_EINVAL);
    assert_string_equal(why, "user 7 has 1 sessions already, the most a user may have; free one");
    assert_int_equal(enable(add_consumer(2, 8), 64, why), 0);
    pfl_session_end(&service, first->session);
    pfl_session_end(&service, consumers[2].session);
    assert_int_equal(service.shares.buffer_bytes.used, 0);
}

/* Of 15: three users have 5, 5 and 2, two more have one each, and the last one is root's. */
static void a_few_users_do_not_have_all_sessions(void **state)
{
    static const struct {
        uint32_t uid;
        unsigned may_have;
    } users[] = {{7, 5}, {8, 5}, {9, 2}, {10, 1}, {11, 1}, {12, 0}, {0, 1}};
    char why[PFL_PLAN_WHY_BYTES];
    unsigned added = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        for (unsigned n = 0; n < users[i].may_have; n++)
            assert_int_equal(enable(add_consumer(added++, users[i].uid), 64, why), 0);
        assert_int_equal(enable(add_consumer(added, users[i].uid), 64, why), PFL_EINVAL);
        pfl_registry_remove_consumer(&service, &consumers[added]);
        consumers[added].ops = NULL;
    }
    assert_string_equal(why, "there are 15 sessions already, the most there may be; free one");
    service.conf.sessions_max = service.conf.sessions_per_uid_max = 16; /* of each user */
    assert_int_equal(enable(add_consumer(added++, 7), 64, why), 0);
    for (unsigned i = 0; i < added; i++)
        pfl_session_end(&service, consumers[i].session);
}

static void one_user_has_half_of_the_triggers_of_a_session(void **state)
{
    struct pfl_trigger_list list = {0};
    struct pfl_trigger trigger = {.who = 7};
    size_t added = 0;

    (void)state;
    while (pfl_trigger_list_add(&list, &trigger) == 0)
        added++;
    assert_int_equal(added, PFL_TRIGGERS_MAX / 2);
    trigger.who = 8;
    assert_int_equal(pfl_trigger_list_add(&list, &trigger), 0);
    pfl_trigger_list_fini(&list);
}

static void one_address_has_half_of_the_relays(void **state)
{
    struct pfl_remote_machines book;
    struct pfl_relay *relay;
    uint32_t added = 0;

    (void)state;
    pfl_remote_machines_init(&book);
    while (pfl_remote_machines_add(&book, added + 1, 7, &relay) == 0)
        added++;
    assert_int_equal(added, PFL_RELAY_MAX / 2);
    assert_int_equal(pfl_remote_machines_add(&book, 999, 8, &relay), 0);
    pfl_remote_machines_fini(&book);
}

/* What a producer would do: names that FNV-1a puts at one place of a table. */
static struct pfl_span next_meeting_name(uint32_t *number, char name[16], bool is_trigger)
{
    uint64_t place;
    uint64_t hash;
    int len;

    do {
        len = snprintf(name, 16, "n%u", ++*number);
        hash = 0xcbf29ce484222325ull;
        for (int i = 0; i < len; i++)
            hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3ull;
        place = is_trigger ? (hash * 0x9e3779b97f4a7c15ull >> 32) % 2048
                           : pfl_hash(pfl_span_of(name, (size_t)len)) % PFL_SERVICE_NAMES;
    } while (place != 0);
    return pfl_span_of(name, (size_t)len);
}

static void names_chosen_to_meet_do_not_meet_in_the_lists_of_data_sources(void **state)
{
    size_t longest = 0;
    uint32_t number = 0;
    char name[16];

    (void)state;
    for (size_t i = 0; i < 2048; i++) {
        struct pfl_producer *producer = i % 256 == 0 ? add_producer(7) : producers[i / 256];
        uint8_t descriptor[32];
        struct pfl_writer w = pfl_writer_of(descriptor, sizeof(descriptor));
        struct pfl_span span = next_meeting_name(&number, name, false);

        pfl_writer_field_bytes(&w, 1, span.data, span.len);
        assert_int_equal(
            pfl_registry_register_source(&service, producer,
                                         pfl_span_of(descriptor, sizeof(descriptor) - w.left)),
            0);
    }
    for (size_t i = 0; i < PFL_SERVICE_NAMES; i++) {
        const struct pfl_list *it;
        size_t len = 0;

        PFL_LIST_EACH (it, &service.sources_by_name[i]) {
            len++;
        }
        longest = len > longest ? len : longest;
    }
    assert_in_range(longest, 2, 16);
}

/* A session that waits for these triggers. */
static void enable_triggers(struct pfl_consumer *consumer, char names[][16], size_t len)
{
    static uint8_t triggers[65536];
    static uint8_t config[65536 + 64];
    struct pfl_writer t = pfl_writer_of(triggers, sizeof(triggers));
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));
    char why[PFL_PLAN_WHY_BYTES] = "";
    struct pfl_session_enable_conf conf = {0};

    pfl_writer_field_varint(&t, 1, 1); /* START_TRACING */
    pfl_writer_field_varint(&t, 3, 60000);
    for (size_t i = 0; i < len; i++) {
        pfl_writer_field_header(&t, 2, strlen(names[i]) + 4);
        pfl_writer_field_bytes(&t, 1, names[i], strlen(names[i]));
        pfl_writer_field_varint(&t, 3, 9); /* stop_delay_ms */
    }
    pfl_writer_field_bytes(&w, 1, (const uint8_t[]){8, 64}, 2); /* a buffer */
    pfl_writer_field_bytes(&w, 17, triggers, sizeof(triggers) - t.left);
    assert_false(t.failed || w.failed);
    conf.config = pfl_span_of(config, sizeof(config) - w.left);
    assert_int_equal(pfl_session_enable(&service, consumer, &conf, why), 0);
    assert_string_equal(why, "");
}

static void names_chosen_to_meet_do_not_meet_in_the_history_of_triggers(void **state)
{
    static char names[600][16];
    const struct pfl_producer *root = add_producer(0);
    size_t run = 0;
    size_t longest = 0;
    uint32_t number = 0;

    (void)state;
    for (size_t i = 0; i < 600; i++)
        (void)next_meeting_name(&number, names[i], true);
    enable_triggers(add_consumer(0, 0), names, 600);
    for (size_t i = 0; i < 600; i++)
        pfl_trigger_activate(&service, root, pfl_span_of(names[i], strlen(names[i])));
    assert_int_equal(service.triggers.len, 600);
    assert_int_equal(service.triggers.cap, 1024);
    for (size_t i = 0; i < 2 * service.triggers.cap; i++) {
        run = service.triggers.names[i].count != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_in_range(longest, 2, 40);
}

/* The cost of an id does not follow from who holds the others. */
static void ids_in_use_are_not_given_again(void **state)
{
    const struct pfl_producer *first = add_producer(7);

    (void)state;
    service.last_producer_id = UINT16_MAX - 1;
    assert_int_equal(add_producer(7)->id, UINT16_MAX);
    assert_int_equal(first->id, 1);
    assert_int_equal(add_producer(7)->id, 2);
}

static void a_producer_that_joins_a_vm_needs_no_memory_of_the_users_share(void **state)
{
    /* buffers { size_kb: 8192 }
     * data_sources { config { name: "x" protovm_config { memory_limit_kb: 16384 } } } */
    static const uint8_t config[] = {0x0a, 0x03, 0x08, 0x80, 0x40, 0x12, 0x0b, 0x0a, 0x09,
                                     0x0a, 0x01, 'x',  0x62, 0x04, 0x08, 0x80, 0x80, 0x01};
    /* name: "x" protovm_program: merge */
    static const uint8_t descriptor[] = {0x0a, 0x01, 'x', 0x52, 0x04, 0x12, 0x02, 0x1a, 0x00};
    struct pfl_consumer *consumer = add_consumer(0, 7);
    const struct pfl_vm_set *vms;
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(
        pfl_session_enable(
            &service, consumer,
            &(struct pfl_session_enable_conf){.config = pfl_span_of(config, sizeof(config))}, why),
        0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pfl_registry_register_source(&service, add_producer(20 + i),
                                                      pfl_span_of(descriptor, sizeof(descriptor))),
                         0);
    vms = pfl_trace_buffer_get_vms(consumer->session->buffers[0].ring);
    assert_int_equal(pfl_vm_set_len(vms), 1);
    assert_int_equal(pfl_vm_set_get(vms, 0)->producers_len, 3);
    pfl_session_end(&service, consumer->session);
    assert_int_equal(service.shares.buffer_bytes.used, 0);
}

/* buffers { size_kb: 4 }, and a filter with rules that compile to some 1.3 MiB. */
static int enable_filter(struct pfl_consumer *consumer, char *why)
{
    static const struct kit_rule rule = {.policy = 1, .pattern = "(?:[a-c]y){800}", .type = -1};
    struct kit_bytes code = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_STRING(900), KIT_END);
    struct kit_bytes filter = {.len = 0};
    struct kit_bytes config = {.len = 0};
    struct kit_rule rules[8];
    struct kit_bytes chain;

    for (size_t i = 0; i < 8; i++)
        rules[i] = rule;
    chain = kit_chain(rules, 8);
    kit_put(&filter, 1, code.data, code.len);
    kit_put(&filter, 3, chain.data, chain.len);
    kit_put(&config, 1, (const uint8_t[]){8, 4}, 2);
    kit_put(&config, 33, filter.data, filter.len);
    return pfl_session_enable(&service, consumer,
                              &(struct pfl_session_enable_conf){.config = kit_span(&config)}, why);
}

static void memory_of_a_config_is_its_users_until_the_last_clone_is_gone(void **state)
{
    const uint64_t before = pfl_guardrails_get_limit(&service);
    struct pfl_consumer *owner = add_consumer(0, 7);
    struct pfl_consumer *cloner = add_consumer(1, 0);
    struct pfl_clone_request request = {0};
    char why[PFL_PLAN_WHY_BYTES];
    uint64_t compiled;

    (void)state;
    assert_int_equal(enable_filter(owner, why), 0);
    compiled = pfl_shares_get(&service.shares.peer_bytes, 7);
    assert_true(compiled > 500000);
    assert_true(pfl_guardrails_get_limit(&service) >= before + compiled);
    request.session_id = owner->session->id;
    pfl_clone_start(&service, cloner, &request);
    assert_non_null(cloner->session);
    assert_true(service.shares.peer_bytes.used - compiled < 20000); /* the rules count once */
    pfl_session_end(&service, owner->session);
    assert_true(pfl_shares_get(&service.shares.peer_bytes, 7) > 500000);
    pfl_session_end(&service, cloner->session);
    assert_int_equal(service.shares.peer_bytes.used, 0);
}

static void a_config_past_its_users_share_of_memory_is_refused(void **state)
{
    struct pfl_consumer *greedy = add_consumer(0, 7);
    struct pfl_consumer *second = add_consumer(1, 7);
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    service.shares.peer_bytes.max = 4u << 20;
    assert_int_equal(enable_filter(greedy, why), 0);
    assert_int_equal(enable_filter(second, why), PFL_EINVAL);
    assert_string_equal(why, "the config, with its compiled rules and patterns, is too large: user "
                             "7 has 1 MiB of the 4 MiB for what the service keeps for its clients, "
                             "and may have as much as is then left for others (all have 1 MiB); "
                             "use fewer rules and patterns, or free sessions");
    assert_int_equal(enable(second, 4, why), 0);
    pfl_session_end(&service, second->session);
    assert_int_equal(enable_filter(add_consumer(2, 0), why), 0);
}

static void memory_that_is_released_in_turns_counts_until_it_is(void **state)
{
    const uint64_t before = pfl_guardrails_get_limit(&service);
    struct pfl_trace_ring ring;

    (void)state;
    assert_int_equal(pfl_trace_ring_init(&ring, 64u << 20), 0);
    ring.used_bytes = ring.size_bytes; /* never written to: the kernel has no pages to make */
    pfl_trace_ring_fini(&ring);
    assert_int_equal(pfl_guardrails_get_limit(&service), before + (64u << 20));
    pfl_retired_rings_release_all();
    assert_int_equal(pfl_guardrails_get_limit(&service), before);
}

static void a_long_packet_counts_while_it_is_read(void **state)
{
    const struct pfl_trace_buffer_conf conf = {.size_bytes = 1u << 20};
    const uint64_t before = pfl_guardrails_get_limit(&service);
    struct pfl_trace_buffer_packet packet;
    struct pfl_trace_buffer *buffer;

    (void)state;
    assert_int_equal(pfl_trace_buffer_new(&conf, &buffer), 0);
    for (uint32_t i = 0; i < 2 * PFL_LONG_PACKET_FRAGMENTS; i++) {
        const struct pfl_trace_buffer_chunk chunk = {
            .producer_id = 1,
            .writer_id = 1,
            .chunk_id = i,
            .fragments = 1,
            .flags = (uint8_t)((i != 0 ? PFL_CHUNK_CONTINUES_PREV : 0u) |
                               (i != 2 * PFL_LONG_PACKET_FRAGMENTS - 1
                                    ? (unsigned)PFL_CHUNK_CONTINUES_NEXT
                                    : 0u)),
            .is_complete = true,
            .payload = (const uint8_t *)"\2xx",
            .payload_bytes = 3,
        };

        pfl_trace_buffer_commit(buffer, &chunk);
    }
    pfl_trace_buffer_begin_read(buffer);
    while (!pfl_trace_buffer_read(buffer, &packet))
        assert_true(pfl_trace_buffer_is_paused(buffer));
    assert_true(packet.is_long);
    assert_true(pfl_guardrails_get_limit(&service) > before + packet.bytes);
    pfl_trace_buffer_free(buffer);
    assert_int_equal(pfl_guardrails_get_limit(&service), before);
}

/* A hole in it is filled on the service's account when that reads it. */
static void shared_memory_leaves_most_of_what_the_service_may_have(void **state)
{
    struct pfl_service_conf conf = service.conf;
    struct pfl_service small;

    (void)state;
    assert_int_equal(service.shares.smb_bytes.max, PFL_SERVICE_MAX_SMB_BYTES);
    conf.memory_max = (uint64_t)1 << 30;
    assert_int_equal(pfl_service_init(&small, &conf), 0);
    assert_int_equal(small.shares.smb_bytes.max, (uint64_t)256 << 20);
    pfl_service_fini(&small);
    conf.memory_max = (uint64_t)1 << 40;
    assert_int_equal(pfl_service_init(&small, &conf), 0);
    assert_int_equal(small.shares.smb_bytes.max, PFL_SERVICE_MAX_SMB_BYTES);
    pfl_service_fini(&small);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_user_has_half_of_all_data_sources),
        TEST(one_user_has_half_of_the_memory_for_what_is_registered),
        TEST(a_writers_table_and_a_larger_descriptor_count_as_memory),
        TEST(one_user_has_half_of_the_connections_and_the_owner_all),
        TEST(one_user_has_half_of_the_instances_of_a_session),
        TEST(one_user_has_half_of_the_memory_for_buffers),
        TEST(ids_of_one_user_share_his_memory_and_sessions),
        TEST(a_few_users_do_not_have_all_sessions),
        TEST(one_user_has_half_of_the_triggers_of_a_session),
        TEST(one_address_has_half_of_the_relays),
        TEST(ids_in_use_are_not_given_again),
        TEST(names_chosen_to_meet_do_not_meet_in_the_lists_of_data_sources),
        TEST(names_chosen_to_meet_do_not_meet_in_the_history_of_triggers),
        TEST(a_producer_that_joins_a_vm_needs_no_memory_of_the_users_share),
        TEST(memory_of_a_config_is_its_users_until_the_last_clone_is_gone),
        TEST(a_config_past_its_users_share_of_memory_is_refused),
        TEST(memory_that_is_released_in_turns_counts_until_it_is),
        TEST(a_long_packet_counts_while_it_is_read),
        TEST(shared_memory_leaves_most_of_what_the_service_may_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
