/* SPDX-License-Identifier: Apache-2.0 */
/* What is an order, and what is refused in which words. */
#include "proto/order/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "perfetto/trace_config.fields.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define CONFIG                                                                                     \
    "config { buffers { size_kb: 1024 } data_sources { config { name: \"track_event\" } } } "

static char why[PFL_ORDER_WHY_BYTES];

static int parse(const char *text, unsigned flags, Perfleet__Order **ret_order)
{
    why[0] = '\0';
    return pfl_order_parse(pfl_span_of(text, strlen(text)), flags, ret_order, why);
}

static Perfleet__Order *must_parse(const char *text)
{
    Perfleet__Order *order = NULL;

    if (parse(text, PFL_ORDER_PLAIN, &order) != 0)
        fail_msg("%s: %s", text, why);
    return order;
}

static void an_order_has_its_defaults(void **state)
{
    Perfleet__Order *order =
        must_parse("name: \"web\" select { label: \"role=web\" } " CONFIG "continuous { }");
    struct pfl_order_terms t;

    (void)state;
    pfl_order_get_terms(order, &t);
    assert_int_equal(t.when, PFL_ORDER_CONTINUOUS);
    assert_int_equal(t.duration_ms, 0);
    assert_int_equal(t.segment_ms, 60000);
    assert_int_equal(t.segment_bytes, 64 << 20);
    assert_int_equal(t.quota_bytes, 1 << 30);
    assert_int_equal(t.quota_age_ms, 7 * 86400000);
    assert_string_equal(t.retention, "default");
    assert_int_equal(t.priority, 0);
    assert_int_equal(t.compression, PERFLEET__ORDER__COMPRESSION__ZSTD);
    assert_false(t.is_paused);
    pfl_proto_free(&order->base);
    pfl_sweep_assert_no_leak();
}

static void what_is_given_holds(void **state)
{
    Perfleet__Order *order = must_parse(
        "name: \"a\" select { } " CONFIG "retention: \"long\" priority: -7 paused: true\n"
        "compression: NONE\n"
        "quota { bytes: 2147483648 age_ms: 3600000 }\n"
        "schedule { every_ms: 60000 duration_ms: 5000 hosts_percent: 10 segment_bytes: 1048576 }");
    struct pfl_order_terms t;

    (void)state;
    pfl_order_get_terms(order, &t);
    assert_int_equal(t.when, PFL_ORDER_SCHEDULE);
    assert_int_equal(t.every_ms, 60000);
    assert_int_equal(t.duration_ms, 5000);
    assert_int_equal(t.hosts_percent, 10);
    assert_int_equal(t.segment_bytes, 1048576);
    assert_true(t.quota_bytes == 2147483648);
    assert_int_equal(t.quota_age_ms, 3600000);
    assert_string_equal(t.retention, "long");
    assert_int_equal(t.priority, -7);
    assert_int_equal(t.compression, PERFLEET__ORDER__COMPRESSION__NONE);
    assert_true(t.is_paused);
    pfl_proto_free(&order->base);

    order = must_parse("name: \"a\" select { } " CONFIG
                       "on_trigger { trigger: \"oom\" trigger: \"slow\" after_ms: 2000 }");
    pfl_order_get_terms(order, &t);
    assert_int_equal(t.when, PFL_ORDER_ON_TRIGGER);
    assert_int_equal(t.triggers_len, 2);
    assert_string_equal(t.triggers[1], "slow");
    assert_int_equal(t.min_interval_ms, 60000);
    assert_int_equal(t.after_ms, 2000);
    assert_int_equal(t.segment_bytes, 0);
    pfl_proto_free(&order->base);

    order = must_parse("name: \"a\" select { } " CONFIG "once { duration_ms: 1000 }");
    pfl_order_get_terms(order, &t);
    assert_int_equal(t.when, PFL_ORDER_ONCE);
    assert_int_equal(t.duration_ms, 1000);
    pfl_proto_free(&order->base);
    pfl_sweep_assert_no_leak();
}

static void what_is_no_order_is_refused_in_words(void **state)
{
    static const struct {
        const char *text;
        const char *why; /* how the reason begins */
    } bad[] = {
        {"", "name: "},
        {"name: \".a\" select { } " CONFIG "continuous { }", "name: "},
        {"name: \"a/b\" select { } " CONFIG "continuous { }", "name: "},
        {"name: \"a\" " CONFIG "continuous { }", "select: say"},
        {"name: \"a\" select { host: \"a b\" } " CONFIG "continuous { }", "select: a host"},
        {"name: \"a\" select { label: \"web\" } " CONFIG "continuous { }", "select: a label"},
        {"name: \"a\" select { label: \"=web\" } " CONFIG "continuous { }", "select: a label"},
        {"name: \"a\" select { } continuous { }", "give either config"},
        {"name: \"a\" select { } preset: \"sched\" continuous { }", "preset: "},
        {"name: \"a\" select { } config { } continuous { }", "config: it has no data_sources"},
        {"name: \"a\" select { } config { data_sources { } } continuous { }",
         "config: it has no buffers"},
        {"name: \"a\" select { } " CONFIG, "give exactly one of"},
        {"name: \"a\" select { } " CONFIG "continuous { } once { duration_ms: 1000 }",
         "give exactly one of"},
        {"name: \"a\" select { } " CONFIG "continuous { segment_ms: 999 }",
         "continuous.segment_ms: 999 is out of range: give 1000 to 86400000"},
        {"name: \"a\" select { } " CONFIG "continuous { segment_bytes: 1 }",
         "continuous.segment_bytes: "},
        {"name: \"a\" select { } " CONFIG "on_trigger { }", "on_trigger.trigger: give 1 to 8"},
        {"name: \"a\" select { } " CONFIG "on_trigger { trigger: \"a b\" }",
         "on_trigger.trigger: a name"},
        {"name: \"a\" select { } " CONFIG "on_trigger { trigger: \"a\" min_interval_ms: 0 }",
         "on_trigger.min_interval_ms: "},
        {"name: \"a\" select { } " CONFIG "on_trigger { trigger: \"a\" after_ms: 600001 }",
         "on_trigger.after_ms: "},
        {"name: \"a\" select { } " CONFIG "schedule { every_ms: 60000 }", "schedule: give every"},
        {"name: \"a\" select { } " CONFIG "schedule { every_ms: 60000 duration_ms: 60001 }",
         "schedule.duration_ms: a run is longer"},
        {"name: \"a\" select { } " CONFIG
         "schedule { every_ms: 60000 duration_ms: 1000 hosts_percent: 101 }",
         "schedule.hosts_percent: "},
        {"name: \"a\" select { } " CONFIG
         "schedule { every_ms: 60000 duration_ms: 1000 hosts_percent: 1 hosts_count: 1 }",
         "schedule: give one of"},
        {"name: \"a\" select { } " CONFIG "once { }", "once: give duration_ms"},
        {"name: \"a\" select { } " CONFIG "once { duration_ms: 99 }", "once.duration_ms: "},
        {"name: \"a\" select { } " CONFIG "continuous { } quota { bytes: 1048576 }",
         "quota.bytes: 1048576 is less than two segments; give at least 134217728"},
        {"name: \"a\" select { } " CONFIG "continuous { } quota { age_ms: 1 }", "quota.age_ms: "},
        {"name: \"a\" select { } " CONFIG "continuous { } priority: 101", "priority: "},
        {"name: \"a\" select { } " CONFIG "continuous { } compression: 9", "compression: "},
        {"name: \"a\" select { } " CONFIG "continuous { } retention: \"a/b\"", "retention: "},
        {"name: \"a\"\nselect { hots: \"h\" }", "2:10: no field \"hots\""},
        {"name: \"a", "1:7: "},
    };
    Perfleet__Order *order;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i].text, PFL_ORDER_PLAIN, &order) != PFL_EPARSE ||
            strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
            fail_msg("%s: %s", bad[i].text, why);
    pfl_sweep_assert_no_leak();
}

static void a_config_has_no_field_that_the_order_sets(void **state)
{
    static const struct {
        const char *field;
        const char *value;
    } own[] = {
        {"duration_ms", ": 1"},
        {"write_into_file", ": true"},
        {"file_write_period_ms", ": 1"},
        {"max_file_size_bytes", ": 1"},
        {"deferred_start", ": true"},
        {"trigger_config", " { }"},
        {"unique_session_name", ": \"\""},
        {"compression_type", ": 1"},
        {"output_path", ": \"\""},
        {"compression", " { }"},
        {"perfleet_rotation", " { }"},
    };
    Perfleet__Order *order;

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        char text[400];
        char wanted[100];

        snprintf(
            text, sizeof(text),
            "name: \"a\" select { } config { data_sources { } buffers { } %s%s } continuous { }",
            own[i].field, own[i].value);
        snprintf(wanted, sizeof(wanted), "config.%s: ", own[i].field);
        if (parse(text, PFL_ORDER_PLAIN, &order) != PFL_EPARSE ||
            strncmp(why, wanted, strlen(wanted)) != 0)
            fail_msg("%s: %s", text, why);
    }
    pfl_sweep_assert_no_leak();
}

static void a_preset_becomes_a_config_without_what_the_order_sets(void **state)
{
    static const char text[] = "name: \"a\" select { } preset: \"sched\" once { duration_ms: 500 }";
    uint8_t config[200];
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));
    Perfleet__Order *order;

    (void)state;
    assert_int_equal(parse(text, PFL_ORDER_MAY_HAVE_PRESET, &order), 0);
    assert_string_equal(order->preset, "sched");
    pfl_writer_field_varint(&w, TRACE_CONFIG__DURATION_MS, 10000);
    pfl_writer_field_bytes(&w, TRACE_CONFIG__BUFFERS, "", 0);
    pfl_writer_field_bytes(&w, TRACE_CONFIG__DATA_SOURCES, "", 0);
    pfl_writer_field_varint(&w, 60000, 7); /* another service's */
    assert_int_equal(pfl_order_set_config(order, pfl_span_of("\x0a\x05", 2)), PFL_EPARSE);
    assert_string_equal(order->preset, "sched");
    assert_int_equal(pfl_order_set_config(order, pfl_span_of(config, (size_t)(w.pos - config))), 0);
    assert_null(order->preset);
    assert_int_equal(order->config->has_duration_ms, 0);
    assert_int_equal(order->config->n_buffers, 1);
    assert_int_equal(order->config->base.n_unknown_fields, 1);
    assert_int_equal(pfl_order_check(order, PFL_ORDER_PLAIN, why), 0);
    pfl_proto_free(&order->base);
    pfl_sweep_assert_no_leak();
}

static void a_peers_bytes_are_checked_as_well(void **state)
{
    Perfleet__Order *order = must_parse("name: \"a\" select { } " CONFIG "continuous { }");
    Perfleet__Order *again;
    struct pfl_buf bytes;

    (void)state;
    pfl_buf_init(&bytes, PFL_ORDER_MAX_BYTES + 100);
    assert_int_equal(pfl_proto_pack(&order->base, &bytes), 0);
    pfl_proto_free(&order->base);
    assert_int_equal(pfl_order_unpack(pfl_buf_get(&bytes), &again, why), 0);
    pfl_proto_free(&again->base);
    for (size_t cut = 0; cut < bytes.len; cut++)
        if (pfl_order_unpack(pfl_span_of(pfl_buf_get(&bytes).data, cut), &again, why) == 0)
            fail_msg("%zu bytes are an order", cut);
    /* Field 31, which is nobody's: of a newer version. */
    assert_int_equal(pfl_buf_append(&bytes, "\xf8\x01\x01", 3), 0);
    assert_int_equal(pfl_order_unpack(pfl_buf_get(&bytes), &again, why), PFL_EPARSE);
    assert_memory_equal(why, "it has a field", 14);
    assert_int_equal(pfl_buf_append(&bytes, CONFIG, 1), 0);
    assert_int_equal(pfl_order_unpack(pfl_buf_get(&bytes), &again, why), PFL_EPARSE);
    assert_string_equal(why, "it is malformed");
    bytes.len = 0;
    while (bytes.len <= PFL_ORDER_MAX_BYTES)
        assert_int_equal(pfl_buf_append(&bytes, "\x0a\x01x", 3), 0);
    assert_int_equal(pfl_order_unpack(pfl_buf_get(&bytes), &again, why), PFL_ELIMIT);
    pfl_buf_fini(&bytes);
    pfl_sweep_assert_no_leak();
}

static int parse_and_resolve(void *arg)
{
    Perfleet__Order *order;
    int rc = parse(arg, PFL_ORDER_MAY_HAVE_PRESET, &order);

    if (rc != 0)
        return rc;
    rc = pfl_order_set_config(order, pfl_span_of("\x0a\x00\x12\x00", 4));
    pfl_proto_free(&order->base);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    static char text[] =
        "name: \"a\" select { host: \"w*\" label: \"role=web\" } preset: \"sched\" "
        "on_trigger { trigger: \"oom\" }";

    (void)state;
    pfl_sweep(parse_and_resolve, text, false);
}

/* An order with one number; what it says of it, "" if it takes it. */
static const char *why_not(const char *before, uint64_t value, const char *after)
{
    Perfleet__Order *order = NULL;
    static char text[600];

    (void)snprintf(text, sizeof(text), "name: \"a\" select { } " CONFIG "%s%llu%s", before,
                   (unsigned long long)value, after);
    if (parse(text, PFL_ORDER_PLAIN, &order) == 0)
        pfl_proto_free(&order->base);
    return why;
}

static void each_number_has_its_bounds_and_both_are_taken(void **state)
{
#define QUOTA "} quota { bytes: 17592186044416 "
    static const struct {
        const char *before;
        const char *after;
        const char *name;
        uint64_t min;
        uint64_t max;
    } bounds[] = {
        {"continuous { segment_ms: ", "}", "continuous.segment_ms: ", 1000, 86400000},
        {"continuous { segment_bytes: ", QUOTA "}", "continuous.segment_bytes: ", 65536,
         17179869184},
        {"on_trigger { trigger: \"t\" min_interval_ms: ", "}", "on_trigger.min_interval_ms: ", 1000,
         86400000},
        {"on_trigger { trigger: \"t\" after_ms: ", "}", "on_trigger.after_ms: ", 0, 600000},
        {"schedule { duration_ms: 100 every_ms: ", "}", "schedule.every_ms: ", 10000, 2678400000},
        {"schedule { every_ms: 2678400000 duration_ms: ", "}", "schedule.duration_ms: ", 100,
         604800000},
        {"schedule { every_ms: 10000 duration_ms: 100 hosts_percent: ", "}",
         "schedule.hosts_percent: ", 1, 100},
        {"schedule { every_ms: 10000 duration_ms: 100 hosts_count: ", "}",
         "schedule.hosts_count: ", 1, 65536},
        {"schedule { every_ms: 10000 duration_ms: 100 segment_bytes: ", QUOTA "}",
         "schedule.segment_bytes: ", 65536, 17179869184},
        {"once { duration_ms: ", "}", "once.duration_ms: ", 100, 604800000},
        {"once { duration_ms: 100 segment_bytes: ", QUOTA "}", "once.segment_bytes: ", 65536,
         17179869184},
        {"once { duration_ms: 100 segment_bytes: 65536 } quota { age_ms: ", "}",
         "quota.age_ms: ", 60000, 7776000000},
        {"once { duration_ms: 100 segment_bytes: 65536 } quota { bytes: ", "}",
         "quota.bytes: ", 131072, 17592186044416},
        {"once { duration_ms: 100 } priority: ", "", "priority: ", 0, 100},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const char *before = bounds[i].before;
        const char *after = bounds[i].after;

        assert_string_equal(why_not(before, bounds[i].min, after), "");
        assert_string_equal(why_not(before, bounds[i].max, after), "");
        assert_memory_equal(why_not(before, bounds[i].max + 1, after), bounds[i].name,
                            strlen(bounds[i].name));
        if (bounds[i].min != 0)
            assert_memory_equal(why_not(before, bounds[i].min - 1, after), bounds[i].name,
                                strlen(bounds[i].name));
    }
    assert_string_equal(why_not("once { duration_ms: 100 } priority: -", 100, ""), "");
    assert_memory_equal(why_not("once { duration_ms: 100 } priority: -", 101, ""),
                        "priority: ", 10);
    assert_string_equal(why_not("schedule { every_ms: 10000 duration_ms: ", 10000, "}"), "");
    assert_memory_equal(why_not("schedule { every_ms: 10000 duration_ms: ", 10001, "}"),
                        "schedule.duration_ms: a run is longer", 37);
    pfl_sweep_assert_no_leak();
}

static void an_order_has_so_many_triggers_and_not_one_more(void **state)
{
#define FOUR "trigger: \"t1\" trigger: \"t2\" trigger: \"t3\" trigger: \"t4\" "
    (void)state;
    assert_string_equal(why_not("on_trigger { " FOUR FOUR "after_ms: ", 1, "}"), "");
    assert_string_equal(why_not("on_trigger { " FOUR FOUR "trigger: \"t5\" after_ms: ", 1, "}"),
                        "on_trigger.trigger: give 1 to 8 names");
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_has_its_defaults),
        cmocka_unit_test(what_is_given_holds),
        cmocka_unit_test(what_is_no_order_is_refused_in_words),
        cmocka_unit_test(a_config_has_no_field_that_the_order_sets),
        cmocka_unit_test(a_preset_becomes_a_config_without_what_the_order_sets),
        cmocka_unit_test(a_peers_bytes_are_checked_as_well),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_number_has_its_bounds_and_both_are_taken),
        cmocka_unit_test(an_order_has_so_many_triggers_and_not_one_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
