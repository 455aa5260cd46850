/* SPDX-License-Identifier: Apache-2.0 */
/* Traces filtered as Perfetto v58.2 filtered them, byte for byte: tests/fixtures/filter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "service/output/trace_filter.h"

#define FILE_MAX_BYTES   (256u << 10)
#define RECORD_MAX_BYTES 8192u

static uint8_t file[FILE_MAX_BYTES];

static size_t load(void)
{
    FILE *f = fopen("tests/fixtures/filter/recorded.bin", "rb");
    size_t len;

    assert_non_null(f);
    len = fread(file, 1, sizeof(file), f);
    assert_true(len != 0 && len < sizeof(file));
    assert_int_equal(fclose(f), 0);
    return len;
}

/* The length of a packet in as many bytes as the unfiltered one needs. */
static void put_head(struct pfl_writer *w, size_t len, size_t was)
{
    pfl_writer_u8(w, 0x0a);
    for (size_t left = pfl_varint_size(was); left != 0; left--, len >>= 7)
        pfl_writer_u8(w, (uint8_t)((len & 0x7f) | (left > 1 ? 0x80u : 0u)));
}

static size_t replay(struct pfl_span config, struct pfl_span trace, struct pfl_span expected)
{
    static uint8_t out[RECORD_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(out, sizeof(out));
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_trace_filter *filter = NULL;
    char why[PFL_FILTER_WHY_BYTES];
    struct pfl_field f;
    size_t packets = 0;

    assert_int_equal(pfl_trace_filter_new(config, &filter, why), 0);
    while (pfl_reader_field(&r, &f)) {
        uint8_t packet[RECORD_MAX_BYTES];
        size_t len = 0;

        assert_true(f.bytes.len <= sizeof(packet));
        if (f.bytes.len != 0)
            assert_int_equal(pfl_trace_filter_packet(filter, f.bytes, packet, &len), 0);
        put_head(&w, len, f.bytes.len);
        pfl_writer_bytes(&w, packet, len);
        packets++;
    }
    assert_false(r.failed || w.failed);
    assert_int_equal(sizeof(out) - w.left, expected.len);
    assert_memory_equal(out, expected.data, expected.len);
    pfl_trace_filter_free(filter);
    return packets;
}

static void recorded_traces_are_filtered_as_perfetto_filters_them(void **state)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(file, load()));
    size_t packets = 0;
    size_t records = 0;

    (void)state;
    while (r.left != 0) {
        uint32_t config_len = pfl_reader_u32(&r);
        uint32_t trace_len = pfl_reader_u32(&r);
        uint32_t expected_len = pfl_reader_u32(&r);
        struct pfl_span config = pfl_reader_bytes(&r, config_len);
        struct pfl_span trace = pfl_reader_bytes(&r, trace_len);
        struct pfl_span expected = pfl_reader_bytes(&r, expected_len);

        assert_false(r.failed);
        packets += replay(config, trace, expected);
        records++;
    }
    assert_true(records >= 30);
    assert_true(packets >= 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_traces_are_filtered_as_perfetto_filters_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
