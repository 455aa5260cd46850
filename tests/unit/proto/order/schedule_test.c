/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is, over many rounds of hosts that come and go. */
#include "proto/order/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define FIRST_MS 1800000000000ull
#define EVERY_MS 60000u
#define HOSTS    40u

static char names[HOSTS][16];
static const char *list[HOSTS];
static bool is_chosen[HOSTS];

static const struct pfl_order_terms by_count = {
    .when = PFL_ORDER_SCHEDULE, .every_ms = EVERY_MS, .duration_ms = 5000, .hosts_count = 7};
static const struct pfl_order_terms by_percent = {
    .when = PFL_ORDER_SCHEDULE, .every_ms = EVERY_MS, .duration_ms = 5000, .hosts_percent = 26};
static const struct pfl_order_terms for_all = {
    .when = PFL_ORDER_SCHEDULE, .every_ms = EVERY_MS, .duration_ms = EVERY_MS};

static int make_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HOSTS; i++) {
        snprintf(names[i], sizeof(names[i]), "host-%u", i);
        list[i] = names[i];
    }
    return 0;
}

static uint64_t begin_of(unsigned round)
{
    return FIRST_MS + (uint64_t)(round - 1) * EVERY_MS;
}

static int choose(struct pfl_schedule *s, const struct pfl_order_terms *terms, unsigned round,
                  size_t hosts)
{
    const struct pfl_schedule_hosts all = {list, hosts};

    return pfl_schedule_choose(s, terms, begin_of(round), &all, is_chosen);
}

static unsigned count_chosen(size_t hosts)
{
    unsigned n = 0;

    for (size_t i = 0; i < hosts; i++)
        n += is_chosen[i];
    return n;
}

static struct pfl_schedule *make(uint64_t seed)
{
    struct pfl_schedule *s = NULL;

    assert_int_equal(pfl_schedule_new(seed, FIRST_MS, &s), 0);
    return s;
}

/* Its saved form, as a new process finds it. */
static struct pfl_schedule *start_again(struct pfl_schedule *s)
{
    struct pfl_schedule *again = NULL;
    struct pfl_buf bytes;

    pfl_buf_init(&bytes, PFL_SCHEDULE_STATE_MAX_BYTES);
    assert_int_equal(pfl_schedule_save(s, &bytes), 0);
    pfl_schedule_free(s);
    assert_int_equal(pfl_schedule_load(pfl_buf_get(&bytes), &again), 0);
    pfl_buf_fini(&bytes);
    return again;
}

static void nobody_has_a_second_turn_before_all_had_their_first(void **state)
{
    struct pfl_schedule *s = make(7);
    unsigned turns[HOSTS] = {0};

    (void)state;
    for (unsigned round = 1; round <= 200; round++) {
        unsigned least = ~0u;
        unsigned most = 0;

        assert_int_equal(choose(s, &by_count, round, HOSTS), 0);
        assert_int_equal(count_chosen(HOSTS), 7);
        for (unsigned i = 0; i < HOSTS; i++) {
            turns[i] += is_chosen[i];
            least = turns[i] < least ? turns[i] : least;
            most = turns[i] > most ? turns[i] : most;
        }
        assert_true(most - least <= 1);
        if (round % 3 == 0)
            s = start_again(s);
    }
    pfl_schedule_free(s);
    pfl_sweep_assert_no_leak();
}

static void a_share_is_rounded_up_and_none_means_all(void **state)
{
    struct pfl_schedule *s = make(1);

    (void)state;
    assert_int_equal(choose(s, &by_percent, 1, HOSTS), 0);
    assert_int_equal(count_chosen(HOSTS), 11);
    assert_int_equal(choose(s, &by_percent, 2, 1), 0);
    assert_int_equal(count_chosen(1), 1);
    assert_int_equal(choose(s, &by_count, 3, 3), 0);
    assert_int_equal(count_chosen(3), 3);
    for (unsigned round = 4; round < 8; round++) {
        assert_int_equal(choose(s, &for_all, round, HOSTS), 0);
        assert_int_equal(count_chosen(HOSTS), HOSTS);
    }
    assert_int_equal(choose(s, &for_all, 8, 0), 0);
    pfl_schedule_free(s);
}

static void the_same_state_gives_the_same_choice_and_another_seed_another(void **state)
{
    bool first[HOSTS];
    unsigned same = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct pfl_schedule *s = make(i < 2 ? 5 : 6);

        assert_int_equal(choose(s, &by_count, 1, HOSTS), 0);
        if (i == 1)
            assert_memory_equal(first, is_chosen, sizeof(first));
        memcpy(first, is_chosen, sizeof(first));
        pfl_schedule_free(s);
    }
    for (uint64_t seed = 100; seed < 140; seed++) {
        struct pfl_schedule *s = make(seed);

        assert_int_equal(choose(s, &by_count, 1, HOSTS), 0);
        same += is_chosen[0];
        pfl_schedule_free(s);
    }
    assert_true(same > 0 && same < 40); /* 7 expected */
}

static void hosts_that_come_and_go_have_their_turn(void **state)
{
    struct pfl_schedule *s = make(9);
    unsigned turns[HOSTS] = {0};

    (void)state;
    for (unsigned round = 1; round <= 3; round++)
        assert_int_equal(choose(s, &by_count, round, 20), 0);
    /* All but the 21st newcomer had no turn: 20 of the old had 3 * 7 = 21 turns. */
    for (unsigned round = 4; round <= 6; round++) {
        assert_int_equal(choose(s, &by_count, round, HOSTS), 0);
        for (unsigned i = 0; i < HOSTS; i++)
            turns[i] += is_chosen[i];
    }
    for (unsigned i = 0; i < HOSTS; i++)
        assert_true(turns[i] <= 1);
    /* Most left: those that remain do not wait for them. */
    for (unsigned round = 7; round <= 20; round++) {
        assert_int_equal(choose(s, &by_count, round, 7), 0);
        assert_int_equal(count_chosen(7), 7);
    }
    pfl_schedule_free(s);
}

static void a_round_is_chosen_once_and_a_little_before_it_begins(void **state)
{
    const struct pfl_schedule_hosts all = {list, HOSTS};
    struct pfl_schedule *s = make(3);

    (void)state;
    assert_false(pfl_schedule_is_due(s, &by_count, FIRST_MS - PFL_SCHEDULE_LEAD_MS - 1));
    assert_int_equal(
        pfl_schedule_choose(s, &by_count, FIRST_MS - PFL_SCHEDULE_LEAD_MS - 1, &all, is_chosen),
        PFL_EAGAIN);
    assert_true(pfl_schedule_is_due(s, &by_count, FIRST_MS - PFL_SCHEDULE_LEAD_MS));
    assert_int_equal(choose(s, &by_count, 1, HOSTS), 0);
    assert_int_equal(choose(s, &by_count, 1, HOSTS), PFL_EAGAIN);
    /* While nobody chose, rounds passed; this one has ended, too. */
    assert_false(pfl_schedule_is_due(s, &by_count, begin_of(9) + 5000));
    assert_true(pfl_schedule_is_due(s, &by_count, begin_of(9) + 4999));
    pfl_schedule_free(s);
}

static void the_run_of_a_chosen_host_is_found_until_it_is_over(void **state)
{
    struct pfl_schedule *s = make(3);
    struct pfl_schedule_run run;

    (void)state;
    assert_false(pfl_schedule_get_run(s, &by_count, FIRST_MS, list[0], &run));
    assert_int_equal(choose(s, &by_count, 4, HOSTS), 0);
    s = start_again(s);
    for (unsigned i = 0; i < HOSTS; i++) {
        assert_int_equal(pfl_schedule_get_run(s, &by_count, begin_of(4), list[i], &run),
                         is_chosen[i]);
        assert_false(pfl_schedule_get_run(s, &by_count, begin_of(4) + 5000, list[i], &run));
    }
    assert_int_equal(run.id, 4);
    assert_true(run.begin_unix_ms == begin_of(4));
    assert_int_equal(run.duration_ms, 5000);
    pfl_schedule_free(s);
}

static void a_clock_that_was_put_back_does_not_stop_the_rounds(void **state)
{
    struct pfl_schedule *s = make(3);

    (void)state;
    assert_int_equal(choose(s, &by_count, 500000, HOSTS), 0); /* almost a year ahead */
    assert_int_equal(choose(s, &by_count, 10, HOSTS), PFL_EAGAIN);
    assert_int_equal(choose(s, &by_count, 11, HOSTS), 0);
    pfl_schedule_free(s);
}

/* The order was put while the clock was 30 days ahead. */
static void a_first_round_far_in_the_future_begins_now(void **state)
{
    const struct pfl_schedule_hosts all = {list, HOSTS};
    const uint64_t now_ms = FIRST_MS - UINT64_C(30) * 86400 * 1000;
    struct pfl_schedule *s = make(3);
    struct pfl_schedule_run run;

    (void)state;
    assert_int_equal(pfl_schedule_choose(s, &for_all, now_ms, &all, is_chosen), 0);
    assert_int_equal(count_chosen(HOSTS), HOSTS);
    assert_true(pfl_schedule_get_run(s, &for_all, now_ms, list[0], &run));
    assert_true(run.begin_unix_ms == now_ms + PFL_SCHEDULE_LEAD_MS);
    assert_int_equal(pfl_schedule_choose(s, &for_all, now_ms + 1, &all, is_chosen), PFL_EAGAIN);
    assert_int_equal(pfl_schedule_choose(s, &for_all, now_ms + EVERY_MS, &all, is_chosen), 0);
    pfl_schedule_free(s);
}

static void what_is_no_state_is_refused(void **state)
{
    static const char bad_name[] = "\x2a\x03"
                                   "a/b";
    struct pfl_schedule *s = NULL;
    struct pfl_buf many;

    (void)state;
    assert_int_equal(pfl_schedule_load(pfl_span_of("\x0a", 1), &s), PFL_EPARSE);
    assert_int_equal(pfl_schedule_load(pfl_span_of(bad_name, 5), &s), PFL_EPARSE);
    pfl_buf_init(&many, PFL_SCHEDULE_STATE_MAX_BYTES);
    for (size_t i = 0; i <= PFL_ORDER_MAX_HOSTS; i++)
        assert_int_equal(pfl_buf_append(&many, "\x32\x01q", 3), 0);
    assert_int_equal(pfl_schedule_load(pfl_buf_get(&many), &s), PFL_ELIMIT);
    pfl_buf_consume(&many, 3);
    assert_int_equal(pfl_schedule_load(pfl_buf_get(&many), &s), 0);
    pfl_schedule_free(s);
    pfl_buf_fini(&many);
    pfl_sweep_assert_no_leak();
}

static int live_some_rounds(void *arg)
{
    struct pfl_schedule *s = NULL;
    struct pfl_schedule *again = NULL;
    struct pfl_buf bytes;
    int rc = pfl_schedule_new(1, FIRST_MS, &s);

    (void)arg;
    pfl_buf_init(&bytes, PFL_SCHEDULE_STATE_MAX_BYTES);
    for (unsigned round = 1; rc == 0 && round < 4; round++)
        rc = choose(s, &by_count, round, 10);
    if (rc == 0)
        rc = pfl_schedule_save(s, &bytes);
    if (rc == 0)
        rc = pfl_schedule_load(pfl_buf_get(&bytes), &again);
    pfl_buf_fini(&bytes);
    pfl_schedule_free(s);
    pfl_schedule_free(again);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(live_some_rounds, NULL, false);
}

static void each_cycle_has_an_order_of_its_own(void **state)
{
    struct pfl_schedule *s = make(7);
    bool second[HOSTS] = {false};

    (void)state;
    for (unsigned round = 1; round <= 11; round++) { /* of five rounds each */
        assert_int_equal(choose(s, &by_count, round, 35), 0);
        if (round == 6)
            memcpy(second, is_chosen, sizeof(second));
    }
    assert_memory_not_equal(second, is_chosen, 35 * sizeof(bool));
    pfl_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_has_a_second_turn_before_all_had_their_first),
        cmocka_unit_test(a_share_is_rounded_up_and_none_means_all),
        cmocka_unit_test(the_same_state_gives_the_same_choice_and_another_seed_another),
        cmocka_unit_test(hosts_that_come_and_go_have_their_turn),
        cmocka_unit_test(a_round_is_chosen_once_and_a_little_before_it_begins),
        cmocka_unit_test(the_run_of_a_chosen_host_is_found_until_it_is_over),
        cmocka_unit_test(a_clock_that_was_put_back_does_not_stop_the_rounds),
        cmocka_unit_test(a_first_round_far_in_the_future_begins_now),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_cycle_has_an_order_of_its_own),
    };

    return cmocka_run_group_tests(tests, make_names, NULL);
}
