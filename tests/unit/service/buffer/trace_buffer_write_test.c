/* SPDX-License-Identifier: Apache-2.0 */
/* Each row of docs/abi/tracebuffer.md about writing, wrapping, scraping and committing again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "service/buffer/packet_reader.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

static struct pfl_trace_buffer *ring;
static struct kit_chunk c;

static int setup(void **state)
{
    (void)state;
    ring = kit_buffer(4096, PFL_FILL_RING_BUFFER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_trace_buffer_free(ring);
    ring = NULL;
    pfl_sweep_assert_no_leak();
    return 0;
}

/* Chunk `id` of writer 1 with the packets a, b, c ... of 99 bytes, in a chunk of 512. */
static void offer(uint32_t id, unsigned packets, bool is_complete)
{
    kit_chunk_begin(&c, 1, 1, id);
    for (unsigned i = 0; i < packets; i++)
        kit_chunk_add(&c, (char)('a' + i), 99);
    kit_chunk_pad(&c, 512);
    c.chunk.is_complete = is_complete;
    if (!is_complete)
        c.chunk.fragments++; /* one more is being written */
    pfl_trace_buffer_commit(ring, &c.chunk);
}

static void the_size_is_rounded_up_to_a_page(void **state)
{
    struct pfl_trace_buffer *odd = kit_buffer(4097, PFL_FILL_RING_BUFFER);

    (void)state;
    assert_int_equal(kit_stats(odd).buffer_size, 8192);
    pfl_trace_buffer_free(odd);
}

static void a_packet_of_empty_fragments_is_a_packet_and_an_empty_fragment_is_none(void **state)
{
    static struct kit_packet packet;

    (void)state;
    kit_commit(ring, 1, 0, 0, 'w', 0);
    kit_commit(ring, 1, 1, PFL_CHUNK_CONTINUES_NEXT, 'x', 0);
    kit_commit(ring, 1, 2, PFL_CHUNK_CONTINUES_PREV, 'x', 0);
    kit_commit(ring, 1, 3, 0, 'y', 10);
    pfl_trace_buffer_begin_read(ring);
    assert_true(kit_read(ring, &packet));
    assert_int_equal(packet.bytes, 0);
    kit_expect(ring, 'y', 10, 0);
    kit_expect_end(ring);
}

static void sizes_out_of_range_are_refused(void **state)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = 0};
    struct pfl_trace_buffer *buffer;

    (void)state;
    assert_int_equal(pfl_trace_buffer_new(&conf, &buffer), PFL_ELIMIT);
    conf.size_bytes = (uint64_t)1 << 32;
    assert_int_equal(pfl_trace_buffer_new(&conf, &buffer), PFL_ELIMIT);
}

static void a_complete_chunk_takes_its_fragments_and_an_incomplete_one_all_its_payload(void **state)
{
    (void)state;
    kit_chunk_begin(&c, 1, 1, 0);
    kit_chunk_add(&c, 'a', 19);
    kit_chunk_pad(&c, 4080);
    pfl_trace_buffer_commit(ring, &c.chunk);
    assert_int_equal(kit_stats(ring).bytes_written, 48);
    kit_chunk_begin(&c, 1, 2, 0);
    kit_chunk_add(&c, 'a', 19);
    kit_chunk_pad(&c, 1000);
    c.chunk.is_complete = false;
    pfl_trace_buffer_commit(ring, &c.chunk);
    assert_int_equal(kit_stats(ring).bytes_written, 48 + 1024);
}

static void an_unread_chunk_that_is_overwritten_is_reported(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        kit_commit(ring, 1, i, 0, (char)('a' + i), 1000);
    assert_int_equal(kit_stats(ring).chunks_overwritten, 1);
    assert_int_equal(kit_stats(ring).bytes_overwritten, 1024);
    assert_int_equal(kit_stats(ring).write_wrap_count, 1);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'b', 1000, 65);
    for (char p = 'c'; p <= 'e'; p++)
        kit_expect(ring, p, 1000, 0);
    kit_expect_end(ring);
}

static void a_chunk_that_was_read_is_overwritten_without_a_loss(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        kit_commit(ring, 1, i, 0, (char)('a' + i), 1000);
        pfl_trace_buffer_begin_read(ring);
        kit_expect(ring, (char)('a' + i), 1000, 0);
        kit_expect_end(ring);
    }
    assert_int_equal(kit_stats(ring).chunks_overwritten, 0);
    assert_int_equal(kit_stats(ring).chunks_read, 20);
}

static void a_record_that_does_not_fit_the_tail_wraps_and_leaves_padding(void **state)
{
    (void)state;
    kit_commit(ring, 1, 0, 0, 'a', 2000); /* 2032 */
    kit_commit(ring, 1, 1, 0, 'b', 1000); /* 1024 */
    kit_commit(ring, 1, 2, 0, 'c', 1100); /* 1120 > 1040: over 'a' */
    assert_int_equal(kit_stats(ring).write_wrap_count, 1);
    assert_int_equal(kit_stats(ring).padding_bytes_written, 2032 - 1120);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'b', 1000, 65);
    kit_expect(ring, 'c', 1100, 0);
    kit_expect_end(ring);
    kit_commit(ring, 1, 3, 0, 'd', 800);
    assert_int_equal(kit_stats(ring).padding_bytes_cleared, 2032 - 1120);
}

static void a_packet_in_the_way_takes_its_later_fragments_with_it(void **state)
{
    (void)state;
    kit_commit(ring, 1, 0, PFL_CHUNK_CONTINUES_NEXT, 'x', 1000);
    kit_chunk_begin(&c, 1, 1, 1);
    kit_chunk_add(&c, 'x', 500);
    kit_chunk_add(&c, 'y', 490);
    c.chunk.flags = PFL_CHUNK_CONTINUES_PREV;
    pfl_trace_buffer_commit(ring, &c.chunk);
    for (uint32_t i = 0; i < 3; i++)
        kit_commit(ring, 2, i, 0, (char)('a' + i), 1000);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'y', 490, 65);
    for (char p = 'a'; p <= 'c'; p++)
        kit_expect(ring, p, 1000, 0);
    kit_expect_end(ring);
}

static void discard_stops_for_good_at_the_first_record_that_does_not_fit(void **state)
{
    struct pfl_trace_buffer *once = kit_buffer(4096, PFL_FILL_DISCARD);
    struct pfl_trace_buffer_patch p = {.offset_untrusted = 4, .data = {'A', 'A', 'A', 'A'}};
    static struct kit_packet packet;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        kit_commit(once, 1, i, 0, (char)('a' + i), 1000);
    pfl_trace_buffer_begin_read(once);
    kit_expect(once, 'a', 1000, 0);
    kit_commit(once, 1, 3, 0, 'd', 1100);
    assert_int_equal(kit_stats(once).chunks_discarded, 1);
    kit_commit(once, 1, 4, 0, 'e', 1);
    kit_commit(once, 1, 2, 0, 'c', 1000); /* a rewrite, too */
    assert_int_equal(kit_stats(once).chunks_discarded, 3);
    pfl_trace_buffer_patch(
        once,
        &(struct pfl_trace_buffer_patches){
            .producer_id = 1, .writer_id = 1, .chunk_id = 2, .patches = &p, .patches_len = 1});
    assert_int_equal(kit_stats(once).patches_succeeded, 1);
    kit_expect(once, 'b', 1000, 0);
    assert_true(kit_read(once, &packet));
    assert_memory_equal(packet.data, "AAAAc", 5);
    kit_expect_end(once);
    assert_int_equal(kit_stats(once).write_wrap_count, 0);
    pfl_trace_buffer_free(once);
}

static void discard_may_fill_to_the_last_byte(void **state)
{
    struct pfl_trace_buffer *once = kit_buffer(4096, PFL_FILL_DISCARD);

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        kit_commit(once, 1, i, 0, 'a', 1000);
    assert_int_equal(kit_stats(once).chunks_discarded, 0);
    kit_commit(once, 1, 4, 0, 'a', 1);
    assert_int_equal(kit_stats(once).chunks_discarded, 1);
    pfl_trace_buffer_free(once);
}

/* ---- scraping and committing again ---- */

static void an_incomplete_chunk_gives_all_but_its_last_fragment_and_is_not_passed(void **state)
{
    (void)state;
    kit_chunk_begin(&c, 1, 1, 0);
    kit_chunk_add(&c, 'a', 10);
    kit_chunk_add(&c, 'b', 10);
    c.chunk.is_complete = false;
    c.chunk.flags = PFL_CHUNK_CONTINUES_NEXT | PFL_CHUNK_NEEDS_PATCH; /* speak of 'b' */
    pfl_trace_buffer_commit(ring, &c.chunk);
    kit_commit(ring, 1, 1, 0, 'c', 10);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 10, 0);
    kit_expect_end(ring);
    pfl_trace_buffer_begin_read(ring);
    kit_expect_end(ring);
}

static void a_chunk_scraped_and_then_committed_gives_each_packet_once(void **state)
{
    (void)state;
    offer(0, 1, false);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0);
    kit_expect_end(ring);
    offer(1, 1, true); /* so that chunk 0 is not alone */
    offer(0, 2, false);
    assert_int_equal(kit_stats(ring).chunks_rewritten, 1);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'b', 99, 0);
    kit_expect_end(ring);
    offer(0, 2, true); /* nothing new, but complete */
    assert_int_equal(kit_stats(ring).chunks_rewritten, 1);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0); /* of chunk 1 */
    kit_expect_end(ring);
    assert_int_equal(kit_stats(ring).abi_violations, 0);
}

static void a_scraped_chunk_that_was_read_moves_to_the_write_cursor(void **state)
{
    (void)state;
    offer(0, 1, false);
    kit_commit(ring, 2, 0, 0, 'o', 99);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0);
    kit_expect(ring, 'o', 99, 0);
    kit_expect_end(ring);
    offer(0, 3, true);
    assert_int_equal(kit_stats(ring).chunks_relocated, 1);
    assert_int_equal(kit_stats(ring).chunks_rewritten, 0);
    assert_int_equal(kit_stats(ring).chunks_written, 3);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'b', 99, 0);
    kit_expect(ring, 'c', 99, 0);
    kit_expect_end(ring);
}

static void in_a_discard_buffer_it_is_rewritten_in_place(void **state)
{
    (void)state;
    pfl_trace_buffer_free(ring);
    ring = kit_buffer(4096, PFL_FILL_DISCARD);
    offer(0, 1, false);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0);
    kit_expect_end(ring);
    offer(0, 2, true);
    assert_int_equal(kit_stats(ring).chunks_relocated, 0);
    assert_int_equal(kit_stats(ring).chunks_rewritten, 1);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'b', 99, 0);
    kit_expect_end(ring);
}

static void a_chunk_committed_again_may_not_shrink_grow_past_its_place_or_lose_flags(void **state)
{
    (void)state;
    offer(0, 2, true);
    offer(0, 1, true);
    assert_int_equal(kit_stats(ring).abi_violations, 1);
    offer(0, 3, true); /* complete: 200 bytes were reserved */
    assert_int_equal(kit_stats(ring).abi_violations, 2);
    kit_commit(ring, 2, 0, PFL_CHUNK_CONTINUES_NEXT, 'x', 10);
    kit_commit(ring, 2, 0, 0, 'x', 10);
    assert_int_equal(kit_stats(ring).abi_violations, 3);
    offer(0, 2, true); /* the same again is fine */
    assert_int_equal(kit_stats(ring).abi_violations, 3);
    assert_int_equal(kit_stats(ring).chunks_rewritten, 0);
}

static void a_complete_chunk_that_was_read_is_discarded_when_it_comes_again(void **state)
{
    (void)state;
    offer(0, 1, true);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0);
    kit_expect_end(ring);
    offer(0, 2, false);
    assert_int_equal(kit_stats(ring).chunks_discarded, 1);
    pfl_trace_buffer_begin_read(ring);
    kit_expect_end(ring);
}

static void a_scraped_chunk_that_was_overwritten_is_stored_again_with_what_is_new(void **state)
{
    (void)state;
    offer(0, 1, false);
    pfl_trace_buffer_begin_read(ring);
    kit_expect(ring, 'a', 99, 0);
    kit_expect_end(ring);
    for (uint32_t i = 0; i < 4; i++)
        kit_commit(ring, 2, i, 0, 'o', 1000); /* over it */
    offer(0, 3, true);
    pfl_trace_buffer_begin_read(ring);
    for (uint32_t i = 0; i < 3; i++)
        kit_expect(ring, 'o', 1000, i == 0 ? 65 : 0);
    kit_expect(ring, 'b', 99, 0);
    kit_expect(ring, 'c', 99, 0);
    kit_expect_end(ring);
}

static void commit_in_order(struct pfl_trace_buffer *buffer, uint32_t chunks,
                            struct pfl_trace_buffer_credit *credit)
{
    for (uint32_t i = 0; i < chunks; i++) {
        kit_chunk_begin(&c, 1, 1, i);
        kit_chunk_add(&c, 'a', 4);
        c.chunk.credit = credit;
        pfl_trace_buffer_commit(buffer, &c.chunk);
    }
}

static void a_peer_cannot_make_us_search_without_end(void **state)
{
    struct pfl_trace_buffer_credit credit = {0};
    struct pfl_trace_buffer_patches far = {
        .producer_id = 1, .writer_id = 1, .chunk_id = 1, .credit = &credit};
    struct pfl_trace_buffer *wide = kit_buffer((uint64_t)8 << 20, PFL_FILL_RING_BUFFER);
    uint64_t failed;

    (void)state;
    commit_in_order(wide, 60000, &credit);
    pfl_trace_buffer_patch(wide, &far); /* 60,000 records back */
    assert_int_equal(kit_stats(wide).patches_failed, 0);
    for (unsigned i = 0; i < 1000; i++)
        pfl_trace_buffer_patch(wide, &far);
    failed = kit_stats(wide).patches_failed;
    assert_in_range(failed, 930, 940); /* 4 million records */
    far.chunk_id = 60000 - 32;         /* near: always found */
    pfl_trace_buffer_patch(wide, &far);
    assert_int_equal(kit_stats(wide).patches_failed, failed);
    pfl_trace_buffer_free(wide);
}

/* One credit, whatever the number of buffers, of sessions and of writers. */
static void a_peer_searches_no_more_in_many_buffers_than_in_one(void **state)
{
    struct pfl_trace_buffer_credit credit = {0};
    struct pfl_trace_buffer_credit other = {0};
    struct pfl_trace_buffer_patches far = {
        .producer_id = 1, .writer_id = 1, .chunk_id = 1, .credit = &credit};
    struct pfl_trace_buffer *wide[8];
    uint64_t failed = 0;

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        wide[i] = kit_buffer((uint64_t)4 << 20, PFL_FILL_RING_BUFFER);
        commit_in_order(wide[i], 40000, &credit);
    }
    for (size_t i = 0; i < 8; i++) {
        for (unsigned j = 0; j < 100; j++)
            pfl_trace_buffer_patch(wide[i], &far);
        failed += kit_stats(wide[i]).patches_failed;
    }
    assert_in_range(failed, 695, 705); /* 4 million records for all of them */
    failed = kit_stats(wide[7]).patches_failed;
    far.credit = &other; /* nobody uses up another one's */
    pfl_trace_buffer_patch(wide[7], &far);
    assert_int_equal(kit_stats(wide[7]).patches_failed, failed);
    for (size_t i = 0; i < 8; i++)
        pfl_trace_buffer_free(wide[i]);
}

/* What a writer that is fast leaves behind in one CommitData: as many chunks as its memory has,
 * each with a patch, of a user who did nothing before. */
static void a_whole_memory_of_patched_chunks_is_searched(void **state)
{
    struct pfl_trace_buffer_credit credit = {0};
    struct pfl_trace_buffer *wide = kit_buffer((uint64_t)8 << 20, PFL_FILL_RING_BUFFER);

    (void)state;
    commit_in_order(wide, 2048, &credit);
    for (uint32_t id = 1; id < 2048; id++)
        pfl_trace_buffer_patch(
            wide, &(struct pfl_trace_buffer_patches){
                      .producer_id = 1, .writer_id = 1, .chunk_id = id, .credit = &credit});
    assert_int_equal(kit_stats(wide).patches_failed, 0);
    pfl_trace_buffer_free(wide);
}

static size_t count_read(struct pfl_trace_buffer *buffer, char fill)
{
    static struct kit_packet packet;
    size_t count = 0;

    pfl_trace_buffer_begin_read(buffer);
    while (kit_read(buffer, &packet))
        count += packet.data[0] == fill;
    return count;
}

/* Each writer's newest record, 'z', is the oldest in the ring: all others came late. */
static void a_record_stays_while_too_many_come_before_it(void **state)
{
    enum { WRITERS = 64, RECORDS = 4000, RECORD_BYTES = 32 };
    struct pfl_trace_buffer *wide =
        kit_buffer((uint64_t)WRITERS * RECORDS * RECORD_BYTES, PFL_FILL_RING_BUFFER);

    (void)state;
    for (uint32_t i = 0; i < RECORDS; i++)
        for (uint16_t w = 1; w <= WRITERS; w++)
            kit_commit(wide, w, i == 0 ? RECORDS : i - 1, 0, i == 0 ? 'z' : 'a', 1);
    kit_commit(wide, WRITERS + 1, 0, 0, 'n', WRITERS * RECORD_BYTES - 64);
    assert_int_equal(kit_stats(wide).chunks_discarded, 0);
    assert_in_range(kit_stats(wide).chunks_overwritten, 1,
                    16384 + 2 * WRITERS * (PFL_ERASER_FREE_LOOKS + 1));
    for (uint32_t id = 1; id < RECORDS / 2; id++)
        kit_commit(wide, WRITERS + 1, id, 0, 'n', WRITERS * RECORD_BYTES - 64);
    assert_int_equal(kit_stats(wide).chunks_discarded, 0);
    assert_in_range(count_read(wide, 'z'), WRITERS / 2, WRITERS); /* the newest of its writer */
    assert_int_equal(kit_stats(wide).chunks_overwritten + kit_stats(wide).chunks_read,
                     WRITERS * RECORDS + RECORDS / 2); /* and nothing is left, or twice */
    pfl_trace_buffer_free(wide);
}

static void a_chunk_that_finds_no_room_within_reach_is_discarded(void **state)
{
    enum { WRITERS = 40000, RECORDS = 20, RECORD_BYTES = 32 }; /* 1.28 MB of records that stay */
    struct pfl_trace_buffer *wide =
        kit_buffer((uint64_t)WRITERS * RECORDS * RECORD_BYTES, PFL_FILL_RING_BUFFER);

    (void)state;
    for (uint32_t i = 0; i < RECORDS; i++)
        for (uint16_t w = 1; w <= WRITERS; w++)
            kit_commit(wide, w, i == 0 ? RECORDS : i - 1, 0, 'a', 1);
    for (uint32_t i = 0; i < 5; i++) {
        kit_chunk_begin(&c, 1, WRITERS + 1, i);
        kit_chunk_add(&c, 'n', 100);
        c.chunk.credit = NULL;
        pfl_trace_buffer_commit(wide, &c.chunk);
        assert_int_equal(kit_stats(wide).chunks_discarded, 1); /* the next one goes further */
    }
    assert_int_equal(count_read(wide, 'n'), 4);
    pfl_trace_buffer_free(wide);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(the_size_is_rounded_up_to_a_page),
        ROW(sizes_out_of_range_are_refused),
        ROW(a_packet_of_empty_fragments_is_a_packet_and_an_empty_fragment_is_none),
        ROW(a_complete_chunk_takes_its_fragments_and_an_incomplete_one_all_its_payload),
        ROW(an_unread_chunk_that_is_overwritten_is_reported),
        ROW(a_chunk_that_was_read_is_overwritten_without_a_loss),
        ROW(a_record_that_does_not_fit_the_tail_wraps_and_leaves_padding),
        ROW(a_packet_in_the_way_takes_its_later_fragments_with_it),
        ROW(discard_stops_for_good_at_the_first_record_that_does_not_fit),
        ROW(discard_may_fill_to_the_last_byte),
        ROW(an_incomplete_chunk_gives_all_but_its_last_fragment_and_is_not_passed),
        ROW(a_chunk_scraped_and_then_committed_gives_each_packet_once),
        ROW(a_scraped_chunk_that_was_read_moves_to_the_write_cursor),
        ROW(in_a_discard_buffer_it_is_rewritten_in_place),
        ROW(a_chunk_committed_again_may_not_shrink_grow_past_its_place_or_lose_flags),
        ROW(a_complete_chunk_that_was_read_is_discarded_when_it_comes_again),
        ROW(a_peer_cannot_make_us_search_without_end),
        ROW(a_peer_searches_no_more_in_many_buffers_than_in_one),
        ROW(a_whole_memory_of_patched_chunks_is_searched),
        ROW(a_record_stays_while_too_many_come_before_it),
        ROW(a_chunk_that_finds_no_room_within_reach_is_discarded),
        ROW(a_scraped_chunk_that_was_overwritten_is_stored_again_with_what_is_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
