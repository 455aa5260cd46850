/* SPDX-License-Identifier: Apache-2.0 */
/* A merge that continues in the next file: each file can be read by itself, no packet is in two. */
#include "consumer/merge/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perfetto/trace_packet.fields.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

#define FLAGS          13u
#define CLOCK_SNAPSHOT 6u
#define TRACE_CONFIG   33u
#define CLEARED        TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED
#define NEEDS          TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE
#define PREAMBLE       4u /* clock, name; clock point, name */

struct world {
    struct trace_sink first;
    struct trace_sink second;
    struct pfl_merge *merge;
    size_t a; /* the reference */
    size_t b;
    uint64_t value; /* of the next packet */
};

static size_t kept_bytes = 0; /* of a host; 0: as many as there may be */

static int open_world(struct world *w)
{
    static const struct pfl_clock_point points[2] = {{B_REFERENCE_NS, B_REFERENCE_NS},
                                                     {B_HOST_NS, B_REFERENCE_NS}};
    struct pfl_merge_host_conf a = {
        .name = "alpha", .points = &points[0], .points_len = 1, .is_reference = true};
    struct pfl_merge_host_conf b = {.name = "beta", .points = &points[1], .points_len = 1};
    struct pfl_merge_sink sink;
    int rc;

    *w = (struct world){0};
    trace_sink_init(&w->first, &sink);
    rc = pfl_merge_new(&sink, &(const struct pfl_hash_key){{1, 2}}, &w->merge);
    if (rc == 0)
        rc = pfl_merge_add_host(w->merge, &a, &w->a);
    if (rc == 0)
        rc = pfl_merge_add_host(w->merge, &b, &w->b);
    if (rc != 0)
        return rc;
    pfl_merge_keep_state(w->merge, kept_bytes);
    return pfl_merge_begin(w->merge);
}

static void close_world(struct world *w)
{
    pfl_merge_free(w->merge);
    trace_sink_fini(&w->first);
    trace_sink_fini(&w->second);
}

/* The first sink stays where it is. */
static int cut(struct world *w)
{
    struct pfl_merge_next next;
    struct trace_sink first = w->first;

    trace_sink_init(&w->first, &next.before);
    w->first = first;
    trace_sink_init(&w->second, &next.sink);
    return pfl_merge_cut(w->merge, &next);
}

/* A packet of a producer, with a value that no other one has. */
static int give(struct world *w, size_t host, uint32_t sequence, uint32_t flags)
{
    uint8_t value[16];
    uint8_t packet[64];
    struct pfl_writer v = pfl_writer_of(value, sizeof(value));
    struct pfl_writer p = pfl_writer_of(packet, sizeof(packet));
    struct iovec slice;

    pfl_writer_field_varint(&v, 2, w->value++);
    pfl_writer_field_varint(&p, TIMESTAMP, 77);
    if (flags != 0)
        pfl_writer_field_varint(&p, FLAGS, flags);
    pfl_writer_field_bytes(&p, FOR_TESTING, value, sizeof(value) - v.left);
    pfl_writer_field_varint(&p, 3, 1000);
    pfl_writer_field_varint(&p, SEQUENCE, sequence);
    pfl_writer_field_varint(&p, 79, 4321);
    slice = (struct iovec){packet, sizeof(packet) - p.left};
    return pfl_merge_packet(w->merge, host, &slice, 1, slice.iov_len);
}

/* A packet of a host's service with one field. */
static int give_service(struct world *w, size_t host, uint32_t id, const char *payload)
{
    uint8_t packet[64];
    struct pfl_writer p = pfl_writer_of(packet, sizeof(packet));
    struct iovec slice;

    pfl_writer_field_bytes(&p, id, payload, strlen(payload));
    pfl_writer_field_varint(&p, SEQUENCE, 1);
    slice = (struct iovec){packet, sizeof(packet) - p.left};
    return pfl_merge_packet(w->merge, host, &slice, 1, slice.iov_len);
}

static size_t count_of(const struct trace_sink *sink, uint32_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < trace_packets(sink); i++)
        n += has_field(trace_packet(sink, i), id);
    return n;
}

/* The value of the n-th packet of a producer. */
static uint64_t value_of(const struct trace_sink *sink, size_t n)
{
    for (size_t i = 0; i < trace_packets(sink); i++) {
        struct pfl_span packet = trace_packet(sink, i);

        if (has_field(packet, FOR_TESTING) && n-- == 0)
            return field_value(field_bytes(packet, FOR_TESTING), 2);
    }
    fail();
    return 0;
}

static void begin(struct world *w)
{
    assert_int_equal(open_world(w), 0);
}

static void end(struct world *w)
{
    close_world(w);
    pfl_sweep_assert_no_leak();
}

static void sequences_without_state_go_on_in_the_next_file_at_once(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(give(&w, i % 2, 7, 0), 0);
    assert_int_equal(cut(&w), 0);
    assert_false(pfl_merge_is_cutting(w.merge));
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(give(&w, i % 2, 7, 0), 0);
    assert_int_equal(count_of(&w.first, FOR_TESTING), 40);
    assert_int_equal(count_of(&w.second, FOR_TESTING), 40);
    assert_int_equal(value_of(&w.second, 0), 40);
    assert_int_equal(trace_packets(&w.second), 40 + PREAMBLE);
    end(&w);
}

static void a_sequence_with_state_goes_on_where_it_is_cleared(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    assert_int_equal(give(&w, w.b, 7, CLEARED | NEEDS), 0);
    assert_int_equal(give(&w, w.b, 7, NEEDS), 0);
    assert_int_equal(cut(&w), 0);
    assert_true(pfl_merge_is_cutting(w.merge));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(give(&w, w.b, 7, NEEDS), 0);
    assert_int_equal(count_of(&w.first, FOR_TESTING), 22);
    assert_int_equal(count_of(&w.second, FOR_TESTING), 0);
    assert_int_equal(give(&w, w.b, 7, CLEARED | NEEDS), 0);
    assert_false(pfl_merge_is_cutting(w.merge));
    pfl_merge_end_cut(w.merge);
    assert_int_equal(give(&w, w.b, 7, NEEDS), 0);
    assert_int_equal(count_of(&w.first, FOR_TESTING), 22);
    assert_int_equal(count_of(&w.second, FOR_TESTING), 2);
    assert_int_equal(value_of(&w.second, 0), 22);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->packets, 24);
    assert_int_equal(pfl_merge_get_packets(w.merge), 24);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->unreadable.skipped, 0);
    end(&w);
}

static void what_is_not_cleared_in_time_is_counted(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    assert_int_equal(give(&w, w.a, 7, CLEARED), 0);
    assert_int_equal(cut(&w), 0);
    pfl_merge_end_cut(w.merge);
    assert_int_equal(give(&w, w.a, 7, NEEDS), 0);
    assert_int_equal(count_of(&w.second, FOR_TESTING), 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->unreadable.skipped, 1);
    end(&w);
}

static void the_next_file_has_names_clocks_and_configs(void **state)
{
    static const struct pfl_clock_point later = {B_HOST_NS + 1000, B_REFERENCE_NS + 500};
    struct world w;
    struct pfl_span p;

    (void)state;
    begin(&w);
    assert_int_equal(give_service(&w, w.a, TRACE_CONFIG, "config of a"), 0);
    assert_int_equal(give_service(&w, w.b, TRACE_CONFIG, "config of b"), 0);
    assert_int_equal(give_service(&w, w.b, CLOCK_SNAPSHOT, "old clocks"), 0);
    assert_int_equal(give_service(&w, w.b, CLOCK_SNAPSHOT, "new clocks"), 0);
    assert_int_equal(pfl_merge_add_points(w.merge, w.b, &later, 1), 0);
    assert_int_equal(cut(&w), 0);
    assert_int_equal(trace_packets(&w.second), PREAMBLE + 3);
    p = trace_packet(&w.second, 0); /* the reference comes first */
    assert_true(has_field(p, CLOCK_SNAPSHOT));
    assert_false(has_field(p, MACHINE));
    p = trace_packet(&w.second, 2);
    assert_true(has_field(p, REMOTE_CLOCK_SYNC));
    assert_int_equal(field_value(trace_packet(&w.second, 3), TIMESTAMP), later.host_ns);
    assert_memory_equal(field_bytes(trace_packet(&w.second, 4), TRACE_CONFIG).data, "config of a",
                        11);
    assert_memory_equal(field_bytes(trace_packet(&w.second, 5), TRACE_CONFIG).data, "config of b",
                        11);
    assert_memory_equal(field_bytes(trace_packet(&w.second, 6), CLOCK_SNAPSHOT).data, "new clocks",
                        10);
    end(&w);
}

static void clocks_go_to_both_while_there_are_two(void **state)
{
    static const struct pfl_clock_point later = {B_HOST_NS + 1000, B_REFERENCE_NS + 500};
    struct world w;
    size_t first;
    size_t second;

    (void)state;
    begin(&w);
    assert_int_equal(give(&w, w.b, 7, CLEARED), 0);
    assert_int_equal(cut(&w), 0);
    first = trace_packets(&w.first);
    second = trace_packets(&w.second);
    assert_int_equal(pfl_merge_add_points(w.merge, w.b, &later, 1), 0);
    assert_int_equal(give_service(&w, w.b, CLOCK_SNAPSHOT, "clocks"), 0);
    assert_int_equal(trace_packets(&w.first), first + 2);
    assert_int_equal(trace_packets(&w.second), second + 2);
    pfl_merge_end_cut(w.merge);
    assert_int_equal(give_service(&w, w.b, CLOCK_SNAPSHOT, "later"), 0);
    assert_int_equal(trace_packets(&w.first), first + 2);
    assert_int_equal(trace_packets(&w.second), second + 3);
    end(&w);
}

/* They are relative to what its sequence has. */
static void a_producers_clocks_are_not_repeated(void **state)
{
    uint8_t packet[64];
    struct pfl_writer p = pfl_writer_of(packet, sizeof(packet));
    struct iovec slice;
    struct world w;

    (void)state;
    begin(&w);
    pfl_writer_field_bytes(&p, CLOCK_SNAPSHOT, "clocks", 6);
    pfl_writer_field_varint(&p, SEQUENCE, 9);
    slice = (struct iovec){packet, sizeof(packet) - p.left};
    assert_int_equal(pfl_merge_packet(w.merge, w.b, &slice, 1, slice.iov_len), 0);
    assert_int_equal(cut(&w), 0);
    assert_int_equal(trace_packets(&w.second), PREAMBLE);
    end(&w);
}

static void one_cut_at_a_time(void **state)
{
    struct world w;
    struct pfl_merge_next next = {0};

    (void)state;
    begin(&w);
    assert_int_equal(cut(&w), 0);
    assert_int_equal(pfl_merge_cut(w.merge, &next), PFL_ESTATE);
    end(&w);
}

static int cut_once(void *arg)
{
    struct world w;
    int rc = open_world(&w);

    (void)arg;
    for (uint32_t i = 2; rc == 0 && i < 40; i++)
        rc = give(&w, i % 2, i, i % 3 == 0 ? CLEARED : 0);
    if (rc == 0)
        rc = give_service(&w, w.a, TRACE_CONFIG, "config");
    if (rc == 0)
        rc = give_service(&w, w.b, SYSTEM_INFO, "");
    if (rc == 0)
        rc = cut(&w);
    for (uint32_t i = 2; rc == 0 && i < 80; i++)
        rc = give(&w, i % 2, i, CLEARED);
    close_world(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(cut_once, NULL, false);
}

/* A host cannot fill the files of a rotation with what it sent once. */
static void what_exceeds_a_hosts_share_is_in_one_file_alone(void **state)
{
    struct world w;

    (void)state;
    kept_bytes = 24;
    begin(&w);
    kept_bytes = 0;
    assert_int_equal(give_service(&w, w.a, TRACE_PACKET__EXTENSION_DESCRIPTOR, "one"), 0);
    assert_int_equal(
        give_service(&w, w.a, TRACE_PACKET__EXTENSION_DESCRIPTOR, "another, which is longer"), 0);
    assert_int_equal(give_service(&w, w.b, TRACE_CONFIG, "of b"), 0);
    assert_int_equal(count_of(&w.first, TRACE_PACKET__EXTENSION_DESCRIPTOR), 2);
    assert_int_equal(cut(&w), 0);
    assert_int_equal(count_of(&w.second, TRACE_PACKET__EXTENSION_DESCRIPTOR), 1);
    assert_int_equal(count_of(&w.second, TRACE_CONFIG), 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->unrepeated_packets, 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->unrepeated_packets, 0);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_exceeds_a_hosts_share_is_in_one_file_alone),
        cmocka_unit_test(sequences_without_state_go_on_in_the_next_file_at_once),
        cmocka_unit_test(a_sequence_with_state_goes_on_where_it_is_cleared),
        cmocka_unit_test(what_is_not_cleared_in_time_is_counted),
        cmocka_unit_test(the_next_file_has_names_clocks_and_configs),
        cmocka_unit_test(clocks_go_to_both_while_there_are_two),
        cmocka_unit_test(a_producers_clocks_are_not_repeated),
        cmocka_unit_test(one_cut_at_a_time),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
