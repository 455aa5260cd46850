/* SPDX-License-Identifier: Apache-2.0 */
/* Each row of docs/abi/tracebuffer.md about reading, patches, losses and malformed chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "service/buffer/sequence.h"
#include "service/buffer/sequence_table.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

#define PREV  PFL_CHUNK_CONTINUES_PREV
#define NEXT  PFL_CHUNK_CONTINUES_NEXT
#define PATCH PFL_CHUNK_NEEDS_PATCH

struct fixture {
    struct pfl_trace_buffer *buffer;
    struct kit_chunk chunk;
};

static struct fixture fx;

static int setup(void **state)
{
    (void)state;
    fx.buffer = kit_buffer(65536, PFL_FILL_RING_BUFFER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_trace_buffer_free(fx.buffer);
    fx.buffer = NULL;
    pfl_sweep_assert_no_leak();
    return 0;
}

static void begin(void)
{
    pfl_trace_buffer_begin_read(fx.buffer);
}

static void patch(uint16_t writer, uint32_t chunk_id, uint32_t offset, bool has_more)
{
    struct pfl_trace_buffer_patch p = {.offset_untrusted = offset, .data = "abcd"};

    p.data[0] = 'A';
    pfl_trace_buffer_patch(fx.buffer, &(struct pfl_trace_buffer_patches){
                                          .producer_id = 1,
                                          .writer_id = writer,
                                          .chunk_id = chunk_id,
                                          .has_more_patches = has_more,
                                          .patches = &p,
                                          .patches_len = 1,
                                      });
}

/* ---- order ---- */

static void an_empty_buffer_has_nothing_to_read(void **state)
{
    (void)state;
    kit_expect_end(fx.buffer);
    begin();
    kit_expect_end(fx.buffer);
}

static void packets_of_several_writers_come_in_the_order_of_commits(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 2, 0, 0, 'a', 10);
    kit_commit(fx.buffer, 1, 0, 0, 'b', 20);
    kit_commit(fx.buffer, 2, 1, 0, 'c', 30);
    begin();
    kit_expect(fx.buffer, 'a', 10, 0);
    kit_expect(fx.buffer, 'b', 20, 0);
    kit_expect(fx.buffer, 'c', 30, 0);
    kit_expect_end(fx.buffer);
    begin();
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).chunks_read, 3);
    assert_int_equal(kit_stats(fx.buffer).bytes_read, 32 + 48 + 48);
}

static void chunks_committed_out_of_order_are_read_in_the_order_of_ids(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, UINT32_MAX, 0, 'a', 10);
    kit_commit(fx.buffer, 1, 2, 0, 'd', 10);
    kit_commit(fx.buffer, 1, 0, 0, 'b', 10);
    kit_commit(fx.buffer, 1, 1, 0, 'c', 10);
    begin();
    for (char c = 'a'; c <= 'd'; c++)
        kit_expect(fx.buffer, c, 10, 0);
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).chunks_committed_out_of_order, 2);
}

static void packets_of_size_zero_are_skipped_without_a_loss(void **state)
{
    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'a', 0);
    kit_chunk_add(&fx.chunk, 'b', 3);
    kit_chunk_add(&fx.chunk, 'c', 0);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    begin();
    kit_expect(fx.buffer, 'b', 3, 0);
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).chunks_read, 1);
}

/* ---- fragments ---- */

static void a_packet_over_three_chunks_is_put_together(void **state)
{
    static struct kit_packet packet;

    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'w', 5);
    kit_chunk_add(&fx.chunk, 'x', 100);
    fx.chunk.chunk.flags = NEXT;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_commit(fx.buffer, 1, 1, PREV | NEXT, 'x', 200);
    kit_commit(fx.buffer, 2, 0, 0, 'o', 7);
    kit_chunk_begin(&fx.chunk, 1, 1, 2);
    kit_chunk_add(&fx.chunk, 'x', 50);
    kit_chunk_add(&fx.chunk, 'z', 6);
    fx.chunk.chunk.flags = PREV;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    begin();
    kit_expect(fx.buffer, 'w', 5, 0);
    assert_true(kit_read(fx.buffer, &packet));
    assert_int_equal(packet.bytes, 350);
    assert_int_equal(packet.slices, 3);
    kit_expect(fx.buffer, 'o', 7, 0);
    kit_expect(fx.buffer, 'z', 6, 0);
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).readaheads_succeeded, 1);
    assert_int_equal(kit_stats(fx.buffer).readaheads_failed, 0);
}

static void an_empty_chunk_in_the_middle_of_a_packet_is_passed_over(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 10);
    kit_chunk_begin(&fx.chunk, 1, 1, 1);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_commit(fx.buffer, 1, 2, PREV, 'x', 10);
    begin();
    kit_expect(fx.buffer, 'x', 20, 0);
    kit_expect_end(fx.buffer);
}

static void a_packet_whose_end_is_absent_waits(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 10);
    begin();
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).readaheads_failed, 1);
    kit_commit(fx.buffer, 1, 1, PREV, 'x', 10);
    begin();
    kit_expect(fx.buffer, 'x', 20, 0);
    kit_expect_end(fx.buffer);
}

static void a_packet_of_more_chunks_than_fit_the_small_array_is_whole(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 20);
    for (uint32_t i = 1; i < 900; i++)
        kit_commit(fx.buffer, 1, i, PREV | NEXT, 'x', 20);
    kit_commit(fx.buffer, 1, 900, PREV, 'x', 20);
    begin();
    kit_expect(fx.buffer, 'x', 901 * 20, 0);
    kit_expect_end(fx.buffer);
}

/* ---- losses ---- */

static void a_gap_of_chunk_ids_is_reported_and_the_late_chunk_discarded(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'a', 10);
    kit_commit(fx.buffer, 1, 2, 0, 'c', 10);
    kit_commit(fx.buffer, 1, 3, 0, 'd', 10);
    begin();
    kit_expect(fx.buffer, 'a', 10, 0);
    kit_expect(fx.buffer, 'c', 10, 3);
    kit_expect(fx.buffer, 'd', 10, 0);
    kit_expect_end(fx.buffer);
    kit_commit(fx.buffer, 1, 1, 0, 'b', 10);
    assert_int_equal(kit_stats(fx.buffer).chunks_discarded, 1);
    begin();
    kit_expect_end(fx.buffer);
}

static void a_packet_with_a_gap_inside_is_dropped(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 10);
    kit_commit(fx.buffer, 1, 2, PREV, 'x', 10);
    kit_commit(fx.buffer, 1, 3, 0, 'd', 10);
    begin();
    kit_expect(fx.buffer, 'd', 10, 1 | 2 | 8 | 16);
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).readaheads_failed, 1);
}

static void a_chain_that_the_next_chunk_does_not_continue_is_broken(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 10);
    kit_commit(fx.buffer, 1, 1, 0, 'y', 10);
    begin();
    kit_expect(fx.buffer, 'y', 10, 33);
    kit_expect_end(fx.buffer);
}

static void a_continuation_without_its_beginning_is_an_orphan(void **state)
{
    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'x', 10);
    kit_chunk_add(&fx.chunk, 'y', 11);
    fx.chunk.chunk.flags = PREV;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    begin();
    kit_expect(fx.buffer, 'y', 11, 9);
    kit_expect_end(fx.buffer);
}

static void a_drop_marker_is_reported_on_the_next_packet_even_an_older_one(void **state)
{
    static const uint8_t marker[] = {0xff, 0xff, 0xff, 0x7f};

    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'a', 10);
    kit_chunk_begin(&fx.chunk, 1, 1, 1);
    kit_chunk_add(&fx.chunk, 'b', 10);
    kit_chunk_add_raw(&fx.chunk, marker, sizeof(marker), 1);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).trace_writer_packet_loss, 1);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 0);
    begin();
    kit_expect(fx.buffer, 'a', 10, 129);
    kit_expect(fx.buffer, 'b', 10, 0);
    kit_expect_end(fx.buffer);
}

static void a_dropped_fragment_that_was_to_be_patched_stalls_nothing(void **state)
{
    static const uint8_t marker[] = {0xff, 0xff, 0xff, 0x7f};

    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT, 'x', 10);
    kit_chunk_begin(&fx.chunk, 1, 1, 1);
    kit_chunk_add(&fx.chunk, 'x', 10);
    kit_chunk_add_raw(&fx.chunk, marker, sizeof(marker), 1);
    fx.chunk.chunk.flags = PREV | PATCH;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_commit(fx.buffer, 1, 2, 0, 'y', 10);
    patch(1, 1, 20, false); /* into what was dropped */
    assert_int_equal(kit_stats(fx.buffer).patches_failed, 1);
    begin();
    kit_expect(fx.buffer, 'x', 20, 129);
    kit_expect(fx.buffer, 'y', 10, 0);
    kit_expect_end(fx.buffer);
}

static void sizes_that_a_patch_made_wrong_are_corrupt(void **state)
{
    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'a', 10);
    kit_chunk_add(&fx.chunk, 'b', 10);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_commit(fx.buffer, 1, 1, 0, 'c', 10);
    patch(1, 0, 11, false); /* the second size becomes 'A' = 65 */
    begin();
    kit_expect(fx.buffer, 'a', 10, 0);
    kit_expect(fx.buffer, 'c', 10, 5);
    kit_expect_end(fx.buffer);
}

static void a_loss_is_remembered_while_the_sequence_is_empty(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'a', 10);
    begin();
    kit_expect(fx.buffer, 'a', 10, 0);
    kit_expect_end(fx.buffer);
    kit_commit(fx.buffer, 1, 5, 0, 'b', 10);
    begin();
    kit_expect(fx.buffer, 'b', 10, 3);
    kit_expect_end(fx.buffer);
}

static void only_the_latest_empty_sequences_are_remembered(void **state)
{
    (void)state;
    for (uint16_t w = 1; w <= PFL_SEQUENCES_MAX_EMPTY + 2; w++) {
        kit_commit(fx.buffer, w, 0, 0, 'a', 10);
        begin();
        kit_expect(fx.buffer, 'a', 10, 0);
        kit_expect_end(fx.buffer);
    }
    /* The last commit met one more than may stay. */
    kit_commit(fx.buffer, 1, 7, 0, 'b', 10); /* forgotten: no gap is seen */
    kit_commit(fx.buffer, PFL_SEQUENCES_MAX_EMPTY, 7, 0, 'c', 10);
    begin();
    kit_expect(fx.buffer, 'b', 10, 0);
    kit_expect(fx.buffer, 'c', 10, 3);
    kit_expect_end(fx.buffer);
}

/* ---- patches ---- */

static void a_fragment_that_needs_a_patch_stalls_but_packets_before_it_do_not(void **state)
{
    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'w', 5);
    kit_chunk_add(&fx.chunk, 'x', 10);
    fx.chunk.chunk.flags = NEXT | PATCH;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_commit(fx.buffer, 1, 1, PREV, 'x', 10);
    kit_commit(fx.buffer, 2, 0, 0, 'o', 10);
    begin();
    kit_expect(fx.buffer, 'w', 5, 0);
    kit_expect(fx.buffer, 'o', 10, 0);
    kit_expect_end(fx.buffer);
    patch(1, 0, 7, true);
    begin();
    kit_expect_end(fx.buffer);
    patch(1, 0, 7, false);
    begin();
    assert_true(kit_read(fx.buffer, &(struct kit_packet){0}));
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).patches_succeeded, 2);
}

static void a_patch_in_the_pass_is_read_in_the_pass(void **state)
{
    static struct kit_packet packet;

    (void)state;
    kit_commit(fx.buffer, 1, 0, NEXT | PATCH, 'x', 10);
    kit_commit(fx.buffer, 1, 1, PREV, 'x', 10);
    kit_commit(fx.buffer, 2, 0, 0, 'o', 10);
    begin();
    kit_expect(fx.buffer, 'o', 10, 0);
    patch(1, 0, 1, false);
    assert_true(kit_read(fx.buffer, &packet));
    assert_int_equal(packet.bytes, 20);
    assert_memory_equal(packet.data, "Abcdxxxxxxxxxxxxxxxx", 20);
    kit_expect_end(fx.buffer);
}

static void patches_reach_both_ends_of_a_chunk_and_not_past_them(void **state)
{
    static struct kit_packet packet;

    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'x', 8);
    patch(1, 0, 1, false);
    patch(1, 0, 5, false);
    patch(1, 0, 6, false);
    patch(1, 0, UINT32_MAX, false);
    patch(1, 1, 1, false);
    patch(2, 0, 1, false);
    begin();
    assert_true(kit_read(fx.buffer, &packet));
    assert_memory_equal(packet.data, "AbcdAbcd", 8);
    assert_int_equal(kit_stats(fx.buffer).patches_succeeded, 2);
    assert_int_equal(kit_stats(fx.buffer).patches_failed, 4);
}

static void a_batch_with_a_bad_patch_fails_once_and_keeps_what_came_before(void **state)
{
    struct pfl_trace_buffer_patch patches[3] = {
        {.offset_untrusted = 1, .data = {'A', 'A', 'A', 'A'}},
        {.offset_untrusted = 100, .data = {'B', 'B', 'B', 'B'}},
        {.offset_untrusted = 5, .data = {'C', 'C', 'C', 'C'}},
    };
    static struct kit_packet packet;

    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'x', 8);
    pfl_trace_buffer_patch(
        fx.buffer, &(struct pfl_trace_buffer_patches){
                       .producer_id = 1, .writer_id = 1, .patches = patches, .patches_len = 3});
    begin();
    assert_true(kit_read(fx.buffer, &packet));
    assert_memory_equal(packet.data, "AAAAxxxx", 8);
    assert_int_equal(kit_stats(fx.buffer).patches_succeeded, 0);
    assert_int_equal(kit_stats(fx.buffer).patches_failed, 1);
}

/* ---- malformed chunks ---- */

static void a_count_beyond_the_fragments_is_a_violation_and_truncates(void **state)
{
    static const uint8_t too_long[] = {0x20, 'y'};

    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'a', 10);
    kit_chunk_add_raw(&fx.chunk, too_long, sizeof(too_long), 2);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 1);
    begin();
    kit_expect(fx.buffer, 'a', 10, 0);
    kit_expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).bytes_written, 32);
}

static void a_size_of_ten_bytes_is_taken_and_one_of_eleven_is_not(void **state)
{
    uint8_t size[12] = {0x83, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 'q', 'q'};

    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add_raw(&fx.chunk, size, 10, 1);
    kit_chunk_add_raw(&fx.chunk, "qqq", 3, 0);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 0);
    size[9] = 0x80;
    size[10] = 0;
    kit_chunk_begin(&fx.chunk, 1, 1, 1);
    kit_chunk_add_raw(&fx.chunk, size, 11, 1);
    kit_chunk_add_raw(&fx.chunk, "rrr", 3, 0);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 1);
    begin();
    kit_expect(fx.buffer, 'q', 3, 0);
    kit_expect_end(fx.buffer);
}

static void a_chunk_that_no_record_can_hold_is_a_violation(void **state)
{
    (void)state;
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'a', 65400);
    kit_chunk_pad(&fx.chunk, 65536);
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    kit_chunk_begin(&fx.chunk, 1, 1, 0);
    kit_chunk_add(&fx.chunk, 'a', 65400);
    kit_chunk_pad(&fx.chunk, 65535); /* scraped it would take 65552 of 65536 */
    fx.chunk.chunk.is_complete = false;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 2);
    fx.chunk.chunk.is_complete = true;
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 2);
    begin();
    kit_expect(fx.buffer, 'a', 65400, 0);
    kit_expect_end(fx.buffer);
}

/* ---- commits between two packets of a pass ---- */

static void a_pass_goes_on_with_the_oldest_chunk_when_its_place_is_overwritten(void **state)
{
    struct pfl_trace_buffer *small = kit_buffer(4096, PFL_FILL_RING_BUFFER);

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        kit_commit(small, 1, i, 0, (char)('a' + i), 1000); /* 1020 bytes each, four fit */
    pfl_trace_buffer_begin_read(small);
    kit_expect(small, 'a', 1000, 0);
    kit_commit(small, 1, 4, 0, 'e', 1000);
    kit_commit(small, 1, 5, 0, 'f', 1000);
    kit_expect(small, 'c', 1000, 65);
    kit_expect(small, 'd', 1000, 0);
    kit_commit(small, 2, 0, 0, 'g', 1000);
    kit_expect(small, 'e', 1000, 0);
    kit_expect(small, 'f', 1000, 0);
    kit_expect(small, 'g', 1000, 0);
    kit_expect_end(small);
    pfl_trace_buffer_free(small);
}

/* ---- what it tells ---- */

static void find_usage(void *user, const struct pfl_trace_buffer_source *source)
{
    *(struct pfl_trace_buffer_source *)user = *source;
}

static void used_payload_bytes_are_counted_by_size(void **state)
{
    struct pfl_trace_buffer_source source;

    (void)state;
    kit_commit(fx.buffer, 3, 0, 0, 'a', 7);
    kit_commit(fx.buffer, 3, 1, 0, 'a', 8);
    kit_commit(fx.buffer, 3, 2, 0, 'a', 20000);
    pfl_trace_buffer_each_source(fx.buffer, find_usage, &source);
    assert_int_equal(source.writer_id, 3);
    assert_int_equal(source.producer_uid, 1001);
    assert_int_equal(source.producer_pid, 2001);
    assert_int_equal(source.usage.counts[0], 1);
    assert_int_equal(source.usage.sums[0], 8);
    assert_int_equal(source.usage.counts[1], 1);
    assert_int_equal(source.usage.counts[PFL_USAGE_BOUNDS], 1);
    assert_int_equal(source.usage.sums[PFL_USAGE_BOUNDS], 20004);
}

static int use_a_buffer(void *arg)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = 65536};
    struct pfl_trace_buffer_packet packet;
    struct pfl_trace_buffer *buffer;
    int rc = pfl_trace_buffer_new(&conf, &buffer);

    (void)arg;
    if (rc != 0)
        return rc;
    for (uint16_t w = 1; w < 300; w++)
        kit_commit(buffer, w, 0, 0, 'a', 10);
    for (uint32_t i = 0; i < 100; i++)
        kit_commit(buffer, 300, i, i == 0 ? NEXT : i == 99 ? PREV : PREV | NEXT, 'x', 10);
    kit_commit(buffer, 300, 100, 0, 'y', 10);
    pfl_trace_buffer_begin_read(buffer);
    while (pfl_trace_buffer_read(buffer, &packet)) {
        if (packet.source->writer_id == 300 && packet.bytes == 10)
            assert_int_equal(packet.loss_reasons & ~1u, 0);
    }
    pfl_trace_buffer_free(buffer);
    return 0;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(use_a_buffer, NULL, true);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_empty_buffer_has_nothing_to_read),
        ROW(packets_of_several_writers_come_in_the_order_of_commits),
        ROW(chunks_committed_out_of_order_are_read_in_the_order_of_ids),
        ROW(packets_of_size_zero_are_skipped_without_a_loss),
        ROW(a_packet_over_three_chunks_is_put_together),
        ROW(an_empty_chunk_in_the_middle_of_a_packet_is_passed_over),
        ROW(a_packet_whose_end_is_absent_waits),
        ROW(a_packet_of_more_chunks_than_fit_the_small_array_is_whole),
        ROW(a_gap_of_chunk_ids_is_reported_and_the_late_chunk_discarded),
        ROW(a_packet_with_a_gap_inside_is_dropped),
        ROW(a_chain_that_the_next_chunk_does_not_continue_is_broken),
        ROW(a_continuation_without_its_beginning_is_an_orphan),
        ROW(a_drop_marker_is_reported_on_the_next_packet_even_an_older_one),
        ROW(a_dropped_fragment_that_was_to_be_patched_stalls_nothing),
        ROW(sizes_that_a_patch_made_wrong_are_corrupt),
        ROW(a_loss_is_remembered_while_the_sequence_is_empty),
        ROW(only_the_latest_empty_sequences_are_remembered),
        ROW(a_fragment_that_needs_a_patch_stalls_but_packets_before_it_do_not),
        ROW(a_patch_in_the_pass_is_read_in_the_pass),
        ROW(patches_reach_both_ends_of_a_chunk_and_not_past_them),
        ROW(a_batch_with_a_bad_patch_fails_once_and_keeps_what_came_before),
        ROW(a_count_beyond_the_fragments_is_a_violation_and_truncates),
        ROW(a_size_of_ten_bytes_is_taken_and_one_of_eleven_is_not),
        ROW(a_chunk_that_no_record_can_hold_is_a_violation),
        ROW(a_pass_goes_on_with_the_oldest_chunk_when_its_place_is_overwritten),
        ROW(used_payload_bytes_are_counted_by_size),
        ROW(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
