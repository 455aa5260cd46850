/* SPDX-License-Identifier: Apache-2.0 */
/* A user's part of a turn of the loop, and the queue of its connections. */
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
static struct pfl_fair_turn_conn conns[PRODUCERS];
static unsigned served[PRODUCERS];
static unsigned polled; /* connections that do not wait */

static int reset(void **state)
{
    (void)state;
    turns = (struct pfl_fair_turn){0};
    for (size_t i = 0; i < PRODUCERS; i++) {
        conns[i] = (struct pfl_fair_turn_conn){0};
        served[i] = 0;
    }
    polled = PRODUCERS;
    return 0;
}

static void on_released(struct pfl_fair_turn_conn *conn)
{
    assert_int_equal(conn->state, PFL_FAIR_TURN_RELEASED);
    polled++;
}

/* All that are polled are ready, always in the same order; how many were served. */
static unsigned take_turn(uint64_t who, uint64_t cost_ns)
{
    unsigned count = 0;

    for (size_t i = 0; i < PRODUCERS; i++) {
        if (conns[i].state == PFL_FAIR_TURN_WAITING)
            continue;
        if (pfl_fair_turn_may(&turns, who, &conns[i])) {
            pfl_fair_turn_take(&turns, who, cost_ns);
            served[i]++;
            count++;
        } else {
            assert_int_equal(conns[i].state, PFL_FAIR_TURN_WAITING);
            polled--;
        }
    }
    return count;
}

static void end_turn(void)
{
    pfl_fair_turn_end(&turns, on_released);
}

static void while_no_part_is_used_up_all_are_served_in_each_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, PFL_FAIR_TURN_NS / PRODUCERS), PRODUCERS);
        assert_int_equal(polled, PRODUCERS);
        end_turn();
    }
}

static void a_user_takes_its_part_and_others_theirs(void **state)
{
    struct pfl_fair_turn_conn other = {0};

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, COST_NS), 10);
        assert_true(pfl_fair_turn_may(&turns, OTHER, &other));
        pfl_fair_turn_take(&turns, OTHER, COST_NS);
        end_turn();
    }
}

static void a_part_may_be_smaller(void **state)
{
    (void)state;
    turns.part_ns = 2 * COST_NS;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, COST_NS), 2);
        end_turn();
    }
}

/* Each costs three quarters of a part, so three turns have time for four. */
static void what_exceeds_a_part_is_missing_in_the_next(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(take_turn(HOG, PFL_FAIR_TURN_NS / 4 * 3), i % 3 == 0 ? 2 : 1);
        end_turn();
    }
}

static void what_else_is_charged_is_missing_in_the_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        pfl_fair_turn_charge(&turns, HOG, 3ull * COST_NS);
        pfl_fair_turn_charge(&turns, OTHER, 5ull * COST_NS);
        assert_int_equal(take_turn(HOG, COST_NS), 7);
        end_turn();
    }
}

/* As after a turn's reads. Each turn pays a part of it, whether the user asks or not. */
static void what_is_charged_after_the_turn_is_used_up_counts_in_the_next(void **state)
{
    (void)state;
    assert_int_equal(take_turn(HOG, COST_NS), 10);
    pfl_fair_turn_charge(&turns, HOG, 2ull * COST_NS);
    end_turn();
    assert_int_equal(take_turn(HOG, COST_NS), 8);
    pfl_fair_turn_charge(&turns, HOG, 100ull * COST_NS);
    for (unsigned i = 0; i < 10; i++) {
        end_turn();
        assert_int_equal(take_turn(HOG, COST_NS), 0);
    }
    end_turn();
    assert_int_equal(take_turn(HOG, COST_NS), 10);
    pfl_fair_turn_charge(&turns, HOG, 100ull * COST_NS);
    for (unsigned i = 0; i < 10; i++)
        end_turn();
    assert_int_equal(take_turn(HOG, COST_NS), 0);
    end_turn();
    assert_int_equal(take_turn(HOG, COST_NS), 10);
}

static void a_user_owes_a_second_at_most(void **state)
{
    struct pfl_fair_turn_conn conn = {0};

    (void)state;
    pfl_fair_turn_charge(&turns, HOG, 60 * PFL_FAIR_TURN_OWED_NS);
    for (unsigned i = 0; i < PFL_FAIR_TURN_OWED_NS / PFL_FAIR_TURN_NS; i++) {
        end_turn();
        if (i % 100 == 0)
            assert_false(pfl_fair_turn_may(&turns, HOG, &conn));
    }
    assert_true(pfl_fair_turn_may(&turns, HOG, &conn));
}

/* One request takes half a second, again and again: the other has as much of the loop. */
static void who_takes_long_has_no_more_than_who_takes_a_part_each_turn(void **state)
{
    struct pfl_fair_turn_conn hogs = {0};
    struct pfl_fair_turn_conn others = {0};
    uint64_t hog_ns = 0;
    uint64_t other_ns = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        if (pfl_fair_turn_may(&turns, HOG, &hogs)) {
            pfl_fair_turn_take(&turns, HOG, PFL_FAIR_TURN_OWED_NS / 2);
            hog_ns += PFL_FAIR_TURN_OWED_NS / 2;
        }
        if (pfl_fair_turn_may(&turns, OTHER, &others)) {
            pfl_fair_turn_take(&turns, OTHER, PFL_FAIR_TURN_NS);
            other_ns += PFL_FAIR_TURN_NS;
        }
        pfl_fair_turn_end(&turns, NULL);
    }
    assert_int_equal(hog_ns, other_ns);
}

static void who_owes_is_not_forgotten(void **state)
{
    struct pfl_fair_turn_conn others[2 * PFL_FAIR_TURN_USERS] = {0};
    struct pfl_fair_turn_conn conn = {0};

    (void)state;
    pfl_fair_turn_charge(&turns, HOG, PFL_FAIR_TURN_OWED_NS);
    for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++) {
        end_turn();
        assert_true(pfl_fair_turn_may(&turns, 100 + i, &others[i]));
    }
    assert_false(pfl_fair_turn_may(&turns, HOG, &conn));
}

/* What is charged does not make its connections look costly. */
static void as_many_are_released_as_what_is_left_has_time_for(void **state)
{
    (void)state;
    assert_int_equal(take_turn(HOG, COST_NS), 10);
    pfl_fair_turn_charge(&turns, HOG, 2ull * COST_NS);
    polled = 0;
    end_turn();
    assert_int_equal(polled, 8);
}

static void each_is_served_before_any_is_served_again(void **state)
{
    (void)state;
    for (unsigned round = 1; round <= 3; round++) {
        for (unsigned i = 0; i < PRODUCERS / 10; i++) {
            assert_int_equal(take_turn(HOG, COST_NS), 10);
            end_turn();
        }
        for (size_t i = 0; i < PRODUCERS; i++)
            assert_int_equal(served[i], round);
    }
}

static void a_turn_polls_only_those_that_it_has_time_for(void **state)
{
    (void)state;
    (void)take_turn(HOG, COST_NS);
    assert_int_equal(polled, 10);
    for (unsigned i = 0; i < 30; i++) {
        end_turn();
        assert_int_equal(polled, 20); /* the released ones, and those that were served before */
        (void)take_turn(HOG, COST_NS);
        assert_int_equal(polled, 10);
    }
}

static void one_is_released_however_long_the_last_ones_took(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 5 * PRODUCERS; i++) {
        assert_int_equal(take_turn(HOG, 5ull * PFL_FAIR_TURN_NS), i % 5 == 0);
        polled = 0;
        end_turn();
        assert_int_equal(polled, 1); /* it keeps the loop turning */
    }
    for (size_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(served[i], 2);
}

static void cheap_ones_are_released_in_bounded_numbers(void **state)
{
    (void)state;
    assert_int_equal(take_turn(HOG, PFL_FAIR_TURN_NS), 1);
    end_turn();
    assert_int_equal(polled, 2);
    for (size_t i = 0; i < PRODUCERS; i++) /* what is released costs nothing from here on */
        if (conns[i].state == PFL_FAIR_TURN_RELEASED)
            assert_true(pfl_fair_turn_may(&turns, HOG, &conns[i]));
    polled = 0;
    end_turn();
    assert_int_equal(polled, PFL_FAIR_TURN_RELEASE);
}

static void a_released_one_that_finds_the_part_used_up_comes_first_again(void **state)
{
    struct pfl_fair_turn_conn *first = NULL;

    (void)state;
    (void)take_turn(HOG, PFL_FAIR_TURN_NS / 2);
    end_turn();
    for (size_t i = 0; i < PRODUCERS; i++)
        if (conns[i].state == PFL_FAIR_TURN_RELEASED && first == NULL)
            first = &conns[i];
    assert_non_null(first);
    pfl_fair_turn_take(&turns, HOG, 0);
    for (size_t i = 0; i < PRODUCERS; i++)
        if (&conns[i] != first && conns[i].state == PFL_FAIR_TURN_RELEASED &&
            pfl_fair_turn_may(&turns, HOG, &conns[i]))
            pfl_fair_turn_take(&turns, HOG, PFL_FAIR_TURN_NS);
    assert_false(pfl_fair_turn_may(&turns, HOG, first));
    assert_int_equal(first->state, PFL_FAIR_TURN_WAITING);
    end_turn();
    assert_int_equal(first->state, PFL_FAIR_TURN_RELEASED);
    assert_true(pfl_fair_turn_may(&turns, HOG, first));
}

static void one_is_served_once_in_a_turn(void **state)
{
    struct pfl_fair_turn_conn conn = {0};

    (void)state;
    assert_true(pfl_fair_turn_may(&turns, HOG, &conn));
    assert_false(pfl_fair_turn_may(&turns, HOG, &conn));
    assert_int_equal(conn.state, PFL_FAIR_TURN_IDLE);
    end_turn();
    assert_true(pfl_fair_turn_may(&turns, HOG, &conn));
}

static void one_that_was_served_and_has_more_waits_behind_the_others(void **state)
{
    (void)state;
    assert_true(pfl_fair_turn_may(&turns, HOG, &conns[0]));
    assert_true(pfl_fair_turn_has_time(&turns, HOG));
    pfl_fair_turn_take(&turns, HOG, PFL_FAIR_TURN_NS);
    assert_false(pfl_fair_turn_has_time(&turns, HOG));
    assert_true(pfl_fair_turn_has_time(&turns, OTHER));
    assert_false(pfl_fair_turn_may(&turns, HOG, &conns[1]));
    pfl_fair_turn_wait(&turns, HOG, &conns[0]);
    pfl_fair_turn_wait(&turns, HOG, &conns[0]);
    assert_int_equal(conns[0].state, PFL_FAIR_TURN_WAITING);
    end_turn();
    assert_int_equal(conns[1].state, PFL_FAIR_TURN_RELEASED);
    assert_int_equal(conns[0].state, PFL_FAIR_TURN_WAITING);
    assert_true(pfl_fair_turn_may(&turns, HOG, &conns[1]));
    pfl_fair_turn_take(&turns, HOG, PFL_FAIR_TURN_NS / 2);
    end_turn();
    assert_int_equal(conns[0].state, PFL_FAIR_TURN_RELEASED);
    assert_true(pfl_fair_turn_may(&turns, HOG, &conns[0]));
}

static void one_that_waits_is_not_served_although_it_is_asked(void **state)
{
    (void)state;
    (void)take_turn(HOG, COST_NS);
    assert_int_equal(conns[99].state, PFL_FAIR_TURN_WAITING);
    assert_false(pfl_fair_turn_may(&turns, HOG, &conns[99]));
    pfl_fair_turn_end(&turns, NULL);
    assert_false(pfl_fair_turn_may(&turns, HOG, &conns[99]));
    assert_int_equal(conns[10].state, PFL_FAIR_TURN_RELEASED);
}

static void one_that_ends_while_it_waits_leaves_the_queue(void **state)
{
    (void)state;
    (void)take_turn(HOG, PFL_FAIR_TURN_NS);
    for (size_t i = 1; i < PRODUCERS; i++) {
        assert_int_equal(conns[i].state, PFL_FAIR_TURN_WAITING);
        pfl_fair_turn_leave(&conns[i]);
    }
    end_turn();
    for (size_t i = 1; i < PRODUCERS; i++)
        assert_int_equal(conns[i].state, PFL_FAIR_TURN_IDLE);
    assert_true(pfl_fair_turn_may(&turns, HOG, &conns[0]));
}

static void a_user_with_a_queue_is_not_forgotten(void **state)
{
    struct pfl_fair_turn_conn others[2 * PFL_FAIR_TURN_USERS] = {0};

    (void)state;
    (void)take_turn(HOG, COST_NS);
    for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++) {
        end_turn();
        assert_true(pfl_fair_turn_may(&turns, 100 + i, &others[i]));
    }
    for (unsigned i = 0; i < PRODUCERS; i++)
        end_turn();
    for (size_t i = 0; i < PRODUCERS; i++)
        assert_int_not_equal(conns[i].state, PFL_FAIR_TURN_WAITING);
}

static void more_users_than_entries_share_one_and_all_are_served(void **state)
{
    struct pfl_fair_turn_conn others[2 * PFL_FAIR_TURN_USERS] = {0};

    (void)state;
    for (unsigned turn = 0; turn < 100; turn++) {
        for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++)
            if (pfl_fair_turn_may(&turns, 100 + i, &others[i]))
                pfl_fair_turn_take(&turns, 100 + i, PFL_FAIR_TURN_NS);
        pfl_fair_turn_end(&turns, NULL);
    }
    for (uint64_t i = 0; i < 2 * PFL_FAIR_TURN_USERS; i++)
        assert_true(others[i].served > 0);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

static bool is_known(uint64_t who)
{
    for (size_t i = 0; i < PFL_FAIR_TURN_USERS; i++) {
        if (turns.users[i].is_used && turns.users[i].who == who)
            return true;
    }
    return false;
}

static void of_too_many_users_the_one_that_was_served_longest_ago_is_forgotten(void **state)
{
    const uint64_t first = 1000;

    (void)state;
    for (uint64_t i = 0; i < PFL_FAIR_TURN_USERS; i++) {
        pfl_fair_turn_charge(&turns, first + i, 1);
        assert_true(is_known(first)); /* while there are free places */
        if (i == 4)
            end_turn();
    }
    end_turn();
    pfl_fair_turn_charge(&turns, first + 2, 1);
    end_turn();
    pfl_fair_turn_charge(&turns, 5000, 1);
    assert_false(is_known(first)); /* one of the first turn */
    assert_true(is_known(5000));
    pfl_fair_turn_charge(&turns, 5001, 1);
    assert_false(is_known(first + 1));
    pfl_fair_turn_charge(&turns, 5002, 1);
    assert_true(is_known(first + 2)); /* was served again */
    assert_false(is_known(first + 3));
    for (uint64_t i = 5; i < PFL_FAIR_TURN_USERS; i++)
        assert_true(is_known(first + i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(while_no_part_is_used_up_all_are_served_in_each_turn),
        TEST(a_user_takes_its_part_and_others_theirs),
        TEST(a_part_may_be_smaller),
        TEST(what_exceeds_a_part_is_missing_in_the_next),
        TEST(what_else_is_charged_is_missing_in_the_turn),
        TEST(what_is_charged_after_the_turn_is_used_up_counts_in_the_next),
        TEST(a_user_owes_a_second_at_most),
        TEST(who_takes_long_has_no_more_than_who_takes_a_part_each_turn),
        TEST(who_owes_is_not_forgotten),
        TEST(as_many_are_released_as_what_is_left_has_time_for),
        TEST(each_is_served_before_any_is_served_again),
        TEST(a_turn_polls_only_those_that_it_has_time_for),
        TEST(one_is_released_however_long_the_last_ones_took),
        TEST(cheap_ones_are_released_in_bounded_numbers),
        TEST(a_released_one_that_finds_the_part_used_up_comes_first_again),
        TEST(one_is_served_once_in_a_turn),
        TEST(one_that_was_served_and_has_more_waits_behind_the_others),
        TEST(one_that_waits_is_not_served_although_it_is_asked),
        TEST(one_that_ends_while_it_waits_leaves_the_queue),
        TEST(a_user_with_a_queue_is_not_forgotten),
        TEST(more_users_than_entries_share_one_and_all_are_served),
        TEST(of_too_many_users_the_one_that_was_served_longest_ago_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
