/* SPDX-License-Identifier: Apache-2.0 */
/* What of a config a host offers, and what may have been meant by what it does not. */
#include "consumer/host/registered_sources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"

#define ROOM 4096u

struct message {
    uint8_t bytes[ROOM];
    size_t len;
};

static void put(struct message *m, uint32_t id, const void *data, size_t len)
{
    struct pfl_writer w = pfl_writer_of(m->bytes + m->len, ROOM - m->len);

    pfl_writer_field_bytes(&w, id, data, len);
    assert_false(w.failed);
    m->len = ROOM - w.left;
}

/* message{ outer { inner { 1: name } } } */
static void put_name(struct message *m, uint32_t outer, uint32_t inner, const char *name)
{
    struct message a = {.len = 0};
    struct message b = {.len = 0};

    put(&a, 1, name, strlen(name));
    put(&b, inner, a.bytes, a.len);
    put(m, outer, b.bytes, b.len);
}

static struct pfl_span span_of(const struct message *m)
{
    return pfl_span_of(m->bytes, m->len);
}

static struct pfl_registered_sources judge(const char *const *wanted, const char *const *offered)
{
    struct message config = {.len = 0};
    struct message state = {.len = 0};
    struct pfl_registered_sources sources;

    for (; *wanted != NULL; wanted++)
        put_name(&config, 2, 1, *wanted);
    for (; *offered != NULL; offered++)
        put_name(&state, 2, 1, *offered);
    pfl_registered_sources_match(span_of(&config), span_of(&state), &sources);
    assert_true(sources.is_known);
    return sources;
}

static void what_is_offered_is_a_bit_for_each_data_source(void **state)
{
    const char *const wanted[] = {"track_event", "linux.ftrace", "gone", NULL};
    const char *const offered[] = {"linux.ftrace", "other", "track_event", NULL};
    struct pfl_registered_sources o = judge(wanted, offered);

    (void)state;
    assert_int_equal(o.wanted, 3);
    assert_int_equal(o.registered, 3);
    assert_string_equal(o.near, "");
}

static void a_misspelt_name_finds_the_offered_one(void **state)
{
    const char *const wanted[] = {"linux.ftrace", "track_events", NULL};
    const char *const offered[] = {"linux.ftrace", "track_event", NULL};
    struct pfl_registered_sources o = judge(wanted, offered);

    (void)state;
    assert_int_equal(o.registered, 1);
    assert_string_equal(o.near, "track_event");
    assert_int_equal(o.near_of, 1);
    assert_true(o.near_distance <= PFL_REGISTERED_SOURCES_SLIP);
}

static void another_data_source_of_the_family_is_no_slip(void **state)
{
    const char *const wanted[] = {"linux.sys_stats", NULL};
    const char *const offered[] = {"linux.process_stats", NULL};
    struct pfl_registered_sources o = judge(wanted, offered);

    (void)state;
    assert_int_equal(o.registered, 0);
    assert_true(o.near[0] == '\0' || o.near_distance > PFL_REGISTERED_SOURCES_SLIP);
}

static void a_name_that_is_too_long_is_not_offered_in_part(void **state)
{
    char one[PFL_REGISTERED_SOURCES_NAME_BYTES + 2] = "";
    char other[PFL_REGISTERED_SOURCES_NAME_BYTES + 1] = "";
    const char *const wanted[] = {one, NULL};
    const char *const offered[] = {other, NULL};

    (void)state;
    memset(one, 'x', sizeof(one) - 1);
    memset(other, 'x', sizeof(other) - 1);
    assert_string_equal(judge(wanted, offered).near, "");
}

static void names_are_found_by_their_place(void **state)
{
    struct message config = {.len = 0};
    struct pfl_span name;

    (void)state;
    put_name(&config, 1, 1, "a buffer");
    for (unsigned i = 0; i < PFL_REGISTERED_SOURCES_MAX + 5; i++)
        put_name(&config, 2, 1, i == 7 ? "seven" : "x");
    assert_int_equal(pfl_registered_sources_count(span_of(&config)), PFL_REGISTERED_SOURCES_MAX);
    name = pfl_registered_sources_get_name(span_of(&config), 7);
    assert_int_equal(name.len, 5);
    assert_memory_equal(name.data, "seven", 5);
    assert_int_equal(pfl_registered_sources_get_name(span_of(&config), 1000).len, 0);
}

/* As many as an answer may have, in one walk: with 64 walks it took seconds. */
static void a_state_of_millions_of_sources_is_cheap(void **state)
{
    static const uint8_t source[] = {0x12, 5, 0x0a, 3, 0x0a, 1, 'a'};
    struct message config = {.len = 0};
    struct message last = {.len = 0};
    struct pfl_registered_sources o;
    size_t len = (16u << 20) / sizeof(source) * sizeof(source);
    size_t looked_at = PFL_REGISTERED_SOURCES_OFFERED_MAX * sizeof(source);
    uint8_t *bytes = pfl_mem_alloc(len);
    clock_t begun;

    (void)state;
    assert_non_null(bytes);
    for (unsigned i = 0; i < PFL_REGISTERED_SOURCES_MAX; i++)
        put_name(&config, 2, 1, i == 63 ? "b" : "com.nothing.of.this.name");
    put_name(&last, 2, 1, "b");
    assert_int_equal(last.len, sizeof(source));
    for (size_t at = 0; at < len; at += sizeof(source))
        memcpy(bytes + at, source, sizeof(source));
    memcpy(bytes + looked_at, last.bytes, last.len);
    begun = clock();
    pfl_registered_sources_match(span_of(&config), pfl_span_of(bytes, len), &o);
    assert_int_equal(o.registered, 0);
    memcpy(bytes + looked_at - last.len, last.bytes, last.len);
    pfl_registered_sources_match(span_of(&config), pfl_span_of(bytes, len), &o);
    assert_true(o.registered == (uint64_t)1 << 63);
    assert_true(clock() - begun < 2 * CLOCKS_PER_SEC);
    pfl_mem_free(bytes);
}

static void malformed_bytes_offer_nothing(void **state)
{
    struct message config = {.len = 0};
    struct message service = {.len = 0};
    struct pfl_registered_sources o;

    (void)state;
    put_name(&config, 2, 1, "track_event");
    put_name(&service, 2, 1, "track_event");
    for (size_t len = 0; len < service.len; len++) {
        pfl_registered_sources_match(span_of(&config), pfl_span_of(service.bytes, len), &o);
        assert_int_equal(o.registered, 0);
    }
    for (size_t len = 0; len < config.len; len++) {
        pfl_registered_sources_match(pfl_span_of(config.bytes, len), span_of(&service), &o);
        assert_int_equal(o.wanted, 0);
    }
}

static void put_producer(struct message *state, const char *name, uint64_t pid)
{
    struct message producer = {.len = 0};
    struct pfl_writer w;

    put(&producer, 2, name, strlen(name));
    w = pfl_writer_of(producer.bytes + producer.len, ROOM - producer.len);
    pfl_writer_field_varint(&w, 5, pid);
    producer.len = ROOM - w.left;
    put(state, 1, producer.bytes, producer.len);
}

/* The service compares whole names: one that is cut is no use in a config. */
static void a_producers_name_is_whole_or_said_to_be_cut(void **state_of_test)
{
    struct message state = {.len = 0};
    struct pfl_registered_sources sources;
    char name[PFL_REGISTERED_SOURCES_PRODUCER_BYTES + 1];

    (void)state_of_test;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    put_producer(&state, name, 7);
    put_producer(&state, name, 0); /* without a pid it cannot be named */
    put_producer(&state, name + 1, 8);
    pfl_registered_sources_match(pfl_span_of(NULL, 0), span_of(&state), &sources);
    assert_int_equal(sources.producers[0].pid, 7);
    assert_true(sources.producers[0].is_cut);
    assert_string_equal(sources.producers[0].name, name + 1);
    assert_int_equal(sources.producers[1].pid, 8);
    assert_false(sources.producers[1].is_cut);
    assert_string_equal(sources.producers[1].name, name + 1);
    assert_int_equal(sources.producers[2].pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_offered_is_a_bit_for_each_data_source),
        cmocka_unit_test(a_misspelt_name_finds_the_offered_one),
        cmocka_unit_test(another_data_source_of_the_family_is_no_slip),
        cmocka_unit_test(a_name_that_is_too_long_is_not_offered_in_part),
        cmocka_unit_test(names_are_found_by_their_place),
        cmocka_unit_test(a_state_of_millions_of_sources_is_cheap),
        cmocka_unit_test(malformed_bytes_offer_nothing),
        cmocka_unit_test(a_producers_name_is_whole_or_said_to_be_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
