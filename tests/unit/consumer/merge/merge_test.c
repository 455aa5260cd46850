/* SPDX-License-Identifier: Apache-2.0 */
/* Many hosts' packets to one trace: ids, names, clocks, and packets that must not get in. */
#include "consumer/merge/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "proto/packet_scan.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

#define PREAMBLE_PACKETS 4u /* of a merge of a reference and one other host with one point */

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

static void file_begins_with_clock_and_names_of_all_hosts(void **state)
{
    struct merge_world w;
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
    assert_int_equal(field_value(p, TIMESTAMP), B_HOST_NS);
    assert_int_equal(field_value(p, 58), 6);
    fini(&w);
}

static void clock_point_is_written_as_two_equal_exchanges(void **state)
{
    struct merge_world w;
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
        assert_int_equal(field_value(client, 2), B_HOST_NS);
        assert_int_equal(field_value(host, 1), 6);
        assert_int_equal(field_value(host, 2), B_REFERENCE_NS);
    }
    assert_int_equal(rounds, 2);
    fini(&w);
}

static void what_is_known_of_a_clock_is_reported_to_readers(void **state)
{
    static const struct pfl_clock_point at = {7, 7};
    struct pfl_merge_host_conf conf = {
        .name = "ref", .points = &at, .points_len = 1, .is_reference = true};
    struct trace_sink sink;
    struct pfl_merge_sink merge_sink;
    struct pfl_merge *merge;
    struct pfl_span attribute;
    size_t host;

    (void)state;
    trace_sink_init(&sink, &merge_sink);
    assert_int_equal(pfl_merge_new(&merge_sink, &(const struct pfl_hash_key){{1, 2}}, &merge), 0);
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    conf = (struct pfl_merge_host_conf){.name = "web-1",
                                        .points = &at,
                                        .points_len = 1,
                                        .has_clock = true,
                                        .offset_ns = -5,
                                        .error_ns = 12000};
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    assert_int_equal(pfl_merge_begin(merge), 0);
    attribute = field_bytes(field_bytes(trace_packet(&sink, 4), ATTRIBUTES), 1);
    /* The last of three. */
    assert_int_equal(field_value(attribute, 2), 12000);
    attribute = field_bytes(attribute, 1);
    assert_int_equal(attribute.len, strlen("perfleet.clock_error_ns.web-1"));
    assert_memory_equal(attribute.data, "perfleet.clock_error_ns.web-1", attribute.len);
    pfl_merge_free(merge);
    trace_sink_fini(&sink);
    pfl_sweep_assert_no_leak();
}

static void sequences_of_two_hosts_never_meet(void **state)
{
    struct merge_world w;
    uint64_t seen[4];

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 0);
    seen[0] = field_value(merge_world_last(&w), SEQUENCE);
    give_made(&w, w.b, 1, 0);
    seen[1] = field_value(merge_world_last(&w), SEQUENCE);
    give_made(&w, w.a, 2, 0);
    seen[2] = field_value(merge_world_last(&w), SEQUENCE);
    give_made(&w, w.b, 0xffffffff, 0);
    seen[3] = field_value(merge_world_last(&w), SEQUENCE);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_true(seen[i] != seen[j] && seen[i] > 1);
    give_made(&w, w.a, 1, 0);
    assert_int_equal(field_value(merge_world_last(&w), SEQUENCE), seen[0]);
    give_made(&w, w.b, 1, 0);
    assert_int_equal(field_value(merge_world_last(&w), SEQUENCE), seen[1]);
    fini(&w);
}

/* Trace Processor ends its load at a packet that needs a sequence and has none. */
static void packets_without_a_sequence_get_one(void **state)
{
    struct merge_world w;
    uint64_t seen[3];

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 0);
    seen[0] = field_value(merge_world_last(&w), SEQUENCE);
    give_made(&w, w.a, 0, 0);
    seen[1] = field_value(merge_world_last(&w), SEQUENCE);
    give_made(&w, w.b, 0, 0);
    seen[2] = field_value(merge_world_last(&w), SEQUENCE);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            assert_true(seen[i] != seen[j] && seen[i] > 1);
    give_made(&w, w.a, 0, 0);
    assert_int_equal(field_value(merge_world_last(&w), SEQUENCE), seen[1]);
    fini(&w);
}

static void reference_has_no_machine_id_and_the_other_has_one(void **state)
{
    struct merge_world w;

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 0);
    assert_false(has_field(merge_world_last(&w), MACHINE));
    give_made(&w, w.b, 1, 0);
    assert_int_equal(field_value(merge_world_last(&w), MACHINE), 1);
    fini(&w);
}

static void machines_behind_hosts_stay_apart(void **state)
{
    struct merge_world w;
    uint64_t of_a;
    uint64_t of_b;

    (void)state;
    init(&w);
    give_made(&w, w.a, 1, 99);
    of_a = field_value(merge_world_last(&w), MACHINE);
    give_made(&w, w.b, 1, 99);
    of_b = field_value(merge_world_last(&w), MACHINE);
    assert_true(of_a > 1 && of_b > 1 && of_a != of_b);
    give_made(&w, w.a, 5, 99);
    assert_int_equal(field_value(merge_world_last(&w), MACHINE), of_a);
    fini(&w);
}

static void everything_but_the_ids_is_kept_byte_for_byte(void **state)
{
    struct merge_world w;
    struct pfl_span p;

    (void)state;
    init(&w);
    give_made(&w, w.b, 5, 0);
    p = merge_world_last(&w);
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
    struct merge_world w;
    size_t packets;

    (void)state;
    init(&w);
    packets = trace_packets(&w.sink);
    for (size_t payload = 1; payload < 16420;
         payload += payload < 300 || payload > 16350 ? 1 : 97) {
        struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

        packet[0] = 0;
        pfl_writer_field_varint(&b, SEQUENCE, 7);
        pfl_writer_field_header(&b, FOR_TESTING, payload);
        memset(b.pos, 'x', payload);
        assert_int_equal(merge_world_give(&w, w.b, packet, sizeof(packet) - b.left + payload), 0);
        packets++;
        if (payload % 50 == 0 || payload > 16350) {
            assert_int_equal(trace_packets(&w.sink), packets);
            assert_int_equal(field_bytes(merge_world_last(&w), FOR_TESTING).len, payload);
        }
    }
    assert_int_equal(trace_packets(&w.sink), packets);
    fini(&w);
}

static void malformed_packets_are_left_out_and_counted(void **state)
{
    static const char *const bad[] = {"\x08", "\x0a\x7f\x61", "\x0b", "\x00\x01",
                                      "\x52\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"};
    struct merge_world w;
    size_t before;

    (void)state;
    init(&w);
    before = trace_packets(&w.sink);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(merge_world_give(&w, w.a, bad[i], i == 3 ? 2 : strlen(bad[i])), 0);
    assert_int_equal(merge_world_give(&w, w.a, "", 0), 0);
    assert_int_equal(trace_packets(&w.sink), before);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->refused_packets, 5);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->packets, 0);
    fini(&w);
}

static void compressed_packets_are_refused(void **state)
{
    static const uint32_t ids[] = {COMPRESSED, 133};
    struct merge_world w;
    uint8_t packet[16];

    (void)state;
    init(&w);
    for (size_t i = 0; i < 2; i++) {
        struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

        pfl_writer_field_bytes(&b, ids[i], "zz", 2);
        assert_int_equal(merge_world_give(&w, w.b, packet, sizeof(packet) - b.left), 0);
    }
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, 2);
    fini(&w);
}

static void a_packet_of_two_kinds_is_refused(void **state)
{
    static const uint32_t ids[][2] = {{COMPRESSED, 35}, {35, COMPRESSED}, {133, 45}, {35, 45}};
    const size_t len = sizeof(ids) / sizeof(ids[0]);
    struct merge_world w;
    uint8_t packet[16];

    (void)state;
    init(&w);
    for (size_t i = 0; i < len; i++) {
        struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

        pfl_writer_field_bytes(&b, ids[i][0], "", 0);
        pfl_writer_field_bytes(&b, ids[i][1], "", 0);
        assert_int_equal(merge_world_give(&w, w.b, packet, sizeof(packet) - b.left), 0);
    }
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, len);
    fini(&w);
}

static void give_dropped(struct merge_world *w, size_t host, uint32_t sequence, uint32_t reasons)
{
    uint8_t packet[32];
    struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_varint(&b, TIMESTAMP, 1);
    pfl_writer_field_varint(&b, SEQUENCE, sequence);
    pfl_writer_field_varint(&b, DROPPED, reasons);
    assert_int_equal(merge_world_give(w, host, packet, sizeof(packet) - b.left), 0);
}

static void loss_marks_count_but_not_the_one_every_sequence_begins_with(void **state)
{
    struct merge_world w;

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

static void machines_that_a_host_invents_without_end_are_left_out(void **state)
{
    const uint32_t more = 10;
    struct merge_world w;
    uint8_t packet[64];

    (void)state;
    init(&w);
    for (uint32_t i = 1; i <= PFL_MERGE_MAX_MACHINES + more; i++)
        assert_int_equal(
            merge_world_give(&w, w.b, packet, make_packet(packet, sizeof(packet), 1, i)), 0);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, more);
    /* Those that are known stay. */
    assert_int_equal(merge_world_give(&w, w.b, packet, make_packet(packet, sizeof(packet), 1, 1)),
                     0);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->refused_packets, more);
    fini(&w);
}

static void give_of_user(struct merge_world *w, size_t host, uint32_t uid, uint32_t sequence)
{
    uint8_t packet[32];
    struct pfl_writer b = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_varint(&b, TIMESTAMP, 1);
    pfl_writer_field_varint(&b, TRACE_PACKET__TRUSTED_UID, uid);
    pfl_writer_field_varint(&b, SEQUENCE, sequence);
    assert_int_equal(merge_world_give(w, host, packet, sizeof(packet) - b.left), 0);
}

/* A local user's producers come and go, each with many writers. */
static void a_users_sequences_leave_those_of_others_their_part(void **state)
{
    const uint32_t half = PFL_MERGE_MAX_SEQUENCES / 2;
    const struct pfl_merge_stats *stats;
    struct merge_world w;

    (void)state;
    init(&w);
    stats = pfl_merge_get_stats(w.merge, w.a);
    give_of_user(&w, w.a, 0, 2);
    for (uint32_t i = 0; i < half + 1000; i++)
        give_of_user(&w, w.a, 1000, 1000 + i);
    assert_in_range(stats->sequences, half - 10, half + 1);
    assert_in_range(stats->refused_packets, 1000, 1010);
    give_of_user(&w, w.a, 1000, 1000); /* it is known */
    give_of_user(&w, w.a, 0, 2);
    for (uint32_t i = 0; i < half / 4; i++)
        give_of_user(&w, w.a, i % 2, 2 * half + i);
    assert_in_range(stats->sequences, half + half / 4 - 10, half + half / 4 + 1);
    assert_in_range(stats->refused_packets, 1000, 1010);
    fini(&w);
}

/* A user with a range in /etc/subuid acts as each of its ids in a user namespace. */
static void a_users_subordinate_ids_leave_others_their_part(void **state)
{
    const uint32_t half = PFL_MERGE_MAX_SEQUENCES / 2;
    const struct pfl_merge_stats *stats;
    struct merge_world w;
    uint32_t next = 2;

    (void)state;
    init(&w);
    stats = pfl_merge_get_stats(w.merge, w.a);
    for (uint32_t uid = 100000; uid < 100030; uid++) {
        uint64_t refused = stats->refused_packets;

        while (stats->refused_packets == refused)
            give_of_user(&w, w.a, uid, next++);
    }
    assert_in_range(stats->sequences, half - 10, half);
    for (uint32_t i = 0; i < half / 2 - 10; i++)
        give_of_user(&w, w.a, 1000, next++);
    assert_int_equal(stats->refused_packets, 30);
    fini(&w);
}

/* Users of a directory have such ids, too. */
static void users_with_large_ids_leave_each_other_their_part(void **state)
{
    const struct pfl_merge_stats *stats;
    struct merge_world w;
    uint32_t next = 2;

    (void)state;
    init(&w);
    stats = pfl_merge_get_stats(w.merge, w.a);
    while (stats->refused_packets == 0)
        give_of_user(&w, w.a, 100000, next++);
    assert_in_range(stats->sequences, PFL_MERGE_MAX_SEQUENCES / 4 - 10,
                    PFL_MERGE_MAX_SEQUENCES / 4);
    for (uint32_t i = 0; i < PFL_MERGE_MAX_SEQUENCES / 8 - 10; i++)
        give_of_user(&w, w.a, 100001, next++);
    assert_int_equal(stats->refused_packets, 1);
    fini(&w);
}

/* Gives a host packets of root and of ever new sequences, until one is left out. */
static uint32_t count_until_limit(struct merge_world *w, size_t host)
{
    static uint32_t next = 1;
    const struct pfl_merge_stats *stats = pfl_merge_get_stats(w->merge, host);
    uint32_t count = 0;

    while (count <= PFL_MERGE_MAX_SEQUENCES) {
        uint64_t refused = stats->refused_packets;

        pfl_buf_clear(&w->sink.file);
        give_of_user(w, host, 0, ++next);
        if (stats->refused_packets != refused)
            break;
        count++;
    }
    return count;
}

/* Each run of a host, and each boot, is added as a host. */
static void the_sequences_of_all_sessions_of_a_host_are_bounded(void **state)
{
    struct pfl_merge_host_conf session = {.name = "beta", .is_same_machine = true};
    struct pfl_merge_host_conf boot = {.name = "beta (boot 2)", .is_same_host = true};
    struct pfl_merge_host_conf other = {.name = "gamma"};
    struct merge_world w;
    size_t hosts[6];

    (void)state;
    init(&w);
    session.machine_of = boot.host_of = w.b;
    assert_int_equal(pfl_merge_add_host(w.merge, &boot, &hosts[0]), 0);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(pfl_merge_add_host(w.merge, &session, &hosts[i]), 0);
    assert_int_equal(pfl_merge_add_host(w.merge, &other, &hosts[5]), 0);
    for (size_t i = 0; i < PFL_MERGE_HOST_SEQUENCES / PFL_MERGE_MAX_SEQUENCES; i++)
        assert_int_equal(count_until_limit(&w, hosts[i]), PFL_MERGE_MAX_SEQUENCES);
    assert_int_equal(count_until_limit(&w, hosts[4]), 0);
    assert_int_equal(count_until_limit(&w, w.b), 0);
    assert_int_equal(count_until_limit(&w, hosts[5]), PFL_MERGE_MAX_SEQUENCES);
    fini(&w);
}

static void sinks_refusal_is_passed_on(void **state)
{
    struct merge_world w;

    (void)state;
    init(&w);
    w.sink.answer = PFL_EIO;
    assert_int_equal(merge_world_give(&w, w.a, "\x40\x01", 2), PFL_EIO);
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
    assert_int_equal(pfl_merge_new(&sink, &(const struct pfl_hash_key){{1, 2}}, &merge), 0);
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    assert_int_equal(pfl_merge_begin(merge), PFL_ESTATE);
    conf.is_reference = true;
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), PFL_EINVAL);
    pfl_merge_free(merge);
    trace_sink_fini(&memory);
    pfl_sweep_assert_no_leak();
}

struct replay {
    struct merge_world *w;
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

static void replay_capture(struct merge_world *w, size_t host, const char *capture,
                           size_t *ret_packets)
{
    struct replay r = {.w = w, .host = host};

    pfl_packet_scan_init(&r.scan, PFL_PACKET_MAX_BYTES);
    each_read_reply(capture, replay_reply, &r);
    pfl_packet_scan_fini(&r.scan);
    *ret_packets = r.packets;
}

/* Every packet of the file but the preamble, by host. */
static size_t count_of_machine(const struct merge_world *w, uint64_t machine)
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
    struct merge_world w;
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
    struct merge_world w;
    uint8_t packet[64];
    int rc = merge_world_open(&w);

    (void)arg;
    if (rc == 0)
        rc = merge_world_give(&w, w.b, packet, make_packet(packet, sizeof(packet), 3, 4));
    if (rc == 0)
        rc = merge_world_give(&w, w.b, packet, make_nested(packet, sizeof(packet), stats, 9));
    merge_world_close(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(merge_once, NULL, false);
}

/* What the first taught is used for the second and third, each host by itself. */
static void packets_like_the_one_before_are_written_like_it(void **state)
{
    struct merge_world w;
    uint8_t packet[200];

    (void)state;
    assert_int_equal(merge_world_open(&w), 0);
    for (uint32_t sequence = 2; sequence < 40; sequence += 9) {
        for (int host = 0; host < 2; host++) {
            size_t len = make_packet(packet, sizeof(packet), sequence, 0);
            uint8_t first[200];
            struct pfl_span out;

            assert_int_equal(merge_world_give(&w, host == 0 ? w.a : w.b, packet, len), 0);
            out = merge_world_last(&w);
            assert_true(out.len <= sizeof(first));
            memcpy(first, out.data, out.len);
            for (int again = 0; again < 2; again++) {
                size_t packets = trace_packets(&w.sink);

                assert_int_equal(merge_world_give(&w, host == 0 ? w.a : w.b, packet, len), 0);
                assert_int_equal(trace_packets(&w.sink), packets + 1);
                assert_int_equal(merge_world_last(&w).len, out.len);
                assert_memory_equal(merge_world_last(&w).data, first, out.len);
            }
        }
    }
    assert_int_equal(pfl_merge_get_stats(w.merge, w.a)->packets, 15);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->packets, 15);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->sequences, 5);
    merge_world_close(&w);
    pfl_sweep_assert_no_leak();
}

/* TraceAttributes of the packet: three, with the host's name at each key's end. */
static void a_long_host_name_is_in_all_three_attributes_of_its_clock(void **state)
{
    static const struct pfl_clock_point at = {7, 7};
    struct pfl_merge_host_conf conf = {
        .name = "ref", .points = &at, .points_len = 1, .is_reference = true};
    struct pfl_merge_sink merge_sink;
    struct pfl_merge *merge;
    struct trace_sink sink;
    struct pfl_reader r;
    struct pfl_field f;
    unsigned count = 0;
    char name[481];
    size_t host;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    trace_sink_init(&sink, &merge_sink);
    assert_int_equal(pfl_merge_new(&merge_sink, &(const struct pfl_hash_key){{1, 2}}, &merge), 0);
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    conf = (struct pfl_merge_host_conf){.name = name,
                                        .points = &at,
                                        .points_len = 1,
                                        .has_clock = true,
                                        .offset_ns = -5,
                                        .drift_ns = -6,
                                        .error_ns = INT64_MAX};
    assert_int_equal(pfl_merge_add_host(merge, &conf, &host), 0);
    assert_int_equal(pfl_merge_begin(merge), 0);
    r = pfl_reader_of(field_bytes(trace_packet(&sink, 4), ATTRIBUTES));
    while (pfl_reader_field(&r, &f)) {
        static const int64_t values[] = {-5, -6, INT64_MAX};
        struct pfl_span key = field_bytes(f.bytes, 1);

        assert_true(count < 3 && key.len > strlen(name));
        assert_memory_equal(key.data + key.len - strlen(name), name, strlen(name));
        assert_int_equal(field_value(f.bytes, 2), (uint64_t)values[count++ % 3]);
    }
    assert_false(r.failed);
    assert_int_equal(count, 3);
    pfl_merge_free(merge);
    trace_sink_fini(&sink);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_like_the_one_before_are_written_like_it),
        cmocka_unit_test(file_begins_with_clock_and_names_of_all_hosts),
        cmocka_unit_test(clock_point_is_written_as_two_equal_exchanges),
        cmocka_unit_test(what_is_known_of_a_clock_is_reported_to_readers),
        cmocka_unit_test(sequences_of_two_hosts_never_meet),
        cmocka_unit_test(packets_without_a_sequence_get_one),
        cmocka_unit_test(reference_has_no_machine_id_and_the_other_has_one),
        cmocka_unit_test(machines_behind_hosts_stay_apart),
        cmocka_unit_test(everything_but_the_ids_is_kept_byte_for_byte),
        cmocka_unit_test(packets_of_every_length_are_framed_right),
        cmocka_unit_test(malformed_packets_are_left_out_and_counted),
        cmocka_unit_test(compressed_packets_are_refused),
        cmocka_unit_test(a_packet_of_two_kinds_is_refused),
        cmocka_unit_test(loss_marks_count_but_not_the_one_every_sequence_begins_with),
        cmocka_unit_test(machines_that_a_host_invents_without_end_are_left_out),
        cmocka_unit_test(a_users_sequences_leave_those_of_others_their_part),
        cmocka_unit_test(a_users_subordinate_ids_leave_others_their_part),
        cmocka_unit_test(users_with_large_ids_leave_each_other_their_part),
        cmocka_unit_test(the_sequences_of_all_sessions_of_a_host_are_bounded),
        cmocka_unit_test(sinks_refusal_is_passed_on),
        cmocka_unit_test(merge_without_reference_does_not_begin),
        cmocka_unit_test(recorded_hosts_merge_without_losing_a_packet),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(a_long_host_name_is_in_all_three_attributes_of_its_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
