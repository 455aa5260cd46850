/* SPDX-License-Identifier: Apache-2.0 */
/* Many hosts' packets to one trace: ids, names, clocks, and packets that must not get in. */
#include "consumer/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/packet_scan.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

enum {
    TIMESTAMP = 8,
    SEQUENCE = 10,
    TRACE_STATS = 35,
    DROPPED = 42,
    SYSTEM_INFO = 45,
    COMPRESSED = 50,
    SERVICE_EVENT = 69,
    MACHINE = 98,
    REMOTE_CLOCK_SYNC = 107,
    PROVENANCE = 124,
    FOR_TESTING = 900,
};

#define PREAMBLE_PACKETS 4u /* of a merge of a reference and one other host with one point */

static const struct pfl_clock_point reference_point = {1000000, 1000000};
static const struct pfl_clock_point other_point = {5000000, 1000000};

struct world {
    struct trace_sink sink;
    struct pfl_merge *merge;
    size_t a; /* the reference */
    size_t b;
};

static int open_world(struct world *w)
{
    struct pfl_merge_sink sink;
    struct pfl_merge_host_conf a = {
        .name = "alpha", .points = &reference_point, .points_len = 1, .is_reference = true};
    struct pfl_merge_host_conf b = {.name = "beta", .points = &other_point, .points_len = 1};
    int rc;

    *w = (struct world){0};
    trace_sink_init(&w->sink, &sink);
    rc = pfl_merge_new(&sink, &w->merge);
    if (rc == 0)
        rc = pfl_merge_add_host(w->merge, &a, &w->a);
    if (rc == 0)
        rc = pfl_merge_add_host(w->merge, &b, &w->b);
    return rc != 0 ? rc : pfl_merge_begin(w->merge);
}

static void init(struct world *w)
{
    assert_int_equal(open_world(w), 0);
}

static void close_world(struct world *w)
{
    pfl_merge_free(w->merge);
    trace_sink_fini(&w->sink);
}

static void fini(struct world *w)
{
    close_world(w);
    pfl_sweep_assert_no_leak();
}

static int give(struct world *w, size_t host, const void *packet, size_t len)
{
    struct iovec slice = {(void *)(uintptr_t)packet, len};

    return pfl_merge_packet(w->merge, host, &slice, 1, len);
}

static struct pfl_span last(const struct world *w)
{
    return trace_packet(&w->sink, trace_packets(&w->sink) - 1);
}

/* A packet with a timestamp, a nested message, and the fields a service appends. */
static size_t make_packet(uint8_t *out, size_t room, uint32_t sequence, uint32_t machine)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_varint(&w, TIMESTAMP, 77);
    pfl_writer_field_bytes(&w, FOR_TESTING,
                           "\x0a\x03"
                           "abc",
                           5);
    pfl_writer_field_varint(&w, 3, 1000);
    if (sequence != 0)
        pfl_writer_field_varint(&w, SEQUENCE, sequence);
    pfl_writer_field_varint(&w, 79, 4321);
    if (machine != 0)
        pfl_writer_field_varint(&w, MACHINE, machine);
    assert_false(w.failed);
    return room - w.left;
}

static void give_made(struct world *w, size_t host, uint32_t sequence, uint32_t machine)
{
    uint8_t packet[64];
    size_t len = make_packet(packet, sizeof(packet), sequence, machine);

    assert_int_equal(give(w, host, packet, len), 0);
}

static void file_begins_with_clock_and_names_of_all_hosts(void **state)
{
    struct world w;
    struct pfl_span p;

    (void)state;
    init(&w);
    assert_int_equal(trace_packets(&w.sink), PREAMBLE_PACKETS);
    p = trace_packet(&w.sink, 0);
    assert_int_equal(field_value(field_bytes(p, 6), 2), 6);
    assert_false(has_field(p, MACHINE));
    p = trace_packet(&w.sink, 1);
    assert_memory_equal(field_bytes(field_bytes(p, SYSTEM_INFO), 17).data, "alpha", 5);
    assert_false(has_field(p, MACHINE));
    p = trace_packet(&w.sink, 3);
    assert_memory_equal(field_bytes(field_bytes(p, SYSTEM_INFO), 17).data, "beta", 4);
    assert_int_equal(field_value(p, MACHINE), 1);
    assert_int_equal(field_value(p, TIMESTAMP), other_point.host_ns);
    assert_int_equal(field_value(p, 58), 6);
    fini(&w);
}

static void clock_point_is_written_as_two_equal_exchanges(void **state)
{
    struct world w;
    struct pfl_span sync;
    struct pfl_reader r;
    struct pfl_field f;
    unsigned rounds = 0;

    (void)state;
    init(&w);
    sync = field_bytes(trace_packet(&w.sink, 2), REMOTE_CLOCK_SYNC);
    r = pfl_reader_of(sync);
    for (; pfl_reader_field(&r, &f); rounds++) {
        struct pfl_span client = field_bytes(field_bytes(f.bytes, 2), 1);
        struct pfl_span host = field_bytes(field_bytes(f.bytes, 3), 1);

        assert_int_equal(field_value(client, 1), 6);
        assert_int_equal(field_value(client, 2), other_point.host_ns);
        assert_int_equal(field_value(host, 1), 6);
        assert_int_equal(field_value(host, 2), other_point.reference_ns);
    }
    assert_int_equal(rounds, 2);
    fini(&w);
}

static void sequences_of_two_hosts_never_meet(void **state)
{
    struct world w;
    uint64_t seen[4];

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 0);
    seen[0] = field_value(last(&w), SEQUENCE);
    give_made(&w, w.b, 1, 0);
    seen[1] = field_value(last(&w), SEQUENCE);
    give_made(&w, w.a, 2, 0);
    seen[2] = field_value(last(&w), SEQUENCE);
    give_made(&w, w.b, 0xffffffff, 0);
    seen[3] = field_value(last(&w), SEQUENCE);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_true(seen[i] != seen[j] && seen[i] > 1);
    give_made(&w, w.a, 1, 0);
    assert_int_equal(field_value(last(&w), SEQUENCE), seen[0]);
    give_made(&w, w.b, 1, 0);
    assert_int_equal(field_value(last(&w), SEQUENCE), seen[1]);
    fini(&w);
}

static void reference_has_no_machine_id_and_the_other_has_one(void **state)
{
    struct world w;

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 0);
    assert_false(has_field(last(&w), MACHINE));
    give_made(&w, w.b, 1, 0);
    assert_int_equal(field_value(last(&w), MACHINE), 1);
    fini(&w);
}

static void machines_behind_hosts_stay_apart(void **state)
{
    struct world w;
    uint64_t of_a;
    uint64_t of_b;

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 99);
    of_a = field_value(last(&w), MACHINE);
    give_made(&w, w.b, 1, 99);
    of_b = field_value(last(&w), MACHINE);
    assert_true(of_a > 1 && of_b > 1 && of_a != of_b);
    give_made(&w, w.a, 5, 99);
    assert_int_equal(field_value(last(&w), MACHINE), of_a);
    fini(&w);
}

static void everything_but_the_ids_is_kept_byte_for_byte(void **state)
{
    struct world w;
    struct pfl_span p;

    (void)state;
    init(&w);
    give_made(&w, w.b, 5, 0);
    p = last(&w);
    assert_int_equal(field_value(p, TIMESTAMP), 77);
    assert_int_equal(field_value(p, 3), 1000);
    assert_int_equal(field_value(p, 79), 4321);
    assert_memory_equal(field_bytes(p, FOR_TESTING).data,
                        "\x0a\x03"
                        "abc",
                        5);
    fini(&w);
}

static void packets_of_every_length_are_framed_right(void **state)
{
    static uint8_t packet[17000];
    struct world w;
    size_t packets;

    (void)state;
    init(&w);
    packets = trace_packets(&w.sink);
    for (size_t payload = 1; payload < 16420;
         payload += payload < 300 || payload > 16350 ? 1 : 97) {
        struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));
        struct pfl_span got;

        packet[0] = 0;
        pfl_writer_field_varint(&b, SEQUENCE, 7);
        pfl_writer_field_header(&b, FOR_TESTING, payload);
        memset(b.pos, 'x', payload);
        assert_int_equal(give(&w, w.b, packet, sizeof(packet) - b.left + payload), 0);
        packets++;
        got = pfl_buf_get(&w.sink.file);
        if (payload % 50 == 0 || payload > 16350) {
            assert_int_equal(trace_packets(&w.sink), packets);
            got = last(&w);
            assert_int_equal(field_bytes(got, FOR_TESTING).len, payload);
        }
    }
    assert_int_equal(trace_packets(&w.sink), packets);
    fini(&w);
}

static void malformed_packets_are_left_out_and_counted(void **state)
{
    static const char *const bad[] = {"\x08", "\x0a\x7f\x61", "\x0b", "\x00\x01",
                                      "\x52\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"};
    struct world w;
    size_t before;

    (void)state;
    init(&w);
    before = trace_packets(&w.sink);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(give(&w, w.a, bad[i], i == 3 ? 2 : strlen(bad[i])), 0);
    assert_int_equal(give(&w, w.a, "", 0), 0);
    assert_int_equal(trace_packets(&w.sink), before);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->refused_packets, 5);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->packets, 0);
    fini(&w);
}

static void compressed_packets_are_refused(void **state)
{
    static const uint32_t ids[] = {COMPRESSED, 133};
    struct world w;
    uint8_t packet[16];

    (void)state;
    init(&w);
    for (size_t i = 0; i < 2; i++) {
        struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

        pfl_writer_field_bytes(&b, ids[i], "zz", 2);
        assert_int_equal(give(&w, w.b, packet, sizeof(packet) - b.left), 0);
    }
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, 2);
    fini(&w);
}

static size_t nest(uint8_t *out, size_t room, uint32_t id, const uint8_t *payload, size_t len)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_bytes(&w, id, payload, len);
    assert_false(w.failed);
    return room - w.left;
}

/* packet{ path[0]{ path[1]{ ... value }}} plus the service's sequence id. */
static size_t make_nested(uint8_t *out, size_t room, const uint32_t *path, uint64_t value)
{
    uint8_t a[64];
    uint8_t b[64];
    struct pfl_writer w = pfl_writer_of(a, sizeof(a));
    size_t depth = 0;
    size_t len;

    while (path[depth + 1] != 0)
        depth++;
    pfl_writer_field_varint(&w, path[depth], value);
    len = sizeof(a) - w.left;
    while (depth-- > 0) {
        len = nest(b, sizeof(b), path[depth], a, len);
        memcpy(a, b, len);
    }
    memcpy(out, a, len);
    w = pfl_writer_of(out + len, room - len);
    pfl_writer_field_varint(&w, SEQUENCE, 1);
    return room - w.left;
}

static uint64_t nested_value(struct pfl_span p, const uint32_t *path)
{
    while (path[1] != 0)
        p = field_bytes(p, *path++);
    return field_value(p, *path);
}

static void sequence_ids_inside_stats_and_provenance_follow(void **state)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    static const uint32_t provenance[] = {PROVENANCE, 2, 1, 1, 0};
    struct world w;
    uint8_t packet[64];
    uint64_t fresh;

    (void)state;
    init(&w);
    give_made(&w, w.a, 9, 0);
    give_made(&w, w.b, 9, 0);
    fresh = field_value(last(&w), SEQUENCE);
    assert_int_equal(give(&w, w.b, packet, make_nested(packet, sizeof(packet), stats, 9)), 0);
    assert_int_equal(nested_value(last(&w), stats), fresh);
    assert_int_equal(give(&w, w.b, packet, make_nested(packet, sizeof(packet), provenance, 9)), 0);
    assert_int_equal(nested_value(last(&w), provenance), fresh);
    assert_int_equal(field_value(last(&w), MACHINE), 1);
    fini(&w);
}

static void system_info_gets_the_operators_name(void **state)
{
    static const uint32_t pages[] = {SYSTEM_INFO, 6, 0};
    struct world w;
    uint8_t packet[64];
    struct pfl_span info;

    (void)state;
    init(&w);
    assert_int_equal(give(&w, w.b, packet, make_nested(packet, sizeof(packet), pages, 4096)), 0);
    info = field_bytes(last(&w), SYSTEM_INFO);
    assert_int_equal(field_value(info, 6), 4096);
    assert_int_equal(field_bytes(info, 17).len, 4);
    assert_memory_equal(field_bytes(info, 17).data, "beta", 4);
    fini(&w);
}

static void end_of_one_hosts_reading_is_left_out_and_its_start_noted(void **state)
{
    static const uint32_t completed[] = {SERVICE_EVENT, 4, 0};
    struct world w;
    uint8_t packet[64];
    struct pfl_writer b;
    size_t before;

    (void)state;
    init(&w);
    before = trace_packets(&w.sink);
    assert_int_equal(give(&w, w.b, packet, make_nested(packet, sizeof(packet), completed, 1)), 0);
    assert_int_equal(trace_packets(&w.sink), before);
    b = pfl_writer_of(packet, sizeof(packet));
    pfl_writer_field_varint(&b, TIMESTAMP, 123456);
    pfl_writer_field_bytes(&b, SERVICE_EVENT, "\x10\x01", 2);
    assert_int_equal(give(&w, w.b, packet, sizeof(packet) - b.left), 0);
    assert_int_equal(trace_packets(&w.sink), before + 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->started_ns, 123456);
    fini(&w);
}

static void clocks_of_machines_behind_a_host_move_to_the_reference(void **state)
{
    struct world w;
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
    assert_int_equal(give(&w, w.b, b, sizeof(b) - p.left), 0);
    synced = field_bytes(field_bytes(last(&w), REMOTE_CLOCK_SYNC), 1);
    assert_int_equal(field_value(field_bytes(field_bytes(synced, 3), 1), 2), 2000000);
    assert_int_equal(give(&w, w.a, b, sizeof(b) - p.left), 0);
    synced = field_bytes(field_bytes(last(&w), REMOTE_CLOCK_SYNC), 1);
    assert_int_equal(field_value(field_bytes(field_bytes(synced, 3), 1), 2), 6000000);
    fini(&w);
}

static void give_dropped(struct world *w, size_t host, uint32_t sequence, uint32_t reasons)
{
    uint8_t packet[32];
    struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_varint(&b, TIMESTAMP, 1);
    pfl_writer_field_varint(&b, SEQUENCE, sequence);
    pfl_writer_field_varint(&b, DROPPED, reasons);
    assert_int_equal(give(w, host, packet, sizeof(packet) - b.left), 0);
}

static void loss_marks_count_but_not_the_one_every_sequence_begins_with(void **state)
{
    struct world w;

    (void)state;
    init(&w);
    give_dropped(&w, w.a, 1, 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->loss_marks, 0);
    give_dropped(&w, w.a, 1, 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->loss_marks, 1);
    give_dropped(&w, w.a, 2, 129);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->loss_marks, 2);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->loss_reasons, 129);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->loss_marks, 0);
    fini(&w);
}

static void a_host_may_not_invent_machines_without_end(void **state)
{
    struct world w;
    uint8_t packet[64];
    int rc = 0;
    uint32_t i = 0;

    (void)state;
    init(&w);
    while (rc == 0 && i < 100000)
        rc = give(&w, w.b, packet, make_packet(packet, sizeof(packet), 1, ++i));
    assert_int_equal(rc, PFL_ELIMIT);
    assert_int_equal(i, PFL_MERGE_MAX_MACHINES + 1);
    fini(&w);
}

static void sinks_refusal_is_passed_on(void **state)
{
    struct world w;

    (void)state;
    init(&w);
    w.sink.answer = PFL_EIO;
    assert_int_equal(give(&w, w.a, "\x40\x01", 2), PFL_EIO);
    fini(&w);
}

static void merge_without_reference_does_not_begin(void **state)
{
    struct pfl_merge_host_conf conf = {.name = "x"};
    struct trace_sink memory;
    struct pfl_merge_sink sink;
    struct pfl_merge *merge;
    size_t host;

    (void)state;
    trace_sink_init(&memory, &sink);
    assert_int_equal(pfl_merge_new(&sink, &merge), 0);
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    assert_int_equal(pfl_merge_begin(merge), PFL_ESTATE);
    conf.is_reference = true;
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), PFL_EINVAL);
    pfl_merge_free(merge);
    trace_sink_fini(&memory);
    pfl_sweep_assert_no_leak();
}

struct replay {
    struct world *w;
    struct pfl_packet_scan scan;
    size_t host;
    size_t packets;
};

static int on_replayed(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct replay *r = user;

    r->packets++;
    return pfl_merge_packet(r->w->merge, r->host, slices, slices_len, bytes);
}

static void replay_reply(void *user, struct pfl_span body)
{
    struct replay *r = user;

    assert_int_equal(pfl_packet_scan_feed(&r->scan, body, on_replayed, r), 0);
}

static void replay_capture(struct world *w, size_t host, const char *capture, size_t *ret_packets)
{
    struct replay r = {.w = w, .host = host};

    pfl_packet_scan_init(&r.scan, PFL_PACKET_MAX_BYTES);
    each_read_reply(capture, replay_reply, &r);
    pfl_packet_scan_fini(&r.scan);
    *ret_packets = r.packets;
}

/* Every packet of the file but the preamble, by host. */
static size_t count_of_machine(const struct world *w, uint64_t machine)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&w->sink.file));
    struct pfl_field f;
    size_t n = 0;

    while (pfl_reader_field(&r, &f))
        n += field_value(f.bytes, MACHINE) == machine;
    return n;
}

static void recorded_hosts_merge_without_losing_a_packet(void **state)
{
    struct world w;
    size_t of_a;
    size_t of_b;

    (void)state;
    init(&w);
    replay_capture(&w, w.a, "consumer-read-small.cap", &of_a);
    replay_capture(&w, w.b, "consumer-read-trackevent.cap", &of_b);
    /* Two of the preamble are the reference's; each read-out tells its end once. */
    assert_int_equal(count_of_machine(&w, 0), of_a - 1 + 2);
    assert_int_equal(count_of_machine(&w, 1), of_b - 1 + 2);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->packets, of_a - 1);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->refused_packets, 0);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, 0);
    assert_true(pfl_merge_get_stats(w.merge, w.a)->started_ns != 0);
    fini(&w);
}

static int merge_once(void *arg)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    struct world w;
    uint8_t packet[64];
    int rc = open_world(&w);

    (void)arg;
    if (rc == 0)
        rc = give(&w, w.b, packet, make_packet(packet, sizeof(packet), 3, 4));
    if (rc == 0)
        rc = give(&w, w.b, packet, make_nested(packet, sizeof(packet), stats, 9));
    close_world(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(merge_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_begins_with_clock_and_names_of_all_hosts),
        cmocka_unit_test(clock_point_is_written_as_two_equal_exchanges),
        cmocka_unit_test(sequences_of_two_hosts_never_meet),
        cmocka_unit_test(reference_has_no_machine_id_and_the_other_has_one),
        cmocka_unit_test(machines_behind_hosts_stay_apart),
        cmocka_unit_test(everything_but_the_ids_is_kept_byte_for_byte),
        cmocka_unit_test(packets_of_every_length_are_framed_right),
        cmocka_unit_test(malformed_packets_are_left_out_and_counted),
        cmocka_unit_test(compressed_packets_are_refused),
        cmocka_unit_test(sequence_ids_inside_stats_and_provenance_follow),
        cmocka_unit_test(system_info_gets_the_operators_name),
        cmocka_unit_test(end_of_one_hosts_reading_is_left_out_and_its_start_noted),
        cmocka_unit_test(clocks_of_machines_behind_a_host_move_to_the_reference),
        cmocka_unit_test(loss_marks_count_but_not_the_one_every_sequence_begins_with),
        cmocka_unit_test(a_host_may_not_invent_machines_without_end),
        cmocka_unit_test(sinks_refusal_is_passed_on),
        cmocka_unit_test(merge_without_reference_does_not_begin),
        cmocka_unit_test(recorded_hosts_merge_without_losing_a_packet),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
