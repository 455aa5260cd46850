/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a service with many producers: parts that fit a frame and merge to the whole. */
#include "perfetto/service_state.fields.h"
#include "service/control/query.h"
#include "service/control/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/ipc/frame.h"
#include "tests/support/sweep.h"

#define PRODUCERS 40u
#define SOURCES   100u

struct seen {
    unsigned parts;
    unsigned producers;
    unsigned sources;
    unsigned versions;
    size_t descriptor_bytes;
    size_t largest_bytes;
    size_t largest_of_others; /* than the one who fills the answer */
    unsigned left_outs;
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

/* Of a source entry: ds_descriptor, and in it the name. */
static void look_at_source(struct seen *seen, struct pfl_span entry)
{
    struct pfl_reader r = pfl_reader_of(entry);
    struct pfl_field f;
    size_t bytes;

    seen->sources++;
    assert_true(pfl_reader_field(&r, &f));
    seen->descriptor_bytes += f.bytes.len;
    if (f.bytes.len > seen->largest_bytes)
        seen->largest_bytes = f.bytes.len;
    bytes = f.bytes.len;
    r = pfl_reader_of(f.bytes);
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 1);
    if (f.bytes.len == 6 && memcmp(f.bytes.data, "others", 6) == 0)
        seen->largest_of_others = bytes;
}

static void look_at(struct seen *seen, struct pfl_span part)
{
    struct pfl_reader r = pfl_reader_of(part);
    struct pfl_field f;

    assert_true(part.len <= PFL_RPC_REPLY_BODY_MAX);
    seen->parts++;
    assert_true(pfl_reader_field(&r, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f)) {
        seen->producers += f.id == 1;
        seen->versions += f.id == 5;
        seen->left_outs += f.id == TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT;
        if (f.id == 2)
            look_at_source(seen, f.bytes);
    }
    assert_false(r.failed);
}

static int ask_all(struct pfl_query *query, struct seen *seen)
{
    bool has_more = true;
    struct pfl_buf part;
    int rc = 0;

    pfl_buf_init(&part, PFL_RPC_REPLY_BODY_MAX);
    while (rc == 0 && has_more) {
        rc = pfl_query_next(query, &part, &has_more);
        if (rc == 0)
            look_at(seen, pfl_buf_get(&part));
    }
    pfl_buf_fini(&part);
    pfl_query_fini(query);
    return rc;
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
            pfl_registry_register_source(service, producer,
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
        assert_int_equal(pfl_registry_add_producer(service, &producer, &producers[i]), 0);
        register_sources(service, producers[i]);
    }
}

static void empty(struct pfl_service *service, struct pfl_producer *producers[PRODUCERS])
{
    for (unsigned i = 0; i < PRODUCERS; i++)
        pfl_registry_remove_producer(service, producers[i]);
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
    assert_int_equal(ask_all(&query, &seen), 0);
    assert_true(seen.parts >= 4);
    assert_int_equal(seen.producers, PRODUCERS);
    assert_int_equal(seen.sources, PRODUCERS * SOURCES);
    assert_int_equal(seen.versions, 1);
    seen = (struct seen){0};
    query = (struct pfl_query){.service = &service, .sessions_only = true};
    assert_int_equal(ask_all(&query, &seen), 0);
    assert_int_equal(seen.parts, 1);
    assert_int_equal(seen.producers + seen.sources, 0);
    empty(&service, producers);
}

static int ask(void *arg)
{
    struct pfl_query query = {.service = arg};
    struct seen seen = {0};

    return ask_all(&query, &seen);
}

static void every_allocation_of_an_answer_may_fail(void **state)
{
    struct pfl_producer *producers[PRODUCERS];
    struct pfl_service service;

    (void)state;
    fill(&service, producers);
    pfl_sweep(ask, &service, false);
    empty(&service, producers);
}

/* A descriptor of so many bytes, 16 KiB and more, with a name that says its number. */
static void register_large(struct pfl_service *service, struct pfl_producer *producer,
                           unsigned number, size_t bytes)
{
    uint8_t *descriptor = pfl_mem_zalloc(bytes);
    struct pfl_writer w = pfl_writer_of(descriptor, bytes);
    char name[16];

    (void)snprintf(name, sizeof(name), "large-%u", number);
    pfl_writer_field_bytes(&w, 1, name, strlen(name));
    pfl_writer_field_header(&w, 6, w.left - 4); /* track_event_descriptor */
    assert_int_equal(
        pfl_registry_register_source(service, producer, pfl_span_of(descriptor, bytes)), 0);
    pfl_mem_free(descriptor);
}

static void open_service(struct pfl_service *service, struct pfl_producer **ret_producer)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {.now_ns = read_clock, .facts = &facts};
    const struct pfl_producer_conf producer = {.name = {(const uint8_t *)"p", 1}, .ops = &ops};

    assert_int_equal(pfl_service_init(service, &conf), 0);
    assert_int_equal(pfl_registry_add_producer(service, &producer, ret_producer), 0);
}

static void close_service(struct pfl_service *service, struct pfl_producer *producer)
{
    pfl_registry_remove_producer(service, producer);
    assert_int_equal(service->shares.sources.used, 0);
    assert_int_equal(service->shares.peer_bytes.used, 0);
    pfl_service_fini(service);
    pfl_sweep_assert_no_leak();
}

static void descriptors_that_fill_a_frame_come_whole_each_in_a_reply_of_its_own(void **state)
{
    const size_t bytes = 131008;
    struct pfl_producer *producer;
    struct pfl_service service;
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};

    (void)state;
    open_service(&service, &producer);
    for (unsigned i = 0; i < 5; i++)
        register_large(&service, producer, i, bytes);
    assert_int_equal(ask_all(&query, &seen), 0);
    assert_int_equal(seen.sources, 5);
    assert_int_equal(seen.descriptor_bytes, 5 * bytes);
    assert_int_equal(seen.parts, 6);
    close_service(&service, producer);
}

/* 131,050 bytes come in one frame; around a descriptor in a reply there is more than around it
 * there. */
static void of_a_descriptor_too_large_for_a_reply_the_name_is_reported(void **state)
{
    const size_t whole_bytes = PFL_RPC_REPLY_BODY_MAX - 4 - 4 - 4 - 2;
    struct pfl_producer *producer;
    struct pfl_service service;
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};

    (void)state;
    open_service(&service, &producer);
    register_large(&service, producer, 1, whole_bytes + 1);
    register_large(&service, producer, 2, whole_bytes);
    register_large(&service, producer, 3, 131050);
    assert_int_equal(ask_all(&query, &seen), 0);
    assert_int_equal(seen.sources, 3);
    assert_int_equal(seen.largest_bytes, whole_bytes);
    assert_int_equal(seen.descriptor_bytes, whole_bytes + 2 * 9);
    close_service(&service, producer);
}

static void sources_that_come_and_go_between_parts_confuse_no_answer(void **state)
{
    struct pfl_producer *producer;
    struct pfl_producer *other;
    struct pfl_service service;
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"q", 1}, .ops = &ops};
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};
    struct pfl_buf part;
    bool has_more;

    (void)state;
    open_service(&service, &producer);
    pfl_buf_init(&part, PFL_RPC_REPLY_BODY_MAX);
    for (unsigned i = 0; i < 5; i++)
        register_large(&service, producer, i, 100000);
    for (unsigned i = 0; i < 2; i++) { /* the first two sources */
        assert_int_equal(pfl_query_next(&query, &part, &has_more), 0);
        assert_true(has_more);
        look_at(&seen, pfl_buf_get(&part));
    }
    assert_int_equal(seen.sources, 2);
    pfl_registry_unregister_source(&service, producer, pfl_span_of((const uint8_t *)"large-0", 7));
    pfl_registry_unregister_source(&service, producer, pfl_span_of((const uint8_t *)"large-2", 7));
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &other), 0);
    register_large(&service, other, 7, 20000);
    register_large(&service, producer, 8, 20000);
    assert_int_equal(ask_all(&query, &seen), 0);
    assert_int_equal(seen.producers, 1);
    assert_int_equal(seen.sources, 5); /* 0 and 1, then 3, 4 and 8 */
    pfl_buf_fini(&part);
    pfl_registry_remove_producer(&service, other);
    close_service(&service, producer);
}

static void register_named(struct pfl_service *service, struct pfl_producer *producer,
                           const char *name, size_t bytes, int want)
{
    static uint8_t descriptor[PFL_FRAME_PAYLOAD_MAX];
    struct pfl_writer w = pfl_writer_of(descriptor, bytes);

    pfl_writer_field_bytes(&w, 1, name, strlen(name));
    if (w.left > 10)
        pfl_writer_field_header(&w, 6, w.left - 4);
    assert_int_equal(
        pfl_registry_register_source(service, producer, pfl_span_of(descriptor, bytes)), want);
}

/* What fills the answer is one user's: of that user only names are sent, of others all. */
static void an_answer_is_bounded_and_says_what_it_leaves_out(void **state)
{
    struct pfl_producer_conf conf = {.name = {(const uint8_t *)"p", 1}, .uid = 7, .ops = &ops};
    struct pfl_producer *producers[9];
    struct pfl_producer *first;
    struct pfl_service service;
    struct pfl_query query = {.service = &service};
    struct seen seen = {0};
    size_t bytes;

    (void)state;
    open_service(&service, &first);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(pfl_registry_add_producer(&service, &conf, &producers[i]), 0);
        for (unsigned k = 0; k < 31; k++)
            register_named(&service, producers[i], "x", 100000, 0);
    }
    conf.uid = 8;
    assert_int_equal(pfl_registry_add_producer(&service, &conf, &producers[8]), 0);
    register_named(&service, producers[8], "others", 100000, 0);
    assert_int_equal(ask_all(&query, &seen), 0);
    bytes = seen.descriptor_bytes;
    assert_in_range(bytes, PFL_QUERY_MAX_BYTES / 3, PFL_QUERY_MAX_BYTES);
    assert_int_equal(seen.producers, 10);
    assert_int_equal(query.left_out.producers, 0);
    assert_int_equal(seen.sources + query.left_out.sources, 8 * 31 + 1);
    assert_true(query.left_out.descriptors > 100);
    assert_int_equal(seen.left_outs, 1);
    assert_int_equal(seen.largest_of_others, 100000);
    for (unsigned i = 0; i < 9; i++)
        pfl_registry_remove_producer(&service, producers[i]);
    close_service(&service, first);
}

/* Each refusal gives the share back, so that close_service finds none in use. */
static void a_producer_has_so_many_sources_and_a_refused_one_costs_nothing(void **state)
{
    struct pfl_producer *producer;
    struct pfl_service service;
    char name[32];

    (void)state;
    open_service(&service, &producer);
    for (unsigned i = 0; i < PFL_PRODUCER_MAX_SOURCES + 3; i++) {
        (void)snprintf(name, sizeof(name), "source-%u", i);
        register_named(&service, producer, name, strlen(name) + 2,
                       i < PFL_PRODUCER_MAX_SOURCES ? 0 : PFL_ELIMIT);
    }
    assert_int_equal(service.shares.sources.used, PFL_PRODUCER_MAX_SOURCES);
    assert_int_equal(service.sources_len, PFL_PRODUCER_MAX_SOURCES);
    close_service(&service, producer);
}

static void a_commit_without_shared_memory_is_refused(void **state)
{
    struct pfl_producer *producer;
    struct pfl_service service;

    (void)state;
    open_service(&service, &producer);
    assert_int_equal(pfl_registry_commit(&service, producer, pfl_span_of("", 0)), PFL_ESTATE);
    close_service(&service, producer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_state_comes_in_parts_that_merge_to_the_whole),
        cmocka_unit_test(every_allocation_of_an_answer_may_fail),
        cmocka_unit_test(descriptors_that_fill_a_frame_come_whole_each_in_a_reply_of_its_own),
        cmocka_unit_test(of_a_descriptor_too_large_for_a_reply_the_name_is_reported),
        cmocka_unit_test(sources_that_come_and_go_between_parts_confuse_no_answer),
        cmocka_unit_test(an_answer_is_bounded_and_says_what_it_leaves_out),
        cmocka_unit_test(a_producer_has_so_many_sources_and_a_refused_one_costs_nothing),
        cmocka_unit_test(a_commit_without_shared_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
