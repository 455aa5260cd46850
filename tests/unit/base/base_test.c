/* SPDX-License-Identifier: Apache-2.0 */
/* Counted memory, error words, lists, clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

static uint64_t live_bytes(void)
{
    struct pfl_mem_stats stats;

    pfl_mem_stats_get(&stats);
    return stats.live_bytes;
}

static void live_bytes_are_exact(void **state)
{
    char *a = pfl_mem_alloc(100);
    char *b = pfl_mem_strndup("hello world", 5);
    char *c;

    (void)state;
    assert_string_equal(b, "hello");
    assert_int_equal(live_bytes(), 106);
    memset(a, 'a', 100);
    c = pfl_mem_realloc(a, 1000);
    assert_int_equal(c[99], 'a');
    assert_int_equal(live_bytes(), 1006);
    pfl_mem_free(b);
    pfl_mem_free(c);
    pfl_mem_free(NULL);
    pfl_sweep_assert_no_leak();
}

static void zeroed_memory_is_zero_and_aligned(void **state)
{
    uint64_t *p = pfl_mem_calloc(10, sizeof(*p));

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal((uintptr_t)p % 16, 0);
    pfl_mem_free(p);
}

static void sizes_that_overflow_are_out_of_memory(void **state)
{
    (void)state;
    assert_null(pfl_mem_alloc(SIZE_MAX));
    assert_null(pfl_mem_zalloc(SIZE_MAX - 8));
    assert_null(pfl_mem_calloc(SIZE_MAX / 2, 3));
    assert_null(pfl_mem_strndup("", SIZE_MAX));
    pfl_sweep_assert_no_leak();
}

static void only_the_chosen_allocation_fails(void **state)
{
    void *a;
    void *c;
    char *text = pfl_mem_strdup("kept");

    (void)state;
    pfl_mem_fail_at(2);
    a = pfl_mem_alloc(1);
    assert_non_null(a);
    assert_null(pfl_mem_realloc(text, 100));
    assert_string_equal(text, "kept");
    c = pfl_mem_memdup("x", 1);
    assert_non_null(c);
    pfl_mem_fail_at(0);
    pfl_mem_free(a);
    pfl_mem_free(c);
    pfl_mem_free(text);
    pfl_sweep_assert_no_leak();
}

static void empty_blocks_are_unique(void **state)
{
    void *a = pfl_mem_alloc(0);
    void *b = pfl_mem_memdup(NULL, 0);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    pfl_mem_free(a);
    pfl_mem_free(b);
}

static void every_error_has_words(void **state)
{
    (void)state;
    for (int err = 0; err >= PFL_ESTRANGER; err--)
        assert_string_not_equal(pfl_err_str(err), "unknown error");
    assert_string_equal(pfl_err_str(1), "unknown error");
    assert_string_equal(pfl_err_str(PFL_ESTRANGER - 1), "unknown error");
    assert_string_equal(pfl_err_str(INT32_MIN), "unknown error");
    assert_string_equal(pfl_err_str(INT32_MAX), "unknown error");
}

struct item {
    int value;
    struct pfl_list node;
};

static int sum_in_order(struct pfl_list *head)
{
    struct pfl_list *it;
    int sum = 0;

    PFL_LIST_EACH (it, head)
        sum = sum * 10 + PFL_CONTAINER_OF(it, struct item, node)->value;
    return sum;
}

static void list_keeps_order_and_forgets_what_is_removed(void **state)
{
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct pfl_list head;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)state;
    pfl_list_init(&head);
    assert_true(pfl_list_is_empty(&head));
    pfl_list_remove(&items[0].node); /* in no list: legal */
    for (int i = 0; i < 3; i++)
        pfl_list_append(&head, &items[i].node);
    assert_int_equal(sum_in_order(&head), 123);
    pfl_list_remove(&items[1].node);
    pfl_list_remove(&items[1].node);
    assert_int_equal(sum_in_order(&head), 13);
    pfl_list_append(&head, &items[1].node);
    assert_int_equal(sum_in_order(&head), 132);
    PFL_LIST_EACH_SAFE (it, tmp, &head)
        pfl_list_remove(it);
    assert_true(pfl_list_is_empty(&head));
}

static void clocks_go_forward(void **state)
{
    static const enum pfl_clock_id ids[] = {PFL_CLOCK_MONOTONIC, PFL_CLOCK_MONOTONIC_COARSE,
                                            PFL_CLOCK_MONOTONIC_RAW, PFL_CLOCK_BOOTTIME};

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        uint64_t a = pfl_clock_now_ns(ids[i]);
        uint64_t b = pfl_clock_now_ns(ids[i]);

        assert_true(a > 0);
        assert_true(b >= a);
    }
    assert_true(pfl_clock_now_ns(PFL_CLOCK_REALTIME) > 1600000000ull * 1000000000ull);
    assert_true(pfl_clock_now_ns(PFL_CLOCK_REALTIME_COARSE) > 1600000000ull * 1000000000ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_are_exact),
        cmocka_unit_test(zeroed_memory_is_zero_and_aligned),
        cmocka_unit_test(sizes_that_overflow_are_out_of_memory),
        cmocka_unit_test(only_the_chosen_allocation_fails),
        cmocka_unit_test(empty_blocks_are_unique),
        cmocka_unit_test(every_error_has_words),
        cmocka_unit_test(list_keeps_order_and_forgets_what_is_removed),
        cmocka_unit_test(clocks_go_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
