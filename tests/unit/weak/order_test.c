/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory orders of the chunk protocol, of wake-ups and of time stamps suffice on any machine
 * that C11 knows; and each is needed: made weaker, one of the scenarios goes wrong.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/weak/scenarios.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const kinds[] = {"load", "store", "change", "failed change"};

static const char *name_of(int order)
{
    switch (order) {
    case memory_order_relaxed:
        return "relaxed";
    case memory_order_acquire:
        return "acquire";
    case memory_order_release:
        return "release";
    default:
        return "acq_rel";
    }
}

static const struct pfl_weak_scenario *scenario_at(size_t i)
{
    if (i < pfl_chunk_scenarios_len)
        return &pfl_chunk_scenarios[i];
    i -= pfl_chunk_scenarios_len;
    return i < pfl_other_scenarios_len ? &pfl_other_scenarios[i] : NULL;
}

static void as_written_nothing_goes_wrong(void **state)
{
    const struct pfl_weak_scenario *s;

    (void)state;
    for (size_t i = 0; (s = scenario_at(i)) != NULL; i++) {
        struct pfl_weak_result r = pfl_weak_explore(s);

        print_message("%s: %u executions, %u steps\n", s->name, (unsigned)r.executions,
                      (unsigned)r.steps);
        if (r.violation != NULL)
            fail_msg("%s: %s", s->name, r.violation);
        assert_false(r.is_cut);
    }
}

/* Stronger than our code needs: as the protocol has it (docs/abi/smb.md 3), or for nothing to win.
 */
struct excuse {
    const char *function;
    enum pfl_weak_kind kind;
    unsigned nth;
    int to;
    const char *why;
};

static const struct excuse excuses[] = {
    {"pfl_state_try_partition", PFL_WEAK_CHANGE, 0, memory_order_acquire,
     "nothing was written before it"},
    {"pfl_state_try_partition", PFL_WEAK_CHANGE, 0, memory_order_release,
     "the load that follows acquires"},
    {"pfl_state_try_partition", PFL_WEAK_FAILURE, 0, memory_order_relaxed,
     "the load that follows acquires"},
    {"pfl_state_move", PFL_WEAK_FAILURE, 0, memory_order_relaxed,
     "the change that follows acquires"},
    {"pfl_tick_clock_read", PFL_WEAK_LOAD, 4, memory_order_relaxed,
     "a window that is newer than its line is as long"},
};

/* NULL: there is none. */
static const char *excuse_of(const struct pfl_weak_site *site, int to)
{
    for (size_t i = 0; i < COUNT(excuses); i++)
        if (strcmp(excuses[i].function, site->function) == 0 && excuses[i].kind == site->kind &&
            excuses[i].nth == site->nth && excuses[i].to == to)
            return excuses[i].why;
    return NULL;
}

/* What goes wrong first with it; false: nothing does. */
static bool goes_wrong(char *ret_text, size_t size)
{
    const struct pfl_weak_scenario *s;

    for (size_t i = 0; (s = scenario_at(i)) != NULL; i++) {
        struct pfl_weak_result r = pfl_weak_explore(s);

        if (r.violation == NULL)
            continue;
        (void)snprintf(ret_text, size, "%s: %s", s->name, r.violation);
        return true;
    }
    return false;
}

/* 1: an order that is not needed, or is in the list and needed. */
static unsigned weaken(size_t index, int to)
{
    const struct pfl_weak_site *site = pfl_weak_site_at(index);
    const char *why = excuse_of(site, to);
    char text[256];
    bool is_wrong;

    (void)snprintf(text, sizeof(text), "nothing goes wrong: %s", why != NULL ? why : "needless");
    pfl_weak_set_order(index, to);
    is_wrong = goes_wrong(text, sizeof(text));
    pfl_weak_set_order(index, site->order);
    print_message("%s, %s %u, %s -> %s: %s\n", site->function, kinds[site->kind], site->nth,
                  name_of(site->order), name_of(to), text);
    return is_wrong == (why == NULL) ? 0 : 1;
}

static void each_order_is_needed(void **state)
{
    static const int halves[] = {memory_order_acquire, memory_order_release};
    unsigned surprises = 0;

    (void)state;
    for (size_t i = 0; i < pfl_weak_sites_len(); i++) {
        int order = pfl_weak_site_at(i)->order;

        if (order == memory_order_relaxed)
            continue;
        if (order == memory_order_acquire || order == memory_order_release)
            surprises += weaken(i, memory_order_relaxed);
        else
            for (size_t k = 0; k < COUNT(halves); k++)
                surprises += weaken(i, halves[k]);
    }
    assert_int_equal(surprises, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written_nothing_goes_wrong),
        cmocka_unit_test(each_order_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
