/* SPDX-License-Identifier: Apache-2.0 */
/* Clones and transfers of a trace buffer: what they count, keep and cost. What they yield is
 * compared with the model in trace_buffer_model_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

static struct pfl_trace_buffer *clone_of(const struct pfl_trace_buffer *source)
{
    struct pfl_trace_buffer *clone;

    assert_int_equal(pfl_trace_buffer_clone(source, &clone), 0);
    return clone;
}

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
    clone = clone_of(source);
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
    clone = clone_of(source);
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
    struct pfl_trace_buffer *clone = clone_of(source);

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
    clone = clone_of(source);
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

static int clone_and_take(void *arg)
{
    struct pfl_trace_buffer *source = arg;
    struct pfl_trace_buffer *clone;
    struct pfl_trace_buffer *taken;
    int rc = pfl_trace_buffer_clone(source, &clone);

    if (rc != 0)
        return rc;
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
        cmocka_unit_test(every_failing_allocation_leaves_the_source_whole),
    };

    return cmocka_run_group_tests(tests, NULL, assert_no_leak);
}
