/* SPDX-License-Identifier: Apache-2.0 */
/* Configs as operators write them: what goes to the hosts, and what is refused and why. */
#include "consumer/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

#define BASE "buffers { size_kb: 64 } data_sources { config { name: \"x\" } } "

struct prepared {
    struct pfl_buf parsed;
    struct pfl_buf out;
    struct pfl_config_info info;
    struct pfl_config_why why;
};

static int prepare_as(struct prepared *p, const char *text, struct pfl_config_overrides overrides)
{
    int rc;

    *p = (struct prepared){0};
    pfl_buf_init(&p->parsed, PFL_CONFIG_MAX_BYTES);
    pfl_buf_init(&p->out, PFL_CONFIG_MAX_BYTES);
    rc = pfl_config_read(pfl_span_of(text, strlen(text)), "cfg.pbtx", &p->parsed, &p->why);
    if (rc == 0)
        rc = pfl_config_prepare(pfl_buf_get(&p->parsed), &overrides, &p->out, &p->info, &p->why);
    return rc;
}

static int prepare(struct prepared *p, const char *text, uint32_t duration_ms)
{
    return prepare_as(p, text, (struct pfl_config_overrides){.duration_ms = duration_ms});
}

static void fini(struct prepared *p)
{
    pfl_buf_fini(&p->parsed);
    pfl_buf_fini(&p->out);
    pfl_sweep_assert_no_leak();
}

static void refused(const char *text, const char *reason)
{
    struct prepared p;

    assert_int_equal(prepare(&p, text, 0), PFL_EINVAL);
    assert_non_null(strstr(p.why.text, reason));
    fini(&p);
}

static bool loses_interned(const char *text)
{
    struct prepared p;
    bool is_so;

    assert_int_equal(prepare(&p, text, 0), 0);
    is_so = p.info.loses_interned;
    fini(&p);
    return is_so;
}

#define RING    "buffers { size_kb: 64 fill_policy: RING_BUFFER } "
#define DISCARD "buffers { size_kb: 64 fill_policy: DISCARD } "
#define EVENTS  "data_sources { config { name: \"track_event\" } } "

static void track_events_in_a_ring_want_their_interned_data_again(void **state)
{
    (void)state;
    assert_true(loses_interned(RING EVENTS));
    assert_true(loses_interned("buffers { size_kb: 64 } " EVENTS));
    assert_false(loses_interned(DISCARD EVENTS));
    assert_false(loses_interned(RING "data_sources { config { name: \"linux.ftrace\" } }"));
    assert_false(loses_interned(RING EVENTS "incremental_state_config { clear_period_ms: 5000 }"));
    assert_true(loses_interned(RING EVENTS "incremental_state_config { }"));
    assert_false(loses_interned(DISCARD RING EVENTS));
    assert_true(loses_interned(
        DISCARD RING "data_sources { config { name: \"track_event\" target_buffer: 1 } }"));
}

static void a_session_left_running_has_its_name_and_no_duration(void **state)
{
    struct prepared p;
    const char *config = BASE "duration_ms: 1500 unique_session_name: \"other\"";

    (void)state;
    assert_int_equal(prepare_as(&p, config, (struct pfl_config_overrides){.session = "flight"}), 0);
    assert_int_equal(field_value(pfl_buf_get(&p.out), 3), 0);
    assert_int_equal(p.info.duration_ms, 0);
    assert_true(p.info.was_limited);
    /* The last one counts. */
    assert_memory_equal(p.out.data + p.out.start + p.out.len - 6, "flight", 6);
    fini(&p);
}

static void snapshots_on_a_trigger_need_a_session_left_running(void **state)
{
    struct prepared p;
    const char *config = BASE "trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: "
                              "60000 triggers { name: \"t\" } }";

    (void)state;
    refused(config, "perfleet start");
    assert_int_equal(prepare_as(&p, config, (struct pfl_config_overrides){.session = "flight"}), 0);
    fini(&p);
}

static void start_is_deferred_and_duration_kept(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p, BASE "duration_ms: 1500 flush_timeout_ms: 70", 0), 0);
    assert_int_equal(field_value(pfl_buf_get(&p.out), 12), 1);
    assert_int_equal(field_value(pfl_buf_get(&p.out), 3), 1500);
    assert_int_equal(p.info.duration_ms, 1500);
    assert_int_equal(p.info.flush_timeout_ms, 70);
    assert_int_equal(p.info.stop_timeout_ms, 5000);
    assert_true(has_field(pfl_buf_get(&p.out), 2));
    fini(&p);
}

static void duration_of_the_command_line_wins(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p, BASE "duration_ms: 1500", 9000), 0);
    assert_int_equal(field_value(pfl_buf_get(&p.out), 3), 9000);
    assert_int_equal(p.info.duration_ms, 9000);
    fini(&p);
}

static void compression_is_left_out_and_reported(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p, BASE "compression_type: COMPRESSION_TYPE_DEFLATE", 0), 0);
    assert_true(p.info.was_compressed);
    assert_false(has_field(pfl_buf_get(&p.out), 24));
    fini(&p);
}

static void mistakes_are_reported_with_their_place(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p, "buffers { size_kb: 64 }\n  durtion_ms: 5\n", 0), PFL_EPARSE);
    assert_non_null(strstr(p.why.text, "cfg.pbtx:2:3: "));
    assert_non_null(strstr(p.why.text, "duration_ms"));
    fini(&p);
}

static void configs_that_write_on_the_hosts_are_refused(void **state)
{
    (void)state;
    refused(BASE "write_into_file: true", "write_into_file");
    refused(BASE "output_path: \"/tmp/x\"", "output_path");
}

static void configs_that_cannot_be_read_or_started_together_are_refused(void **state)
{
    (void)state;
    refused(BASE "trigger_config { trigger_mode: START_TRACING triggers { name: \"a\" } }",
            "START_TRACING");
    refused(BASE "trigger_config { trigger_mode: CLONE_SNAPSHOT triggers { name: \"a\" } }",
            "CLONE_SNAPSHOT");
    refused("buffers { size_kb: 64 }", "data_sources");
    refused("data_sources { config { name: \"x\" } }", "buffers");
    refused("", "data_sources");
}

static void stop_triggers_are_allowed(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p,
                             BASE "trigger_config { trigger_mode: STOP_TRACING "
                                  "triggers { name: \"a\" } trigger_timeout_ms: 1000 }",
                             0),
                     0);
    fini(&p);
}

static uint32_t smallest_buffer_of(const char *buffers)
{
    struct prepared p;
    char text[256];

    (void)snprintf(text, sizeof(text), "%s data_sources { config { name: \"x\" } }", buffers);
    assert_int_equal(prepare(&p, text, 0), 0);
    fini(&p);
    return p.info.smallest_buffer_kb;
}

static void the_smallest_buffer_is_noted(void **state)
{
    (void)state;
    assert_int_equal(smallest_buffer_of("buffers { size_kb: 64 }"), 64);
    assert_int_equal(smallest_buffer_of("buffers { size_kb: 64 } buffers { size_kb: 32 }"), 32);
    assert_int_equal(smallest_buffer_of("buffers { size_kb: 32 } buffers { size_kb: 64 }"), 32);
}

static void binary_configs_are_taken_as_they_are(void **state)
{
    static const uint8_t binary[] = {0x0a, 0x02, 0x08, 0x40, 0x12, 0x05,
                                     0x0a, 0x03, 0x0a, 0x01, 'x'};
    struct pfl_buf out;
    struct pfl_config_why why = {""};

    (void)state;
    pfl_buf_init(&out, 1024);
    assert_int_equal(pfl_config_read(pfl_span_of(binary, sizeof(binary)), "b", &out, &why), 0);
    assert_memory_equal(pfl_buf_get(&out).data, binary, sizeof(binary));
    assert_int_equal(pfl_config_read(pfl_span_of(binary, sizeof(binary) - 1), "b", &out, &why),
                     PFL_EPARSE);
    assert_non_null(strstr(why.text, "neither"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int prepare_once(void *arg)
{
    struct prepared p;
    int rc = prepare(&p, BASE "duration_ms: 1", 5);

    (void)arg;
    pfl_buf_fini(&p.parsed);
    pfl_buf_fini(&p.out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(prepare_once, NULL, false);
}

/* incremental_state_config (21), whose clear_period_ms is field 1. */
static uint64_t clear_period_of(const char *text, uint32_t wished, uint32_t *ret_noted)
{
    struct prepared p;
    uint64_t period;

    assert_int_equal(prepare_as(&p, text, (struct pfl_config_overrides){.clear_period_ms = wished}),
                     0);
    *ret_noted = p.info.clear_period_ms;
    period = has_field(pfl_buf_get(&p.out), 21)
                 ? field_value(field_bytes(pfl_buf_get(&p.out), 21), 1)
                 : 0;
    fini(&p);
    return period;
}

static void a_rotation_clears_incremental_state(void **state)
{
    static const char own[] = BASE "incremental_state_config { clear_period_ms: 700 }";
    uint32_t noted;

    (void)state;
    assert_int_equal(clear_period_of(BASE, 0, &noted), 0);
    assert_int_equal(noted, 0);
    assert_int_equal(clear_period_of(BASE, 5000, &noted), 5000);
    assert_int_equal(noted, 5000);
    assert_int_equal(clear_period_of(own, 5000, &noted), 700);
    assert_int_equal(noted, 700);
    assert_int_equal(clear_period_of(BASE "incremental_state_config {}", 5000, &noted), 5000);
}

static void what_a_recording_needs_to_know_is_read(void **state)
{
    struct prepared p;

    (void)state;
    assert_int_equal(prepare(&p,
                             BASE "flush_timeout_ms: 7 data_source_stop_timeout_ms: 8 "
                                  "incremental_state_config { clear_period_ms: 9 } "
                                  "builtin_data_sources { disable_clock_snapshotting: true }",
                             0),
                     0);
    assert_int_equal(p.info.flush_timeout_ms, 7);
    assert_int_equal(p.info.stop_timeout_ms, 8);
    assert_int_equal(p.info.clear_period_ms, 9);
    assert_int_equal(p.info.data_sources, 1);
    assert_int_equal(p.info.buffers, 1);
    assert_true(p.info.has_no_snapshots);
    assert_false(p.info.has_triggers || p.info.was_compressed || p.info.was_limited);
    fini(&p);
    assert_int_equal(prepare(&p,
                             BASE "flush_timeout_ms: 0 data_source_stop_timeout_ms: 0 "
                                  "builtin_data_sources { disable_clock_snapshotting: false }",
                             0),
                     0);
    assert_int_equal(p.info.flush_timeout_ms, 5000);
    assert_int_equal(p.info.stop_timeout_ms, 5000);
    assert_int_equal(p.info.clear_period_ms, 0);
    assert_false(p.info.has_no_snapshots);
    fini(&p);
    assert_int_equal(prepare(&p, BASE "data_source_stop_timeout_ms: 1", 0), 0);
    assert_int_equal(p.info.stop_timeout_ms, 1);
    fini(&p);
    refused(BASE "output_path: \"/x\"", "output_path");
    assert_int_equal(prepare(&p, BASE "write_into_file: false output_path: \"\"", 0), 0);
    fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rotation_clears_incremental_state),
        cmocka_unit_test(track_events_in_a_ring_want_their_interned_data_again),
        cmocka_unit_test(a_session_left_running_has_its_name_and_no_duration),
        cmocka_unit_test(snapshots_on_a_trigger_need_a_session_left_running),
        cmocka_unit_test(start_is_deferred_and_duration_kept),
        cmocka_unit_test(duration_of_the_command_line_wins),
        cmocka_unit_test(compression_is_left_out_and_reported),
        cmocka_unit_test(mistakes_are_reported_with_their_place),
        cmocka_unit_test(configs_that_write_on_the_hosts_are_refused),
        cmocka_unit_test(configs_that_cannot_be_read_or_started_together_are_refused),
        cmocka_unit_test(stop_triggers_are_allowed),
        cmocka_unit_test(the_smallest_buffer_is_noted),
        cmocka_unit_test(binary_configs_are_taken_as_they_are),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(what_a_recording_needs_to_know_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
