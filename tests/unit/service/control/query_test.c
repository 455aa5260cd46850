/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a service with many producers: parts that fit a frame and merge to the whole. */
#include "service/control/query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/frame.h"
#include "tests/support/sweep.h"

#define PRODUCERS 40u
#define SOURCES   100u

struct seen {
    unsigned parts;
    unsigned producers;
    unsigned sources;
    unsigned versions;
    bool is_ended;
};

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return 1;
}

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)body;
    (void)fd;
    (void)is_setup;
}

static const struct pfl_producer_ops ops = {.send_command = on_command};

static int on_part(void *user, struct pfl_span part, bool has_more)
{
    struct seen *seen = user;
    struct pfl_reader r = pfl_reader_of(part);
    struct pfl_field f;

    assert_false(seen->is_ended);
    assert_true(part.len <= PFL_FRAME_PAYLOAD_MAX - 64);
    seen->parts++;
    seen->is_ended = !has_more;
    assert_true(pfl_reader_field(&r, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f)) {
        seen->producers += f.id == 1;
        seen->sources += f.id == 2;
        seen->versions += f.id == 5;
    }
    assert_false(r.failed);
    return 0;
}

static void register_sources(struct pfl_service *service, struct pfl_producer *producer)
{
    uint8_t descriptor[256];

    for (unsigned i = 0; i < SOURCES; i++) {
        struct pfl_writer w = pfl_writer_of(descriptor, sizeof(descriptor));
        char name[120];

        (void)snprintf(name, sizeof(name), "%0110u", i);
        pfl_writer_field_bytes(&w, 1, name, 110);
        assert_int_equal(
            pfl_service_register_source(service, producer,
                                        pfl_span_of(descriptor, sizeof(descriptor) - w.left)),
            0);
    }
}

static void fill(struct pfl_service *service, struct pfl_producer *producers[PRODUCERS])
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {.now_ns = read_clock, .facts = &facts};
    const struct pfl_producer_conf producer = {.name = {(const uint8_t *)"p", 1}, .ops = &ops};

    assert_int_equal(pfl_service_init(service, &conf), 0);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        assert_int_equal(pfl_service_add_producer(service, &producer, &producers[i]), 0);
        register_sources(service, producers[i]);
    }
}

static void empty(struct pfl_service *service, struct pfl_producer *producers[PRODUCERS])
{
    for (unsigned i = 0; i < PRODUCERS; i++)
        pfl_service_remove_producer(service, producers[i]);
    pfl_service_fini(service);
    pfl_sweep_assert_no_leak();
}

static void a_large_state_comes_in_parts_that_merge_to_the_whole(void **state)
{
    struct pfl_producer *producers[PRODUCERS];
    struct pfl_service service;
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};

    (void)state;
    fill(&service, producers);
    assert_int_equal(pfl_query_state(&query, on_part, &seen), 0);
    assert_true(seen.is_ended);
    assert_true(seen.parts >= 4);
    assert_int_equal(seen.producers, PRODUCERS);
    assert_int_equal(seen.sources, PRODUCERS * SOURCES);
    assert_int_equal(seen.versions, 1);
    seen = (struct seen){0};
    query.sessions_only = true;
    assert_int_equal(pfl_query_state(&query, on_part, &seen), 0);
    assert_int_equal(seen.parts, 1);
    assert_int_equal(seen.producers + seen.sources, 0);
    empty(&service, producers);
}

static int ask(void *arg)
{
    struct seen seen = {0};

    return pfl_query_state(arg, on_part, &seen);
}

static void every_allocation_of_an_answer_may_fail(void **state)
{
    struct pfl_producer *producers[PRODUCERS];
    struct pfl_service service;
    struct pfl_query query = {.service = &service};

    (void)state;
    fill(&service, producers);
    pfl_sweep(ask, &query, false);
    empty(&service, producers);
}

static void a_part_that_cannot_be_sent_ends_the_answer(void **state)
{
    struct pfl_producer *producers[PRODUCERS];
    struct pfl_service service;
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};

    (void)state;
    fill(&service, producers);
    pfl_mem_fail_at(1);
    assert_int_equal(pfl_query_state(&query, on_part, &seen), PFL_ENOMEM);
    pfl_mem_fail_at(0);
    assert_int_equal(seen.parts, 0);
    empty(&service, producers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_state_comes_in_parts_that_merge_to_the_whole),
        cmocka_unit_test(every_allocation_of_an_answer_may_fail),
        cmocka_unit_test(a_part_that_cannot_be_sent_ends_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
