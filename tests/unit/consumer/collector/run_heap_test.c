/* SPDX-License-Identifier: Apache-2.0 */
/* The heap beside a search through all: the same first, the same second. */
#include "consumer/collector/run_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define RUNS 37u

static uint64_t times[RUNS]; /* UINT64_MAX: it is over */

static size_t search_first(uint64_t *ret_second_ns)
{
    size_t first = SIZE_MAX;

    *ret_second_ns = UINT64_MAX;
    for (size_t i = 0; i < RUNS; i++)
        if (times[i] != UINT64_MAX && (first == SIZE_MAX || times[i] < times[first]))
            first = i;
    for (size_t i = 0; i < RUNS; i++)
        if (i != first && times[i] < *ret_second_ns)
            *ret_second_ns = times[i];
    return first;
}

/* A few distinct times, so that many are equal. */
static uint64_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 29;
}

static void play(size_t runs, uint32_t seed)
{
    struct pfl_run_heap heap = {0};
    uint64_t second_ns;

    assert_int_equal(pfl_run_heap_init(&heap, runs), 0);
    for (size_t i = 0; i < RUNS; i++) {
        times[i] = i < runs ? draw(&seed) : UINT64_MAX;
        if (i < runs)
            pfl_run_heap_add(&heap, i, times[i]);
    }
    for (size_t first; (first = search_first(&second_ns)) != SIZE_MAX;) {
        assert_int_equal(pfl_run_heap_get_first(&heap), first);
        assert_int_equal(pfl_run_heap_get_second_ns(&heap), second_ns);
        if (draw(&seed) == 0) {
            times[first] = UINT64_MAX;
            pfl_run_heap_remove_first(&heap);
        } else {
            times[first] += draw(&seed);
            pfl_run_heap_move_first(&heap, times[first]);
        }
    }
    assert_int_equal(pfl_run_heap_get_first(&heap), SIZE_MAX);
    pfl_run_heap_fini(&heap);
}

static void first_and_second_are_those_that_a_search_finds(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++)
        play(1 + seed % RUNS, seed);
    pfl_sweep_assert_no_leak();
}

static int make(void *arg)
{
    struct pfl_run_heap heap = {0};
    int rc = pfl_run_heap_init(&heap, RUNS);
    (void)arg;

    pfl_run_heap_fini(&heap);
    return rc;
}

static void out_of_memory_is_reported(void **state)
{
    (void)state;
    pfl_sweep(make, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_and_second_are_those_that_a_search_finds),
        cmocka_unit_test(out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
