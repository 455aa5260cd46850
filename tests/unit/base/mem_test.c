/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, overflow, and failure on demand. */
#include "base/mem.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct pfl_mem_stats stats_now(void)
{
    struct pfl_mem_stats s;

    pfl_mem_stats_get(&s);
    return s;
}

static void live_bytes_and_blocks_are_exact(void **state)
{
    void *a, *b;

    (void)state;
    a = pfl_mem_alloc(100);
    b = pfl_mem_zalloc(28);
    assert_int_equal(stats_now().live_blocks, 2);
    assert_int_equal(stats_now().live_bytes, 128);
    memset(a, 'a', 100);
    a = pfl_mem_realloc(a, 1000);
    assert_non_null(a);
    assert_int_equal(((char *)a)[99], 'a');
    assert_int_equal(stats_now().live_bytes, 1028);
    pfl_mem_free(a);
    pfl_mem_free(b);
    pfl_mem_free(NULL);
    assert_int_equal(stats_now().live_blocks, 0);
    assert_int_equal(stats_now().live_bytes, 0);
}

static void sizes_that_overflow_give_nothing(void **state)
{
    (void)state;
    assert_null(pfl_mem_calloc(SIZE_MAX / 2, 3));
    assert_null(pfl_mem_alloc(SIZE_MAX - 3));
    assert_null(pfl_mem_zalloc(SIZE_MAX));
    assert_null(pfl_mem_strndup("", SIZE_MAX));
    assert_int_equal(stats_now().live_blocks, 0);
}

static void only_the_nth_allocation_fails_and_a_failed_realloc_keeps_the_block(void **state)
{
    char *a, *b;

    (void)state;
    pfl_mem_fail_at(2);
    a = pfl_mem_strdup("kept");
    b = pfl_mem_realloc(a, 4000);
    assert_non_null(a);
    assert_null(b);
    assert_string_equal(a, "kept");
    b = pfl_mem_realloc(a, 4000);
    assert_non_null(b);
    assert_string_equal(b, "kept");
    assert_int_equal(stats_now().allocations, 3);
    pfl_mem_fail_at(0);
    pfl_mem_free(b);
}

static void copies_are_copies_and_end_where_they_should(void **state)
{
    static const uint8_t bytes[] = {1, 0, 2};
    char *str = pfl_mem_strndup("table", 3);
    uint8_t *dup = pfl_mem_memdup(bytes, sizeof(bytes));
    void *nothing = pfl_mem_memdup(NULL, 0);
    void *empty = pfl_mem_alloc(0);

    (void)state;
    assert_string_equal(str, "tab");
    assert_memory_equal(dup, bytes, sizeof(bytes));
    assert_non_null(nothing);
    assert_ptr_not_equal(nothing, empty);
    pfl_mem_free(empty);
    pfl_mem_free(str);
    pfl_mem_free(dup);
    pfl_mem_free(nothing);
}

static void memory_asked_for_as_zero_is_zero_and_aligned(void **state)
{
    static const uint8_t zeros[512];
    uint8_t *a = pfl_mem_calloc(8, 64);

    (void)state;
    assert_memory_equal(a, zeros, sizeof(zeros));
    assert_int_equal((uintptr_t)a % 16, 0);
    pfl_mem_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_and_blocks_are_exact),
        cmocka_unit_test(sizes_that_overflow_give_nothing),
        cmocka_unit_test(only_the_nth_allocation_fails_and_a_failed_realloc_keeps_the_block),
        cmocka_unit_test(copies_are_copies_and_end_where_they_should),
        cmocka_unit_test(memory_asked_for_as_zero_is_zero_and_aligned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
