/* SPDX-License-Identifier: Apache-2.0 */
/* The last value that each check accepts, and the first that it refuses. */
#include "service/plan/session_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/trace_config.pb-c.h"
#include "proto/text/text_format.h"
#include "tests/support/sweep.h"

#define BUFFER "buffers { size_kb: 64 } "
#define FILE_TO(name)                                                                              \
    BUFFER "write_into_file: true output_path: \"/d,/" name "\" "                                  \
           "perfleet_rotation { segment_period_ms: 1000 } "

static char why[PFL_PLAN_WHY_BYTES];

static int check(const char *text)
{
    struct pfl_text_error error;
    struct pfl_session_plan *plan;
    struct pfl_buf buf;
    int rc;

    pfl_buf_init(&buf, 1u << 20);
    if (pfl_text_format_parse(&perfetto__protos__trace_config__descriptor,
                              pfl_span_of(text, strlen(text)), &buf, &error) != 0)
        fail_msg("%s: %u:%u %s", text, error.line, error.column, error.message);
    assert_int_equal(pfl_session_plan_new(pfl_buf_get(&buf), &plan), 0);
    why[0] = '\0';
    rc = pfl_session_plan_check_early(plan, why);
    if (rc == 0)
        rc = pfl_session_plan_check_late(plan, why);
    pfl_session_plan_free(plan);
    pfl_buf_fini(&buf);
    return rc;
}

static const struct {
    const char *accepted;
    const char *refused;
    const char *field; /* that the refusal names */
} limits[] = {
    {"duration_ms: 604800000", "duration_ms: 604800001", "duration_ms"},
    {"duration_ms: 86400000 enable_extra_guardrails: true",
     "duration_ms: 86400001 enable_extra_guardrails: true", "duration_ms"},
    {"trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1 }",
     "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 0 }", "trigger_timeout"},
    {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 604800000 }",
     "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 604800001 }",
     "trigger_timeout"},
    {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 5 }",
     "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 5 } duration_ms: 1",
     "duration_ms"},
    {"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 5 "
     "use_clone_snapshot_if_available: true }",
     "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 5 "
     "use_clone_snapshot_if_available: true }",
     "use_clone_snapshot"},
    {"trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 5 } "
     "write_into_file: true",
     "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 5 } "
     "write_into_file: true",
     "write_into_file"},
    {BUFFER "enable_extra_guardrails: true",
     "buffers { size_kb: 66 } "
     "enable_extra_guardrails: true",
     "buffers[0].size_kb"},
    {"buffers { size_kb: 131072 } enable_extra_guardrails: true",
     "buffers { size_kb: 131072 } " BUFFER "enable_extra_guardrails: true", "131136 kB"},
    {"buffers { size_kb: 131068 } data_sources { config { name: \"a\" protovm_config { "
     "memory_limit_kb: 4 } } } enable_extra_guardrails: true",
     "buffers { size_kb: 131068 } data_sources { config { name: \"a\" protovm_config { "
     "memory_limit_kb: 5 } } } enable_extra_guardrails: true",
     "131073 kB"},
    {"buffers { size_kb: 131076 } enable_extra_guardrails: true "
     "guardrail_overrides { max_tracing_buffer_size_kb: 131076 }",
     "buffers { size_kb: 131080 } enable_extra_guardrails: true "
     "guardrail_overrides { max_tracing_buffer_size_kb: 131076 }",
     "131076"},
    {"buffers { size_kb: 131072 } enable_extra_guardrails: true "
     "guardrail_overrides { max_tracing_buffer_size_kb: 4 }",
     "buffers { size_kb: 131076 } enable_extra_guardrails: true "
     "guardrail_overrides { max_tracing_buffer_size_kb: 4 }",
     "allows 131072"},
    {BUFFER "data_sources { config { name: \"x\" target_buffer: 0 } }",
     BUFFER "data_sources { config { name: \"x\" target_buffer: 1 } }", "target_buffer: 1"},
    {BUFFER "buffers { size_kb: 4 name: \"b\" } "
            "data_sources { config { target_buffer: 1 target_buffer_name: \"b\" } }",
     BUFFER "buffers { size_kb: 4 name: \"b\" } buffers { size_kb: 4 } "
            "data_sources { config { target_buffer: 2 target_buffer_name: \"b\" } }",
     "leave one of them out"},
    {"buffers { size_kb: 4 name: \"a\" } buffers { size_kb: 4 name: \"b\" }" BUFFER BUFFER,
     "buffers { size_kb: 4 name: \"a\" } buffers { size_kb: 4 name: \"a\" }",
     "buffers[1].name: \"a\" is the name of buffers[0]"},
    {BUFFER "priority_boost { policy: POLICY_SCHED_OTHER priority: 20 }",
     BUFFER "priority_boost { policy: POLICY_SCHED_OTHER priority: 21 }", "0 to 20"},
    {BUFFER "priority_boost { policy: POLICY_SCHED_FIFO priority: 99 }",
     BUFFER "priority_boost { policy: POLICY_SCHED_FIFO priority: 100 }", "1 to 99"},
    {BUFFER "priority_boost { policy: POLICY_SCHED_FIFO priority: 1 }",
     BUFFER "priority_boost { policy: POLICY_SCHED_FIFO priority: 0 }", "1 to 99"},
    {"buffers { size_kb: 4194303 }", "buffers { size_kb: 4194304 }", "4 GiB"},
    {"buffers { size_kb: 1 }", "buffers { size_kb: 0 }", "give it a size"},
    {BUFFER "enable_extra_guardrails: true deferred_start: false",
     BUFFER "enable_extra_guardrails: true deferred_start: true", "deferred_start"},
    {"trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 5 }",
     "trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 5 } write_into_file: true",
     "write_into_file"},
    {BUFFER "priority_boost { policy: POLICY_SCHED_OTHER priority: 0 }",
     BUFFER "priority_boost { priority: 1 }", "priority_boost.policy"},
    {"buffers { size_kb: 4 name: \"a\" } "
     "data_sources { config { target_buffer_name: \"a\" } }",
     "buffers { size_kb: 4 name: \"a\" } "
     "data_sources { config { target_buffer_name: \"b\" } }",
     "no buffer is named \"b\""},
};

/* A text of the first part, the second one so many times, and the last. */
static int check_times(const char *first, const char *times, unsigned count, const char *last)
{
    static char text[1u << 20];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", first);

    for (unsigned i = 0; i < count; i++) {
        assert_true(len < sizeof(text) - 200);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", times);
    }
    (void)snprintf(text + len, sizeof(text) - len, "%s", last);
    return check(text);
}

static void lists_are_accepted_up_to_their_length(void **state)
{
    static const struct {
        const char *first;
        const char *times;
        const char *last;
        unsigned max;
        const char *field;
    } lists[] = {
        {"", BUFFER, "", PFL_PLAN_MAX_BUFFERS, "buffers: "},
        {BUFFER "data_sources { config { name: \"x\" } ", "producer_name_filter: \"a\" ", "}",
         PFL_PLAN_MAX_FILTERS, "data_sources: "},
        {BUFFER, "session_semaphores { name: \"s\" max_other_session_count: 1 } ", "",
         PFL_PLAN_MAX_SEMAPHORES, "session_semaphores: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (check_times(lists[i].first, lists[i].times, lists[i].max, lists[i].last) != 0)
            fail_msg("refused: %s", why);
        assert_int_equal(
            check_times(lists[i].first, lists[i].times, lists[i].max + 1, lists[i].last),
            PFL_EINVAL);
        assert_memory_equal(why, lists[i].field, strlen(lists[i].field));
    }
    pfl_sweep_assert_no_leak();
}

static void each_number_is_accepted_up_to_its_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (check(limits[i].accepted) != 0)
            fail_msg("refused: %s: %s", limits[i].accepted, why);
        if (check(limits[i].refused) != PFL_EINVAL || strstr(why, limits[i].field) == NULL)
            fail_msg("%s: \"%s\"", limits[i].refused, why);
    }
    pfl_sweep_assert_no_leak();
}

static void segments_have_a_least_size_and_age_and_a_file(void **state)
{
    static const char file[] = BUFFER "write_into_file: true output_path: \"/d/f\" ";
    static const struct {
        const char *rotation;
        int rc;
    } cases[] = {
        {"max_segment_bytes: 65536", 0},
        {"max_segment_bytes: 65535", PFL_EINVAL},
        {"segment_period_ms: 1000", 0},
        {"segment_period_ms: 999", PFL_EINVAL},
        {"max_segments: 0", 0},
        {"max_segments: 1", PFL_EINVAL},
        {"max_segments: 1 max_segment_bytes: 65536", 0},
        {"shorten_index_every: 1", PFL_EINVAL},
        {"shorten_index_every: 1 segment_period_ms: 1000", 0},
    };
    char text[300];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s perfleet_rotation { %s }", file, cases[i].rotation);
        if (check(text) != cases[i].rc)
            fail_msg("%s: %s", text, why);
    }
    assert_int_equal(check(BUFFER "write_into_file: true "
                                  "perfleet_rotation { segment_period_ms: 1000 }"),
                     PFL_EINVAL);
    assert_int_equal(check(BUFFER "output_path: \"/d/f\" "
                                  "perfleet_rotation { segment_period_ms: 1000 }"),
                     PFL_EINVAL);
}

static void the_name_of_a_segment_has_plain_characters_and_a_length(void **state)
{
    static const char wrong[] = "@[`{:, ^";
    char name[PFL_PLAN_SEGMENT_NAME_MAX + 2];
    char text[500];

    (void)state;
    assert_int_equal(check(FILE_TO("AZaz09._-")), 0);
    assert_int_equal(check(FILE_TO("")), PFL_EINVAL);
    for (size_t i = 0; wrong[i] != '\0'; i++) {
        (void)snprintf(text, sizeof(text), FILE_TO("%c"), wrong[i]);
        assert_int_equal(check(text), PFL_EINVAL);
    }
    for (size_t len = PFL_PLAN_SEGMENT_NAME_MAX; len <= PFL_PLAN_SEGMENT_NAME_MAX + 1; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        (void)snprintf(text, sizeof(text), FILE_TO("%s"), name);
        assert_int_equal(check(text), len <= PFL_PLAN_SEGMENT_NAME_MAX ? 0 : PFL_EINVAL);
    }
    assert_int_equal(check(BUFFER "bugreport_filename: \"AZaz09._-\""), 0);
    assert_int_equal(check(BUFFER "bugreport_filename: \"a/b\""), PFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_accepted_up_to_its_limit),
        cmocka_unit_test(lists_are_accepted_up_to_their_length),
        cmocka_unit_test(segments_have_a_least_size_and_age_and_a_file),
        cmocka_unit_test(the_name_of_a_segment_has_plain_characters_and_a_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
