/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that were slow in their turns. */
#include "collector/order/rollout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static const struct pfl_hash_key key = {{3, 5}};

static struct pfl_rollout *rollout;

/* What it says of its orders is another hash: a reason for a turn. */
static void report(const char *name, const char *orders)
{
    const struct pfl_rollout_state state = {.name = name, .is_connected = true, .orders = orders};

    assert_int_equal(pfl_rollout_set_host(rollout, &state), 0);
}

static struct pfl_rollout_host *take(const char *name, uint64_t now_ms)
{
    const struct pfl_rollout_now now = {now_ms, now_ms};
    struct pfl_rollout_host *host = pfl_rollout_take(rollout, &now);

    if (name == NULL) {
        assert_null(host);
        return NULL;
    }
    assert_non_null(host);
    assert_string_equal(pfl_rollout_host_get_name(host), name);
    return host;
}

static void give(struct pfl_rollout_host *host, enum pfl_rollout_end end, bool was_slow)
{
    const struct pfl_rollout_result result = {.end = end, .wanted_hash = 1, .was_slow = was_slow};

    pfl_rollout_give(rollout, host, &result, 0, 0);
}

/* Of two turns they have one. */
static void slow_hosts_come_later_and_have_half_of_the_turns(void **state)
{
    struct pfl_rollout_host *slow;
    struct pfl_rollout_host *good;
    static const char *const names[] = {"s0", "s1", "s2"};

    (void)state;
    assert_int_equal(pfl_rollout_new(2, &key, &rollout), 0);
    for (unsigned i = 0; i < 3; i++) {
        report(names[i], "01");
        give(take(names[i], 0), PFL_ROLLOUT_DONE, true);
        report(names[i], "02");
    }
    slow = take("s0", 0);
    take(NULL, 0); /* there is room, but not for another slow one */
    assert_true(pfl_rollout_get_next_ms(rollout) != 0);
    assert_true(pfl_rollout_is_wanted(rollout, slow));
    report("good", "01");
    good = take("good", 0);                             /* before s1, which waits for longer */
    assert_false(pfl_rollout_is_wanted(rollout, good)); /* its turn is for no slow host */
    assert_true(pfl_rollout_is_wanted(rollout, slow));
    report("other", "01");
    assert_true(pfl_rollout_is_wanted(rollout, good));
    give(slow, PFL_ROLLOUT_LOST, true);
    give(take("other", 0), PFL_ROLLOUT_DONE, false);
    slow = take("s1", 0);
    give(good, PFL_ROLLOUT_DONE, false);
    take(NULL, 0);
    give(slow, PFL_ROLLOUT_DONE, false);
    report("s1", "03"); /* it was not slow again */
    good = take("s1", 0);
    slow = take("s2", 0);
    give(good, PFL_ROLLOUT_DONE, false);
    give(slow, PFL_ROLLOUT_DONE, false);
    pfl_rollout_free(rollout);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_hosts_come_later_and_have_half_of_the_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
