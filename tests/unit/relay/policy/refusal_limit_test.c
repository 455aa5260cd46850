/* SPDX-License-Identifier: Apache-2.0 */
/* Which refusals are logged, and that the others are counted for their operator. */
#include "relay/policy/refusal_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_refusal_limit refusals;
static struct pfl_refusal_limit_slot other;

static int set_up(void **state)
{
    (void)state;
    memset(&refusals, 0, sizeof(refusals));
    return 0;
}

static unsigned take(const char *who, unsigned times, uint64_t now_ms)
{
    unsigned logged = 0;

    while (times-- != 0)
        logged += pfl_refusal_limit_take(&refusals, who, now_ms, &other);
    return logged;
}

static void so_many_are_reported_at_once_and_so_many_a_second(void **state)
{
    (void)state;
    assert_int_equal(take("a", 3000, 5), PFL_REFUSAL_LIMIT_AT_ONCE);
    assert_int_equal(take("a", 100, 2005), 2 * PFL_REFUSAL_LIMIT_PER_S);
    assert_int_equal(take("b", 10, 2005), 10);
}

static void the_others_are_counted_once(void **state)
{
    struct pfl_refusal_limit_slot taken;

    (void)state;
    (void)take("a", PFL_REFUSAL_LIMIT_AT_ONCE, 0);
    assert_false(pfl_refusal_limit_next(&refusals, &taken));
    (void)take("a", 7, 0);
    (void)take("b", PFL_REFUSAL_LIMIT_AT_ONCE + 1, 0);
    assert_true(pfl_refusal_limit_next(&refusals, &taken));
    assert_string_equal(taken.who, taken.counted == 7 ? "a" : "b");
    assert_true(pfl_refusal_limit_next(&refusals, &taken));
    assert_string_equal(taken.who, taken.counted == 7 ? "a" : "b");
    assert_false(pfl_refusal_limit_next(&refusals, &taken));
}

static void they_are_reported_in_time(void **state)
{
    struct pfl_refusal_limit_slot taken;

    (void)state;
    (void)take("a", PFL_REFUSAL_LIMIT_AT_ONCE, 50);
    assert_false(pfl_refusal_limit_is_due(&refusals, 50 + 2 * PFL_REFUSAL_LIMIT_TELL_MS));
    (void)take("a", 1, 60);
    assert_false(pfl_refusal_limit_is_due(&refusals, 60 + PFL_REFUSAL_LIMIT_TELL_MS - 1));
    assert_true(pfl_refusal_limit_is_due(&refusals, 60 + PFL_REFUSAL_LIMIT_TELL_MS));
    assert_true(pfl_refusal_limit_next(&refusals, &taken));
    assert_false(pfl_refusal_limit_is_due(&refusals, 60 + PFL_REFUSAL_LIMIT_TELL_MS));
}

/* More operators than there are slots: some share one. */
static void nobody_is_reported_for_another(void **state)
{
    uint64_t logged = 0;
    uint64_t counted = 0;
    char who[16];
    struct pfl_refusal_limit_slot rest;

    (void)state;
    for (unsigned i = 0; i < 2 * PFL_REFUSAL_LIMIT_SLOTS; i++) {
        (void)snprintf(who, sizeof(who), "operator-%u", i);
        for (unsigned n = 0; n < PFL_REFUSAL_LIMIT_AT_ONCE + 3; n++) {
            logged += pfl_refusal_limit_take(&refusals, who, 0, &other);
            assert_true(other.counted == 0 || strcmp(other.who, who) != 0);
            counted += other.counted;
        }
    }
    while (pfl_refusal_limit_next(&refusals, &rest))
        counted += rest.counted;
    assert_int_equal(logged + counted,
                     2 * PFL_REFUSAL_LIMIT_SLOTS * (PFL_REFUSAL_LIMIT_AT_ONCE + 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(so_many_are_reported_at_once_and_so_many_a_second, set_up),
        cmocka_unit_test_setup(the_others_are_counted_once, set_up),
        cmocka_unit_test_setup(they_are_reported_in_time, set_up),
        cmocka_unit_test_setup(nobody_is_reported_for_another, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
