/* SPDX-License-Identifier: Apache-2.0 */
/* Text format: real configs against protoc's bytes, every form of value, and every message. */
#include "proto/text/text_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/trace_config.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"
#include "tests/unit/proto/text/text_types.h"

#define OUT_MAX_BYTES (1u << 20)
#define FOLDER        "tests/unit/proto/configs/"

static const char *const configs[] = {
    "android_log",   "ftrace",    "heapprofd",    "java_hprof",  "long_trace",
    "process_stats", "sys_stats", "trace_filter", "track_event", "triggers",
};
#define CONFIGS_LEN (sizeof(configs) / sizeof(configs[0]))

static struct pfl_span read_config(const char *name, const char *ending)
{
    char path[256];

    (void)snprintf(path, sizeof(path), FOLDER "%s.%s", name, ending);
    return pfl_capture_read_file(path);
}

static void free_file(struct pfl_span file)
{
    pfl_mem_free((void *)(uintptr_t)file.data);
}

static int parse_config(struct pfl_span text, struct pfl_buf *out, struct pfl_text_error *error)
{
    return pfl_text_format_parse(&perfetto__protos__trace_config__descriptor, text, out, error);
}

/* In the order of field numbers, as protoc writes. */
static void make_canonical(struct pfl_buf *out)
{
    ProtobufCMessage *message;

    assert_int_equal(
        pfl_proto_unpack(&perfetto__protos__trace_config__descriptor, pfl_buf_get(out), &message),
        0);
    pfl_buf_clear(out);
    assert_int_equal(pfl_proto_pack(message, out), 0);
    pfl_proto_free(message);
}

static void real_configs_become_the_bytes_of_protoc(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS_LEN; i++) {
        struct pfl_span text = read_config(configs[i], "pbtx");
        struct pfl_span expected = read_config(configs[i], "pb");
        struct pfl_text_error error = {0};
        struct pfl_buf out;

        pfl_buf_init(&out, OUT_MAX_BYTES);
        if (parse_config(text, &out, &error) != 0)
            fail_msg("%s:%u:%u: %s", configs[i], error.line, error.column, error.message);
        make_canonical(&out);
        assert_int_equal(out.len, expected.len);
        assert_memory_equal(pfl_buf_get(&out).data, expected.data, expected.len);
        pfl_buf_fini(&out);
        free_file(expected);
        free_file(text);
    }
    pfl_sweep_assert_no_leak();
}

static void config_cut_anywhere_is_read_or_refused_and_leaves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS_LEN; i++) {
        struct pfl_span text = read_config(configs[i], "pbtx");

        for (size_t cut = 0; cut < text.len; cut++) {
            uint8_t *exact = pfl_mem_memdup(text.data, cut); /* so that an overrun is seen */
            struct pfl_text_error error = {0};
            struct pfl_buf out;
            int rc;

            pfl_buf_init(&out, OUT_MAX_BYTES);
            rc = parse_config(pfl_span_of(exact, cut), &out, &error);
            assert_true(rc == 0 || rc == PFL_EPARSE);
            assert_true(rc == 0 || (out.len == 0 && error.line > 0 && error.column > 0 &&
                                    error.message[0] != '\0'));
            pfl_buf_fini(&out);
            pfl_mem_free(exact);
        }
        free_file(text);
    }
}

static void assert_encodes(const char *text, const char *bytes, size_t len)
{
    struct pfl_text_error error = {0};
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    if (pfl_text_format_parse(&text_types_descriptor, pfl_span_of(text, strlen(text)), &out,
                              &error) != 0)
        fail_msg("%s: %u:%u: %s", text, error.line, error.column, error.message);
    assert_int_equal(out.len, len);
    if (len != 0)
        assert_memory_equal(pfl_buf_get(&out).data, bytes, len);
    pfl_buf_fini(&out);
}
#define ENCODES(text, bytes) assert_encodes(text, bytes, sizeof(bytes) - 1)

static void integers_take_every_base_up_to_their_range(void **state)
{
    (void)state;
    ENCODES("i32: 2147483647", "\x08\xff\xff\xff\xff\x07");
    ENCODES("i32: -2147483648", "\x08\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01");
    ENCODES("i32: -0x1 ", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    ENCODES("u32: 037777777777", "\x10\xff\xff\xff\xff\x0f");
    ENCODES("u32: 0XfF", "\x10\xff\x01");
    ENCODES("u32:0", "\x10\x00");
    ENCODES("i64: -9223372036854775808", "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
    ENCODES("u64: 18446744073709551615", "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    ENCODES("s32: -1 ", "\x28\x01");
    ENCODES("s32: -2147483648 ", "\x28\xff\xff\xff\xff\x0f");
    ENCODES("s64: 2 ", "\x30\x04");
    ENCODES("f32: 258 ", "\x3d\x02\x01\x00\x00");
    ENCODES("sf64: - 1", "\x41\xff\xff\xff\xff\xff\xff\xff\xff");
}

static void floats_take_exponents_suffixes_infinity_and_nan(void **state)
{
    (void)state;
    ENCODES("flt: 1", "\x4d\x00\x00\x80\x3f");
    ENCODES("flt: 1.5f", "\x4d\x00\x00\xc0\x3f");
    ENCODES("flt: .5", "\x4d\x00\x00\x00\x3f");
    ENCODES("flt: -inf", "\x4d\x00\x00\x80\xff");
    ENCODES("flt: Infinity", "\x4d\x00\x00\x80\x7f");
    ENCODES("flt: 1e300", "\x4d\x00\x00\x80\x7f");
    ENCODES("flt: 3.4028234663852886e38", "\x4d\xff\xff\x7f\x7f"); /* the largest */
    ENCODES("flt: -3.4028234663852886e38", "\x4d\xff\xff\x7f\xff");
    ENCODES("flt: 3.4028234663852890e38", "\x4d\x00\x00\x80\x7f");
    ENCODES("flt: nan", "\x4d\x00\x00\xc0\x7f");
    ENCODES("dbl: 2.5e-1", "\x51\x00\x00\x00\x00\x00\x00\xd0\x3f");
    ENCODES("dbl: 1E+2F", "\x51\x00\x00\x00\x00\x00\x00\x59\x40");
    ENCODES("dbl: 10", "\x51\x00\x00\x00\x00\x00\x00\x24\x40");
}

static void booleans_and_enums_take_names_and_numbers(void **state)
{
    (void)state;
    ENCODES("rb: [true, True, t, 1, false, False, f, 0]",
            "\x58\x01\x58\x01\x58\x01\x58\x01\x58\x00\x58\x00\x58\x00\x58\x00");
    ENCODES("en: MINUS", "\x60\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    ENCODES("en: TWO", "\x60\x02");
    ENCODES("en: 2", "\x60\x02");
    ENCODES("en: -1", "\x60\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    ENCODES("en: 99", "\x60\x63"); /* of a newer schema */
}

static void strings_take_every_escape(void **state)
{
    (void)state;
    ENCODES("str: \"\"", "\x6a\x00");
    ENCODES("str: 'a' \"b\"\n# between\n'c'", "\x6a\x03"
                                              "abc");
    ENCODES("byt: \"\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?\"", "\x72\x0b\a\b\f\n\r\t\v\\'\"?");
    ENCODES("byt: \"\\0\\18\\377\\x1\\xfF\\X41g\"", "\x72\x08\x00\x01"
                                                    "8\xff\x01\xff"
                                                    "Ag");
    ENCODES("byt: \"\\u00e9\\u20ac\\U0001F600\\ud83d\\ude00\"",
            "\x72\x0d\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    ENCODES("str: 'it\\'s \"x\"'", "\x6a\x08it's \"x\"");
    ENCODES("str: \"# no comment\"", "\x6a\x0c# no comment");
    ENCODES("str: \"\xc3\xa9\"", "\x6a\x02\xc3\xa9");
}

static void messages_take_both_brackets_lists_and_separators(void **state)
{
    (void)state;
    ENCODES("sub { }", "\x7a\x00");
    ENCODES("sub: <u32: 1>", "\x7a\x02\x10\x01");
    ENCODES("sub { u32: 1; sub { u32: 2, } }", "\x7a\x06\x10\x01\x7a\x02\x10\x02");
    ENCODES("rs [{u32:1}, <u32:2>] rs: [] rs { }",
            "\x82\x01\x02\x10\x01\x82\x01\x02\x10\x02\x82\x01\x00");
    ENCODES("", "");
    ENCODES(" # only a comment", "");
    ENCODES("\xef\xbb\xbfu32: 1\r\n", "\x10\x01");
    ENCODES("alt_a: 1", "\x88\x01\x01");
}

struct mistake {
    const char *text;
    unsigned line;
    unsigned column;
    const char *message;
};

static void assert_mistake(const ProtobufCMessageDescriptor *type, const struct mistake *m)
{
    struct pfl_text_error error = {0};
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    assert_int_equal(pfl_buf_append(&out, "keep", 4), 0);
    assert_int_equal(
        pfl_text_format_parse(type, pfl_span_of(m->text, strlen(m->text)), &out, &error),
        PFL_EPARSE);
    assert_string_equal(error.message, m->message);
    assert_int_equal(error.line, m->line);
    assert_int_equal(error.column, m->column);
    assert_int_equal(out.len, 4);
    pfl_buf_fini(&out);
}

static const struct mistake config_mistakes[] = {
    {"durtion_ms: 5", 1, 1,
     "no field \"durtion_ms\" in TraceConfig; did you mean \"duration_ms\"?"},
    {"buffers {\n  size_kb: 4\n  fil_policy: DISCARD }", 3, 3,
     "no field \"fil_policy\" in TraceConfig.BufferConfig; did you mean \"fill_policy\"?"},
    {"buffers { fill_policy: RING }", 1, 24,
     "no value \"RING\" in TraceConfig.BufferConfig.FillPolicy; did you mean "
     "\"RING_BUFFER\"?"},
    {"buffers { fill_policy: ring_buffer }", 1, 24,
     "no value \"ring_buffer\" in TraceConfig.BufferConfig.FillPolicy; did you mean "
     "\"RING_BUFFER\"?"},
    {"buffers { fill_policy: FORWARD }", 1, 24,
     "no value \"FORWARD\" in TraceConfig.BufferConfig.FillPolicy; it has \"UNSPECIFIED\" and "
     "others"},
    {"xyzzy: 1", 1, 1, "no field \"xyzzy\" in TraceConfig"},
    {"buffers {\n size_kb: 1\n\nduration_ms: 5", 4, 1,
     "no field \"duration_ms\" in TraceConfig.BufferConfig, but TraceConfig has one: is the "
     "\"{\" of line 1 not closed?"},
    {"duration_ms: 5\nbuffers {\n  size_kb: 1\n", 2, 9, "the \"{\" of \"buffers\" is never closed"},
    {"data_sources { config { name: \"x\" }\n", 1, 14,
     "the \"{\" of \"data_sources\" is never closed"},
    {"buffers { size_kb: 1 >", 1, 22, "expected \"}\" for \"buffers\", found \">\""},
    {"duration_ms: 1 }", 1, 16, "this \"}\" closes nothing"},
    {"duration_ms: 1 duration_ms: 2", 1, 16, "\"duration_ms\" is given twice in this TraceConfig"},
    {"duration_ms: [1]", 1, 14, "\"duration_ms\" takes one value, not a list"},
    {"duration_ms 5", 1, 13, "expected \":\" and a value for \"duration_ms\", found \"5\""},
    {"duration_ms: \"5\"", 1, 14,
     "expected an integer from 0 to 4294967295 for \"duration_ms\", found \"\"5\"\""},
    {"duration_ms: 4294967296", 1, 14,
     "\"4294967296\" is out of range: \"duration_ms\" is an integer from 0 to 4294967295"},
    {"duration_ms: -1", 1, 15,
     "minus \"1\" is out of range: \"duration_ms\" is an integer from 0 to 4294967295"},
    {"duration_ms: 10s", 1, 14,
     "expected an integer from 0 to 4294967295 for \"duration_ms\", found \"10s\""},
    {"duration_ms:", 1, 13,
     "expected an integer from 0 to 4294967295 for \"duration_ms\", found the end of the "
     "text"},
    {"buffers: 5", 1, 10, "expected \"{\" for \"buffers\", found \"5\""},
    {"output_path: /tmp/x", 1, 14, "expected a string in quotes for \"output_path\", found \"/\""},
    {"output_path: \"/tmp/x\nduration_ms: 5", 1, 14, "the string is not closed in its line"},
    {"output_path: \"a\" \"b", 1, 18, "the string is not closed in its line"},
    {"output_path: \"ab\\q\"", 1, 17, "the escape in this string means nothing"},
    {"output_path: \"\\400\"", 1, 15, "the escape in this string means nothing"},
    {"output_path: \"\\ud800x\"", 1, 15, "the escape in this string means nothing"},
    {"output_path: \"\\U00110000\"", 1, 15, "the escape in this string means nothing"},
    {"output_path: \"\\u12\"", 1, 15, "the escape in this string means nothing"},
    {"write_into_file: yes", 1, 18,
     "expected true or false for \"write_into_file\", found \"yes\""},
    {"[ext.field]: 5", 1, 1, "expected the name of a field of TraceConfig, found \"[\""},
    {"duration_ms: 5 \x01", 1, 16, "expected the name of a field of TraceConfig, found \"\\x01\""},
    {"duration_ms: 5,,", 1, 16, "expected the name of a field of TraceConfig, found \",\""},
};

static void mistakes_in_a_config_are_reported_with_place_and_cure(void **state)
{
    (void)state;

    for (size_t i = 0; i < sizeof(config_mistakes) / sizeof(config_mistakes[0]); i++)
        assert_mistake(&perfetto__protos__trace_config__descriptor, &config_mistakes[i]);
}

static void mistakes_in_values_are_reported(void **state)
{
    static const struct mistake mistakes[] = {
        {"alt_a: 1 alt_b: 2", 1, 10, "\"alt_a\" and \"alt_b\" exclude each other in one Types"},
        {"rb: [true false]", 1, 11, "expected \",\" or \"]\" for \"rb\", found \"false\""},
        {"rb: [true,]", 1, 11, "expected true or false for \"rb\", found \"]\""},
        {"dbl: 0x10", 1, 6, "expected a number for \"dbl\", found \"0x10\""},
        {"dbl: 07", 1, 6, "expected a number for \"dbl\", found \"07\""},
        {"dbl: 0d1", 1, 6, "expected a number for \"dbl\", found \"0d1\""},
        {"dbl: 0g", 1, 6, "expected a number for \"dbl\", found \"0g\""},
        {"dbl: 1.2.3", 1, 6, "expected a number for \"dbl\", found \"1.2.3\""},
        {"u32: 08", 1, 6, "expected an integer from 0 to 4294967295 for \"u32\", found \"08\""},
        {"u32: 0x", 1, 6, "expected an integer from 0 to 4294967295 for \"u32\", found \"0x\""},
        {"u64: 18446744073709551616", 1, 6,
         "\"18446744073709551616\" is out of range: \"u64\" is a 64-bit integer without sign"},
        {"i64: 9223372036854775808", 1, 6,
         "\"9223372036854775808\" is out of range: \"i64\" is a 64-bit integer"},
        {"s32: 2147483648", 1, 6,
         "\"2147483648\" is out of range: \"s32\" is an integer from -2147483648 to 2147483647"},
        {"en: - TWO", 1, 7, "expected a value's name for \"en\", found \"TWO\""},
        {"rb: 2", 1, 5, "expected true or false for \"rb\", found \"2\""},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
        assert_mistake(&text_types_descriptor, &mistakes[i]);
}

static void depth_is_bounded(void **state)
{
    char text[6 * 100 + 1];
    struct pfl_text_error error;
    struct pfl_buf out;
    (void)state;

    for (unsigned levels = PFL_TEXT_FORMAT_MAX_DEPTH - 1; levels <= PFL_TEXT_FORMAT_MAX_DEPTH;
         levels++) {
        size_t len = 0;

        for (unsigned i = 0; i < levels; i++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "sub{");
        memset(text + len, '}', levels);
        len += levels;
        pfl_buf_init(&out, OUT_MAX_BYTES);
        assert_int_equal(
            pfl_text_format_parse(&text_types_descriptor, pfl_span_of(text, len), &out, &error),
            levels < PFL_TEXT_FORMAT_MAX_DEPTH ? 0 : PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
    assert_string_equal(error.message, "nested deeper than 64 levels");
}

static void full_output_is_reported_and_left_as_it_was(void **state)
{
    static const char text[] = "sub { str: \"0123456789\" u32: 5 }";
    (void)state;

    for (size_t max = 1; max < 18; max++) {
        struct pfl_text_error error = {0};
        struct pfl_buf out;
        int rc;

        pfl_buf_init(&out, max);
        rc = pfl_text_format_parse(&text_types_descriptor, pfl_span_of(text, sizeof(text) - 1),
                                   &out, &error);
        assert_int_equal(rc, max < 16 ? PFL_ELIMIT : 0);
        assert_int_equal(out.len, rc == 0 ? 16 : 0);
        assert_int_equal(error.line, rc == 0 ? 0 : 1);
        pfl_buf_fini(&out);
    }
}

static int parse_all(void *arg)
{
    struct pfl_span *text = arg;
    struct pfl_text_error error;
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    rc = parse_config(*text, &out, &error);
    assert_true(rc == 0 || out.len == 0);
    pfl_buf_fini(&out);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    struct pfl_span text = read_config("ftrace", "pbtx");
    (void)state;

    pfl_sweep(parse_all, &text, false);
    free_file(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_configs_become_the_bytes_of_protoc),
        cmocka_unit_test(config_cut_anywhere_is_read_or_refused_and_leaves_nothing),
        cmocka_unit_test(integers_take_every_base_up_to_their_range),
        cmocka_unit_test(floats_take_exponents_suffixes_infinity_and_nan),
        cmocka_unit_test(booleans_and_enums_take_names_and_numbers),
        cmocka_unit_test(strings_take_every_escape),
        cmocka_unit_test(messages_take_both_brackets_lists_and_separators),
        cmocka_unit_test(mistakes_in_a_config_are_reported_with_place_and_cure),
        cmocka_unit_test(mistakes_in_values_are_reported),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(full_output_is_reported_and_left_as_it_was),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("text_format", tests, NULL, NULL);
}
