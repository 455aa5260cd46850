/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that carry ids, names and clocks deeper inside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

static void init(struct merge_world *w)
{
    assert_int_equal(merge_world_open(w), 0);
}

static void fini(struct merge_world *w)
{
    merge_world_close(w);
    pfl_sweep_assert_no_leak();
}

static void give_made(struct merge_world *w, size_t host, uint32_t sequence, uint32_t machine)
{
    uint8_t packet[64];
    size_t len = make_packet(packet, sizeof(packet), sequence, machine);

    assert_int_equal(merge_world_give(w, host, packet, len), 0);
}

static void sequence_ids_inside_stats_and_provenance_follow(void **state)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    static const uint32_t provenance[] = {PROVENANCE, 2, 1, 1, 0};
    struct merge_world w;
    uint8_t packet[64];
    uint64_t fresh;

    (void)state;
    init(&w);
    give_made(&w, w.a, 9, 0);
    give_made(&w, w.b, 9, 0);
    fresh = field_value(merge_world_last(&w), SEQUENCE);
    assert_int_equal(
        merge_world_give(&w, w.b, packet, make_nested(packet, sizeof(packet), stats, 9)), 0);
    assert_int_equal(nested_value(merge_world_last(&w), stats), fresh);
    assert_int_equal(
        merge_world_give(&w, w.b, packet, make_nested(packet, sizeof(packet), provenance, 9)), 0);
    assert_int_equal(nested_value(merge_world_last(&w), provenance), fresh);
    assert_int_equal(field_value(merge_world_last(&w), MACHINE), 1);
    fini(&w);
}

static void system_info_gets_the_operators_name(void **state)
{
    static const uint32_t pages[] = {SYSTEM_INFO, 6, 0};
    struct merge_world w;
    uint8_t packet[64];
    struct pfl_span info;

    (void)state;
    init(&w);
    assert_int_equal(
        merge_world_give(&w, w.b, packet, make_nested(packet, sizeof(packet), pages, 4096)), 0);
    info = field_bytes(merge_world_last(&w), SYSTEM_INFO);
    assert_int_equal(field_value(info, 6), 4096);
    assert_int_equal(field_bytes(info, 17).len, 4);
    assert_memory_equal(field_bytes(info, 17).data, "beta", 4);
    fini(&w);
}

static void end_of_one_hosts_reading_is_left_out_and_its_start_noted(void **state)
{
    static const uint32_t completed[] = {SERVICE_EVENT, 4, 0};
    struct merge_world w;
    uint8_t packet[64];
    struct pfl_writer b;
    size_t before;

    (void)state;
    init(&w);
    before = trace_packets(&w.sink);
    assert_int_equal(
        merge_world_give(&w, w.b, packet, make_nested(packet, sizeof(packet), completed, 1)), 0);
    assert_int_equal(trace_packets(&w.sink), before);
    b = pfl_writer_of(packet, sizeof(packet));
    pfl_writer_field_varint(&b, TIMESTAMP, 123456);
    pfl_writer_field_bytes(&b, SERVICE_EVENT, "\x10\x01", 2);
    assert_int_equal(merge_world_give(&w, w.b, packet, sizeof(packet) - b.left), 0);
    assert_int_equal(trace_packets(&w.sink), before + 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->started_ns, 123456);
    fini(&w);
}

static size_t nest(uint8_t *out, size_t room, uint32_t id, const uint8_t *payload, size_t len)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_bytes(&w, id, payload, len);
    assert_false(w.failed);
    return room - w.left;
}

static void clocks_of_machines_behind_a_host_move_to_the_reference(void **state)
{
    struct merge_world w;
    uint8_t clock[16];
    uint8_t a[64];
    uint8_t b[64];
    struct pfl_writer c = pfl_writer_of(clock, sizeof(clock));
    struct pfl_writer p;
    struct pfl_span synced;
    size_t len;

    (void)state;
    init(&w);
    pfl_writer_field_varint(&c, 1, 6);
    pfl_writer_field_varint(&c, 2, 6000000);
    len = nest(a, sizeof(a), 1, clock, sizeof(clock) - c.left);
    len = nest(b, sizeof(b), 3, a, len);
    len = nest(a, sizeof(a), 1, b, len);
    p = pfl_writer_of(b, sizeof(b));
    pfl_writer_field_bytes(&p, REMOTE_CLOCK_SYNC, a, len);
    pfl_writer_field_varint(&p, MACHINE, 7);
    assert_int_equal(merge_world_give(&w, w.b, b, sizeof(b) - p.left), 0);
    synced = field_bytes(field_bytes(merge_world_last(&w), REMOTE_CLOCK_SYNC), 1);
    assert_int_equal(field_value(field_bytes(field_bytes(synced, 3), 1), 2), 2000000);
    assert_int_equal(merge_world_give(&w, w.a, b, sizeof(b) - p.left), 0);
    synced = field_bytes(field_bytes(merge_world_last(&w), REMOTE_CLOCK_SYNC), 1);
    assert_int_equal(field_value(field_bytes(field_bytes(synced, 3), 1), 2), 6000000);
    fini(&w);
}

static void machine_behind_a_host_is_pinned_to_the_timeline(void **state)
{
    static const uint32_t path[] = {REMOTE_CLOCK_SYNC, 1, 2, 1, 2, 0};
    struct merge_world w;
    uint8_t clock[16];
    uint8_t a[64];
    uint8_t b[64];
    struct pfl_writer c = pfl_writer_of(clock, sizeof(clock));
    struct pfl_writer p;
    struct pfl_span sync;
    size_t before;
    size_t len;

    (void)state;
    init(&w);
    pfl_writer_field_varint(&c, 1, 6);
    pfl_writer_field_varint(&c, 2, 7777);
    len = nest(a, sizeof(a), 1, clock, sizeof(clock) - c.left);
    len = nest(b, sizeof(b), 2, a, len);
    len = nest(a, sizeof(a), 1, b, len);
    p = pfl_writer_of(b, sizeof(b));
    pfl_writer_field_bytes(&p, REMOTE_CLOCK_SYNC, a, len);
    pfl_writer_field_varint(&p, MACHINE, 7);
    before = trace_packets(&w.sink);
    assert_int_equal(merge_world_give(&w, w.b, b, sizeof(b) - p.left), 0);
    assert_int_equal(trace_packets(&w.sink), before + 2);
    sync = trace_packet(&w.sink, before);
    assert_int_equal(nested_value(sync, path), 7777);
    assert_int_equal(field_value(merge_world_last(&w), TIMESTAMP), 7777);
    assert_int_equal(field_value(merge_world_last(&w), 58), 6);
    assert_int_equal(field_value(merge_world_last(&w), MACHINE), field_value(sync, MACHINE));
    fini(&w);
}

/* RemoteClockSync { synced_clocks { an unknown field of so many bytes } }, of a machine. */
static void give_padded_sync(struct merge_world *w, size_t padding)
{
    static uint8_t bytes[(1u << 20) + 64];
    struct pfl_writer p = pfl_writer_of(bytes, sizeof(bytes));
    size_t head = 2 + pfl_varint_size(padding); /* of field 99 */
    size_t synced = head + padding;
    size_t sync = 1 + pfl_varint_size(synced) + synced;

    pfl_writer_field_header(&p, REMOTE_CLOCK_SYNC, sync);
    pfl_writer_field_header(&p, 1, synced);
    pfl_writer_field_header(&p, 99, padding);
    memset(p.pos, 0, padding);
    p.pos += padding;
    p.left -= padding;
    pfl_writer_field_varint(&p, MACHINE, 7);
    assert_false(p.failed);
    assert_int_equal(merge_world_give(w, w->b, bytes, sizeof(bytes) - p.left), 0);
}

static void a_nested_message_that_is_too_large_makes_its_packet_nonsense(void **state)
{
    const size_t max = 1u << 20;
    struct merge_world w;
    size_t before;

    (void)state;
    init(&w);
    give_padded_sync(&w, 1000);
    before = trace_packets(&w.sink);
    give_padded_sync(&w, max - 5);
    assert_int_equal(trace_packets(&w.sink), before + 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, 0);
    give_padded_sync(&w, max - 4);
    assert_int_equal(trace_packets(&w.sink), before + 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, 1);
    fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_ids_inside_stats_and_provenance_follow),
        cmocka_unit_test(system_info_gets_the_operators_name),
        cmocka_unit_test(end_of_one_hosts_reading_is_left_out_and_its_start_noted),
        cmocka_unit_test(clocks_of_machines_behind_a_host_move_to_the_reference),
        cmocka_unit_test(machine_behind_a_host_is_pinned_to_the_timeline),
        cmocka_unit_test(a_nested_message_that_is_too_large_makes_its_packet_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
