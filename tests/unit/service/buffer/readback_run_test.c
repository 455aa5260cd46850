/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of packets in the read-back's frames: what is in one, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "proto/packet_run.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/runs_kit.h"

#define MIB ((uint64_t)1 << 20)

static void one_writers_packets_come_in_one_run_a_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        runs_commit_packets(1, i, 31, 100);
    assert_true(runs_expect_same() > 9900);
    assert_true(runs_fx.sides[RUNS].trace.runs <= runs_fx.sides[RUNS].trace.frames);
    assert_true(runs_fx.sides[RUNS].trace.frames <= 3);
    assert_true(runs_fx.sides[SLICES].trace.frames >= 4);
}

static void who_does_not_ask_gets_slices_alone(void **state)
{
    (void)state;
    runs_commit_packets(1, 0, 31, 100);
    (void)runs_expect_same();
    assert_int_equal(runs_fx.sides[SLICES].trace.runs, 0);
    assert_int_equal(runs_fx.sides[SLICES].trace.slices, 101);
}

static void a_second_request_has_runs_or_not_as_it_says_itself(void **state)
{
    struct kit_trace *trace = &runs_fx.sides[RUNS].trace;
    struct pfl_readback_frame frame;
    size_t runs;

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        runs_commit_packets(1, i, 31, 100);
    assert_int_equal(pfl_readback_next_frame(runs_fx.sides[RUNS].readback, &frame), 0);
    kit_trace_feed(trace, &frame, RUNS_REQUEST_ID);
    runs = trace->runs;
    assert_int_not_equal(runs, 0);
    pfl_readback_set_request(runs_fx.sides[RUNS].readback, RUNS_REQUEST_ID, false);
    (void)runs_expect_same();
    assert_int_equal(trace->runs, runs);
}

static void a_run_has_one_source(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++)
        runs_commit_packets((uint16_t)(1 + i % 30), i / 30, 20 + i % 50, 3);
    assert_int_equal(runs_expect_same(), 900);
    assert_int_equal(runs_fx.sides[RUNS].trace.runs, 300);
}

static void a_loss_is_a_slice_between_runs(void **state)
{
    (void)state;
    runs_commit_packets(1, 0, 31, 10);
    runs_commit_packets(1, 2, 31, 10);
    runs_commit_packets(1, 3, 31, 10);
    assert_int_equal(runs_expect_same(), 29);
    assert_int_equal(runs_fx.sides[RUNS].trace.runs, 2);
    assert_int_equal(runs_fx.sides[RUNS].trace.slices, 2); /* and the end's */
}

static void a_packet_of_the_limit_is_a_slice(void **state)
{
    (void)state;
    for (size_t len = PFL_RUN_PACKET_MAX_BYTES - 2; len < PFL_RUN_PACKET_MAX_BYTES + 2; len++) {
        runs_begin_chunk(1, (uint32_t)len);
        runs_add_packet('a', 31);
        runs_add_packet('b', len);
        runs_add_packet('c', 31);
        runs_commit(0);
    }
    assert_int_equal(runs_expect_same(), 10);
}

static void packets_of_every_short_length_are_the_same(void **state)
{
    uint32_t chunk_id = 0;

    (void)state;
    for (size_t len = 2; len < 400; len++) {
        runs_begin_chunk(1, chunk_id++);
        for (unsigned i = 0; i < 3; i++) /* first, inner and last of the record */
            runs_add_packet((char)('a' + i), len);
        runs_commit(0);
    }
    /* A frame ends in at most one that is carried over, as a slice. */
    assert_in_range(runs_expect_same() + runs_fx.sides[RUNS].trace.frames, 3 * 398, 3 * 398 + 8);
}

static void what_a_producer_may_not_write_is_left_out_of_runs(void **state)
{
    static const uint8_t claims[] = {3 << 3, 0};
    static const uint8_t cut[] = {11 << 3 | PFL_WIRE_BYTES, 50, 'x'};

    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        runs_begin_chunk(1, i);
        for (unsigned k = 0; k < 9; k++) {
            if (k == i)
                kit_chunk_add_bytes(&runs_fx.chunk, k % 2 ? claims : cut,
                                    k % 2 ? sizeof(claims) : sizeof(cut));
            else
                runs_add_packet('a', 31);
        }
        kit_chunk_add_bytes(&runs_fx.chunk, "", 0); /* and no packet at all */
        runs_add_packet('z', 31);
        runs_commit(0);
    }
    runs_drain();
    assert_int_equal(pfl_readback_take_invalid_packets(runs_fx.sides[SLICES].readback), 9);
    assert_int_equal(pfl_readback_take_invalid_packets(runs_fx.sides[RUNS].readback), 9);
    assert_int_equal(runs_fx.sides[RUNS].trace.packets_len, 81 + 1);
    assert_int_equal(runs_fx.sides[RUNS].trace.run_packets, 81);
}

static void pushed_packets_stand_between_runs(void **state)
{
    static uint8_t big[300000];

    (void)state;
    memset(big, 's', sizeof(big));
    for (size_t i = 0; i < 2; i++) {
        struct pfl_readback *readback = runs_fx.sides[i].readback;
        struct pfl_readback_frame frame;

        runs_commit_packets(1, (uint32_t)i, 100, 2000 / 4);
        assert_int_equal(pfl_readback_push(readback, pfl_span_of(big, sizeof(big))), 0);
        assert_int_equal(pfl_readback_push_empty(readback), 0);
        assert_int_equal(pfl_readback_next_frame(readback, &frame), 0);
        kit_trace_feed(&runs_fx.sides[i].trace, &frame, RUNS_REQUEST_ID);
    }
    assert_true(runs_expect_same() > 900);
}

/* Anything a writer may do, and some that it may not. */
static void commit_anything(struct kit_random *random, uint32_t *chunk_ids)
{
    static uint8_t noise[64];
    uint16_t writer = (uint16_t)kit_random(random, 5);
    unsigned count = kit_random(random, 40);
    bool is_continued = kit_random(random, 4) == 0;

    chunk_ids[writer] += kit_random(random, 20) == 0 ? 2 : 1;
    runs_begin_chunk((uint16_t)(1 + writer), chunk_ids[writer]);
    for (unsigned i = 0; i < count && runs_fx.chunk.chunk.payload_bytes < 30000; i++) {
        uint32_t what = kit_random(random, 60);

        if (what == 0) {
            for (size_t k = 0; k < sizeof(noise); k++)
                noise[k] = (uint8_t)kit_random(random, 256);
            kit_chunk_add_bytes(&runs_fx.chunk, noise, kit_random(random, sizeof(noise)));
        } else {
            size_t most = what == 1 ? 20000 : what < 5 ? 5000 : what < 20 ? 200 : 40;
            size_t len = 2 + kit_random(random, (uint32_t)most);
            struct runs_time time = {.bytes = (uint8_t)kit_random(random, 16),
                                     .is_padded = kit_random(random, 2) != 0};

            if (time.bytes == 0 || time.bytes > 10)
                runs_add_packet((char)('a' + i % 26), len);
            else
                runs_add_timed(time, (char)('a' + i % 26), len);
        }
    }
    if (is_continued)
        runs_fx.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_NEXT;
    if (kit_random(random, 4) == 0)
        runs_fx.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_PREV;
    if (kit_random(random, 100) == 0)
        runs_fx.chunk.chunk.flags |= PFL_CHUNK_NEEDS_PATCH;
    if (kit_random(random, 50) == 0)
        runs_fx.chunk.chunk.is_complete = false;
    runs_commit(kit_random(random, 2));
}

static void whatever_is_written_the_packets_are_the_same(void **state)
{
    size_t in_runs = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct kit_random random = {.state = seed};
        uint32_t chunk_ids[5] = {0};

        (void)runs_teardown(state);
        (void)runs_setup(state);
        for (unsigned i = 0; i < 300; i++)
            commit_anything(&random, chunk_ids);
        in_runs += runs_expect_same();
    }
    assert_true(in_runs > 10000);
}

static void packets_of_several_chunks_are_in_runs_when_they_are_short(void **state)
{
    uint8_t packet[100];

    (void)state;
    runs_make_packet(packet, 'p', sizeof(packet));
    runs_begin_chunk(1, 0);
    runs_add_packet('a', 31);
    kit_chunk_add_bytes(&runs_fx.chunk, packet, 40);
    runs_fx.chunk.chunk.flags = PFL_CHUNK_CONTINUES_NEXT;
    runs_commit(0);
    runs_begin_chunk(1, 1);
    kit_chunk_add_bytes(&runs_fx.chunk, packet + 40, 60);
    runs_add_packet('b', 31);
    runs_add_packet('c', 31);
    runs_fx.chunk.chunk.flags = PFL_CHUNK_CONTINUES_PREV;
    runs_commit(0);
    assert_int_equal(runs_expect_same(), 4);
    assert_int_equal(runs_fx.sides[RUNS].trace.runs, 1);
}

static void a_buffer_that_is_dropped_between_frames_is_read_no_more(void **state)
{
    struct runs_side *side = &runs_fx.sides[RUNS];
    struct pfl_readback_frame frame;
    size_t got;

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        runs_commit_packets(1, i, 31, 100);
    runs_begin_chunk(1, 0);
    runs_add_packet('y', 50);
    runs_commit(1);
    assert_int_equal(pfl_readback_next_frame(side->readback, &frame), 0);
    kit_trace_feed(&side->trace, &frame, RUNS_REQUEST_ID);
    got = side->trace.packets_len;
    pfl_readback_drop_buffer(side->readback, side->buffers[0]);
    pfl_trace_buffer_free(side->buffers[0]);
    side->buffers[0] = NULL;
    kit_trace_drain(&side->trace, side->readback, RUNS_REQUEST_ID);
    /* What was taken out already, what the second buffer has, and the end. */
    assert_int_equal(side->trace.packets_len, got + 3);
}

/* Commits between frames overwrite what is being read, and tell losses to what was half read. */
static void commits_between_frames_do_no_harm(void **state)
{
    struct runs_side *side = &runs_fx.sides[RUNS];
    struct pfl_readback_frame frame = {.has_more = true};
    uint32_t chunk_id = 0;

    (void)state;
    for (; chunk_id < 400; chunk_id++)
        runs_commit_packets(1, chunk_id, 31, 1000);
    for (unsigned frames = 0; frame.has_more; frames++) {
        assert_int_equal(pfl_readback_next_frame(side->readback, &frame), 0);
        kit_trace_feed(&side->trace, &frame, RUNS_REQUEST_ID);
        for (unsigned i = 0; i < 6 && frames < 60; i++)
            runs_commit_packets(1, chunk_id++, 31, 1000);
    }
    assert_true(side->trace.packets_len > 200000);
    assert_true(side->trace.slices > 60); /* carried over, and losses */
    for (size_t i = 1; i < side->trace.packets_len; i++)
        assert_in_range(kit_trace_take(&side->trace).len, 31 + 8, 31 + 20);
}

static int read_all(void *arg)
{
    struct pfl_trace_buffer_conf size = {.size_bytes = MIB};
    struct runs_side side = {0};
    struct pfl_readback_conf conf = {.buffers = side.buffers,
                                     .buffers_len = 1,
                                     .on_new_source = runs_on_new_source,
                                     .user = &side};
    struct pfl_readback_frame frame = {.has_more = true};
    int rc = pfl_trace_buffer_new(&size, &side.buffers[0]);

    (void)arg;
    for (uint32_t i = 0; rc == 0 && i < 8; i++) {
        runs_fx.chunk.chunk.chunk_id = i;
        pfl_trace_buffer_commit(side.buffers[0], &runs_fx.chunk.chunk);
    }
    if (rc == 0)
        rc = pfl_readback_new(&conf, &side.readback);
    if (rc == 0)
        pfl_readback_set_request(side.readback, RUNS_REQUEST_ID, true);
    while (rc == 0 && frame.has_more)
        rc = pfl_readback_next_frame(side.readback, &frame);
    pfl_readback_free(side.readback);
    pfl_trace_buffer_free(side.buffers[0]);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    runs_begin_chunk(1, 0);
    for (unsigned i = 0; i < 1000; i++)
        runs_add_packet('a', 40);
    pfl_sweep(read_all, NULL, true);
}

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
        ROW(whatever_is_written_the_packets_are_the_same),
        ROW(packets_of_several_chunks_are_in_runs_when_they_are_short),
        ROW(a_buffer_that_is_dropped_between_frames_is_read_no_more),
        ROW(commits_between_frames_do_no_harm),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
