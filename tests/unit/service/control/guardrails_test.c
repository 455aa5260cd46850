/* SPDX-License-Identifier: Apache-2.0 */
/* When a service counts as out of its mind: memory for a period, CPU time for ten minutes. */
#include "service/control/guardrails.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LIMIT_BYTES 1000u

static struct pfl_guardrails guardrails;
static struct pfl_guardrails_look look;

static int reset(void **state)
{
    (void)state;
    guardrails = (struct pfl_guardrails){0};
    look = (struct pfl_guardrails_look){0};
    return 0;
}

static enum pfl_guardrails_verdict judge_next(uint64_t resident_bytes, uint64_t cpu_ms)
{
    look.now_ms += PFL_GUARDRAILS_PERIOD_MS;
    look.cpu_ms += cpu_ms;
    look.resident_bytes = resident_bytes;
    return pfl_guardrails_judge(&guardrails, &look, LIMIT_BYTES);
}

static void memory_over_the_limit_is_reported_at_the_second_look(void **state)
{
    (void)state;
    assert_int_equal(judge_next(LIMIT_BYTES + 1, 0), PFL_GUARDRAILS_WELL);
    assert_int_equal(judge_next(LIMIT_BYTES + 1, 0), PFL_GUARDRAILS_MEMORY);
}

static void a_peak_of_memory_is_forgiven(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(judge_next(i % 2 == 0 ? LIMIT_BYTES + 1 : LIMIT_BYTES, 0),
                         PFL_GUARDRAILS_WELL);
}

static void a_busy_cpu_is_reported_after_ten_minutes(void **state)
{
    unsigned looks = 0;

    (void)state;
    while (judge_next(0, PFL_GUARDRAILS_PERIOD_MS) == PFL_GUARDRAILS_WELL)
        looks++;
    assert_int_equal(looks, PFL_GUARDRAILS_CPU_LOOKS);
    assert_int_equal(judge_next(0, 0), PFL_GUARDRAILS_CPU);
}

static void ninety_percent_of_a_cpu_is_allowed(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(judge_next(0, PFL_GUARDRAILS_PERIOD_MS / 10 * 9), PFL_GUARDRAILS_WELL);
}

static void a_quiet_minute_ends_a_busy_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(judge_next(0, i % 10 < 8 ? PFL_GUARDRAILS_PERIOD_MS : 0),
                         PFL_GUARDRAILS_WELL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(memory_over_the_limit_is_reported_at_the_second_look),
        TEST(a_peak_of_memory_is_forgiven),
        TEST(a_busy_cpu_is_reported_after_ten_minutes),
        TEST(ninety_percent_of_a_cpu_is_allowed),
        TEST(a_quiet_minute_ends_a_busy_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
