/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads a session has met, and which of them are new. */
#include "agent/probes/procfs/pid_set.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/support/sweep.h"

static void each_pid_is_its_own_bit(void **state)
{
    struct pfl_pid_set set = {0};

    (void)state;
    for (int32_t pid = 1; pid < 200; pid += 2) {
        assert_true(pfl_pid_set_add(&set, pid));
        assert_false(pfl_pid_set_add(&set, pid));
    }
    for (int32_t pid = 1; pid < 200; pid++)
        assert_int_equal(pfl_pid_set_has(&set, pid), pid % 2 == 1);
    assert_int_equal(set.fresh_count, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(set.fresh[i], 2 * i + 1);
    for (int32_t pid = 1; pid < 200; pid += 4)
        pfl_pid_set_remove(&set, pid);
    for (int32_t pid = 1; pid < 200; pid++)
        assert_int_equal(pfl_pid_set_has(&set, pid), pid % 4 == 3);
    pfl_pid_set_remove(&set, 0);
    pfl_pid_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static void the_first_and_the_last_legal_pid_are_taken_and_no_others(void **state)
{
    static const int32_t legal[] = {1, 65535, 65536, 131071, PFL_PID_MAX - 1};
    static const int32_t illegal[] = {0, -1, INT32_MIN, PFL_PID_MAX, INT32_MAX};
    struct pfl_pid_set set = {0};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        assert_false(pfl_pid_set_has(&set, legal[i]));
        assert_true(pfl_pid_set_add(&set, legal[i]));
        assert_true(pfl_pid_set_has(&set, legal[i]));
        assert_false(pfl_pid_set_add(&set, illegal[i]));
        assert_false(pfl_pid_set_has(&set, illegal[i]));
        pfl_pid_set_remove(&set, illegal[i]);
    }
    assert_int_equal(set.fresh_count, 5);
    pfl_pid_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static void with_a_full_list_of_fresh_ones_a_pid_is_met_again_later(void **state)
{
    struct pfl_pid_set set = {0};
    int32_t pid = 1;

    (void)state;
    while (set.fresh_count < PFL_PID_FRESH_MAX)
        assert_true(pfl_pid_set_add(&set, pid++));
    assert_int_equal(pid, PFL_PID_FRESH_MAX + 1);
    assert_false(pfl_pid_set_add(&set, pid));
    assert_false(pfl_pid_set_has(&set, pid));
    pfl_pid_set_clear_fresh(&set);
    assert_true(pfl_pid_set_add(&set, pid));
    assert_int_equal(set.fresh_count, 1);
    assert_int_equal(set.fresh[0], pid);
    assert_false(pfl_pid_set_add(&set, 1));
    pfl_pid_set_clear(&set);
    assert_int_equal(set.fresh_count, 0);
    assert_false(pfl_pid_set_has(&set, 1));
    assert_true(pfl_pid_set_add(&set, 1));
    pfl_pid_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static int add_two(void *user)
{
    struct pfl_pid_set set = {0};
    bool is_added = pfl_pid_set_add(&set, 5) && pfl_pid_set_add(&set, 70000);

    (void)user;
    assert_int_equal(pfl_pid_set_has(&set, 5) + pfl_pid_set_has(&set, 70000), set.fresh_count);
    pfl_pid_set_fini(&set);
    return is_added ? 0 : PFL_ENOMEM;
}

static void a_pid_that_has_no_memory_is_not_in_the_set(void **state)
{
    (void)state;
    pfl_sweep(add_two, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pid_is_its_own_bit),
        cmocka_unit_test(the_first_and_the_last_legal_pid_are_taken_and_no_others),
        cmocka_unit_test(with_a_full_list_of_fresh_ones_a_pid_is_met_again_later),
        cmocka_unit_test(a_pid_that_has_no_memory_is_not_in_the_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
