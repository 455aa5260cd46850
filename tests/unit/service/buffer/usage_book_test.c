/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of forgotten writers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/buffer/usage_book.h"
#include "tests/support/sweep.h"

static struct pfl_usage_book book;

static int teardown(void **state)
{
    (void)state;
    pfl_usage_book_fini(&book);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void put(uint32_t key)
{
    const struct pfl_trace_buffer_usage usage = {.sums = {key}, .counts = {1}};

    pfl_usage_book_put(&book, key, &usage);
}

static bool take(struct pfl_usage_book *from, uint32_t key)
{
    struct pfl_trace_buffer_usage usage;

    if (!pfl_usage_book_take(from, key, &usage))
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

static void writers_past_the_limit_are_not_remembered(void **state)
{
    (void)state;
    for (uint32_t key = 0; key < PFL_USAGE_BOOK_MAX + 10; key++)
        put(key);
    assert_int_equal(book.len, PFL_USAGE_BOOK_MAX);
    assert_false(take(&book, PFL_USAGE_BOOK_MAX));
    assert_true(take(&book, PFL_USAGE_BOOK_MAX - 1));
    put(PFL_USAGE_BOOK_MAX);
    assert_true(take(&book, PFL_USAGE_BOOK_MAX));
}

static int copy_a_book(void *user)
{
    struct pfl_usage_book copy = {0};
    int rc = pfl_usage_book_copy(&copy, &book);

    (void)user;
    for (uint32_t key = 0; rc == 0 && key < 600; key++)
        assert_true(take(&copy, key));
    pfl_usage_book_fini(&copy);
    return rc;
}

static int fill_a_book(void *user)
{
    (void)user;
    for (uint32_t key = 0; key < 600; key++)
        put(key);
    pfl_usage_book_fini(&book);
    return 0;
}

static void without_memory_a_writer_is_not_remembered_and_nothing_else_happens(void **state)
{
    (void)state;
    for (uint32_t key = 0; key < 600; key++)
        put(key);
    pfl_sweep(copy_a_book, NULL, false);
    pfl_usage_book_fini(&book);
    pfl_sweep(fill_a_book, NULL, true);
}

#define ROW(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(what_is_put_is_taken_once),
        ROW(writers_past_the_limit_are_not_remembered),
        ROW(without_memory_a_writer_is_not_remembered_and_nothing_else_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
