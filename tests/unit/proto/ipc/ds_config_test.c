/* SPDX-License-Identifier: Apache-2.0 */
/* A data source's config as bytes: found, and rewritten with everything else byte for byte. */
#include "proto/ipc/ds_config.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "perfetto/trace_config.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define OUT_MAX_BYTES 4096u

static const struct pfl_ds_config_overrides overrides = {.target_buffer = 7,
                                                         .trace_duration_ms = 0,
                                                         .tracing_session_id = 1ull << 40,
                                                         .stop_timeout_ms = 5000};

#define APPENDED "\x10\x07\x18\x00\x20\x80\x80\x80\x80\x80\x20\x30\x00\x38\x88\x27\x40\x00"

static struct pfl_span literal(const char *bytes, size_t len)
{
    return pfl_span_of(bytes, len);
}
#define LITERAL(bytes) literal(bytes, sizeof(bytes) - 1)

static void assert_rewritten(struct pfl_span raw, const struct pfl_ds_config_overrides *o,
                             struct pfl_span expected)
{
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(pfl_buf_append(&out, "keep", 4), 0);
    assert_int_equal(pfl_ds_config_rewrite(raw, o, &out), 0);
    assert_int_equal(out.len, 4 + expected.len);
    assert_memory_equal(pfl_buf_get(&out).data, "keep", 4);
    assert_memory_equal(pfl_buf_get(&out).data + 4, expected.data, expected.len);
    pfl_buf_fini(&out);
}

static void service_fields_replace_the_consumers_and_are_present_when_zero(void **state)
{
    (void)state;
    assert_rewritten(LITERAL(""), &overrides, LITERAL(APPENDED));
    assert_rewritten(LITERAL("\x0a\x01x\x10\x01\x18\x05\x20\x06\x30\x01\x38\x01\x40\x01\x48\x02"),
                     &overrides, LITERAL("\x0a\x01x\x48\x02" APPENDED));
}

static void unknown_and_malformed_inner_fields_survive_byte_for_byte(void **state)
{
/* ftrace_config with bytes no decoder takes, an unknown group of fields, an overlong varint. */
#define KEPT "\xa2\x06\x03\xff\xff\xff\xf2\xff\x07\x02hi\x4d\x01\x02\x03\x04\x48\x82\x80\x00"
    (void)state;
    assert_rewritten(LITERAL(KEPT "\x10\x81\x00"), &overrides, LITERAL(KEPT APPENDED));
}

static void suspend_clock_is_the_consumers_unless_the_session_says_so(void **state)
{
    struct pfl_ds_config_overrides o = overrides;
    (void)state;

    assert_rewritten(LITERAL("\xd0\x07\x00"), &o, LITERAL("\xd0\x07\x00" APPENDED));
    o.prefer_suspend_clock_for_duration = true;
    assert_rewritten(LITERAL("\xd0\x07\x00"), &o, LITERAL(APPENDED "\xd0\x07\x01"));
}

static void malformed_config_leaves_the_output_as_it_was(void **state)
{
    static const char raw[] = "\x0a\x04name\xa2\x06\x02hi";
    struct pfl_buf out;
    (void)state;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    for (size_t cut = 0; cut < sizeof(raw); cut++) {
        bool is_end = cut == 0 || cut == 6 || cut == 11;

        assert_int_equal(pfl_ds_config_rewrite(pfl_span_of(raw, cut), &overrides, &out),
                         is_end ? 0 : PFL_EPARSE);
        assert_int_equal(out.len != 0, is_end);
        pfl_buf_clear(&out);
    }
    pfl_buf_fini(&out);
}

static void output_at_its_maximum_is_left_as_it_was(void **state)
{
    struct pfl_buf out;
    (void)state;

    for (size_t max = 1; max < 30; max++) {
        int rc;

        pfl_buf_init(&out, max);
        rc = pfl_ds_config_rewrite(LITERAL("\x0a\x04name"), &overrides, &out);
        assert_int_equal(rc, max < 6 + sizeof(APPENDED) - 1 ? PFL_ELIMIT : 0);
        assert_int_equal(out.len, rc == 0 ? 6 + sizeof(APPENDED) - 1 : 0);
        pfl_buf_fini(&out);
    }
}

static void each_data_source_gives_its_raw_config(void **state)
{
    /* buffers; a source with filters around its config; one without; one with an empty config. */
    static const char config[] = "\x0a\x02\x08\x04"
                                 "\x12\x0c\x12\x01p\x0a\x05\x0a\x03"
                                 "abc\x22\x00"
                                 "\x18\x05"
                                 "\x12\x00"
                                 "\x12\x02\x0a\x00";
    struct pfl_reader r = pfl_reader_of(LITERAL(config));
    struct pfl_span raw = {NULL, 0};
    (void)state;

    assert_int_equal(pfl_ds_config_next(&r, &raw), 0);
    assert_int_equal(raw.len, 5);
    assert_memory_equal(raw.data,
                        "\x0a\x03"
                        "abc",
                        5);
    assert_int_equal(pfl_ds_config_next(&r, &raw), 0);
    assert_int_equal(raw.len, 0);
    assert_int_equal(pfl_ds_config_next(&r, &raw), 0);
    assert_int_equal(raw.len, 0);
    assert_int_equal(pfl_ds_config_next(&r, &raw), PFL_EEOF);
}

static void malformed_trace_config_is_reported(void **state)
{
    struct pfl_span raw;
    struct pfl_reader cut = pfl_reader_of(LITERAL("\x12\x05\x0a"));
    struct pfl_reader inner = pfl_reader_of(LITERAL("\x12\x02\x0a\x09"));
    struct pfl_reader twice = pfl_reader_of(LITERAL("\x12\x04\x0a\x00\x0a\x00"));
    (void)state;

    assert_int_equal(pfl_ds_config_next(&cut, &raw), PFL_EPARSE);
    assert_int_equal(pfl_ds_config_next(&inner, &raw), PFL_EPARSE);
    assert_int_equal(pfl_ds_config_next(&twice, &raw), PFL_EPARSE);
}

static void find_gives_the_field_that_is_there_once(void **state)
{
    struct pfl_span found;
    (void)state;

    assert_int_equal(pfl_ds_config_find(LITERAL("\x10\x01\x0a\x02hi"), 1, &found), 0);
    assert_memory_equal(found.data, "hi", 2);
    assert_int_equal(pfl_ds_config_find(LITERAL("\x10\x01\x0a\x02hi"), 2, &found), PFL_ENOENT);
    assert_int_equal(pfl_ds_config_find(LITERAL("\x0a\x00\x0a\x00"), 1, &found), PFL_EPARSE);
    assert_int_equal(pfl_ds_config_find(LITERAL("\x0a\x00\x0a"), 1, &found), PFL_EPARSE);
}

static void rewritten_config_reads_back_with_the_services_values(void **state)
{
    Perfetto__Protos__DataSourceConfig *config;
    ProtobufCMessage *message;
    struct pfl_buf out;
    (void)state;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(pfl_ds_config_rewrite(LITERAL("\x0a\x01x\x10\x01\x38\x01\xa2\x06\x02\x50\x08"),
                                           &overrides, &out),
                     0);
    assert_int_equal(pfl_proto_unpack(&perfetto__protos__data_source_config__descriptor,
                                      pfl_buf_get(&out), &message),
                     0);
    config = (Perfetto__Protos__DataSourceConfig *)message;
    assert_string_equal(config->name, "x");
    assert_int_equal(config->target_buffer, 7);
    assert_int_equal(config->stop_timeout_ms, 5000);
    assert_true(config->tracing_session_id == 1ull << 40);
    assert_true(config->has_trace_duration_ms && config->has_enable_extra_guardrails &&
                config->has_session_initiator);
    assert_int_equal(config->ftrace_config->buffer_size_kb, 8);
    pfl_proto_free(message);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int rewrite(void *arg)
{
    struct pfl_buf out;
    int rc;
    (void)arg;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    rc = pfl_ds_config_rewrite(LITERAL("\x0a\x04name"), &overrides, &out);
    assert_true(rc == 0 || out.len == 0);
    pfl_buf_fini(&out);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    pfl_sweep(rewrite, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(service_fields_replace_the_consumers_and_are_present_when_zero),
        cmocka_unit_test(unknown_and_malformed_inner_fields_survive_byte_for_byte),
        cmocka_unit_test(suspend_clock_is_the_consumers_unless_the_session_says_so),
        cmocka_unit_test(malformed_config_leaves_the_output_as_it_was),
        cmocka_unit_test(output_at_its_maximum_is_left_as_it_was),
        cmocka_unit_test(each_data_source_gives_its_raw_config),
        cmocka_unit_test(malformed_trace_config_is_reported),
        cmocka_unit_test(find_gives_the_field_that_is_there_once),
        cmocka_unit_test(rewritten_config_reads_back_with_the_services_values),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("ds_config", tests, NULL, NULL);
}
