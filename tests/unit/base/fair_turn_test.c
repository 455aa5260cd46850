/* SPDX-License-Identifier: Apache-2.0 */
/* A turn of the loop by user: a part of it, and each producer in turn. */
#include "base/fair_turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HOG       7u
#define OTHER     8u
#define PRODUCERS 100u
#define COST_NS   (PFL_FAIR_TURN_NS / 10)

static struct pfl_fair_turn turns;
static uint64_t rounds[PRODUCERS];
static unsigned served[PRODUCERS];

static int reset(void **state)
{
    (void)state;
    turns = (struct pfl_fair_turn){0};
    for (size_t i = 0; i < PRODUCERS; i++) {
        rounds[i] = 0;
        served[i] = 0;
    }
    return 0;
}

/* All of `who` are ready, always in the same order; how many were served. */
static unsigned take_turn(uint64_t who, uint64_t cost_ns)
{
    unsigned count = 0;

    for (size_t i = 0; i < PRODUCERS; i++) {
        if (!pfl_fair_turn_may(&turns, who, &rounds[i]))
            continue;
        pfl_fair_turn_take(&turns, who, cost_ns);
        served[i]++;
        count++;
    }
    return count;
}

static void while_nobody_takes_his_part_all_are_served_at_each_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, PFL_FAIR_TURN_NS / PRODUCERS), PRODUCERS);
        pfl_fair_turn_end(&turns);
    }
}

static void a_user_takes_his_part_and_others_theirs(void **state)
{
    uint64_t round = 0;

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, COST_NS), 10);
        assert_true(pfl_fair_turn_may(&turns, OTHER, &round));
        pfl_fair_turn_take(&turns, OTHER, COST_NS);
        pfl_fair_turn_end(&turns);
    }
}

static void a_part_may_be_smaller(void **state)
{
    (void)state;
    turns.part_ns = 2 * COST_NS;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, COST_NS), 2);
        pfl_fair_turn_end(&turns);
    }
}

static void those_left_out_come_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PRODUCERS / 10; i++) {
        assert_int_equal(take_turn(HOG, COST_NS), 10);
        pfl_fair_turn_end(&turns);
    }
    for (size_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(served[i], 1);
    assert_int_equal(take_turn(HOG, COST_NS), 10);
    assert_int_equal(served[0], 2);
}

static void one_is_served_once_in_a_turn(void **state)
{
    uint64_t round = 0;

    (void)state;
    assert_true(pfl_fair_turn_may(&turns, HOG, &round));
    assert_false(pfl_fair_turn_may(&turns, HOG, &round));
    pfl_fair_turn_end(&turns);
    assert_true(pfl_fair_turn_may(&turns, HOG, &round));
}

static void who_was_forgotten_begins_again(void **state)
{
    uint64_t round = 0;
    uint64_t others[2 * PFL_FAIR_TURN_USERS] = {0};

    (void)state;
    assert_true(pfl_fair_turn_may(&turns, HOG, &round));
    pfl_fair_turn_end(&turns);
    for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++) {
        assert_true(pfl_fair_turn_may(&turns, 100 + i, &others[i]));
        pfl_fair_turn_end(&turns);
    }
    assert_true(pfl_fair_turn_may(&turns, HOG, &round));
}

static void more_users_than_are_told_apart_share_and_go_on(void **state)
{
    uint64_t others[2 * PFL_FAIR_TURN_USERS] = {0};
    unsigned count = 0;

    (void)state;
    for (unsigned turn = 0; turn < 10; turn++) {
        for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++)
            count += pfl_fair_turn_may(&turns, 100 + i, &others[i]);
        pfl_fair_turn_end(&turns);
    }
    assert_true(count >= 10 * PFL_FAIR_TURN_USERS);
    for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++)
        assert_int_not_equal(others[i], 0);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(while_nobody_takes_his_part_all_are_served_at_each_turn),
        TEST(a_user_takes_his_part_and_others_theirs),
        TEST(a_part_may_be_smaller),
        TEST(those_left_out_come_first),
        TEST(one_is_served_once_in_a_turn),
        TEST(who_was_forgotten_begins_again),
        TEST(more_users_than_are_told_apart_share_and_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
