/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a run of packets: times that stand apart, and how frames are filled with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "proto/packet_run.h"
#include "tests/unit/service/buffer/runs_kit.h"

/* Each round one packet is a byte longer than in the round before, so a frame's last packet leaves
 * any number of bytes. `time`: of no byte, for packets without. Returns the longest frame. */
static size_t fill_frames(struct runs_time time)
{
    size_t longest = 0;

    for (uint32_t round = 0; round < 132; round++) {
        (void)runs_teardown(NULL);
        (void)runs_setup(NULL);
        runs_begin_chunk(1, 0);
        runs_add_packet('f', 140 + round);
        runs_commit(0);
        for (uint32_t i = 1; i < 42; i++) {
            runs_begin_chunk(1, i);
            for (unsigned k = 0; k < 40; k++) {
                if (time.bytes == 0)
                    runs_add_packet((char)('a' + k % 26), 120 + i % 9);
                else
                    runs_add_timed(time, (char)('a' + k % 26), 70 + i % 9);
            }
            for (unsigned k = 0; k < 20 && time.bytes != 0; k++)
                runs_add_timed(time, 's', 4);
            runs_commit(0);
        }
        (void)runs_expect_same();
        if (runs_fx.sides[RUNS].trace.longest_body > longest)
            longest = runs_fx.sides[RUNS].trace.longest_body;
    }
    return longest;
}

static void frames_are_filled_to_the_last_byte_and_no_further(void **state)
{
    (void)state;
    assert_int_equal(fill_frames((struct runs_time){0}), PFL_READBACK_FRAME_MAX);
}

static void frames_of_times_are_filled_to_the_last_byte_and_no_further(void **state)
{
    (void)state;
    assert_int_equal(fill_frames((struct runs_time){.bytes = 9}), PFL_READBACK_FRAME_MAX);
}

/* One writer's packets leave from 0 bytes to more than a run's beginning takes. */
static void at_a_frames_end_another_writer_has_a_run_or_a_slice_or_neither(void **state)
{
    unsigned runs = 0;
    unsigned slices = 0;
    unsigned neither = 0;

    (void)state;
    for (uint32_t round = 0; round < 220; round++) {
        struct kit_trace *trace = &runs_fx.sides[RUNS].trace;
        struct pfl_readback_frame frame;

        (void)runs_teardown(state);
        (void)runs_setup(state);
        runs_begin_chunk(1, 0);
        runs_add_packet('f', 210 + round);
        runs_commit(0);
        for (uint32_t i = 1; i <= 32; i++)
            runs_commit_packets(1, i, 100, 40);
        runs_commit_packets(2, 0, 20, 40);
        assert_int_equal(pfl_readback_next_frame(runs_fx.sides[RUNS].readback, &frame), 0);
        kit_trace_feed(trace, &frame, RUNS_REQUEST_ID);
        runs += trace->runs > 1;
        slices += trace->runs == 1 && trace->slices != 0;
        neither += trace->runs == 1 && trace->slices == 0;
        (void)runs_expect_same();
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
    for (struct runs_time time = {.bytes = 1}; time.bytes <= 10; time.bytes++) {
        for (unsigned padded = 0; padded < 2; padded++) {
            time.is_padded = padded != 0;
            for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
                runs_begin_chunk(1, chunk_id++);
                for (unsigned k = 0; k < 4; k++)
                    runs_add_timed(time, (char)('a' + k), rests[i]);
                runs_commit(0);
            }
        }
    }
    /* A frame ends in at most one that is carried over, as a slice. */
    assert_in_range(runs_expect_same() + runs_fx.sides[RUNS].trace.frames, 1280, 1280 + 8);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_times, runs_fx.sides[RUNS].trace.run_packets);
}

static void packets_with_a_time_and_without_alternate(void **state)
{
    static const uint8_t long_tag[] = {0xc0, 0, 5}; /* timestamp, but not its usual tag */

    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        runs_begin_chunk(1, i);
        for (unsigned k = 0; k < 20; k++) {
            runs_add_timed((struct runs_time){.bytes = (uint8_t)(1 + k % 10)}, 't', i + 2);
            runs_add_packet('w', 8 + i);
            kit_chunk_add_bytes(&runs_fx.chunk, long_tag, sizeof(long_tag));
        }
        runs_commit(0);
    }
    assert_int_equal(runs_expect_same(), 3000);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_times, 1000);
}

/* More of them than a run has places for their times and lengths. */
static void a_packet_may_be_nothing_but_its_time(void **state)
{
    struct kit_trace *trace = &runs_fx.sides[RUNS].trace;
    uint32_t chunk_id = 0;

    (void)state;
    for (uint8_t bytes = 1; bytes <= 10; bytes++) {
        for (unsigned i = 0; i < 10; i++) {
            runs_begin_chunk(1, chunk_id++);
            for (unsigned k = 0; k < 1000; k++)
                runs_add_timed((struct runs_time){.bytes = bytes}, 0, 0);
            runs_commit(0);
        }
    }
    assert_in_range(runs_expect_same() + trace->frames, 100000, 100010);
    assert_int_equal(trace->run_times, trace->run_packets);
    assert_true(trace->runs > 100000 / 4200 && trace->runs < 40);
}

/* Entries of two bytes, of which the last may have a place for half. */
static void runs_end_where_there_is_no_place_for_lengths(void **state)
{
    uint32_t chunk_id = 0;

    (void)state;
    for (size_t len = 60; len < 70; len++) {
        runs_begin_chunk(1, chunk_id++);
        for (size_t i = 0; i < len; i++) /* an odd number of short ones, and an even one */
            runs_add_timed((struct runs_time){.bytes = 1}, 0, 0);
        for (unsigned i = 0; i < 400; i++)
            runs_add_packet('l', 64);
        runs_commit(0);
    }
    for (unsigned i = 0; i < 12; i++)
        runs_commit_packets(1, chunk_id++, 2, 5001);
    (void)runs_expect_same();
    assert_true(runs_fx.sides[RUNS].trace.runs > runs_fx.sides[RUNS].trace.frames + 10);
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
        runs_begin_chunk(1, i);
        runs_add_packet('a', 31);
        kit_chunk_add_bytes(&runs_fx.chunk, bad[i], i + 1);
        runs_add_timed((struct runs_time){.bytes = 3}, 'b', 4);
        kit_chunk_add_bytes(&runs_fx.chunk, bad[i], i + 1);
        for (unsigned k = 0; k < 10; k++)
            runs_add_packet('c', 31);
        runs_commit(0);
    }
    runs_drain();
    assert_int_equal(pfl_readback_take_invalid_packets(runs_fx.sides[SLICES].readback), 24);
    assert_int_equal(pfl_readback_take_invalid_packets(runs_fx.sides[RUNS].readback), 24);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_packets, 144);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_times, 12);
}

/* A packet whose pieces are of the lengths that `cuts` ends, each in a chunk of its own. */
static void commit_pieces(uint32_t *chunk_id, const uint8_t *packet, const size_t *cuts,
                          size_t cuts_len)
{
    size_t begin = 0;

    for (size_t i = 0; i < cuts_len; i++) {
        runs_begin_chunk(1, (*chunk_id)++);
        kit_chunk_add_bytes(&runs_fx.chunk, packet + begin, cuts[i] - begin);
        runs_fx.chunk.chunk.flags = (uint8_t)((i + 1 < cuts_len ? PFL_CHUNK_CONTINUES_NEXT : 0) |
                                              (i != 0 ? PFL_CHUNK_CONTINUES_PREV : 0));
        runs_commit(0);
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
        size_t len = runs_make_timed(packet, (struct runs_time){.bytes = bytes}, 'c', 9);

        for (size_t cut = 0; cut <= len; cut++) {
            commit_pieces(&chunk_id, packet, (size_t[]){cut, len}, 2);
            apart += cut == 0 || cut > bytes; /* a piece of no byte is none */
            packets++;
        }
    }
    assert_int_equal(runs_expect_same(), packets);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_times, apart);
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
        len = runs_make_timed(packet, (struct runs_time){.bytes = bytes}, 'o', bytes + 1u);
        commit_pieces(&chunk_id, packet, cuts, len);
        commit_pieces(&chunk_id, packet, (size_t[]){0, 0}, 2);
    }
    assert_int_equal(runs_expect_same(), 20);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_times, 0);
    assert_int_equal(runs_fx.sides[RUNS].trace.runs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(frames_are_filled_to_the_last_byte_and_no_further),
        ROW(frames_of_times_are_filled_to_the_last_byte_and_no_further),
        ROW(at_a_frames_end_another_writer_has_a_run_or_a_slice_or_neither),
        ROW(times_of_any_spelling_stand_apart),
        ROW(packets_with_a_time_and_without_alternate),
        ROW(a_packet_may_be_nothing_but_its_time),
        ROW(runs_end_where_there_is_no_place_for_lengths),
        ROW(malformed_times_are_left_out),
        ROW(a_time_that_is_cut_is_none),
        ROW(pieces_of_a_byte_and_packets_of_none_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
