/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of forgotten writers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/buffer/sequence_table.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

static struct pfl_retired_writer_stats book;

static int teardown(void **state)
{
    (void)state;
    pfl_retired_writer_stats_fini(&book);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void put(uint32_t key)
{
    const struct pfl_trace_buffer_source source = {.who = 7,
                                                   .usage = {.sums = {key}, .counts = {1}}};

    pfl_retired_writer_stats_put(&book, key, &source);
}

static bool take(struct pfl_retired_writer_stats *from, uint32_t key)
{
    struct pfl_trace_buffer_usage usage;

    if (!pfl_retired_writer_stats_take(from, key, &usage))
        return false;
    assert_int_equal(usage.sums[0], key);
    assert_int_equal(usage.counts[0], 1);
    return true;
}

static void what_is_put_is_taken_once(void **state)
{
    (void)state;
    assert_false(take(&book, 7));
    for (uint32_t key = 0; key < 5000; key++)
        put(key * 65537u);
    for (uint32_t key = 0; key < 5000; key += 3)
        assert_true(take(&book, key * 65537u));
    for (uint32_t key = 0; key < 5000; key++)
        assert_int_equal(take(&book, key * 65537u), key % 3 != 0);
    assert_int_equal(book.len, 0);
}

static void what_is_remembered_is_charged_to_the_user_whose_writer_needs_room(void **state)
{
    struct pfl_shares shares = {.max = 1u << 20, .owner = UINT64_MAX};

    (void)state;
    book.charged = &shares;
    for (uint32_t key = 0; key < PFL_RETIRED_WRITER_STATS_MAX; key++)
        put(key);
    assert_in_range(shares.used, 200u << 10, 512u << 10); /* a user has half at most */
    assert_int_equal(pfl_shares_get(&shares, 7), pfl_retired_writer_stats_get_bytes(&book));
    assert_true(book.len < PFL_RETIRED_WRITER_STATS_MAX);
    assert_true(take(&book, 0));
    pfl_retired_writer_stats_fini(&book);
    assert_int_equal(shares.used, 0);
}

static void writers_past_the_limit_are_not_remembered(void **state)
{
    (void)state;
    for (uint32_t key = 0; key < PFL_RETIRED_WRITER_STATS_MAX + 10; key++)
        put(key);
    assert_int_equal(book.len, PFL_RETIRED_WRITER_STATS_MAX);
    assert_false(take(&book, PFL_RETIRED_WRITER_STATS_MAX));
    assert_true(take(&book, PFL_RETIRED_WRITER_STATS_MAX - 1));
    put(PFL_RETIRED_WRITER_STATS_MAX);
    assert_true(take(&book, PFL_RETIRED_WRITER_STATS_MAX));
}

static int copy_a_book(void *user)
{
    struct pfl_retired_writer_stats copy = {0};
    int rc = pfl_retired_writer_stats_copy(&copy, &book);

    (void)user;
    for (uint32_t key = 0; rc == 0 && key < 600; key++)
        assert_true(take(&copy, key));
    pfl_retired_writer_stats_fini(&copy);
    return rc;
}

static int fill_a_book(void *user)
{
    (void)user;
    for (uint32_t key = 0; key < 600; key++)
        put(key);
    pfl_retired_writer_stats_fini(&book);
    return 0;
}

static void without_memory_a_writer_is_not_remembered_and_nothing_else_happens(void **state)
{
    (void)state;
    for (uint32_t key = 0; key < 600; key++)
        put(key);
    pfl_sweep(copy_a_book, NULL, false);
    pfl_retired_writer_stats_fini(&book);
    pfl_sweep(fill_a_book, NULL, true);
}

#define WRITERS (2 * PFL_SEQUENCES_MAX_EMPTY)

static void count_chunks(void *user, const struct pfl_trace_buffer_source *source)
{
    uint32_t *chunks = user;

    assert_in_range(source->writer_id, 1, WRITERS);
    assert_int_equal(chunks[source->writer_id], 0); /* each once */
    for (size_t i = 0; i <= PFL_USAGE_BOUNDS; i++)
        chunks[source->writer_id] += source->usage.counts[i];
}

static void assert_chunks(const struct pfl_trace_buffer *buffer)
{
    uint32_t chunks[WRITERS + 1] = {0};

    pfl_trace_buffer_each_source(buffer, count_chunks, chunks);
    for (uint16_t w = 1; w <= WRITERS; w++)
        assert_int_equal(chunks[w], w == 1 ? 2 : 1);
}

static void what_forgotten_writers_committed_is_reported_also_by_a_clone(void **state)
{
    struct pfl_trace_buffer *buffer = kit_buffer(65536, PFL_FILL_RING_BUFFER);
    struct pfl_trace_buffer *clone;

    (void)state;
    for (uint16_t w = 1; w <= WRITERS; w++) { /* each comes and goes */
        kit_commit(buffer, w, 0, 0, 'a', 10);
        pfl_trace_buffer_begin_read(buffer);
        kit_expect(buffer, 'a', 10, 0);
        kit_expect_end(buffer);
    }
    kit_commit(buffer, 1, 7, 0, 'b', 10); /* one of them comes back */
    assert_chunks(buffer);
    clone = kit_clone(buffer);
    assert_chunks(clone);
    pfl_trace_buffer_free(clone);
    assert_int_equal(pfl_trace_buffer_take(buffer, &clone), 0);
    assert_chunks(clone);
    pfl_trace_buffer_free(clone);
    pfl_trace_buffer_free(buffer);
}

#define ROW(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(what_is_put_is_taken_once),
        ROW(what_is_remembered_is_charged_to_the_user_whose_writer_needs_room),
        ROW(writers_past_the_limit_are_not_remembered),
        ROW(what_forgotten_writers_committed_is_reported_also_by_a_clone),
        ROW(without_memory_a_writer_is_not_remembered_and_nothing_else_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
