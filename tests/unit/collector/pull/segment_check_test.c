/* SPDX-License-Identifier: Apache-2.0 */
/* What a host may say of a segment: at each limit, and one more. */
#include "collector/pull/segment_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint8_t sha256[33];

static Perfleet__Segment good(void)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;

    s.incarnation = (char *)"01J0000000000000000000000A";
    s.orderer = (char *)"ops";
    s.order = (char *)"cpu";
    s.has_number = true;
    s.number = 1;
    s.has_sha256 = true;
    s.sha256 = (ProtobufCBinaryData){32, sha256};
    return s;
}

static struct pfl_segment_fault fault;

static void expect(const Perfleet__Segment *segment, const char *why)
{
    assert_int_equal(pfl_segment_check(segment, &fault), why == NULL);
    if (why != NULL)
        assert_string_equal(fault.what, why);
}

static void expect_at(const char *field, size_t index, uint64_t value)
{
    assert_string_equal(fault.field, field);
    assert_int_equal(fault.index, index);
    assert_int_equal(fault.value, value);
}

static void numbers_are_bounded(void **state)
{
    Perfleet__Segment s = good();

    (void)state;
    expect(&s, NULL);
    assert_int_equal(pfl_segment_get_last(&s), 1);
    s.number = 0;
    expect(&s, "numbers begin with 1");
    s = good();
    s.bytes = PFL_SEGMENT_MAX_BYTES;
    expect(&s, NULL);
    s.bytes++;
    expect(&s, "it is larger than a segment may be");
    expect_at("bytes", 0, PFL_SEGMENT_MAX_BYTES + 1);
    s = good();
    s.begin_unix_ns = s.end_unix_ns = 7;
    expect(&s, NULL);
    s.end_unix_ns = 6;
    expect(&s, "it ends before it begins");
    for (size_t len = 31; len <= 33; len++) {
        s = good();
        s.sha256.len = len;
        expect(&s, len == 32 ? NULL : "a SHA-256 has 32 bytes");
        if (len != 32)
            expect_at("sha256", 0, len);
    }
}

static void names_are_names(void **state)
{
    Perfleet__Segment s = good();

    (void)state;
    s.incarnation = NULL;
    expect(&s, "its incarnation is no ULID");
    s.incarnation = (char *)"01J0000000000000000000000";
    expect(&s, "its incarnation is no ULID");
    s = good();
    s.orderer = NULL;
    expect(&s, "orderer and order have names");
    s = good();
    expect_at("orderer", 0, 0);
    s = good();
    s.order = (char *)"a b";
    expect(&s, "orderer and order have names");
    expect_at("order", 0, 3);
    s = good();
    s.retention = (char *)"long";
    expect(&s, NULL);
    s.retention = (char *)"";
    expect(&s, "a class of retention has a name");
}

static void labels_are_bounded(void **state)
{
    static char text[PFL_SEGMENT_LABEL_BYTES + 1];
    char *labels[PFL_SEGMENT_LABELS_MAX + 1];
    Perfleet__Segment s = good();

    (void)state;
    memset(text, 'a', PFL_SEGMENT_LABEL_BYTES - 1);
    for (size_t i = 0; i <= PFL_SEGMENT_LABELS_MAX; i++)
        labels[i] = text;
    s.label = labels;
    s.n_label = PFL_SEGMENT_LABELS_MAX;
    expect(&s, NULL);
    s.n_label++;
    expect(&s, "it has more than 64 labels");
    expect_at("label", 0, PFL_SEGMENT_LABELS_MAX + 1);
    s.n_label = 2;
    labels[0] = (char *)"short";
    text[PFL_SEGMENT_LABEL_BYTES - 1] = 'a';
    expect(&s, "a label has more than 255 bytes");
    expect_at("label", 1, PFL_SEGMENT_LABEL_BYTES);
}

static void lists_are_bounded(void **state)
{
    static Perfleet__ClockPoint clock = PERFLEET__CLOCK_POINT__INIT;
    static Perfleet__SegmentLoss loss = PERFLEET__SEGMENT_LOSS__INIT;
    static Perfleet__ClockPoint *clocks[PFL_SEGMENT_CLOCKS_MAX + 1];
    static Perfleet__SegmentLoss *losses[PFL_SEGMENT_LOSSES_MAX + 1];
    static char *sources[PFL_SEGMENT_SOURCES_MAX + 1];
    Perfleet__Segment s = good();

    (void)state;
    for (size_t i = 0; i <= PFL_SEGMENT_SOURCES_MAX; i++)
        sources[i] = (char *)"a";
    for (size_t i = 0; i <= PFL_SEGMENT_CLOCKS_MAX; i++)
        clocks[i] = &clock;
    for (size_t i = 0; i <= PFL_SEGMENT_LOSSES_MAX; i++)
        losses[i] = &loss;
    s.clock = clocks;
    s.n_clock = PFL_SEGMENT_CLOCKS_MAX;
    s.loss = losses;
    s.n_loss = PFL_SEGMENT_LOSSES_MAX;
    s.data_source = sources;
    s.n_data_source = PFL_SEGMENT_SOURCES_MAX;
    expect(&s, NULL);
    s.n_data_source++;
    expect(&s, "it has more than 4096 data sources");
    expect_at("data_source", 0, PFL_SEGMENT_SOURCES_MAX + 1);
    s.n_loss++;
    expect(&s, "it has more than 256 causes of loss");
    expect_at("loss", 0, PFL_SEGMENT_LOSSES_MAX + 1);
    s.n_clock++;
    expect(&s, "it has more than 256 exchanges of clocks");
    expect_at("clock", 0, PFL_SEGMENT_CLOCKS_MAX + 1);
}

static void a_gap_has_an_end_and_no_bytes(void **state)
{
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    Perfleet__Segment s = good();

    (void)state;
    s.gap = &gap;
    s.number = 5;
    s.sha256.len = 0;
    gap.last = 5;
    expect(&s, NULL);
    assert_int_equal(pfl_segment_get_last(&s), 5);
    gap.last = 9;
    expect(&s, NULL);
    assert_int_equal(pfl_segment_get_last(&s), 9);
    gap.last = 4;
    expect(&s, "a gap ends before it begins");
    gap.last = 5;
    s.bytes = 1;
    expect(&s, "a gap has no bytes");
}

static void a_description_has_so_many_bytes_and_not_one_more(void **state)
{
    static char version[PFL_SEGMENT_MAX_PACKED_BYTES + 1];
    Perfleet__Segment s = good();
    size_t rest;

    (void)state;
    memset(version, 'v', sizeof(version) - 1);
    s.service_version = version;
    rest = protobuf_c_message_get_packed_size(&s.base) - (sizeof(version) - 1);
    version[PFL_SEGMENT_MAX_PACKED_BYTES - rest] = '\0';
    assert_int_equal(protobuf_c_message_get_packed_size(&s.base), PFL_SEGMENT_MAX_PACKED_BYTES);
    expect(&s, NULL);
    version[PFL_SEGMENT_MAX_PACKED_BYTES - rest] = 'v';
    version[PFL_SEGMENT_MAX_PACKED_BYTES - rest + 1] = '\0';
    expect(&s, "its description is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(names_are_names),
        cmocka_unit_test(labels_are_bounded),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(a_gap_has_an_end_and_no_bytes),
        cmocka_unit_test(a_description_has_so_many_bytes_and_not_one_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
