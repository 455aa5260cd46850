/* SPDX-License-Identifier: Apache-2.0 */
/* What scraping may cost, by whose sessions and whose producers. */
#include "service/core/loop_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ROOT   0u
#define MEMBER 1001u
#define OTHER  1002u
#define NOBODY 1003u

/* All that there is now; how much that was. */
static uint64_t use_up(struct pfl_loop_budget *scraping, uint64_t session, uint64_t producer)
{
    uint64_t credit = pfl_loop_budget_begin(scraping, session, producer, 10);

    pfl_loop_budget_end(scraping, session, producer, credit);
    assert_int_equal(pfl_loop_budget_begin(scraping, session, producer, 10), 0);
    return credit;
}

static void a_users_producers_leave_others_their_part(void **state)
{
    struct pfl_loop_budget scraping = {.units = PFL_SCRAPING_UNITS};

    (void)state;
    assert_int_equal(use_up(&scraping, ROOT, MEMBER), PFL_SCRAPING_UNITS / 2);
    assert_int_equal(use_up(&scraping, ROOT, OTHER), PFL_SCRAPING_UNITS / 4);
    assert_int_equal(pfl_loop_budget_begin(&scraping, ROOT, NOBODY, 10), PFL_SCRAPING_UNITS / 8);
}

static void a_users_sessions_leave_others_their_part(void **state)
{
    struct pfl_loop_budget scraping = {.units = PFL_SCRAPING_UNITS};

    (void)state;
    assert_int_equal(use_up(&scraping, MEMBER, ROOT), PFL_SCRAPING_UNITS / 2);
    assert_int_equal(pfl_loop_budget_begin(&scraping, MEMBER, NOBODY, 10), 0);
    assert_int_equal(pfl_loop_budget_begin(&scraping, OTHER, ROOT, 10), PFL_SCRAPING_UNITS / 4);
    assert_int_equal(pfl_loop_budget_begin(&scraping, ROOT, NOBODY, 10), PFL_SCRAPING_UNITS / 2);
}

static void of_root_and_the_owner_none_is_counted(void **state)
{
    static const uint64_t unbound[] = {ROOT, OTHER};
    struct pfl_loop_budget scraping = {.owner = OTHER, .units = PFL_SCRAPING_UNITS};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        uint64_t session = unbound[i / 2];
        uint64_t producer = unbound[i % 2];

        assert_true(pfl_loop_budget_begin(&scraping, session, producer, 10) == UINT64_MAX);
        pfl_loop_budget_end(&scraping, session, producer, 1000000000);
    }
    assert_int_equal(pfl_loop_budget_begin(&scraping, MEMBER, ROOT, 10), PFL_SCRAPING_UNITS / 2);
}

static void after_a_while_all_of_it_may_be_used_again(void **state)
{
    struct pfl_loop_budget scraping = {.owner = OTHER, .units = PFL_SCRAPING_UNITS};

    (void)state;
    (void)use_up(&scraping, ROOT, MEMBER);
    assert_int_equal(
        pfl_loop_budget_begin(&scraping, ROOT, MEMBER, 10 + PFL_LOOP_BUDGET_WINDOW_MS - 1), 0);
    assert_int_equal(pfl_loop_budget_begin(&scraping, ROOT, MEMBER, 10 + PFL_LOOP_BUDGET_WINDOW_MS),
                     PFL_SCRAPING_UNITS / 2);
    assert_int_equal(scraping.owner, OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_users_producers_leave_others_their_part),
        cmocka_unit_test(a_users_sessions_leave_others_their_part),
        cmocka_unit_test(of_root_and_the_owner_none_is_counted),
        cmocka_unit_test(after_a_while_all_of_it_may_be_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
