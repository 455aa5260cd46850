/* SPDX-License-Identifier: Apache-2.0 */
/* When others run before a commit is read: while they are short, and only where commits are many.
 */
#include "service/port/input_batching.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000u
#define US 1000u

static struct pfl_input_batching gather;
static uint64_t now_ns;

static int reset(void **state)
{
    (void)state;
    gather = (struct pfl_input_batching){0};
    now_ns = 1000000000u * 100u;
    (void)pfl_input_batching_begin(&gather, now_ns);
    return 0;
}

/* Input after `wait_ns`; the other threads then run for `run_ns`. Did it yield? */
static bool get_input(uint64_t wait_ns, uint64_t run_ns)
{
    now_ns += wait_ns;
    if (!pfl_input_batching_begin(&gather, now_ns))
        return false;
    now_ns += run_ns;
    pfl_input_batching_end(&gather, now_ns);
    return true;
}

static void frequent_input_is_gathered(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(get_input(50 * US, 20 * US));
}

static void rare_input_is_read_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_false(get_input(2 * MS, 0));
}

static void others_are_let_in_once_a_turn(void **state)
{
    (void)state;
    assert_true(get_input(50 * US, 20 * US));
    assert_false(get_input(1 * US, 0));
    assert_false(get_input(1 * US, 0));
}

/* How long it does not yield, in ms, up to 200 s. */
static unsigned measure_rest(void)
{
    unsigned halves = 0;

    while (halves < 400000 && !get_input(MS / 2, 3 * MS))
        halves++;
    return halves / 2;
}

static void those_who_keep_the_cpu_are_let_in_ever_more_rarely(void **state)
{
    (void)state;
    assert_true(get_input(MS / 2, 3 * MS));
    assert_in_range(measure_rest(), 9, 11);
    assert_in_range(measure_rest(), 19, 21);
    assert_in_range(measure_rest(), 39, 41);
    for (int i = 0; i < 12; i++)
        (void)measure_rest();
    assert_in_range(measure_rest(), 63990, 64010);
}

static void when_it_went_well_for_as_long_it_begins_anew(void **state)
{
    (void)state;
    assert_true(get_input(MS / 2, 3 * MS));
    (void)measure_rest(); /* and then there is one of 20 ms */
    for (int i = 0; i < 50; i++)
        (void)get_input(MS - 20 * US, 20 * US);
    assert_true(get_input(MS / 2, 3 * MS));
    assert_in_range(measure_rest(), 9, 11);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(frequent_input_is_gathered),
        TEST(rare_input_is_read_at_once),
        TEST(others_are_let_in_once_a_turn),
        TEST(those_who_keep_the_cpu_are_let_in_ever_more_rarely),
        TEST(when_it_went_well_for_as_long_it_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
