/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions: what is written is read again, and nothing else is. */
#include "collector/describe/description.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "proto/unpack.h"
#include "tests/support/sweep.h"

static uint8_t sha[32] = {0xab, 1, 2};
static char label[] = "role=web";
static char zone[] = "zone=b";
static char *labels[] = {label, zone};

static int write(struct pfl_buf *out)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__ClockPoint point = PERFLEET__CLOCK_POINT__INIT;
    Perfleet__ClockPoint later = PERFLEET__CLOCK_POINT__INIT;
    Perfleet__ClockPoint *points[] = {&point, &later};

    trace.id = (char *)(uintptr_t) "01JD0000000000000000000000";
    trace.segment = &segment;
    segment.host = (char *)(uintptr_t) "web\"1\xff";
    segment.has_number = true;
    segment.number = 7;
    segment.has_bytes = true;
    segment.bytes = UINT64_MAX;
    segment.has_sha256 = true;
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
    segment.has_reason = true;
    segment.reason = PERFLEET__SEGMENT__REASON__COPY;
    segment.label = labels;
    segment.n_label = 2;
    segment.clock = points;
    segment.n_clock = 2;
    point.has_offset_ns = true;
    point.offset_ns = -5;
    later.has_offset_ns = true;
    later.offset_ns = 6;
    return pfl_description_write(&trace, out);
}

static void what_is_written_is_read_again(void **state)
{
    Perfleet__StoredTrace *trace;
    struct pfl_buf text;

    (void)state;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    assert_int_equal(write(&text), 0);
    assert_int_equal(pfl_description_parse(pfl_buf_get(&text), &trace), 0);
    assert_string_equal(trace->segment->host, "web\"1\xff");
    assert_true(trace->segment->bytes == UINT64_MAX);
    assert_memory_equal(trace->segment->sha256.data, sha, sizeof(sha));
    assert_true(trace->segment->clock[0]->offset_ns == -5);
    assert_true(trace->segment->clock[1]->offset_ns == 6);
    pfl_proto_free(&trace->base);
    pfl_buf_fini(&text);
    pfl_sweep_assert_no_leak();
}

static void people_can_read_it(void **state)
{
    const json_t *segment;
    json_error_t error;
    struct pfl_buf text;
    json_t *root;

    (void)state;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    assert_int_equal(write(&text), 0);
    root = json_loadb((const char *)text.data + text.start, text.len, 0, &error);
    segment = json_object_get(json_object_get(root, "trace"), "segment");
    assert_int_equal(json_integer_value(json_object_get(segment, "number")), 7);
    assert_string_equal(json_string_value(json_object_get(segment, "bytes")),
                        "18446744073709551615");
    assert_string_equal(json_string_value(json_object_get(segment, "reason")), "COPY");
    assert_memory_equal(json_string_value(json_object_get(segment, "sha256")), "ab0102", 6);
    assert_string_equal(json_string_value(json_array_get(json_object_get(segment, "label"), 0)),
                        label);
    assert_string_equal(json_string_value(json_array_get(json_object_get(segment, "label"), 1)),
                        zone);
    assert_int_equal(json_array_size(json_object_get(segment, "clock")), 2);
    json_decref(root);
    pfl_buf_fini(&text);
}

static void a_description_that_is_cut_or_of_another_format_is_refused(void **state)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"format\":2,\"packed\":\"\"}",
        "{\"format\":1,\"packed\":\"0\"}",
        "{\"format\":1,\"packed\":\"0g\"}",
        "{\"format\":1,\"packed\":\"ff\"}",
        "{\"format\":1,\"packed\":7}",
    };
    Perfleet__StoredTrace *trace;
    struct pfl_buf text;

    (void)state;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    assert_int_equal(write(&text), 0);
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(pfl_description_parse(pfl_span_of(text.data + text.start, len), &trace),
                         PFL_EPARSE);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_description_parse(pfl_span_of(bad[i], strlen(bad[i])), &trace),
                         PFL_EPARSE);
    pfl_buf_fini(&text);
    pfl_sweep_assert_no_leak();
}

static int sweep_body(void *arg)
{
    Perfleet__StoredTrace *trace;
    struct pfl_buf text;
    int rc;

    (void)arg;
    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    rc = write(&text);
    if (rc == 0)
        rc = pfl_description_parse(pfl_buf_get(&text), &trace);
    if (rc == 0)
        pfl_proto_free(&trace->base);
    pfl_buf_fini(&text);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(people_can_read_it),
        cmocka_unit_test(a_description_that_is_cut_or_of_another_format_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
