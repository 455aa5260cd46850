/* SPDX-License-Identifier: Apache-2.0 */
/* Many services' states as one, in one reply: how many producers there are, and who is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/ui/fleet_state.h"

/* One producer (id 1, "p"), one data source of it, one session that runs. */
static const uint8_t small_state[] = {
    0x0a, 5, 0x08, 1, 0x12, 1, 'p', /* producers { id: 1 name: "p" } */
    0x12, 4, 0x0a, 0, 0x10, 1,      /* data_sources { ds_descriptor {} producer_id: 1 } */
    0x18, 1, 0x20, 1,               /* num_sessions, num_sessions_started */
};

struct seen {
    unsigned producers;
    unsigned sources;
    uint64_t sessions;
    uint64_t started;
    uint64_t ids[4]; /* of the first */
    uint64_t source_ids[4];
    char machines[4][64];
    char version[4096];
};

static void see_producer(struct seen *s, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (s->producers < 4 && pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            s->ids[s->producers] = f.value;
        if (f.id == 8)
            memcpy(s->machines[s->producers], f.bytes.data, f.bytes.len);
    }
    assert_false(r.failed);
    s->producers++;
}

static void see_source(struct seen *s, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (s->sources < 4 && pfl_reader_field(&r, &f))
        if (f.id == 2)
            s->source_ids[s->sources] = f.value;
    assert_false(r.failed);
    s->sources++;
}

static void see(struct seen *s, struct pfl_span state)
{
    struct pfl_reader r = pfl_reader_of(state);
    struct pfl_field f;

    memset(s, 0, sizeof(*s));
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            see_producer(s, f.bytes);
        else if (f.id == 2)
            see_source(s, f.bytes);
        else if (f.id == 3)
            s->sessions = f.value;
        else if (f.id == 4)
            s->started = f.value;
        else if (f.id == 5)
            memcpy(s->version, f.bytes.data, f.bytes.len);
    }
    assert_false(r.failed);
}

static void join(const struct pfl_fleet_state_host *hosts, size_t len, struct seen *s)
{
    struct pfl_buf out;

    pfl_buf_init(&out, PFL_FLEET_STATE_MAX_BYTES);
    assert_int_equal(pfl_fleet_state_join(hosts, len, "1.2.3", &out), 0);
    see(s, pfl_buf_get(&out));
    pfl_buf_fini(&out);
}

static void producers_of_all_hosts_are_there_and_apart(void **state)
{
    struct pfl_span one = pfl_span_of(small_state, sizeof(small_state));
    const struct pfl_fleet_state_host hosts[] = {{"web1", "", one}, {"web2", "", one}};
    static struct seen s;

    (void)state;
    join(hosts, 2, &s);
    assert_int_equal(s.producers, 2);
    assert_int_equal(s.sources, 2);
    assert_int_equal(s.sessions, 2);
    assert_int_equal(s.started, 2);
    assert_string_equal(s.machines[0], "web1");
    assert_string_equal(s.machines[1], "web2");
    assert_int_not_equal(s.ids[0], s.ids[1]);
    assert_int_equal(s.ids[0], s.source_ids[0]);
    assert_int_equal(s.ids[1], s.source_ids[1]);
    assert_string_equal(s.version, "perfleet 1.2.3: 2 hosts");
}

static void a_host_that_is_missing_is_named(void **state)
{
    struct pfl_span one = pfl_span_of(small_state, sizeof(small_state));
    const struct pfl_fleet_state_host hosts[] = {{"web1", "", one},
                                                 {"web2", "no answer in time", {NULL, 0}}};
    static struct seen s;

    (void)state;
    join(hosts, 2, &s);
    assert_int_equal(s.producers, 1);
    assert_string_equal(s.version,
                        "perfleet 1.2.3: 1 of 2 hosts; missing: web2 (no answer in time)");
}

static void of_many_that_are_missing_some_are_named(void **state)
{
    static struct pfl_fleet_state_host hosts[300];
    static char why[1000];
    static struct seen s;

    (void)state;
    memset(why, 'x', sizeof(why) - 1);
    for (size_t i = 0; i < 300; i++)
        hosts[i] = (struct pfl_fleet_state_host){"web", why, {NULL, 0}};
    join(hosts, 300, &s);
    assert_non_null(strstr(s.version, ": 0 of 300 hosts; missing: web (xxx"));
    assert_non_null(strstr(s.version, " and 292 others"));
}

/* `count` producers and as many data sources, each with `bytes` of a name. */
static struct pfl_span make_large(uint8_t *room, size_t size, unsigned count, size_t bytes)
{
    static const uint8_t name[PFL_FLEET_STATE_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(room, size);

    for (unsigned i = 0; i < count; i++) {
        pfl_writer_field_header(&w, 1, 1 + pfl_varint_size(i) + 1 + pfl_varint_size(bytes) + bytes);
        pfl_writer_field_varint(&w, 1, i);
        pfl_writer_field_bytes(&w, 2, name, bytes);
        pfl_writer_field_header(&w, 2, 1 + pfl_varint_size(i) + 1 + pfl_varint_size(bytes) + bytes);
        pfl_writer_field_bytes(&w, 1, name, bytes);
        pfl_writer_field_varint(&w, 2, i);
    }
    assert_false(w.failed);
    return pfl_span_of(room, size - w.left);
}

static void a_state_that_does_not_fit_has_all_ids_and_the_sums(void **state)
{
    static uint8_t room[1u << 20];
    struct pfl_span large = make_large(room, sizeof(room), 500, 400);
    struct pfl_span small = pfl_span_of(small_state, sizeof(small_state));
    const struct pfl_fleet_state_host hosts[] = {
        {"web1", "", small}, {"web2", "", large}, {"web3", "gone", {NULL, 0}}};
    static struct seen s;

    (void)state;
    join(hosts, 3, &s);
    assert_int_equal(s.producers, 501);
    assert_int_equal(s.sources, 501);
    assert_int_equal(s.sessions, 1);
    assert_int_equal(s.ids[1], 1u << 16);
    assert_int_equal(s.ids[1], s.source_ids[1]);
    assert_string_equal(s.machines[0], "");
    assert_string_equal(s.version, "perfleet 1.2.3: 2 of 3 hosts; missing: web3 (gone)");
}

static void what_has_no_room_then_is_left_out_and_the_sums_are_there(void **state)
{
    static uint8_t room[1u << 20];
    struct pfl_span large = make_large(room, sizeof(room), 20000, 1);
    const struct pfl_fleet_state_host hosts[] = {{"web1", "", large}, {"web2", "", large}};
    static struct seen s;

    (void)state;
    join(hosts, 2, &s);
    assert_true(s.producers > 5000 && s.sources > 5000 && s.producers < 20000);
    assert_string_equal(s.version, "perfleet 1.2.3: 2 hosts");
}

static void one_that_just_fits_is_whole(void **state)
{
    static uint8_t room[1u << 20];
    struct pfl_fleet_state_host host = {"web1", "", {NULL, 0}};
    static struct seen s;
    unsigned whole = 0;

    (void)state;
    for (size_t bytes = 56000; bytes < 62000; bytes++) {
        host.state = make_large(room, sizeof(room), 1, bytes);
        join(&host, 1, &s);
        assert_int_equal(s.producers, 1);
        assert_int_equal(s.sources, 1);
        whole += s.machines[0][0] != '\0';
    }
    assert_true(whole > 0 && whole < 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(producers_of_all_hosts_are_there_and_apart),
        cmocka_unit_test(a_host_that_is_missing_is_named),
        cmocka_unit_test(of_many_that_are_missing_some_are_named),
        cmocka_unit_test(a_state_that_does_not_fit_has_all_ids_and_the_sums),
        cmocka_unit_test(what_has_no_room_then_is_left_out_and_the_sums_are_there),
        cmocka_unit_test(one_that_just_fits_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
