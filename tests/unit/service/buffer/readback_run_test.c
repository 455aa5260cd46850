/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of packets in the read-back's frames: one buffer is read twice, for a consumer that takes
 * runs and for one that does not, and both must have got the same packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "proto/packet.h"
#include "proto/packet_run.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"
#include "tests/unit/service/buffer/frame_kit.h"

#define REQUEST_ID 7u
#define MIB        ((uint64_t)1 << 20)
#define SLICES     0u /* of fx.sides: the consumer without runs */
#define RUNS       1u

struct side {
    struct pfl_trace_buffer *buffers[2];
    struct pfl_readback *readback;
    struct kit_trace trace;
    uint32_t sources;
};

static struct {
    struct side sides[2];
    struct kit_chunk chunk;
} fx;

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    struct side *side = user;
    struct pfl_packet_trusted trusted = {
        .uid = source->producer_uid, .sequence_id = ++side->sources, .pid = source->producer_pid};

    source->packet_sequence_id = trusted.sequence_id;
    source->trusted_len = (uint8_t)pfl_packet_encode_trusted(source->trusted, &trusted);
}

static void on_drained(void *user, struct pfl_readback *readback)
{
    (void)user;
    assert_int_equal(pfl_readback_push(readback, pfl_span_of("the end", 7)), 0);
}

static void open_side(struct side *side, bool accepts_runs)
{
    struct pfl_readback_conf conf = {
        .request_id = 1,
        .buffers = side->buffers,
        .buffers_len = 2,
        .on_new_source = on_new_source,
        .on_drained = on_drained,
        .user = side,
    };

    side->buffers[0] = kit_buffer(8 * MIB, PFL_FILL_RING_BUFFER);
    side->buffers[1] = kit_buffer(8 * MIB, PFL_FILL_RING_BUFFER);
    kit_trace_init(&side->trace);
    assert_int_equal(pfl_readback_new(&conf, &side->readback), 0);
    pfl_readback_set_request(side->readback, REQUEST_ID, accepts_runs);
}

static int setup(void **state)
{
    (void)state;
    memset(&fx, 0, sizeof(fx));
    open_side(&fx.sides[SLICES], false);
    open_side(&fx.sides[RUNS], true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pfl_readback_free(fx.sides[i].readback);
        pfl_trace_buffer_free(fx.sides[i].buffers[0]);
        pfl_trace_buffer_free(fx.sides[i].buffers[1]);
        kit_trace_fini(&fx.sides[i].trace);
    }
    pfl_sweep_assert_no_leak();
    return 0;
}

/* A valid packet of exactly `len` bytes, at least 2: varints of two bytes, three, and a payload. */
static void make_packet(uint8_t *dst, char fill, size_t len)
{
    size_t payload;

    if (len % 2 != 0 && len < 8) {
        memcpy(dst, (const uint8_t[]){8 << 3, 0x80 | 1, 1}, 3);
        dst += 3;
        len -= 3;
    }
    for (; len != 0 && len < 8; len -= 2, dst += 2)
        memcpy(dst, (const uint8_t[]){13 << 3, (uint8_t)fill}, 2);
    if (len == 0)
        return;
    payload = len - 2;
    while (payload + pfl_varint_size(payload) + 1 > len)
        payload--;
    if (payload + pfl_varint_size(payload) + 1 < len) { /* a length that skips: one in two bytes */
        *dst++ = 11 << 3 | PFL_WIRE_BYTES;
        *dst++ = (uint8_t)(payload | 0x80);
        *dst++ = (uint8_t)(payload >> 7);
    } else {
        *dst++ = 11 << 3 | PFL_WIRE_BYTES;
        dst += pfl_varint_put(dst, payload);
    }
    memset(dst, fill, payload);
}

static void begin_chunk(uint16_t writer, uint32_t chunk_id)
{
    kit_chunk_begin(&fx.chunk, 1, writer, chunk_id);
}

static void add_packet(char fill, size_t len)
{
    static uint8_t packet[KIT_PAYLOAD_MAX];

    make_packet(packet, fill, len);
    kit_chunk_add_bytes(&fx.chunk, packet, len);
}

/* How a time is spelled: `bytes` in all, of 1 to 10. */
struct time {
    uint8_t bytes;
    bool is_padded; /* 0, and bytes that say nothing */
};

/* A valid packet that begins with a time, and has `rest` bytes behind it: 0 or at least 2. */
static size_t make_timed(uint8_t *dst, struct time time, char fill, size_t rest)
{
    dst[0] = PFL_RUN_TIME_TAG;
    memset(dst + 1, time.is_padded ? 0x80 : 0xa5, time.bytes);
    dst[time.bytes] = !time.is_padded;
    if (rest != 0)
        make_packet(dst + 1 + time.bytes, fill, rest);
    return 1 + time.bytes + rest;
}

static void add_timed(struct time time, char fill, size_t rest)
{
    static uint8_t packet[KIT_PAYLOAD_MAX];

    kit_chunk_add_bytes(&fx.chunk, packet, make_timed(packet, time, fill, rest));
}

static void commit(size_t buffer)
{
    for (size_t i = 0; i < 2; i++)
        pfl_trace_buffer_commit(fx.sides[i].buffers[buffer], &fx.chunk.chunk);
}

/* A chunk of `count` packets of `len` bytes. */
static void commit_packets(uint16_t writer, uint32_t chunk_id, size_t len, unsigned count)
{
    begin_chunk(writer, chunk_id);
    for (unsigned i = 0; i < count; i++)
        add_packet((char)('a' + (chunk_id + i) % 26), len);
    commit(0);
}

static void drain(void)
{
    for (size_t i = 0; i < 2; i++)
        kit_trace_drain(&fx.sides[i].trace, fx.sides[i].readback, REQUEST_ID);
}

/* Reads both to their ends: the same packets, byte for byte, in the same order, and the same count
 * of those left out. Returns how many came in runs. */
static size_t expect_same(void)
{
    struct kit_trace *a = &fx.sides[SLICES].trace;
    struct kit_trace *b = &fx.sides[RUNS].trace;
    uint64_t invalid;

    drain();
    assert_int_equal(a->runs, 0);
    assert_int_equal(a->packets_len, b->packets_len);
    for (size_t i = 0; i < a->packets_len; i++) {
        struct pfl_span want = kit_trace_take(a);
        struct pfl_span got = kit_trace_take(b);

        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
    }
    invalid = pfl_readback_take_invalid_packets(fx.sides[SLICES].readback);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.sides[RUNS].readback), invalid);
    return b->run_packets;
}

static void one_writers_packets_come_in_one_run_a_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        commit_packets(1, i, 31, 100);
    assert_true(expect_same() > 9900);
    assert_true(fx.sides[RUNS].trace.runs <= fx.sides[RUNS].trace.frames);
    assert_true(fx.sides[RUNS].trace.frames <= 3);
    assert_true(fx.sides[SLICES].trace.frames >= 4);
}

static void who_does_not_ask_gets_slices_alone(void **state)
{
    (void)state;
    commit_packets(1, 0, 31, 100);
    (void)expect_same();
    assert_int_equal(fx.sides[SLICES].trace.runs, 0);
    assert_int_equal(fx.sides[SLICES].trace.slices, 101);
}

static void a_second_request_has_runs_or_not_as_it_says_itself(void **state)
{
    struct kit_trace *trace = &fx.sides[RUNS].trace;
    struct pfl_readback_frame frame;
    size_t runs;

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        commit_packets(1, i, 31, 100);
    assert_int_equal(pfl_readback_next_frame(fx.sides[RUNS].readback, &frame), 0);
    kit_trace_feed(trace, &frame, REQUEST_ID);
    runs = trace->runs;
    assert_int_not_equal(runs, 0);
    pfl_readback_set_request(fx.sides[RUNS].readback, REQUEST_ID, false);
    (void)expect_same();
    assert_int_equal(trace->runs, runs);
}

static void a_run_has_one_source(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++)
        commit_packets((uint16_t)(1 + i % 30), i / 30, 20 + i % 50, 3);
    assert_int_equal(expect_same(), 900);
    assert_int_equal(fx.sides[RUNS].trace.runs, 300);
}

static void a_loss_is_a_slice_between_runs(void **state)
{
    (void)state;
    commit_packets(1, 0, 31, 10);
    commit_packets(1, 2, 31, 10);
    commit_packets(1, 3, 31, 10);
    assert_int_equal(expect_same(), 29);
    assert_int_equal(fx.sides[RUNS].trace.runs, 2);
    assert_int_equal(fx.sides[RUNS].trace.slices, 2); /* and the end's */
}

static void a_packet_of_the_limit_is_a_slice(void **state)
{
    (void)state;
    for (size_t len = PFL_RUN_PACKET_MAX_BYTES - 2; len < PFL_RUN_PACKET_MAX_BYTES + 2; len++) {
        begin_chunk(1, (uint32_t)len);
        add_packet('a', 31);
        add_packet('b', len);
        add_packet('c', 31);
        commit(0);
    }
    assert_int_equal(expect_same(), 10);
}

static void packets_of_every_short_length_are_the_same(void **state)
{
    uint32_t chunk_id = 0;

    (void)state;
    for (size_t len = 2; len < 400; len++) {
        begin_chunk(1, chunk_id++);
        for (unsigned i = 0; i < 3; i++) /* first, inner and last of the record */
            add_packet((char)('a' + i), len);
        commit(0);
    }
    /* A frame ends in at most one that is carried over, as a slice. */
    assert_in_range(expect_same() + fx.sides[RUNS].trace.frames, 3 * 398, 3 * 398 + 8);
}

static void what_a_producer_may_not_write_is_left_out_of_runs(void **state)
{
    static const uint8_t claims[] = {3 << 3, 0};
    static const uint8_t cut[] = {11 << 3 | PFL_WIRE_BYTES, 50, 'x'};

    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        begin_chunk(1, i);
        for (unsigned k = 0; k < 9; k++) {
            if (k == i)
                kit_chunk_add_bytes(&fx.chunk, k % 2 ? claims : cut,
                                    k % 2 ? sizeof(claims) : sizeof(cut));
            else
                add_packet('a', 31);
        }
        kit_chunk_add_bytes(&fx.chunk, "", 0); /* and no packet at all */
        add_packet('z', 31);
        commit(0);
    }
    drain();
    assert_int_equal(pfl_readback_take_invalid_packets(fx.sides[SLICES].readback), 9);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.sides[RUNS].readback), 9);
    assert_int_equal(fx.sides[RUNS].trace.packets_len, 81 + 1);
    assert_int_equal(fx.sides[RUNS].trace.run_packets, 81);
}

static void pushed_packets_stand_between_runs(void **state)
{
    static uint8_t big[300000];

    (void)state;
    memset(big, 's', sizeof(big));
    for (size_t i = 0; i < 2; i++) {
        struct pfl_readback *readback = fx.sides[i].readback;
        struct pfl_readback_frame frame;

        commit_packets(1, (uint32_t)i, 100, 2000 / 4);
        assert_int_equal(pfl_readback_push(readback, pfl_span_of(big, sizeof(big))), 0);
        assert_int_equal(pfl_readback_push_empty(readback), 0);
        assert_int_equal(pfl_readback_next_frame(readback, &frame), 0);
        kit_trace_feed(&fx.sides[i].trace, &frame, REQUEST_ID);
    }
    assert_true(expect_same() > 900);
}

/* Each round one packet is a byte longer than in the round before, so a frame's last packet leaves
 * any number of bytes. `time`: of no byte, for packets without. Returns the longest frame. */
static size_t fill_frames(struct time time)
{
    size_t longest = 0;

    for (uint32_t round = 0; round < 132; round++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        begin_chunk(1, 0);
        add_packet('f', 140 + round);
        commit(0);
        for (uint32_t i = 1; i < 42; i++) {
            begin_chunk(1, i);
            for (unsigned k = 0; k < 40; k++) {
                if (time.bytes == 0)
                    add_packet((char)('a' + k % 26), 120 + i % 9);
                else
                    add_timed(time, (char)('a' + k % 26), 70 + i % 9);
            }
            for (unsigned k = 0; k < 20 && time.bytes != 0; k++)
                add_timed(time, 's', 4);
            commit(0);
        }
        (void)expect_same();
        if (fx.sides[RUNS].trace.longest_body > longest)
            longest = fx.sides[RUNS].trace.longest_body;
    }
    return longest;
}

static void frames_are_filled_to_the_last_byte_and_no_further(void **state)
{
    (void)state;
    assert_int_equal(fill_frames((struct time){0}), PFL_READBACK_FRAME_MAX);
}

static void frames_of_times_are_filled_to_the_last_byte_and_no_further(void **state)
{
    (void)state;
    assert_int_equal(fill_frames((struct time){.bytes = 9}), PFL_READBACK_FRAME_MAX);
}

/* One writer's packets leave from 0 bytes to more than a run's beginning takes. */
static void at_a_frames_end_another_writer_has_a_run_or_a_slice_or_neither(void **state)
{
    unsigned runs = 0;
    unsigned slices = 0;
    unsigned neither = 0;

    (void)state;
    for (uint32_t round = 0; round < 220; round++) {
        struct kit_trace *trace = &fx.sides[RUNS].trace;
        struct pfl_readback_frame frame;

        (void)teardown(state);
        (void)setup(state);
        begin_chunk(1, 0);
        add_packet('f', 210 + round);
        commit(0);
        for (uint32_t i = 1; i <= 32; i++)
            commit_packets(1, i, 100, 40);
        commit_packets(2, 0, 20, 40);
        assert_int_equal(pfl_readback_next_frame(fx.sides[RUNS].readback, &frame), 0);
        kit_trace_feed(trace, &frame, REQUEST_ID);
        runs += trace->runs > 1;
        slices += trace->runs == 1 && trace->slices != 0;
        neither += trace->runs == 1 && trace->slices == 0;
        (void)expect_same();
    }
    assert_true(runs > 10);
    assert_int_not_equal(slices, 0);
    assert_true(neither > 10);
}

static void times_of_any_spelling_stand_apart(void **state)
{
    static const size_t rests[] = {0,  2,  3,  30, 51, 52,  53,   54,
                                   61, 62, 63, 64, 65, 127, 1000, 4080};
    uint32_t chunk_id = 0;

    (void)state;
    for (struct time time = {.bytes = 1}; time.bytes <= 10; time.bytes++) {
        for (unsigned padded = 0; padded < 2; padded++) {
            time.is_padded = padded != 0;
            for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
                begin_chunk(1, chunk_id++);
                for (unsigned k = 0; k < 4; k++)
                    add_timed(time, (char)('a' + k), rests[i]);
                commit(0);
            }
        }
    }
    /* A frame ends in at most one that is carried over, as a slice. */
    assert_in_range(expect_same() + fx.sides[RUNS].trace.frames, 1280, 1280 + 8);
    assert_int_equal(fx.sides[RUNS].trace.run_times, fx.sides[RUNS].trace.run_packets);
}

static void packets_with_a_time_and_without_alternate(void **state)
{
    static const uint8_t long_tag[] = {0xc0, 0, 5}; /* timestamp, but not its usual tag */

    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        begin_chunk(1, i);
        for (unsigned k = 0; k < 20; k++) {
            add_timed((struct time){.bytes = (uint8_t)(1 + k % 10)}, 't', i + 2);
            add_packet('w', 8 + i);
            kit_chunk_add_bytes(&fx.chunk, long_tag, sizeof(long_tag));
        }
        commit(0);
    }
    assert_int_equal(expect_same(), 3000);
    assert_int_equal(fx.sides[RUNS].trace.run_times, 1000);
}

/* More of them than a run has places for their times and lengths. */
static void a_packet_may_be_nothing_but_its_time(void **state)
{
    struct kit_trace *trace = &fx.sides[RUNS].trace;
    uint32_t chunk_id = 0;

    (void)state;
    for (uint8_t bytes = 1; bytes <= 10; bytes++) {
        for (unsigned i = 0; i < 10; i++) {
            begin_chunk(1, chunk_id++);
            for (unsigned k = 0; k < 1000; k++)
                add_timed((struct time){.bytes = bytes}, 0, 0);
            commit(0);
        }
    }
    assert_in_range(expect_same() + trace->frames, 100000, 100010);
    assert_int_equal(trace->run_times, trace->run_packets);
    assert_true(trace->runs > 100000 / 4200 && trace->runs < 40);
}

/* Entries of two bytes, of which the last may have a place for half. */
static void runs_end_where_there_is_no_place_for_lengths(void **state)
{
    uint32_t chunk_id = 0;

    (void)state;
    for (size_t len = 60; len < 70; len++) {
        begin_chunk(1, chunk_id++);
        for (size_t i = 0; i < len; i++) /* an odd number of short ones, and an even one */
            add_timed((struct time){.bytes = 1}, 0, 0);
        for (unsigned i = 0; i < 400; i++)
            add_packet('l', 64);
        commit(0);
    }
    for (unsigned i = 0; i < 12; i++)
        commit_packets(1, chunk_id++, 2, 5001);
    (void)expect_same();
    assert_true(fx.sides[RUNS].trace.runs > fx.sides[RUNS].trace.frames + 10);
}

static void malformed_times_are_left_out(void **state)
{
    static const uint8_t bad[][14] = {
        {PFL_RUN_TIME_TAG},       /* of 1 byte */
        {PFL_RUN_TIME_TAG, 0x80}, /* of 2 ... */
        {PFL_RUN_TIME_TAG, 0x80, 0xff},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
        {PFL_RUN_TIME_TAG, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
    };

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        begin_chunk(1, i);
        add_packet('a', 31);
        kit_chunk_add_bytes(&fx.chunk, bad[i], i + 1);
        add_timed((struct time){.bytes = 3}, 'b', 4);
        kit_chunk_add_bytes(&fx.chunk, bad[i], i + 1);
        for (unsigned k = 0; k < 10; k++)
            add_packet('c', 31);
        commit(0);
    }
    drain();
    assert_int_equal(pfl_readback_take_invalid_packets(fx.sides[SLICES].readback), 24);
    assert_int_equal(pfl_readback_take_invalid_packets(fx.sides[RUNS].readback), 24);
    assert_int_equal(fx.sides[RUNS].trace.run_packets, 144);
    assert_int_equal(fx.sides[RUNS].trace.run_times, 12);
}

/* Anything a writer may do, and some that he may not. */
static void commit_anything(struct kit_random *random, uint32_t *chunk_ids)
{
    static uint8_t noise[64];
    uint16_t writer = (uint16_t)kit_random(random, 5);
    unsigned count = kit_random(random, 40);
    bool is_continued = kit_random(random, 4) == 0;

    chunk_ids[writer] += kit_random(random, 20) == 0 ? 2 : 1;
    begin_chunk((uint16_t)(1 + writer), chunk_ids[writer]);
    for (unsigned i = 0; i < count && fx.chunk.chunk.payload_bytes < 30000; i++) {
        uint32_t what = kit_random(random, 60);

        if (what == 0) {
            for (size_t k = 0; k < sizeof(noise); k++)
                noise[k] = (uint8_t)kit_random(random, 256);
            kit_chunk_add_bytes(&fx.chunk, noise, kit_random(random, sizeof(noise)));
        } else {
            size_t most = what == 1 ? 20000 : what < 5 ? 5000 : what < 20 ? 200 : 40;
            size_t len = 2 + kit_random(random, (uint32_t)most);
            struct time time = {.bytes = (uint8_t)kit_random(random, 16),
                                .is_padded = kit_random(random, 2) != 0};

            if (time.bytes == 0 || time.bytes > 10)
                add_packet((char)('a' + i % 26), len);
            else
                add_timed(time, (char)('a' + i % 26), len);
        }
    }
    if (is_continued)
        fx.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_NEXT;
    if (kit_random(random, 4) == 0)
        fx.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_PREV;
    if (kit_random(random, 100) == 0)
        fx.chunk.chunk.flags |= PFL_CHUNK_NEEDS_PATCH;
    if (kit_random(random, 50) == 0)
        fx.chunk.chunk.is_complete = false;
    commit(kit_random(random, 2));
}

static void whatever_is_written_the_packets_are_the_same(void **state)
{
    size_t in_runs = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct kit_random random = {.state = seed};
        uint32_t chunk_ids[5] = {0};

        (void)teardown(state);
        (void)setup(state);
        for (unsigned i = 0; i < 300; i++)
            commit_anything(&random, chunk_ids);
        in_runs += expect_same();
    }
    assert_true(in_runs > 10000);
}

static void packets_of_several_chunks_are_in_runs_when_they_are_short(void **state)
{
    uint8_t packet[100];

    (void)state;
    make_packet(packet, 'p', sizeof(packet));
    begin_chunk(1, 0);
    add_packet('a', 31);
    kit_chunk_add_bytes(&fx.chunk, packet, 40);
    fx.chunk.chunk.flags = PFL_CHUNK_CONTINUES_NEXT;
    commit(0);
    begin_chunk(1, 1);
    kit_chunk_add_bytes(&fx.chunk, packet + 40, 60);
    add_packet('b', 31);
    add_packet('c', 31);
    fx.chunk.chunk.flags = PFL_CHUNK_CONTINUES_PREV;
    commit(0);
    assert_int_equal(expect_same(), 4);
    assert_int_equal(fx.sides[RUNS].trace.runs, 1);
}

/* A packet whose pieces are of the lengths that `cuts` ends, each in a chunk of its own. */
static void commit_pieces(uint32_t *chunk_id, const uint8_t *packet, const size_t *cuts,
                          size_t cuts_len)
{
    size_t begin = 0;

    for (size_t i = 0; i < cuts_len; i++) {
        begin_chunk(1, (*chunk_id)++);
        kit_chunk_add_bytes(&fx.chunk, packet + begin, cuts[i] - begin);
        fx.chunk.chunk.flags = (uint8_t)((i + 1 < cuts_len ? PFL_CHUNK_CONTINUES_NEXT : 0) |
                                         (i != 0 ? PFL_CHUNK_CONTINUES_PREV : 0));
        commit(0);
        begin = cuts[i];
    }
}

static void a_time_that_is_cut_is_none(void **state)
{
    uint8_t packet[40];
    uint32_t chunk_id = 0;
    size_t apart = 0;
    size_t packets = 0;

    (void)state;
    for (uint8_t bytes = 1; bytes <= 10; bytes++) {
        size_t len = make_timed(packet, (struct time){.bytes = bytes}, 'c', 9);

        for (size_t cut = 0; cut <= len; cut++) {
            commit_pieces(&chunk_id, packet, (size_t[]){cut, len}, 2);
            apart += cut == 0 || cut > bytes; /* a piece of no byte is none */
            packets++;
        }
    }
    assert_int_equal(expect_same(), packets);
    assert_int_equal(fx.sides[RUNS].trace.run_times, apart);
}

static void pieces_of_a_byte_and_packets_of_none_are_the_same(void **state)
{
    uint8_t packet[40];
    size_t cuts[40];
    uint32_t chunk_id = 0;
    size_t len;

    (void)state;
    for (size_t i = 0; i < 40; i++)
        cuts[i] = i + 1;
    for (uint8_t bytes = 1; bytes <= 10; bytes++) {
        len = make_timed(packet, (struct time){.bytes = bytes}, 'o', bytes + 1u);
        commit_pieces(&chunk_id, packet, cuts, len);
        commit_pieces(&chunk_id, packet, (size_t[]){0, 0}, 2);
    }
    assert_int_equal(expect_same(), 20);
    assert_int_equal(fx.sides[RUNS].trace.run_times, 0);
    assert_int_equal(fx.sides[RUNS].trace.runs, 1);
}

static void a_buffer_that_is_dropped_between_frames_is_read_no_more(void **state)
{
    struct side *side = &fx.sides[RUNS];
    struct pfl_readback_frame frame;
    size_t got;

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        commit_packets(1, i, 31, 100);
    begin_chunk(1, 0);
    add_packet('y', 50);
    commit(1);
    assert_int_equal(pfl_readback_next_frame(side->readback, &frame), 0);
    kit_trace_feed(&side->trace, &frame, REQUEST_ID);
    got = side->trace.packets_len;
    pfl_readback_drop_buffer(side->readback, side->buffers[0]);
    pfl_trace_buffer_free(side->buffers[0]);
    side->buffers[0] = NULL;
    kit_trace_drain(&side->trace, side->readback, REQUEST_ID);
    /* What was taken out already, what the second buffer has, and the end. */
    assert_int_equal(side->trace.packets_len, got + 3);
}

/* Commits between frames overwrite what is being read, and tell losses to what was half read. */
static void commits_between_frames_do_no_harm(void **state)
{
    struct side *side = &fx.sides[RUNS];
    struct pfl_readback_frame frame = {.has_more = true};
    uint32_t chunk_id = 0;

    (void)state;
    for (; chunk_id < 400; chunk_id++)
        commit_packets(1, chunk_id, 31, 1000);
    for (unsigned frames = 0; frame.has_more; frames++) {
        assert_int_equal(pfl_readback_next_frame(side->readback, &frame), 0);
        kit_trace_feed(&side->trace, &frame, REQUEST_ID);
        for (unsigned i = 0; i < 6 && frames < 60; i++)
            commit_packets(1, chunk_id++, 31, 1000);
    }
    assert_true(side->trace.packets_len > 200000);
    assert_true(side->trace.slices > 60); /* carried over, and losses */
    for (size_t i = 1; i < side->trace.packets_len; i++)
        assert_in_range(kit_trace_take(&side->trace).len, 31 + 8, 31 + 20);
}

static int read_all(void *arg)
{
    struct pfl_trace_buffer_conf size = {.size_bytes = MIB};
    struct side side = {0};
    struct pfl_readback_conf conf = {.buffers = side.buffers,
                                     .buffers_len = 1,
                                     .on_new_source = on_new_source,
                                     .on_drained = on_drained,
                                     .user = &side};
    struct pfl_readback_frame frame = {.has_more = true};
    int rc = pfl_trace_buffer_new(&size, &side.buffers[0]);

    (void)arg;
    for (uint32_t i = 0; rc == 0 && i < 8; i++) {
        fx.chunk.chunk.chunk_id = i;
        pfl_trace_buffer_commit(side.buffers[0], &fx.chunk.chunk);
    }
    conf.on_drained = NULL;
    if (rc == 0)
        rc = pfl_readback_new(&conf, &side.readback);
    if (rc == 0)
        pfl_readback_set_request(side.readback, REQUEST_ID, true);
    while (rc == 0 && frame.has_more)
        rc = pfl_readback_next_frame(side.readback, &frame);
    pfl_readback_free(side.readback);
    pfl_trace_buffer_free(side.buffers[0]);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    begin_chunk(1, 0);
    for (unsigned i = 0; i < 1000; i++)
        add_packet('a', 40);
    pfl_sweep(read_all, NULL, true);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(one_writers_packets_come_in_one_run_a_frame),
        ROW(who_does_not_ask_gets_slices_alone),
        ROW(a_second_request_has_runs_or_not_as_it_says_itself),
        ROW(a_run_has_one_source),
        ROW(a_loss_is_a_slice_between_runs),
        ROW(a_packet_of_the_limit_is_a_slice),
        ROW(packets_of_every_short_length_are_the_same),
        ROW(what_a_producer_may_not_write_is_left_out_of_runs),
        ROW(pushed_packets_stand_between_runs),
        ROW(frames_are_filled_to_the_last_byte_and_no_further),
        ROW(frames_of_times_are_filled_to_the_last_byte_and_no_further),
        ROW(at_a_frames_end_another_writer_has_a_run_or_a_slice_or_neither),
        ROW(times_of_any_spelling_stand_apart),
        ROW(packets_with_a_time_and_without_alternate),
        ROW(a_packet_may_be_nothing_but_its_time),
        ROW(runs_end_where_there_is_no_place_for_lengths),
        ROW(malformed_times_are_left_out),
        ROW(whatever_is_written_the_packets_are_the_same),
        ROW(packets_of_several_chunks_are_in_runs_when_they_are_short),
        ROW(a_time_that_is_cut_is_none),
        ROW(pieces_of_a_byte_and_packets_of_none_are_the_same),
        ROW(a_buffer_that_is_dropped_between_frames_is_read_no_more),
        ROW(commits_between_frames_do_no_harm),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
