/* SPDX-License-Identifier: Apache-2.0 */
/* The activations of the last day: counted by name in constant time, shared by users. */
#include "service/core/trigger_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"

static struct pfl_trigger_history history;

static int setup(void **state)
{
    (void)state;
    pfl_trigger_history_init(&history);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_trigger_history_fini(&history);
    return 0;
}

static bool add(uint64_t ns, uint64_t name, uint32_t uid)
{
    return pfl_trigger_history_add(
        &history, &(struct pfl_trigger_event){.boottime_ns = ns, .name_hash = name, .who = uid});
}

static void counts_follow_a_plain_model(void **state)
{
    enum { NAMES = 97, EVENTS = 6000 };
    static uint64_t times[EVENTS];
    static uint64_t names[EVENTS];
    uint64_t random = 1;
    uint64_t now = 1;

    (void)state;
    for (size_t i = 0; i < EVENTS; i++) {
        uint64_t name;
        size_t count = 0;

        random = random * 6364136223846793005ull + 1442695040888963407ull;
        name = (random >> 40) % NAMES;
        now += PFL_TRIGGER_HISTORY_NS / 700;
        for (size_t k = 0; k < i; k++)
            count += names[k] == name && now - times[k] < PFL_TRIGGER_HISTORY_NS;
        assert_int_equal(pfl_trigger_history_count(&history, now, name), count);
        assert_true(add(now, name, 0));
        times[i] = now;
        names[i] = name;
        if (i % 5 == 0) {
            pfl_trigger_history_take_back(&history);
            times[i] = 0;
            names[i] = UINT64_MAX;
        }
    }
}

static void a_users_events_leave_room_for_others(void **state)
{
    size_t mine = 0;

    (void)state;
    while (add(1, mine, 1000))
        mine++;
    assert_int_equal(mine, PFL_TRIGGER_HISTORY_MAX / 2);
    assert_true(add(1, 7, 1001));
    assert_int_equal(pfl_trigger_history_count(&history, 1, 7), 2);
    assert_int_equal(pfl_trigger_history_count(&history, 1 + PFL_TRIGGER_HISTORY_NS, 7), 0);
    assert_true(add(1 + PFL_TRIGGER_HISTORY_NS, 7, 1000));
}

/* A walk of the history each time would be 3 * 10^11 steps. */
static void full_history_costs_what_an_empty_one_does(void **state)
{
    uint64_t sum = 0;

    (void)state;
    for (uint64_t i = 0; i < PFL_TRIGGER_HISTORY_MAX; i++)
        assert_true(add(1, i, 0));
    assert_false(add(1, 1, 0));
    for (uint64_t i = 0; i < 5000000; i++)
        sum += pfl_trigger_history_count(&history, 2, i % PFL_TRIGGER_HISTORY_MAX);
    assert_int_equal(sum, 5000000);
}

static void a_user_may_raise_some_at_once_and_then_slowly(void **state)
{
    unsigned raised = 0;

    (void)state;
    while (pfl_trigger_history_may_raise(&history, 5, 1000))
        raised++;
    assert_int_equal(raised, PFL_TRIGGER_AT_ONCE);
    assert_true(pfl_trigger_history_may_raise(&history, 5, 1001));
    assert_true(pfl_trigger_history_may_raise(&history, 5, 0));
    assert_false(pfl_trigger_history_may_raise(&history, 9000005, 1000));
    assert_true(pfl_trigger_history_may_raise(&history, 1000000005, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_follow_a_plain_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_users_events_leave_room_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(full_history_costs_what_an_empty_one_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_user_may_raise_some_at_once_and_then_slowly, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
