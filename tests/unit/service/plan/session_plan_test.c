/* SPDX-License-Identifier: Apache-2.0 */
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

/* A config from text; the caller frees. */
static struct pfl_buf config_of(const char *text)
{
    struct pfl_text_error error;
    struct pfl_buf buf;

    pfl_buf_init(&buf, 1u << 20);
    if (pfl_text_format_parse(&perfetto__protos__trace_config__descriptor,
                              pfl_span_of(text, strlen(text)), &buf, &error) != 0)
        fail_msg("%u:%u %s", error.line, error.column, error.message);
    return buf;
}

static struct pfl_session_plan *plan_of(const char *text)
{
    struct pfl_buf buf = config_of(text);
    struct pfl_session_plan *plan;

    assert_int_equal(pfl_session_plan_new(pfl_buf_get(&buf), &plan), 0);
    pfl_buf_fini(&buf);
    return plan;
}

static const char rich[] =
    "buffers { size_kb: 64 name: \"a\" } buffers { size_kb: 128 fill_policy: DISCARD name: \"b\" }"
    "data_sources { config { name: \"x\" target_buffer_name: \"b\" }"
    "  producer_name_filter: \"one\" producer_name_regex_filter: \"two[0-9]+\" }"
    "data_sources { config { name: \"y\" target_buffer: 1 } machine_name_filter: \"m\" }"
    "data_sources { config { name: \"z\" } }"
    "producers { producer_name: \"r\" shm_size_kb: 4 }"
    "producers { producer_name: \"p\" shm_size_kb: 512 page_size_kb: 8 }"
    "producers { producer_name: \"o\" shm_size_kb: 4 } producers { producer_name: \"p\" }"
    "duration_ms: 10 flush_period_ms: 120 flush_timeout_ms: 30 data_source_stop_timeout_ms: 40"
    " incremental_state_config { clear_period_ms: 150 } unique_session_name: \"n\""
    " deferred_start: true trace_uuid_msb: -1 trace_uuid_lsb: 2 exclusive_prio: 3"
    " builtin_data_sources { snapshot_interval_ms: 700 disable_system_info: true"
    "   primary_trace_clock: BUILTIN_CLOCK_MONOTONIC }"
    " session_semaphores { name: \"s\" max_other_session_count: 4 }";

static void every_field_that_counts_is_read(void **state)
{
    struct pfl_session_plan *p = plan_of(rich);
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(p->buffers_len, 2);
    assert_int_equal(p->buffers[1].size_kb, 128);
    assert_int_equal(p->buffers[1].fill_policy, PFL_FILL_DISCARD);
    assert_int_equal(p->sources_len, 3);
    assert_int_equal(pfl_session_plan_check_early(p, why), 0);
    assert_int_equal(p->sources[0].target_buffer, 1);
    assert_int_equal(p->sources[1].target_buffer, 1);
    assert_int_equal(p->sources[2].target_buffer, 0);
    assert_int_equal(p->duration_ms, 10);
    assert_int_equal(p->flush_period_ms, 120);
    assert_int_equal(p->flush_timeout_ms, 30);
    assert_int_equal(p->stop_timeout_ms, 40);
    assert_int_equal(p->clear_period_ms, 150);
    assert_true(pfl_span_eq(p->session_name, pfl_span_of("n", 1)));
    assert_true(p->deferred_start);
    assert_true(p->uuid_msb == UINT64_MAX && p->uuid_lsb == 2);
    assert_int_equal(p->exclusive_prio, 3);
    assert_int_equal(p->builtin.snapshot_period_ms, 700);
    assert_int_equal(p->builtin.primary_clock, 3);
    assert_true(p->builtin.no_system_info);
    assert_int_equal(p->index.semaphores_len, 1);
    assert_int_equal(p->index.semaphores[0].max_others, 4);
    assert_int_equal(pfl_session_plan_check_late(p, why), 0);
    pfl_session_plan_free(p);
    pfl_sweep_assert_no_leak();
}

static void what_is_not_said_has_its_default(void **state)
{
    struct pfl_session_plan *p = plan_of("");

    (void)state;
    assert_int_equal(p->flush_timeout_ms, 5000);
    assert_int_equal(p->stop_timeout_ms, 5000);
    assert_int_equal(p->builtin.snapshot_period_ms, 10000);
    assert_int_equal(p->builtin.primary_clock, 6);
    pfl_session_plan_free(p);
}

static struct pfl_plan_producer producer_named(const char *name)
{
    return (struct pfl_plan_producer){.name = pfl_span_of(name, strlen(name)),
                                      .machine_name = pfl_span_of("here", 4)};
}

static void expect_flushes(const char *config, bool before_each_write, uint32_t period_ms)
{
    struct pfl_session_plan *p = plan_of(config);

    assert_int_equal(p->file.flush_first, before_each_write);
    assert_int_equal(p->flush_period_ms, period_ms);
    pfl_session_plan_free(p);
}

#define FILE_CONFIG "buffers { size_kb: 64 } write_into_file: true flush_period_ms: 177 "

static void a_file_is_flushed_as_its_mode_says_and_not_by_the_period(void **state)
{
    (void)state;
    expect_flushes(FILE_CONFIG, false, 5000);
    expect_flushes(FILE_CONFIG "write_flush_mode: WRITE_FLUSH_AUTO", false, 5000);
    expect_flushes(FILE_CONFIG "file_write_period_ms: 5000", false, 5000);
    expect_flushes(FILE_CONFIG "file_write_period_ms: 5001", true, 0);
    expect_flushes(FILE_CONFIG "write_flush_mode: WRITE_FLUSH_ENABLED", true, 0);
    expect_flushes(FILE_CONFIG "write_flush_mode: WRITE_FLUSH_DISABLED", false, 177);
    expect_flushes("buffers { size_kb: 64 } flush_period_ms: 177", false, 177);
}

static void short_periods_are_lengthened(void **state)
{
    static const char config[] = "buffers { size_kb: 64 } flush_period_ms: 1"
                                 " incremental_state_config { clear_period_ms: 1 }"
                                 " builtin_data_sources { snapshot_interval_ms: 1 }";
    /* The trace's config says it, too: the last one counts. */
    static const uint8_t shown[] = {13 << 3, PFL_PLAN_ASK_PERIOD_MIN_MS};
    struct pfl_session_plan *p = plan_of(config);
    struct pfl_span bytes = pfl_session_plan_get_config(p);

    (void)state;
    assert_int_equal(p->flush_period_ms, PFL_PLAN_ASK_PERIOD_MIN_MS);
    assert_int_equal(p->clear_period_ms, PFL_PLAN_ASK_PERIOD_MIN_MS);
    assert_int_equal(p->builtin.snapshot_period_ms, PFL_PLAN_SNAPSHOT_PERIOD_MIN_MS);
    assert_memory_equal(bytes.data + bytes.len - sizeof(shown), shown, sizeof(shown));
    pfl_session_plan_free(p);
    p = plan_of("buffers { size_kb: 64 }");
    assert_int_equal(p->flush_period_ms, 0);
    assert_int_equal(p->clear_period_ms, 0);
    assert_int_equal(p->builtin.snapshot_period_ms, PFL_PLAN_SNAPSHOT_PERIOD_MS);
    pfl_session_plan_free(p);
}

static bool wants(const struct pfl_session_plan *p, const struct pfl_plan_source *source,
                  const struct pfl_plan_producer *producer)
{
    uint64_t credit = 1000;

    return pfl_session_plan_wants(p, source, producer, &credit);
}

static void producers_are_chosen_by_name_pattern_and_machine(void **state)
{
    struct pfl_session_plan *p = plan_of(rich);
    struct pfl_plan_producer one = producer_named("one");
    struct pfl_plan_producer two = producer_named("two22");
    struct pfl_plan_producer three = producer_named("xtwo2");
    struct pfl_plan_producer remote = producer_named("one");
    char why[PFL_PLAN_WHY_BYTES];

    (void)state;
    assert_int_equal(pfl_session_plan_check_early(p, why), 0);
    remote.machine_id = 5;
    assert_true(wants(p, &p->sources[0], &one));
    assert_true(wants(p, &p->sources[0], &two));
    assert_false(wants(p, &p->sources[0], &three));
    assert_false(wants(p, &p->sources[0], &remote));
    assert_false(wants(p, &p->sources[1], &one));
    one.machine_name = pfl_span_of("m", 1);
    assert_true(wants(p, &p->sources[1], &one));
    assert_true(wants(p, &p->sources[2], &three));
    pfl_session_plan_free(p);
}

static void host_means_this_machine(void **state)
{
    struct pfl_session_plan *p =
        plan_of("data_sources { config { name: \"x\" } machine_name_filter: \"host\" }");
    struct pfl_plan_producer local = producer_named("p");
    struct pfl_plan_producer remote = producer_named("p");

    (void)state;
    remote.machine_id = 1;
    assert_true(wants(p, &p->sources[0], &local));
    assert_false(wants(p, &p->sources[0], &remote));
    pfl_session_plan_free(p);
}

static void shared_memory_sizes_come_by_producer_name(void **state)
{
    struct pfl_session_plan *p = plan_of(rich);
    uint32_t page_kb;
    uint32_t size_kb;

    (void)state;
    pfl_session_plan_get_shm(p, pfl_span_of("p", 1), &page_kb, &size_kb);
    assert_int_equal(page_kb, 8);
    assert_int_equal(size_kb, 512);
    pfl_session_plan_get_shm(p, pfl_span_of("q", 1), &page_kb, &size_kb);
    assert_int_equal(page_kb, 0);
    pfl_session_plan_free(p);
}

static void a_config_cut_anywhere_is_read_or_refused(void **state)
{
    struct pfl_buf buf = config_of(rich);
    unsigned refused = 0;

    (void)state;
    for (size_t len = 0; len < buf.len; len++) {
        struct pfl_session_plan *p;
        int rc = pfl_session_plan_new(pfl_span_of(pfl_buf_get(&buf).data, len), &p);

        assert_true(rc == 0 || rc == PFL_EPARSE);
        refused += rc != 0;
        if (rc == 0)
            pfl_session_plan_free(p);
    }
    assert_true(refused > buf.len / 2);
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static void more_data_sources_than_the_table_holds_are_refused(void **state)
{
    static uint8_t bytes[2 * (PFL_PLAN_MAX_SOURCES + 1)];
    struct pfl_session_plan *p;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i += 2)
        bytes[i] = 0x12;
    assert_int_equal(pfl_session_plan_new(pfl_span_of(bytes, sizeof(bytes)), &p), PFL_ELIMIT);
    assert_int_equal(pfl_session_plan_new(pfl_span_of(bytes, sizeof(bytes) - 2), &p), 0);
    pfl_session_plan_free(p);
}

/* `part` so many times between `begin` and `end`; the caller frees. */
static struct pfl_session_plan *plan_of_many(const char *begin, const char *part, unsigned count,
                                             const char *end)
{
    static char text[1u << 18];
    int len = snprintf(text, sizeof(text), "%s", begin);

    for (unsigned i = 0; i < count; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, part, i);
    assert_in_range(len, 1, sizeof(text) - 2);
    (void)snprintf(text + len, sizeof(text) - (size_t)len, "%s", end);
    return plan_of(text);
}

static void numbers_that_others_would_wait_for_are_refused(void **state)
{
    static const struct {
        const char *part;
        unsigned max;
        const char *words;
    } cases[] = {
        {"session_semaphores { name: \"s%u\" } ", PFL_PLAN_MAX_SEMAPHORES,
         "session_semaphores: 65"},
        {"data_sources { producer_name_filter: \"p%u\" } ", PFL_PLAN_MAX_FILTERS, "1025 filters"},
        {"data_sources { producer_name_regex_filter: \"p%u\" } ", PFL_PATTERN_SET_MAX,
         "data_sources[128].producer_name_regex_filter: \"p128\""},
    };
    static const char buffers[] = "buffers { size_kb: 64 } ";
    char why[PFL_PLAN_WHY_BYTES] = "";

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned max = cases[i].max < PFL_PLAN_MAX_SOURCES ? cases[i].max : PFL_PLAN_MAX_SOURCES;
        struct pfl_session_plan *p = plan_of_many(buffers, cases[i].part, max, "");

        assert_int_equal(pfl_session_plan_check_early(p, why), 0);
        pfl_session_plan_free(p);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i += 2) {
        struct pfl_session_plan *p = plan_of_many(buffers, cases[i].part, cases[i].max + 1, "");

        assert_int_equal(pfl_session_plan_check_early(p, why), PFL_EINVAL);
        assert_non_null(strstr(why, cases[i].words));
        pfl_session_plan_free(p);
    }
    pfl_sweep_assert_no_leak();
}

static void a_trigger_among_thousands_is_found(void **state)
{
    struct pfl_session_plan *p =
        plan_of_many("trigger_config { ", "triggers { name: \"t%u\" } ", 3000, "}");

    (void)state;
    assert_int_equal(p->index.triggers_len, 3000);
    assert_non_null(pfl_session_plan_find_trigger(p, pfl_span_of("t2999", 5)));
    assert_int_equal(pfl_session_plan_find_trigger(p, pfl_span_of("t0", 2))->at, 0);
    assert_null(pfl_session_plan_find_trigger(p, pfl_span_of("t3000", 5)));
    assert_null(pfl_session_plan_find_trigger(p, pfl_span_of("", 0)));
    pfl_session_plan_free(p);
}

static int make_plan(void *arg)
{
    const struct pfl_buf *buf = arg;
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_session_plan *p;
    int rc = pfl_session_plan_new(pfl_buf_get(buf), &p);

    if (rc != 0)
        return rc;
    rc = pfl_session_plan_check_early(p, why);
    pfl_session_plan_free(p);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_buf buf = config_of(rich);

    (void)state;
    pfl_sweep(make_plan, &buf, false);
    pfl_buf_fini(&buf);
}

/* Fields that set no flag. */
static const char *const others[] = {
    "duration_ms: 1",
    "lockdown_mode: LOCKDOWN_SET",
    "flush_period_ms: 1",
    "flush_timeout_ms: 1",
    "data_source_stop_timeout_ms: 1",
    "compression_type: COMPRESSION_TYPE_DEFLATE",
    "trace_uuid_msb: 1",
    "trace_uuid_lsb: 1",
    "bugreport_score: 1",
    "exclusive_prio: 1",
    "file_write_period_ms: 1",
    "max_file_size_bytes: 1",
    "fflush_post_write: FFLUSH_ENABLED",
    "builtin_data_sources { primary_trace_clock: BUILTIN_CLOCK_MONOTONIC }",
    "builtin_data_sources { snapshot_interval_ms: 1 }",
    "trigger_config { trigger_timeout_ms: 1 }",
};

/* A plan's flag by its place. */
static bool get_flag(const struct pfl_session_plan *p, size_t at)
{
    return *(const bool *)(const void *)((const uint8_t *)p + at);
}

static void each_flag_is_its_own_and_off_unless_it_is_on(void **state)
{
#define AT(member)     offsetof(struct pfl_session_plan, member)
#define BUILTIN(field) "builtin_data_sources { " field ": ", " }"
    static const struct {
        const char *before;
        const char *after;
        size_t at;
    } flags[] = {
        {BUILTIN("disable_clock_snapshotting"), AT(builtin.no_clock_snapshots)},
        {BUILTIN("disable_trace_config"), AT(builtin.no_trace_config)},
        {BUILTIN("disable_system_info"), AT(builtin.no_system_info)},
        {BUILTIN("disable_service_events"), AT(builtin.no_service_events)},
        {BUILTIN("disable_chunk_usage_histograms"), AT(builtin.no_histograms)},
        {BUILTIN("prefer_suspend_clock_for_snapshot"), AT(builtin.snapshot_counts_suspend)},
        {BUILTIN("enable_concurrent_session_events"), AT(builtin.wants_sessions)},
        {"write_into_file: ", "", AT(file.is_wanted)},
        {"enable_extra_guardrails: ", "", AT(extra_guardrails)},
        {"deferred_start: ", "", AT(deferred_start)},
        {"trace_all_machines: ", "", AT(trace_all_machines)},
        {"prefer_suspend_clock_for_duration: ", "", AT(duration_counts_suspend)},
        {"trigger_config { use_clone_snapshot_if_available: ", " }", AT(trigger_clones)},
    };
    const size_t len = sizeof(flags) / sizeof(flags[0]);

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct pfl_session_plan *p = plan_of(others[i]);

        for (size_t k = 0; k < len; k++)
            assert_false(get_flag(p, flags[k].at));
        pfl_session_plan_free(p);
    }
    for (size_t i = 0; i < len; i++) {
        for (unsigned is_on = 0; is_on < 2; is_on++) {
            struct pfl_session_plan *p;
            char text[200];

            (void)snprintf(text, sizeof(text), "%s%s%s", flags[i].before,
                           is_on != 0 ? "true" : "false", flags[i].after);
            p = plan_of(text);
            for (size_t k = 0; k < len; k++)
                assert_int_equal(get_flag(p, flags[k].at), k == i && is_on != 0);
            pfl_session_plan_free(p);
        }
    }
}

static void files_rotations_boosts_and_codecs_are_read(void **state)
{
    struct pfl_session_plan *p = plan_of(
        "write_into_file: true file_write_period_ms: 99 max_file_size_bytes: 5000000000"
        " fflush_post_write: FFLUSH_ENABLED output_path: \"/x\""
        " perfleet_rotation { max_segment_bytes: 6000000000 segment_period_ms: 8 max_segments: 9 }"
        " priority_boost { policy: POLICY_SCHED_FIFO priority: 7 }"
        " lockdown_mode: LOCKDOWN_SET bugreport_score: -3 bugreport_filename: \"b\""
        " guardrail_overrides { max_tracing_buffer_size_kb: 77 }"
        " compression { zstd { level: 5 } deflate { } }");

    (void)state;
    assert_int_equal(p->file.period_ms, PFL_PLAN_FILE_PERIOD_MIN_MS);
    assert_true(p->file.max_bytes == 5000000000u);
    assert_true(p->file.wants_sync);
    assert_true(pfl_span_eq(p->file.path, pfl_span_of("/x", 2)));
    assert_true(p->file.segment_max_bytes == 6000000000u);
    assert_int_equal(p->file.segment_period_ms, 8);
    assert_int_equal(p->file.max_segments, 9);
    assert_true(p->has_boost);
    assert_int_equal(p->boost.policy, PFL_BOOST_FIFO);
    assert_int_equal(p->boost.priority, 7);
    assert_int_equal(p->lockdown, PFL_LOCKDOWN_SET);
    assert_int_equal(p->bugreport_score, -3);
    assert_true(pfl_span_eq(p->bugreport_filename, pfl_span_of("b", 1)));
    assert_int_equal(p->guard_max_buffers_kb, 77);
    assert_int_equal(p->codec, PFL_CODEC_ZSTD);
    assert_int_equal(p->zstd_level, 5);
    pfl_session_plan_free(p);
    p = plan_of("fflush_post_write: FFLUSH_DISABLED compression_type: COMPRESSION_TYPE_DEFLATE"
                " file_write_period_ms: 100");
    assert_false(p->file.wants_sync);
    assert_false(p->has_boost);
    assert_int_equal(p->codec, PFL_CODEC_DEFLATE);
    assert_int_equal(p->file.period_ms, 100);
    pfl_session_plan_free(p);
    p = plan_of("write_into_file: true");
    assert_int_equal(p->codec, PFL_CODEC_NONE);
    assert_int_equal(p->file.period_ms, PFL_PLAN_FILE_PERIOD_MS);
    pfl_session_plan_free(p);
    pfl_sweep_assert_no_leak();
}

static void data_sources_of_a_name_are_found_in_their_order(void **state)
{
    struct pfl_session_plan *p = plan_of("data_sources { config { name: \"b\" } }"
                                         " data_sources { config { name: \"a\" } }"
                                         " data_sources { config { } }"
                                         " data_sources { config { name: \"b\" } }"
                                         " data_sources { config { name: \"bb\" } }"
                                         " data_sources { config { name: \"b\" } }");
    const struct pfl_plan_name *found;
    size_t len;

    (void)state;
    found = pfl_session_plan_find_sources(p, pfl_span_of("b", 1), &len);
    assert_int_equal(len, 3);
    assert_int_equal(found[0].at, 0);
    assert_int_equal(found[1].at, 3);
    assert_int_equal(found[2].at, 5);
    found = pfl_session_plan_find_sources(p, pfl_span_of("", 0), &len);
    assert_int_equal(len, 1);
    assert_int_equal(found[0].at, 2);
    assert_null(pfl_session_plan_find_sources(p, pfl_span_of("c", 1), &len));
    assert_int_equal(len, 0);
    assert_null(pfl_session_plan_find_sources(p, pfl_span_of("ab", 2), &len));
    pfl_session_plan_free(p);
    p = plan_of("");
    assert_null(pfl_session_plan_find_sources(p, pfl_span_of("b", 1), &len));
    pfl_session_plan_free(p);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_that_counts_is_read),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(a_file_is_flushed_as_its_mode_says_and_not_by_the_period),
        cmocka_unit_test(short_periods_are_lengthened),
        cmocka_unit_test(producers_are_chosen_by_name_pattern_and_machine),
        cmocka_unit_test(host_means_this_machine),
        cmocka_unit_test(shared_memory_sizes_come_by_producer_name),
        cmocka_unit_test(a_config_cut_anywhere_is_read_or_refused),
        cmocka_unit_test(more_data_sources_than_the_table_holds_are_refused),
        cmocka_unit_test(numbers_that_others_would_wait_for_are_refused),
        cmocka_unit_test(a_trigger_among_thousands_is_found),
        cmocka_unit_test(data_sources_of_a_name_are_found_in_their_order),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(each_flag_is_its_own_and_off_unless_it_is_on),
        cmocka_unit_test(files_rotations_boosts_and_codecs_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
