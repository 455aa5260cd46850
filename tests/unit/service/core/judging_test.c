/* SPDX-License-Identifier: Apache-2.0 */
/* What matching producers may cost: shares of users, in windows of time. */
#include "service/core/judging.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/core/producer.h"

#define OWNER  1000u
#define MEMBER 1001u

static struct pfl_producer producers[] = {
    {.name = (char[]){"p"}, .who = 7},
    {.name = (char[]){"q"}, .who = 8},
    {.name = (char[]){"r"}, .who = OWNER},
};
static struct pfl_loop_budget all;

static int setup(void **state)
{
    (void)state;
    all = (struct pfl_loop_budget){.owner = OWNER,
                                   .units = PFL_JUDGING_UNITS,
                                   .window_ms = PFL_JUDGING_WINDOW_MS,
                                   .leaves_half = true};
    return 0;
}

static struct pfl_judging_match match_of(uint64_t session_who, size_t producer)
{
    return (struct pfl_judging_match){
        .all = &all, .session_id = 1, .session_who = session_who, .producer = &producers[producer]};
}

static void a_match_costs_what_it_used_and_no_more_than_there_was_room_for(void **state)
{
    const struct pfl_judging_match match = match_of(OWNER, 0);
    const struct pfl_judging_match other = match_of(OWNER, 1);
    const struct pfl_judging_match own = match_of(OWNER, 2);
    struct pfl_judging judging = {0};
    uint64_t credit = pfl_judging_begin(&judging, &match, 1);

    (void)state;
    assert_int_equal(credit, PFL_JUDGING_UNITS / 2 + 1);
    pfl_judging_end(&judging, &match, credit); /* cost nothing */
    assert_int_equal(judging.shares.used, 0);
    credit = pfl_judging_begin(&judging, &match, 1);
    pfl_judging_end(&judging, &match, credit - 100);
    assert_int_equal(pfl_shares_get(&judging.shares, 7), 100);
    assert_false(judging.was_reported);
    credit = pfl_judging_begin(&judging, &match, 1);
    assert_int_equal(credit, (PFL_JUDGING_UNITS - 200) / 2 + 1);
    pfl_judging_end(&judging, &match, 0); /* it did not suffice */
    assert_int_equal(pfl_shares_get(&judging.shares, 7), 100 + credit - 1);
    assert_true(judging.was_reported);
    assert_int_equal(pfl_judging_begin(&judging, &match, 1), 1); /* room for nothing more */
    pfl_judging_end(&judging, &match, 1);
    assert_true(pfl_judging_begin(&judging, &other, 1) > 100000); /* others have theirs */
    assert_int_equal(pfl_judging_begin(&judging, &own, 1),
                     PFL_JUDGING_UNITS - judging.shares.used + 1);
}

static void a_window_that_is_over_is_forgotten(void **state)
{
    const struct pfl_judging_match match = match_of(OWNER, 0);
    struct pfl_judging judging = {0};

    (void)state;
    (void)pfl_judging_begin(&judging, &match, 5);
    pfl_judging_end(&judging, &match, 0);
    assert_int_equal(pfl_judging_begin(&judging, &match, 5 + PFL_JUDGING_WINDOW_MS - 1), 1);
    assert_true(judging.was_reported);
    assert_int_equal(pfl_judging_begin(&judging, &match, 5 + PFL_JUDGING_WINDOW_MS),
                     PFL_JUDGING_UNITS / 2 + 1);
    assert_false(judging.was_reported);
}

/* Of so many sessions; returns the units. */
static uint64_t use_up(const struct pfl_judging_match *match, unsigned sessions)
{
    uint64_t used = 0;

    for (unsigned i = 0; i < sessions; i++) {
        struct pfl_judging judging = {0};
        uint64_t credit = pfl_judging_begin(&judging, match, 1);

        used += credit - 1;
        judging.was_reported = true; /* so it is not logged */
        pfl_judging_end(&judging, match, 0);
    }
    return used;
}

static void all_sessions_together_have_a_budget(void **state)
{
    const struct pfl_judging_match match = match_of(MEMBER, 0);
    const struct pfl_judging_match of_another_producer = match_of(MEMBER, 1);
    const struct pfl_judging_match of_another_session = match_of(MEMBER + 1, 0);
    uint64_t used = use_up(&match, 1000);

    (void)state;
    assert_true(used <= PFL_JUDGING_UNITS / 4); /* half of the share of the sessions' user */
    used += use_up(&of_another_producer, 1);
    assert_true(used > PFL_JUDGING_UNITS / 4 + 10000);
    assert_true(use_up(&of_another_session, 1) > 10000);
    used += use_up(&of_another_producer, 1000);
    assert_true(used <= PFL_JUDGING_UNITS / 2);
}

static void what_a_match_costs_without_patterns_is_the_sessions_alone(void **state)
{
    struct pfl_judging_match match = match_of(MEMBER, 0);
    struct pfl_judging judging = {0};
    uint64_t credit;

    (void)state;
    (void)use_up(&match, 1000);
    assert_int_equal(pfl_judging_begin(&judging, &match, 1), 1);
    match.plain_units = 4;
    for (unsigned i = 0; i < 1000; i++) {
        credit = pfl_judging_begin(&judging, &match, 1);
        assert_int_equal(credit, 5);
        pfl_judging_end(&judging, &match, credit - 4);
    }
    assert_false(judging.was_reported);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_match_costs_what_it_used_and_no_more_than_there_was_room_for),
        T(a_window_that_is_over_is_forgotten),
        T(all_sessions_together_have_a_budget),
        T(what_a_match_costs_without_patterns_is_the_sessions_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
