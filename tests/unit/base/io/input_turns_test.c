/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of one peer share its part of a turn; others read. */
#include "base/io/input_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io/loop.h"

#define HOG   7u
#define OTHER 8u

static uv_loop_t loop;
static uv_idle_t idle; /* there is always something to do */
static struct pfl_input_turns *turns;
static struct pfl_input_turn hogs[3];
static struct pfl_input_turn other;

static void on_idle(uv_idle_t *handle)
{
    (void)handle;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    assert_int_equal(uv_idle_init(&loop, &idle), 0);
    assert_int_equal(uv_idle_start(&idle, on_idle), 0);
    assert_int_equal(pfl_input_turns_open(&loop, &turns), 0);
    for (int i = 0; i < 3; i++) {
        hogs[i] = (struct pfl_input_turn){.who = 0};
        pfl_input_turn_join(&hogs[i], turns, HOG);
    }
    other = (struct pfl_input_turn){.who = 0};
    pfl_input_turn_join(&other, turns, OTHER);
    return 0;
}

static void leave_all(void)
{
    for (int i = 0; i < 3; i++)
        pfl_input_turn_leave(&hogs[i]);
    pfl_input_turn_leave(&other);
    pfl_input_turn_leave(&other); /* idempotent */
}

static int teardown(void **state)
{
    (void)state;
    pfl_input_turns_close(turns);
    leave_all();
    uv_close((uv_handle_t *)&idle, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void work(uint64_t ns)
{
    uint64_t end_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) + ns;

    while (pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) < end_ns)
        continue;
}

static void read_once(struct pfl_input_turn *t, uint64_t ns)
{
    assert_true(pfl_input_turn_begin(t));
    work(ns);
    pfl_input_turn_end(t);
}

static void a_part_is_for_all_connections_of_one_peer(void **state)
{
    (void)state;
    read_once(&hogs[0], PFL_INPUT_TURN_NS);
    assert_false(pfl_input_turn_begin(&hogs[1]));
    assert_false(pfl_input_turn_begin(&hogs[2]));
    read_once(&other, 0);
}

static void what_exceeds_it_counts_in_the_next_turns(void **state)
{
    (void)state;
    read_once(&hogs[0], 3 * (uint64_t)PFL_INPUT_TURN_NS);
    for (int i = 0; i < 2; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        assert_false(pfl_input_turn_begin(&hogs[1]));
        read_once(&other, 0);
    }
    /* A turn more than it is late by the clock of this machine. */
    for (int i = 0; i < 1000 && !pfl_input_turn_begin(&hogs[1]); i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(hogs[1].conn.state, PFL_FAIR_TURN_IDLE);
}

static void each_piece_counts(void **state)
{
    (void)state;
    assert_true(pfl_input_turn_begin(&hogs[0]));
    for (int i = 0; i < 4; i++) {
        work(PFL_INPUT_TURN_NS / 4);
        pfl_input_turn_end(&hogs[0]);
    }
    assert_false(pfl_input_turn_begin(&hogs[1]));
}

static void without_turns_everybody_reads(void **state)
{
    struct pfl_input_turn free_one = {.who = 0};

    (void)state;
    pfl_input_turn_join(&free_one, NULL, HOG);
    read_once(&free_one, PFL_INPUT_TURN_NS);
    assert_true(pfl_input_turn_begin(&free_one));
    pfl_input_turn_leave(&free_one);
}

static void when_they_are_closed_nobody_waits(void **state)
{
    (void)state;
    read_once(&hogs[0], PFL_INPUT_TURN_NS);
    assert_false(pfl_input_turn_begin(&hogs[1]));
    pfl_input_turns_close(turns);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(pfl_input_turn_begin(&hogs[1])); /* and they are there */
    pfl_input_turn_end(&hogs[1]);
    leave_all();
    assert_int_equal(pfl_input_turns_open(&loop, &turns), 0);
}

/* What reads and what writes are two, and take turns. */
static void who_goes_on_does_so_until_the_part_is_used_up(void **state)
{
    (void)state;
    assert_true(pfl_input_turn_go_on(&hogs[0]));
    assert_true(pfl_input_turn_go_on(&hogs[0]));
    assert_false(pfl_input_turn_begin(&hogs[0]));
    work(PFL_INPUT_TURN_NS);
    pfl_input_turn_end(&hogs[0]);
    assert_false(pfl_input_turn_go_on(&hogs[0]));
    assert_false(pfl_input_turn_go_on(&hogs[1]));
    for (int i = 0; i < 1000 && !pfl_input_turn_go_on(&hogs[1]); i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(pfl_input_turn_go_on(&hogs[1])); /* it came first */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_part_is_for_all_connections_of_one_peer),
        T(what_exceeds_it_counts_in_the_next_turns),
        T(each_piece_counts),
        T(who_goes_on_does_so_until_the_part_is_used_up),
        T(without_turns_everybody_reads),
        T(when_they_are_closed_nobody_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
