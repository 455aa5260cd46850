/* SPDX-License-Identifier: Apache-2.0 */
/* The read-back: packets of buffers and of the service in, frames out and taken apart again. */
#include "perfetto/trace_packet.fields.h"
#include "service/buffer/readback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "proto/packet.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"
#include "tests/unit/service/buffer/frame_kit.h"

#define REQUEST_ID 77u
#define MIB        ((uint64_t)1 << 20)

struct fixture {
    struct pfl_trace_buffer *buffers[2];
    struct pfl_readback *readback;
    struct kit_trace trace;
    struct kit_chunk chunk;
    uint32_t sources;
    struct pfl_span at_the_end; /* pushed when all is drained */
};

static struct fixture fx;

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    struct fixture *f = user;
    struct pfl_packet_trusted trusted = {
        .uid = source->producer_uid, .sequence_id = ++f->sources + 1, .pid = source->producer_pid};

    assert_int_equal(source->packet_sequence_id, 0);
    source->packet_sequence_id = trusted.sequence_id;
    source->trusted_len = (uint8_t)pfl_packet_encode_trusted(source->trusted, &trusted);
}

static void on_drained(void *user, struct pfl_readback *readback)
{
    struct fixture *f = user;

    assert_int_equal(pfl_readback_push(readback, f->at_the_end), 0);
}

static void open_readback(void)
{
    struct pfl_readback_conf conf = {
        .request_id = REQUEST_ID,
        .buffers = fx.buffers,
        .buffers_len = 2,
        .on_new_source = on_new_source,
        .on_drained = on_drained,
        .user = &fx,
    };

    assert_int_equal(pfl_readback_new(&conf, &fx.readback), 0);
}

static int setup(void **state)
{
    (void)state;
    fx.sources = 0;
    fx.at_the_end = pfl_span_of(NULL, 0);
    fx.buffers[0] = kit_buffer(4 * MIB, PFL_FILL_RING_BUFFER);
    fx.buffers[1] = kit_buffer(4 * MIB, PFL_FILL_RING_BUFFER);
    kit_trace_init(&fx.trace);
    open_readback();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_readback_free(fx.readback);
    pfl_trace_buffer_free(fx.buffers[0]);
    pfl_trace_buffer_free(fx.buffers[1]);
    kit_trace_fini(&fx.trace);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* A valid packet of `len` bytes, at least 6: field 900 with a length, filled with `fill`. */
static size_t make_packet(uint8_t *dst, char fill, size_t len)
{
    struct pfl_writer w = pfl_writer_of(dst, len);
    size_t payload = len - 2 - 1;

    while (payload + pfl_varint_size(payload) + 2 > len)
        payload--;
    pfl_writer_field_header(&w, TRACE_PACKET__FOR_TESTING, payload);
    memset(w.pos, fill, payload);
    return len - (w.left - payload);
}

static size_t commit_packet(struct pfl_trace_buffer *buffer, uint16_t writer, uint32_t chunk_id,
                            char fill, size_t len)
{
    static uint8_t packet[KIT_PAYLOAD_MAX];
    size_t bytes = make_packet(packet, fill, len);

    kit_chunk_begin(&fx.chunk, 1, writer, chunk_id);
    kit_chunk_add_bytes(&fx.chunk, packet, bytes);
    pfl_trace_buffer_commit(buffer, &fx.chunk.chunk);
    return bytes;
}

/* The next packet of the trace: `bytes` of a made packet, then the trusted fields. */
static void expect_packet(char fill, size_t bytes, uint32_t sequence_id, uint32_t loss_reasons)
{
    struct pfl_span got = kit_trace_take(&fx.trace);
    struct pfl_packet_trusted trusted = {
        .uid = 1001, .sequence_id = sequence_id, .pid = 2001, .loss_reasons = loss_reasons};
    uint8_t want[PFL_PACKET_TRUSTED_MAX];
    size_t want_len = pfl_packet_encode_trusted(want, &trusted);

    assert_int_equal(got.len, bytes + want_len);
    assert_int_equal(got.data[bytes - 1], (uint8_t)fill);
    assert_memory_equal(got.data + bytes, want, want_len);
}

static void an_empty_session_is_answered_by_one_last_frame(void **state)
{
    (void)state;
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    assert_int_equal(fx.trace.frames, 1);
    assert_int_equal(fx.trace.slices, 0);
}

static void packets_get_trusted_fields_and_the_loss_behind_them(void **state)
{
    size_t a;
    size_t b;

    (void)state;
    a = commit_packet(fx.buffers[0], 5, 0, 'a', 40);
    b = commit_packet(fx.buffers[0], 5, 2, 'b', 3000);
    commit_packet(fx.buffers[0], 6, 0, 'c', 40);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    expect_packet('a', a, 2, 0);
    expect_packet('b', b, 2, 3);
    expect_packet('c', a, 3, 0);
    assert_int_equal(fx.trace.slices, 3);
    assert_int_equal(fx.sources, 2);
}

static void packets_of_the_service_come_before_and_behind_those_of_buffers_in_order(void **state)
{
    size_t len;

    (void)state;
    fx.at_the_end = pfl_span_of("end", 3);
    len = commit_packet(fx.buffers[1], 1, 0, 'y', 40);
    commit_packet(fx.buffers[0], 1, 0, 'x', 40);
    assert_int_equal(pfl_readback_push(fx.readback, pfl_span_of("first", 5)), 0);
    assert_int_equal(pfl_readback_push(fx.readback, pfl_span_of("second", 6)), 0);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    assert_memory_equal(kit_trace_take(&fx.trace).data, "first", 5);
    assert_memory_equal(kit_trace_take(&fx.trace).data, "second", 6);
    expect_packet('x', len, 2, 0);
    expect_packet('y', len, 3, 0);
    assert_memory_equal(kit_trace_take(&fx.trace).data, "end", 3);
}

static void a_pushed_packet_larger_than_a_frame_goes_over_several(void **state)
{
    static uint8_t big[300000];
    struct pfl_span got;

    (void)state;
    memset(big, 's', sizeof(big));
    assert_int_equal(pfl_readback_push(fx.readback, pfl_span_of(big, sizeof(big))), 0);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    got = kit_trace_take(&fx.trace);
    assert_int_equal(got.len, sizeof(big));
    assert_memory_equal(got.data, big, sizeof(big));
    assert_true(fx.trace.frames <= 4);
}

/* A packet of `len` bytes over chunks of 4080. */
static uint32_t commit_long(struct pfl_trace_buffer *buffer, uint32_t chunk_id, const uint8_t *data,
                            size_t len)
{
    size_t pos = 0;

    while (pos < len) {
        size_t part = len - pos < 4076 ? len - pos : 4076;

        kit_chunk_begin(&fx.chunk, 1, 1, chunk_id++);
        kit_chunk_add_bytes(&fx.chunk, data + pos, part);
        fx.chunk.chunk.flags = (uint8_t)((pos != 0 ? PFL_CHUNK_CONTINUES_PREV : 0) |
                                         (pos + part < len ? PFL_CHUNK_CONTINUES_NEXT : 0));
        pfl_trace_buffer_commit(buffer, &fx.chunk.chunk);
        pos += part;
    }
    return chunk_id;
}

static void packets_of_every_size_cross_frames_unharmed(void **state)
{
    static uint8_t big[400000];
    struct kit_random random = {.state = 5};
    size_t lens[64];
    uint32_t chunk_id = 0;

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        lens[i] = i % 16 == 3 ? 10 + kit_random(&random, 399990) : 10 + kit_random(&random, 30000);
        lens[i] = make_packet(big, (char)('A' + i), lens[i]);
        chunk_id = commit_long(fx.buffers[i / 32], chunk_id, big, lens[i]);
    }
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    assert_int_equal(fx.trace.packets_len, 64);
    for (size_t i = 0; i < 64; i++)
        expect_packet((char)('A' + i), lens[i], i < 32 ? 2 : 3, 0);
    assert_true(fx.trace.frames < 3000000 / 120000 + 8);
}

static void a_frame_holds_its_limit_of_small_packets(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++)
        commit_packet(fx.buffers[0], 1, i, (char)('a' + i % 26), 30);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    assert_int_equal(fx.trace.packets_len, 20000);
    for (uint32_t i = 0; i < 20000; i++)
        expect_packet((char)('a' + i % 26), 30, 2, 0);
}

#define ANY_MAX 640u

/* A packet of 2 to some 600 bytes: fields of a data source, of which one byte is another one in one
 * of four. */
static size_t make_any(struct kit_random *random, uint8_t dst[ANY_MAX])
{
    struct pfl_writer w = pfl_writer_of(dst, ANY_MAX);
    unsigned fields = 1 + kit_random(random, 4);
    size_t len;

    for (unsigned i = 0; i < fields; i++) {
        uint8_t payload[150];

        memset(payload, (int)kit_random(random, 256), sizeof(payload));
        if (kit_random(random, 2) == 0)
            pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP,
                                    (uint64_t)kit_random(random, UINT32_MAX)
                                        << kit_random(random, 40));
        else
            pfl_writer_field_bytes(
                &w, TRACE_PACKET__TRACK_EVENT, payload,
                kit_random(random, kit_random(random, 2) == 0 ? 40 : sizeof(payload)));
    }
    len = ANY_MAX - w.left;
    if (kit_random(random, 4) == 0)
        dst[kit_random(random, (uint32_t)len)] = (uint8_t)kit_random(random, 256);
    return len;
}

static void add_with_a_long_size(const uint8_t *packet, size_t len)
{
    const uint8_t size[4] = {(uint8_t)(len | 0x80), (uint8_t)(len >> 7 | 0x80), 0x80, 0};

    kit_chunk_add_raw(&fx.chunk, size, sizeof(size), 0);
    kit_chunk_add_raw(&fx.chunk, packet, len, 1);
}

static void check_any(const uint8_t *packet, size_t len)
{
    struct pfl_span got = kit_trace_take(&fx.trace);
    struct pfl_packet_trusted trusted = {.uid = 1001, .sequence_id = 2, .pid = 2001};
    uint8_t want[PFL_PACKET_TRUSTED_MAX];
    size_t want_len = pfl_packet_encode_trusted(want, &trusted);

    assert_int_equal(got.len, len + want_len);
    assert_memory_equal(got.data, packet, len);
    assert_memory_equal(got.data + len, want, want_len);
}

static void packets_of_full_chunks_come_whole_and_the_malformed_are_left_out(void **state)
{
    struct kit_random random = {.state = 11};
    struct kit_random again = random;
    uint64_t refused = 0;
    unsigned packets = 0;
    uint8_t packet[ANY_MAX];

    (void)state;
    for (uint32_t chunk = 0; chunk < 800; chunk++) {
        kit_chunk_begin(&fx.chunk, 1, 1, chunk);
        while (fx.chunk.chunk.payload_bytes < 3600) {
            size_t len = make_any(&random, packet);

            if (kit_random(&random, 2) == 0)
                add_with_a_long_size(packet, len);
            else
                kit_chunk_add_bytes(&fx.chunk, packet, len);
            packets++;
        }
        pfl_trace_buffer_commit(fx.buffers[0], &fx.chunk.chunk);
    }
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    for (unsigned i = 0; i < packets; i++) {
        size_t len = make_any(&again, packet);

        (void)kit_random(&again, 2);
        if (pfl_packet_is_valid_piece(packet, len))
            check_any(packet, len);
        else
            refused++;
    }
    assert_int_equal(kit_trace_take(&fx.trace).len, 0);
    assert_in_range(refused, packets / 100, packets / 4);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), refused);
    assert_true(fx.trace.frames > 10);
}

static void packets_that_claim_trusted_fields_or_are_malformed_are_left_out(void **state)
{
    static const uint8_t claims[] = {3 << 3, 0};
    static const uint8_t cut[] = {900 * 8 % 128 | 0x82, 0x38, 50, 'x'};
    size_t len;

    (void)state;
    len = commit_packet(fx.buffers[0], 1, 0, 'a', 40);
    kit_chunk_begin(&fx.chunk, 1, 1, 2);
    kit_chunk_add_bytes(&fx.chunk, claims, sizeof(claims));
    kit_chunk_add_bytes(&fx.chunk, cut, sizeof(cut));
    pfl_trace_buffer_commit(fx.buffers[0], &fx.chunk.chunk);
    commit_packet(fx.buffers[0], 1, 3, 'b', 40);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    expect_packet('a', len, 2, 0);
    expect_packet('b', len, 2, 0); /* the gap's reason went with the refused packet */
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), 2);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), 0);
}

/* In frames, or packet by packet: what is asked for once. */
static int ask(bool wants_frame)
{
    struct pfl_readback_packet packet;
    struct pfl_readback_frame frame;
    int rc;

    if (!wants_frame) {
        rc = pfl_readback_next_packet(fx.readback, &packet);
        return rc == PFL_EEOF ? PFL_ESTATE : rc;
    }
    rc = pfl_readback_next_frame(fx.readback, &frame);
    return rc == 0 && !frame.has_more ? PFL_ESTATE : rc;
}

/* Of chunks full of `raw`, of which each packet is `bytes` long, some thousand: others' turns. */
static unsigned count_pauses(const char *raw, size_t bytes, bool wants_frame)
{
    unsigned pauses = 0;
    int rc = 0;

    for (uint32_t i = 0; i < 6000; i++) {
        kit_chunk_begin(&fx.chunk, 1, 1, i);
        for (size_t at = 0; at < 500; at += bytes)
            kit_chunk_add_raw(&fx.chunk, raw, bytes, 1);
        pfl_trace_buffer_commit(fx.buffers[0], &fx.chunk.chunk);
    }
    while (rc != PFL_ESTATE) {
        rc = ask(wants_frame);
        if (rc == PFL_EAGAIN)
            assert_true(pfl_readback_is_paused(fx.readback));
        pauses += rc == PFL_EAGAIN;
        assert_true(rc == 0 || rc == PFL_EAGAIN || rc == PFL_ESTATE);
    }
    return pauses;
}

static void what_is_refused_lets_others_have_their_turn(void **state)
{
    (void)state;
    assert_in_range(count_pauses("\1\0", 2, true), 10, 100);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), 6000u * 250);
}

static void what_is_refused_lets_others_have_their_turn_in_packets(void **state)
{
    (void)state;
    assert_in_range(count_pauses("\1\0", 2, false), 10, 100);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), 6000u * 250);
}

static void empty_packets_let_others_have_their_turn(void **state)
{
    (void)state;
    assert_in_range(count_pauses("\0", 1, true), 4, 100);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.readback), 0);
}

static void commits_between_frames_do_not_touch_what_was_taken(void **state)
{
    static uint8_t big[400000];
    struct pfl_readback_frame frame;
    size_t len = make_packet(big, 'L', sizeof(big));

    (void)state;
    commit_long(fx.buffers[0], 0, big, len);
    assert_int_equal(pfl_readback_next_frame(fx.readback, &frame), 0);
    kit_trace_feed(&fx.trace, &frame, REQUEST_ID);
    for (uint32_t i = 0; i < 200; i++) /* more than the ring holds */
        kit_commit(fx.buffers[0], 9, i, 0, 'z', 30000);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    expect_packet('L', len, 2, 0);
}

static void a_dropped_buffer_is_not_read(void **state)
{
    size_t len;

    (void)state;
    commit_packet(fx.buffers[0], 1, 0, 'x', 40);
    len = commit_packet(fx.buffers[1], 1, 0, 'y', 40);
    pfl_readback_drop_buffer(fx.readback, fx.buffers[0]);
    kit_trace_drain(&fx.trace, fx.readback, REQUEST_ID);
    expect_packet('y', len, 2, 0);
    assert_int_equal(kit_trace_take(&fx.trace).len, 0);
}

static int read_all(void *arg)
{
    struct pfl_readback_conf conf = {
        .request_id = 1, .on_new_source = on_new_source, .user = &fx, .buffers_len = 1};
    struct pfl_trace_buffer_conf size = {.size_bytes = MIB};
    struct pfl_readback_frame frame = {.has_more = true};
    struct pfl_trace_buffer *buffer = NULL;
    struct pfl_readback *readback = NULL;
    int rc = pfl_trace_buffer_new(&size, &buffer);

    conf.buffers = &buffer;
    if (rc == 0) {
        commit_long(buffer, 0, arg, 400000);
        rc = pfl_readback_new(&conf, &readback);
    }
    if (rc == 0)
        rc = pfl_readback_push(readback, pfl_span_of("first", 5));
    while (rc == 0 && frame.has_more)
        rc = pfl_readback_next_frame(readback, &frame);
    pfl_readback_free(readback);
    pfl_trace_buffer_free(buffer);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    static uint8_t big[400000];

    (void)state;
    assert_int_equal(make_packet(big, 'L', sizeof(big)), sizeof(big));
    pfl_sweep(read_all, big, true);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The bytes of the first frame: one packet that leaves so much of it, and a part of a second. */
static size_t first_frame_with(size_t left)
{
    static uint8_t data[PFL_READBACK_FRAME_MAX];
    struct pfl_readback_frame frame;

    memset(data, 's', sizeof(data));
    assert_int_equal(
        pfl_readback_push(fx.readback, pfl_span_of(data, PFL_READBACK_FRAME_MAX - left -
                                                             PFL_READBACK_SLICE_COST)),
        0);
    assert_int_equal(pfl_readback_push(fx.readback, pfl_span_of(data, 5000)), 0);
    assert_int_equal(pfl_readback_next_frame(fx.readback, &frame), 0);
    return frame.bytes;
}

static void a_packet_is_cut_if_enough_of_it_fits_and_else_waits(void **state)
{
    size_t with;

    (void)state;
    with = first_frame_with(4096);
    assert_true(with > PFL_READBACK_FRAME_MAX - 200);
    pfl_readback_free(fx.readback);
    open_readback();
    assert_true(first_frame_with(4095) < with - 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_empty_session_is_answered_by_one_last_frame),
        ROW(packets_get_trusted_fields_and_the_loss_behind_them),
        ROW(packets_of_the_service_come_before_and_behind_those_of_buffers_in_order),
        ROW(a_pushed_packet_larger_than_a_frame_goes_over_several),
        ROW(packets_of_every_size_cross_frames_unharmed),
        ROW(a_frame_holds_its_limit_of_small_packets),
        ROW(packets_of_full_chunks_come_whole_and_the_malformed_are_left_out),
        ROW(packets_that_claim_trusted_fields_or_are_malformed_are_left_out),
        ROW(commits_between_frames_do_not_touch_what_was_taken),
        ROW(a_dropped_buffer_is_not_read),
        ROW(what_is_refused_lets_others_have_their_turn),
        ROW(what_is_refused_lets_others_have_their_turn_in_packets),
        ROW(empty_packets_let_others_have_their_turn),
        cmocka_unit_test(every_allocation_may_fail),
        ROW(a_packet_is_cut_if_enough_of_it_fits_and_else_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
