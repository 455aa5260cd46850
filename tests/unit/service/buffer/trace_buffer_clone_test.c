/* SPDX-License-Identifier: Apache-2.0 */
/* Clones and transfers of a trace buffer: what they count, keep and cost. What they yield is
 * compared with the model in trace_buffer_model_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

static struct pfl_trace_buffer *filled_buffer(void)
{
    struct pfl_trace_buffer *buffer = kit_buffer(65536, PFL_FILL_RING_BUFFER);

    for (uint32_t i = 0; i < 40; i++)
        kit_commit(buffer, .writer = (uint16_t)(1 + i % 4), .chunk_id = i / 4,
                   .fill = (char)('a' + i % 26), .len = 100);
    return buffer;
}

static void a_clone_goes_on_where_the_source_was_read(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer *clone;

    (void)state;
    pfl_trace_buffer_begin_read(source);
    kit_expect(source, 'a', 100, 0);
    kit_expect(source, 'b', 100, 0);
    clone = kit_clone(source);
    pfl_trace_buffer_begin_read(clone);
    kit_expect(clone, 'c', 100, 0);
    kit_expect(source, 'c', 100, 0);
    kit_expect(clone, 'd', 100, 0);
    pfl_trace_buffer_free(source);
    kit_expect(clone, 'e', 100, 0);
    pfl_trace_buffer_free(clone);
}

static void a_clone_keeps_the_counts_but_those_of_reading(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer_stats before;
    struct pfl_trace_buffer_stats after;
    struct pfl_trace_buffer *clone;

    (void)state;
    pfl_trace_buffer_begin_read(source);
    kit_expect(source, 'a', 100, 0);
    before = kit_stats(source);
    assert_int_not_equal(before.chunks_read, 0);
    clone = kit_clone(source);
    after = kit_stats(clone);
    before.bytes_read = 0;
    before.chunks_read = 0;
    before.readaheads_succeeded = 0;
    before.readaheads_failed = 0;
    assert_memory_equal(&before, &after, sizeof(before));
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_free(clone);
}

static void a_clone_takes_no_commits(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer *clone = kit_clone(source);

    (void)state;
    kit_commit(clone, .writer = 9, .chunk_id = 0, .fill = 'z', .len = 10);
    assert_int_equal(kit_stats(clone).chunks_written, kit_stats(source).chunks_written);
    assert_int_equal(kit_stats(clone).chunks_discarded, 1);
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_free(clone);
}

static void a_taken_buffer_leaves_an_empty_one_that_is_still_written_to(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer *taken;

    (void)state;
    assert_true(pfl_trace_buffer_has_data(source));
    assert_int_equal(pfl_trace_buffer_take(source, &taken), 0);
    assert_false(pfl_trace_buffer_has_data(source));
    assert_int_equal(kit_stats(source).chunks_written, 0);
    assert_int_equal(kit_stats(source).buffer_size, kit_stats(taken).buffer_size);
    kit_commit(source, .writer = 1, .chunk_id = 10, .fill = 'n', .len = 7);
    pfl_trace_buffer_begin_read(source);
    kit_expect(source, 'n', 7, 0);
    kit_expect_end(source);
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_begin_read(taken);
    for (uint32_t i = 0; i < 40; i++)
        kit_expect(taken, (char)('a' + i % 26), 100, 0);
    kit_expect_end(taken);
    pfl_trace_buffer_free(taken);
}

static void a_reader_of_a_taken_buffer_comes_to_its_end(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer *taken;

    (void)state;
    pfl_trace_buffer_begin_read(source);
    kit_expect(source, 'a', 100, 0);
    assert_int_equal(pfl_trace_buffer_take(source, &taken), 0);
    kit_expect_end(source);
    pfl_trace_buffer_begin_read(taken);
    kit_expect(taken, 'b', 100, 0);
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_free(taken);
}

static void many_sequences_and_forgotten_ones_are_cloned_too(void **state)
{
    struct pfl_trace_buffer *source = kit_buffer(16384, PFL_FILL_RING_BUFFER);
    struct pfl_trace_buffer *clone;
    static struct kit_packet a;
    static struct kit_packet b;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++)
        kit_commit(source, .writer = (uint16_t)(1 + i), .chunk_id = 0, .fill = 'q', .len = 60);
    clone = kit_clone(source);
    pfl_trace_buffer_begin_read(source);
    pfl_trace_buffer_begin_read(clone);
    while (kit_read(source, &a)) {
        assert_true(kit_read(clone, &b));
        assert_int_equal(a.writer_id, b.writer_id);
    }
    kit_expect_end(clone);
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_free(clone);
}

#define TURN_BYTES 4096u

/* Turns that it took. */
static unsigned make_whole(struct pfl_trace_buffer *clone)
{
    unsigned turns = 0;

    for (; !pfl_trace_buffer_is_whole(clone); turns++) {
        uint32_t budget_bytes = TURN_BYTES;

        pfl_trace_buffer_copy_more(clone, &budget_bytes);
    }
    return turns;
}

#define LEN       1010u
#define OUTER     1040u /* of a record of that: some lie on two pages */
#define PER_ROUND (65536u / OUTER)
#define ROUND     200u /* chunks that go more than once round a ring of 64 KiB */

#define WRITERS 16u /* so that the next record of a sequence lies on another page */

static void commit_next(struct pfl_trace_buffer *buffer, uint32_t at, char fill)
{
    kit_commit(buffer, .writer = (uint16_t)(1 + at % WRITERS), .chunk_id = at / WRITERS,
               .fill = fill, .len = LEN);
}

static struct pfl_trace_buffer *full_buffer(char fill)
{
    struct pfl_trace_buffer *buffer = kit_buffer(65536, PFL_FILL_RING_BUFFER);

    for (uint32_t i = 0; i < ROUND; i++)
        commit_next(buffer, i, fill);
    return buffer;
}

static struct pfl_trace_buffer *begin_clone(struct pfl_trace_buffer *source)
{
    struct pfl_trace_buffer *clone;

    assert_int_equal(pfl_trace_buffer_clone(source, &clone), 0);
    assert_false(pfl_trace_buffer_is_whole(clone));
    return clone;
}

static void expect_all(struct pfl_trace_buffer *buffer, char fill)
{
    static struct kit_packet packet;
    unsigned packets = 0;
    unsigned losses = 0;

    pfl_trace_buffer_begin_read(buffer);
    for (; kit_read(buffer, &packet); packets++) {
        for (size_t i = 0; i < packet.bytes; i++)
            assert_int_equal(packet.data[i], fill);
        losses += packet.loss_reasons != 0;
    }
    assert_int_equal(losses, WRITERS);
    assert_true(packets >= PER_ROUND);
    pfl_trace_buffer_free(buffer);
}

static void a_clone_in_turns_is_what_was_there_when_it_began(void **state)
{
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone = begin_clone(source);
    uint32_t budget_bytes = TURN_BYTES;

    (void)state;
    pfl_trace_buffer_copy_more(clone, &budget_bytes);
    assert_int_equal(budget_bytes, 0);
    for (uint32_t i = 0; i < ROUND; i++)
        commit_next(source, ROUND + i, 'b');
    (void)make_whole(clone);
    expect_all(clone, 'a');
    expect_all(source, 'b');
}

/* Records that end elsewhere than those that they overwrite: what is left of these is padding. */
static void a_clone_has_nothing_of_what_is_written_in_other_sizes(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 100; seed++) {
        struct pfl_trace_buffer *source = full_buffer('a');
        struct pfl_trace_buffer *clone = begin_clone(source);

        for (uint32_t i = 0; i < 4 * ROUND; i++)
            kit_commit(source, .writer = WRITERS + 1, .chunk_id = i, .fill = 'b',
                       .len = 20 + (i * 37 + seed * 61) % 700);
        (void)make_whole(clone);
        expect_all(clone, 'a');
        pfl_trace_buffer_free(source);
    }
}

static void a_source_that_nobody_writes_to_takes_a_turn_for_each_part(void **state)
{
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone = begin_clone(source);

    (void)state;
    assert_int_equal(make_whole(clone), 65536 / TURN_BYTES);
    expect_all(source, 'a');
    expect_all(clone, 'a');
}

static void a_source_that_is_read_meanwhile_is_cloned_unread(void **state)
{
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone;

    (void)state;
    clone = begin_clone(source);
    expect_all(source, 'a'); /* and goes */
    (void)make_whole(clone);
    expect_all(clone, 'a');
}

static void a_source_that_is_taken_or_freed_leaves_its_bytes_to_the_clone(void **state)
{
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone = begin_clone(source);
    struct pfl_trace_buffer *taken;
    uint32_t budget_bytes = TURN_BYTES;

    (void)state;
    assert_int_equal(pfl_trace_buffer_take(source, &taken), 0);
    assert_false(pfl_trace_buffer_can_clone(taken));
    assert_true(pfl_trace_buffer_can_clone(source));
    commit_next(source, ROUND, 'b');
    pfl_trace_buffer_free(source);
    pfl_trace_buffer_begin_read(taken);
    kit_expect(taken, 'a', LEN, 1 | 64);
    pfl_trace_buffer_copy_more(clone, &budget_bytes);
    pfl_trace_buffer_free(taken);
    (void)make_whole(clone);
    expect_all(clone, 'a');
}

static void a_buffer_is_cloned_once_at_a_time(void **state)
{
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone = begin_clone(source);
    struct pfl_trace_buffer *second;

    (void)state;
    assert_false(pfl_trace_buffer_can_clone(source));
    assert_false(pfl_trace_buffer_can_clone(clone));
    assert_int_equal(pfl_trace_buffer_clone(source, &second), PFL_ESTATE);
    pfl_trace_buffer_free(clone); /* its consumer left */
    assert_true(pfl_trace_buffer_can_clone(source));
    clone = begin_clone(source);
    (void)make_whole(clone);
    assert_true(pfl_trace_buffer_can_clone(source));
    assert_true(pfl_trace_buffer_can_clone(clone));
    expect_all(clone, 'a');
    expect_all(source, 'a');
}

static void a_clone_that_is_not_whole_takes_no_patches(void **state)
{
    static const struct pfl_trace_buffer_patch patch = {.offset_untrusted = 4, .data = {1, 2, 3}};
    struct pfl_trace_buffer *source = full_buffer('a');
    struct pfl_trace_buffer *clone = begin_clone(source);
    const struct pfl_trace_buffer_patches batch = {.producer_id = 1,
                                                   .writer_id = 1 + (ROUND - 1) % WRITERS,
                                                   .chunk_id = (ROUND - 1) / WRITERS,
                                                   .patches = &patch,
                                                   .patches_len = 1};

    (void)state;
    pfl_trace_buffer_patch(clone, &batch);
    assert_int_equal(kit_stats(clone).patches_failed, 1);
    pfl_trace_buffer_patch(source, &batch);
    assert_int_equal(kit_stats(source).patches_succeeded, 1);
    (void)make_whole(clone);
    pfl_trace_buffer_free(source);
    expect_all(clone, 'a');
}

static void an_empty_buffer_is_cloned_at_once(void **state)
{
    struct pfl_trace_buffer *source = kit_buffer(65536, PFL_FILL_RING_BUFFER);
    struct pfl_trace_buffer *clone;

    (void)state;
    assert_int_equal(pfl_trace_buffer_clone(source, &clone), 0);
    assert_true(pfl_trace_buffer_is_whole(clone));
    kit_commit(source, .writer = 1, .chunk_id = 0, .fill = 'b', .len = 10);
    pfl_trace_buffer_begin_read(clone);
    kit_expect_end(clone);
    pfl_trace_buffer_free(clone);
    pfl_trace_buffer_free(source);
}

/* What grows meanwhile is not the clone's, on the page that it has in common with it, either. */
static void a_clone_ends_where_its_source_ended(void **state)
{
    struct pfl_trace_buffer *source = filled_buffer();
    struct pfl_trace_buffer *clone = begin_clone(source);

    (void)state;
    for (uint32_t i = 10; i < 100; i++)
        kit_commit(source, .writer = 1, .chunk_id = i, .fill = 'z', .len = 100);
    (void)make_whole(clone);
    pfl_trace_buffer_begin_read(clone);
    for (uint32_t i = 0; i < 40; i++)
        kit_expect(clone, (char)('a' + i % 26), 100, 0);
    kit_expect_end(clone);
    pfl_trace_buffer_free(clone);
    pfl_trace_buffer_free(source);
}

static int clone_and_take(void *arg)
{
    struct pfl_trace_buffer *source = arg;
    struct pfl_trace_buffer *clone;
    struct pfl_trace_buffer *taken;
    uint32_t budget_bytes = UINT32_MAX;
    int rc = pfl_trace_buffer_clone(source, &clone);

    if (rc != 0)
        return rc;
    pfl_trace_buffer_copy_more(clone, &budget_bytes);
    rc = pfl_trace_buffer_take(clone, &taken);
    pfl_trace_buffer_free(clone);
    if (rc == 0)
        pfl_trace_buffer_free(taken);
    return rc;
}

struct sweep_scope {
    uint32_t chunks;
};

static int fill_clone_and_take(void *arg)
{
    const struct pfl_trace_buffer_conf conf = {.size_bytes = 16384};
    const struct sweep_scope *scope = arg;
    struct pfl_trace_buffer *source;
    int rc = pfl_trace_buffer_new(&conf, &source);

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < scope->chunks; i++)
        kit_commit(source, .writer = (uint16_t)(1 + i), .chunk_id = 0, .fill = 'q', .len = 60);
    rc = clone_and_take(source);
    pfl_trace_buffer_free(source);
    return rc;
}

static void every_failing_allocation_leaves_the_source_whole(void **state)
{
    struct sweep_scope scope = {.chunks = 100};

    (void)state;
    pfl_sweep(fill_clone_and_take, &scope, true);
}

static int assert_no_leak(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clone_goes_on_where_the_source_was_read),
        cmocka_unit_test(a_clone_keeps_the_counts_but_those_of_reading),
        cmocka_unit_test(a_clone_takes_no_commits),
        cmocka_unit_test(a_taken_buffer_leaves_an_empty_one_that_is_still_written_to),
        cmocka_unit_test(a_reader_of_a_taken_buffer_comes_to_its_end),
        cmocka_unit_test(many_sequences_and_forgotten_ones_are_cloned_too),
        cmocka_unit_test(a_clone_in_turns_is_what_was_there_when_it_began),
        cmocka_unit_test(a_clone_has_nothing_of_what_is_written_in_other_sizes),
        cmocka_unit_test(a_source_that_nobody_writes_to_takes_a_turn_for_each_part),
        cmocka_unit_test(a_source_that_is_read_meanwhile_is_cloned_unread),
        cmocka_unit_test(a_source_that_is_taken_or_freed_leaves_its_bytes_to_the_clone),
        cmocka_unit_test(a_buffer_is_cloned_once_at_a_time),
        cmocka_unit_test(a_clone_that_is_not_whole_takes_no_patches),
        cmocka_unit_test(an_empty_buffer_is_cloned_at_once),
        cmocka_unit_test(a_clone_ends_where_its_source_ended),
        cmocka_unit_test(every_failing_allocation_leaves_the_source_whole),
    };

    return cmocka_run_group_tests(tests, NULL, assert_no_leak);
}
