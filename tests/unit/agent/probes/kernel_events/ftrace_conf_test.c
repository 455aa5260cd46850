/* SPDX-License-Identifier: Apache-2.0 */
/* FtraceConfig: which events a pattern matches, what is ignored, what is refused. */
#include "agent/probes/kernel_events/ftrace_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/ftrace_config.fields.h"
#include "tests/support/sweep.h"

static const uint8_t config[] = "\x0a\x07sched/*"
                                "\x0a\x05print"
                                "\x0a\x0bpower:state"
                                "\x50\x80\x08"         /* buffer_size_kb: 1024 */
                                "\x58\x0a"             /* drain_period_ms: 10 */
                                "\x62\x02\x08\x00"     /* compact_sched { enabled: false } */
                                "\x12\x02gf"           /* atrace_categories */
                                "\x80\x01\x01"         /* disable_generic_events */
                                "\x92\x01\x04gone"     /* syscall_events */
                                "\xf2\x01\x05\x0a\x01" /* kprobe_events { "f" BOTH } */
                                "f\x10\x03"
                                "\xa2\x01\x01"          /* function_filters */
                                "a\xca\x01\x02yy"       /* instance_name */
                                "\xb2\x01\x02\x0a\x00"; /* print_filter */

static void wishes_name_events(void **state)
{
    struct pfl_ftrace_conf conf;
    char text[100];

    (void)state;
    assert_int_equal(pfl_ftrace_conf_parse(pfl_span_of(config, sizeof(config) - 1), &conf), 0);
    assert_true(pfl_ftrace_conf_wants(&conf, "sched", "sched_switch"));
    assert_true(pfl_ftrace_conf_wants(&conf, "ftrace", "print"));
    assert_true(pfl_ftrace_conf_wants(&conf, "power", "state"));
    assert_false(pfl_ftrace_conf_wants(&conf, "schedule", "x"));
    assert_false(pfl_ftrace_conf_wants(&conf, "sch", "x"));
    assert_false(pfl_ftrace_conf_wants(&conf, "power", "states"));
    assert_int_equal(conf.buffer_size_kb, 1024);
    assert_int_equal(conf.drain_period_ms, 10);
    assert_true(conf.no_compact_sched && conf.no_generic_events);
    assert_int_equal(conf.ignored, PFL_FTRACE_NO_ATRACE);
    pfl_ftrace_conf_list_ignored(&conf, text, sizeof(text));
    assert_string_equal(text, "not supported by perfleet-probes: atrace_categories");
    pfl_ftrace_conf_list_ignored(&conf, text, 10);
    assert_string_equal(text, "not suppo");
    pfl_ftrace_conf_fini(&conf);
    pfl_sweep_assert_no_leak();
}

static void what_holds_for_the_whole_instance_is_read(void **state)
{
    /* tids_to_trace 5 and 300, tracefs_options a on, b off, two bad ones, tracing_cpumask "3",
     * drain_buffer_percent 20, denser_generic_event_encoding false */
    static const char bytes[] = "\x98\x02\x05\x98\x02\xac\x02"
                                "\xa2\x02\x05\x0a\x01"
                                "a\x10\x01"
                                "\xa2\x02\x05\x0a\x01"
                                "b\x10\x02"
                                "\xa2\x02\x05\x0a\x01"
                                "/\x10\x01"
                                "\xa2\x02\x03\x0a\x01"
                                "c"
                                "\xaa\x02\x01"
                                "3"
                                "\xe8\x01\x14\x80\x02\x00";
    struct pfl_ftrace_conf conf;

    (void)state;
    assert_int_equal(pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - 1), &conf), 0);
    assert_true(pfl_ftrace_conf_is_exclusive(&conf));
    assert_int_equal(conf.tid_count, 2);
    assert_int_equal(conf.tids[1], 300);
    assert_int_equal(conf.option_count, 2);
    assert_string_equal(conf.options[0], "a");
    assert_string_equal(conf.options[1], "nob");
    assert_string_equal(conf.cpumask, "3");
    assert_int_equal(conf.drain_percent, 20);
    assert_true(conf.no_dense);
    pfl_ftrace_conf_fini(&conf);
    pfl_sweep_assert_no_leak();
}

static void filters_clock_and_symbols_are_read(void **state)
{
    /* syscall_events "sys_read" and "sys_no", print_filter { rules {} }, use_monotonic_raw_clock,
     * symbolize_ksyms, ksyms_mem_policy KSYMS_RETAIN, throttle_rss_stat, buffer_size_lower_bound */
    static const char bytes[] = "\x92\x01\x08sys_read"
                                "\x92\x01\x06sys_no"
                                "\xb2\x01\x02\x0a\x00"
                                "\xc0\x01\x01\x68\x01\x88\x01\x02\x78\x01\xd8\x01\x01";
    struct pfl_ftrace_conf conf;

    (void)state;
    assert_int_equal(pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - 1), &conf), 0);
    assert_true(pfl_ftrace_conf_wants(&conf, "raw_syscalls", "sys_enter"));
    assert_true(pfl_ftrace_conf_wants(&conf, "raw_syscalls", "sys_exit"));
    assert_false(pfl_ftrace_conf_wants(&conf, "syscalls", "sys_enter"));
    assert_true(conf.syscalls.is_on);
    assert_int_equal(conf.unknown_syscall_count, 1);
    assert_string_equal(conf.unknown_syscalls[0], "sys_no");
    assert_int_equal(conf.print_filter.count, 1);
    assert_true(conf.has_mono_raw && conf.symbolize_ksyms && conf.retain_ksyms);
    assert_true(conf.throttle_rss_stat && conf.is_lower_bound);
    assert_int_equal(conf.ignored, 0);
    pfl_ftrace_conf_fini(&conf);
    pfl_sweep_assert_no_leak();
}

static void functions_probes_and_borrowed_buffers_are_read(void **state)
{
    /* kprobe_events { "f" KPROBE }, { "g" BOTH }, { "f" BOTH }, { "h" UNKNOWN };
     * enable_function_graph, function_filters "a", "b*", function_graph_roots "r",
     * function_graph_max_depth 300; preserve_ftrace_buffer; instance_name "x" then "yy";
     * ftrace_events "perfetto_kprobes/f" */
    static const char bytes[] = "\xf2\x01\x05\x0a\x01"
                                "f\x10\x01"
                                "\xf2\x01\x05\x0a\x01"
                                "g\x10\x03"
                                "\xf2\x01\x05\x0a\x01"
                                "f\x10\x03"
                                "\xf2\x01\x05\x0a\x01"
                                "h\x10\x00"
                                "\x98\x01\x01\xa2\x01\x01"
                                "a\xa2\x01\x02"
                                "b*\xaa\x01\x01"
                                "r\x88\x02\xac\x02\xb8\x01\x01\xca\x01\x01"
                                "x\xca\x01\x02yy"
                                "\x0a\x12perfetto_kprobes/f";
    struct pfl_ftrace_conf conf;

    (void)state;
    assert_int_equal(pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - 1), &conf), 0);
    assert_int_equal(conf.kprobe_count, 4);
    assert_int_equal(conf.kprobes[0].type, PFL_KPROBE_INSTANT);
    assert_false(conf.kprobes[0].is_return);
    assert_string_equal(conf.kprobes[1].name, "g");
    assert_int_equal(conf.kprobes[1].type, PFL_KPROBE_BEGIN);
    assert_int_equal(conf.kprobes[2].type, PFL_KPROBE_END);
    assert_true(conf.kprobes[2].is_return);
    assert_string_equal(conf.kprobes[3].name, "f");
    assert_int_equal(conf.kprobes[3].type, PFL_KPROBE_END);
    assert_true(conf.has_graph && conf.is_preserving);
    assert_int_equal(conf.graph_filters.count, 2);
    assert_string_equal(conf.graph_filters.items[1], "b*");
    assert_int_equal(conf.graph_roots.count, 1);
    assert_int_equal(conf.graph_depth, 300);
    assert_string_equal(conf.instance_name, "yy");
    assert_false(pfl_ftrace_conf_wants(&conf, "perfetto_kprobes", "f"));
    assert_true(pfl_ftrace_conf_wants(&conf, "ftrace", "funcgraph_entry"));
    assert_true(pfl_ftrace_conf_wants(&conf, "ftrace", "funcgraph_exit"));
    assert_int_equal(conf.ignored, 0);
    pfl_ftrace_conf_fini(&conf);
    pfl_sweep_assert_no_leak();
}

static void config_cut_at_every_length_is_read_or_refused(void **state)
{
    struct pfl_ftrace_conf conf;

    (void)state;
    for (size_t len = 0; len < sizeof(config); len++) {
        int rc = pfl_ftrace_conf_parse(pfl_span_of(config, len), &conf);

        assert_true(rc == 0 || rc == PFL_EPARSE);
        pfl_ftrace_conf_fini(&conf);
    }
    pfl_sweep_assert_no_leak();
}

static int parse_once(void *arg)
{
    struct pfl_ftrace_conf conf;
    int rc = pfl_ftrace_conf_parse(pfl_span_of(config, sizeof(config) - 1), &conf);

    (void)arg;
    if (rc == 0)
        pfl_ftrace_conf_fini(&conf);
    return rc;
}

static void parsing_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(parse_once, NULL, false);
}

/* A config of `count` fields, each with a text of its own. */
static int parse_many(uint32_t field, size_t count, struct pfl_ftrace_conf *ret_conf)
{
    static uint8_t bytes[1u << 20];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    for (size_t i = 0; i < count; i++) {
        uint8_t message[32];
        struct pfl_writer m = pfl_writer_of(message, sizeof(message));
        char name[24];

        (void)snprintf(name, sizeof(name), "n%zu", i);
        if (field == FTRACE_CONFIG__TIDS_TO_TRACE) {
            pfl_writer_field_varint(&w, field, i + 1);
            continue;
        }
        pfl_writer_field_bytes(&m, 1, name, strlen(name));
        pfl_writer_field_varint(&m, 2, 1); /* KPROBE; STATE_ENABLED */
        if (field == FTRACE_CONFIG__KPROBE_EVENTS || field == FTRACE_CONFIG__TRACEFS_OPTIONS)
            pfl_writer_field_bytes(&w, field, message, sizeof(message) - m.left);
        else
            pfl_writer_field_bytes(&w, field, name, strlen(name));
    }
    assert_false(w.failed);
    return pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - w.left), ret_conf);
}

static void lists_have_so_many_entries_and_not_one_more(void **state)
{
    static const struct {
        uint32_t field;
        size_t max;
        size_t at; /* of the count */
    } lists[] = {
        {FTRACE_CONFIG__FTRACE_EVENTS, PFL_FTRACE_WISHES_MAX,
         offsetof(struct pfl_ftrace_conf, wanted_count)},
        {FTRACE_CONFIG__SYSCALL_EVENTS, PFL_FTRACE_WISHES_MAX,
         offsetof(struct pfl_ftrace_conf, unknown_syscall_count)},
        {FTRACE_CONFIG__FUNCTION_FILTERS, PFL_FTRACE_WISHES_MAX,
         offsetof(struct pfl_ftrace_conf, graph_filters.count)},
        {FTRACE_CONFIG__FUNCTION_GRAPH_ROOTS, PFL_FTRACE_WISHES_MAX,
         offsetof(struct pfl_ftrace_conf, graph_roots.count)},
        {FTRACE_CONFIG__TIDS_TO_TRACE, PFL_FTRACE_TIDS_MAX,
         offsetof(struct pfl_ftrace_conf, tid_count)},
        {FTRACE_CONFIG__TRACEFS_OPTIONS, PFL_FTRACE_OPTIONS_MAX,
         offsetof(struct pfl_ftrace_conf, option_count)},
        {FTRACE_CONFIG__KPROBE_EVENTS, PFL_FTRACE_KPROBES_MAX,
         offsetof(struct pfl_ftrace_conf, kprobe_count)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct pfl_ftrace_conf conf;
        size_t count;

        assert_int_equal(parse_many(lists[i].field, lists[i].max, &conf), 0);
        memcpy(&count, (const uint8_t *)&conf + lists[i].at, sizeof(count));
        assert_int_equal(count, lists[i].max);
        pfl_ftrace_conf_fini(&conf);
        assert_int_equal(parse_many(lists[i].field, lists[i].max + 1, &conf), PFL_ELIMIT);
        pfl_ftrace_conf_fini(&conf);
    }
    pfl_sweep_assert_no_leak();
}

static int parse_text(uint32_t field, size_t len, struct pfl_ftrace_conf *ret_conf)
{
    static uint8_t text[8192];
    static uint8_t bytes[sizeof(text) + 16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    memset(text, 'a', sizeof(text));
    pfl_writer_field_bytes(&w, field, text, len);
    assert_false(w.failed);
    return pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - w.left), ret_conf);
}

static void texts_have_so_many_bytes_and_not_one_more(void **state)
{
    struct pfl_ftrace_conf conf;

    (void)state;
    assert_int_equal(parse_text(FTRACE_CONFIG__INSTANCE_NAME, PFL_FTRACE_NAME_MAX - 1, &conf), 0);
    assert_int_equal(strlen(conf.instance_name), PFL_FTRACE_NAME_MAX - 1);
    pfl_ftrace_conf_fini(&conf);
    assert_int_equal(parse_text(FTRACE_CONFIG__INSTANCE_NAME, PFL_FTRACE_NAME_MAX, &conf),
                     PFL_ELIMIT);
    pfl_ftrace_conf_fini(&conf);
    assert_int_equal(parse_text(FTRACE_CONFIG__INSTANCE_NAME, 0, &conf), 0);
    assert_null(conf.instance_name);
    pfl_ftrace_conf_fini(&conf);
    assert_int_equal(parse_text(FTRACE_CONFIG__TRACING_CPUMASK, PFL_FTRACE_CPUMASK_MAX, &conf), 0);
    assert_int_equal(strlen(conf.cpumask), PFL_FTRACE_CPUMASK_MAX);
    pfl_ftrace_conf_fini(&conf);
    assert_int_equal(parse_text(FTRACE_CONFIG__TRACING_CPUMASK, PFL_FTRACE_CPUMASK_MAX + 1, &conf),
                     PFL_ELIMIT);
    pfl_ftrace_conf_fini(&conf);
    assert_int_equal(parse_text(FTRACE_CONFIG__TRACING_CPUMASK, 0, &conf), 0);
    assert_null(conf.cpumask);
    pfl_ftrace_conf_fini(&conf);
    pfl_sweep_assert_no_leak();
}

static struct pfl_ftrace_conf conf_of_number(uint32_t field, uint64_t value)
{
    uint8_t bytes[16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_ftrace_conf conf;

    pfl_writer_field_varint(&w, field, value);
    assert_int_equal(pfl_ftrace_conf_parse(pfl_span_of(bytes, sizeof(bytes) - w.left), &conf), 0);
    return conf;
}

static void numbers_are_capped_and_switches_are_each_their_own(void **state)
{
    struct pfl_ftrace_conf conf = conf_of_number(FTRACE_CONFIG__BUFFER_SIZE_KB, UINT32_MAX);

    (void)state;
    assert_int_equal(conf.buffer_size_kb, UINT32_MAX);
    pfl_ftrace_conf_fini(&conf);
    conf = conf_of_number(FTRACE_CONFIG__DRAIN_PERIOD_MS, UINT64_C(0x100000000));
    assert_int_equal(conf.drain_period_ms, UINT32_MAX);
    pfl_ftrace_conf_fini(&conf);
    conf = conf_of_number(FTRACE_CONFIG__DRAIN_BUFFER_PERCENT, 100);
    assert_int_equal(conf.drain_percent, 100);
    pfl_ftrace_conf_fini(&conf);
    conf = conf_of_number(FTRACE_CONFIG__DRAIN_BUFFER_PERCENT, 101);
    assert_int_equal(conf.drain_percent, 0);
    pfl_ftrace_conf_fini(&conf);
    conf = conf_of_number(FTRACE_CONFIG__TIDS_TO_TRACE, INT32_MAX);
    assert_int_equal(conf.tid_count, 1);
    assert_int_equal(conf.tids[0], INT32_MAX);
    pfl_ftrace_conf_fini(&conf);
    conf = conf_of_number(FTRACE_CONFIG__TIDS_TO_TRACE, (uint64_t)INT32_MAX + 1);
    assert_int_equal(conf.tid_count, 0);
    pfl_ftrace_conf_fini(&conf);
    for (unsigned is_on = 0; is_on < 2; is_on++) {
        conf = conf_of_number(FTRACE_CONFIG__DISABLE_GENERIC_EVENTS, is_on);
        assert_int_equal(conf.no_generic_events, is_on);
        assert_false(conf.is_lower_bound || conf.has_mono_raw || conf.throttle_rss_stat ||
                     conf.symbolize_ksyms || conf.has_graph || conf.is_preserving || conf.no_dense);
        pfl_ftrace_conf_fini(&conf);
        conf = conf_of_number(FTRACE_CONFIG__ENABLE_FUNCTION_GRAPH, is_on);
        assert_int_equal(conf.has_graph, is_on);
        pfl_ftrace_conf_fini(&conf);
        conf = conf_of_number(FTRACE_CONFIG__PRESERVE_FTRACE_BUFFER, is_on);
        assert_int_equal(conf.is_preserving, is_on);
        pfl_ftrace_conf_fini(&conf);
        conf = conf_of_number(FTRACE_CONFIG__DENSER_GENERIC_EVENT_ENCODING, is_on);
        assert_int_equal(conf.no_dense, is_on == 0);
        pfl_ftrace_conf_fini(&conf);
        conf = conf_of_number(FTRACE_CONFIG__DEBUG_FTRACE_ABI, is_on);
        assert_int_equal(conf.ignored, is_on != 0 ? PFL_FTRACE_NO_DEBUG_ABI : 0);
        pfl_ftrace_conf_fini(&conf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_name_events),
        cmocka_unit_test(what_holds_for_the_whole_instance_is_read),
        cmocka_unit_test(filters_clock_and_symbols_are_read),
        cmocka_unit_test(functions_probes_and_borrowed_buffers_are_read),
        cmocka_unit_test(config_cut_at_every_length_is_read_or_refused),
        cmocka_unit_test(parsing_survives_every_failed_allocation),
        cmocka_unit_test(lists_have_so_many_entries_and_not_one_more),
        cmocka_unit_test(texts_have_so_many_bytes_and_not_one_more),
        cmocka_unit_test(numbers_are_capped_and_switches_are_each_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
