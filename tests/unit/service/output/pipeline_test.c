/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline, its compressor and what stock readers find in the result. */
#include "service/output/pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "proto/compressed.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

#define CONTENT_MAX (2u << 20)

static uint8_t content[CONTENT_MAX];

static struct pfl_trace_filter *make_filter(void)
{
    const struct kit_bytes code = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_FIELD(1), KIT_END);
    struct kit_bytes config = {.len = 0};
    struct pfl_trace_filter *filter = NULL;
    char why[PFL_FILTER_WHY_BYTES];

    kit_put(&config, 2, code.data, code.len);
    assert_int_equal(pfl_trace_filter_new(kit_span(&config), &filter, why), 0);
    return filter;
}

static uint64_t now_ns(void *user)
{
    uint64_t *now = user;

    *now += 7;
    return *now;
}

static struct pfl_pipeline *make(struct pfl_trace_filter *filter, enum pfl_codec codec, int level)
{
    static uint64_t clock;
    const struct pfl_pipeline_conf conf = {
        .filter = filter, .codec = codec, .zstd_level = level, .now_ns = now_ns, .user = &clock};
    struct pfl_pipeline *pipeline = NULL;

    assert_int_equal(pfl_pipeline_new(&conf, &pipeline), 0);
    return pipeline;
}

static void add(struct pfl_pipeline *pipeline, const void *data, size_t len, unsigned mark)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)data, .iov_len = len / 2};
    const struct pfl_span tail = pfl_span_of((const uint8_t *)data + len / 2, len - len / 2);

    assert_int_equal(pfl_pipeline_add(pipeline, &slice, 1, tail, mark), 0);
}

static void run(struct pfl_pipeline *pipeline)
{
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;

    assert_int_equal(pfl_pipeline_seal(pipeline), 0);
    pfl_mem_stats_get(&before);
    pfl_pipeline_run(pipeline);
    pfl_mem_stats_get(&after);
    assert_int_equal(before.allocations, after.allocations); /* a worker may not allocate */
}

/* The content of a compressed packet, which must be its only field. */
static struct pfl_span expand(struct pfl_span packet, uint32_t field_id)
{
    struct pfl_reader r = pfl_reader_of(packet);
    uLongf len = sizeof(content);
    struct pfl_field f;

    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, field_id);
    assert_int_equal(r.left, 0);
    if (field_id == 50)
        assert_int_equal(uncompress(content, &len, f.bytes.data, f.bytes.len), Z_OK);
    else
        len = ZSTD_decompress(content, sizeof(content), f.bytes.data, f.bytes.len);
    assert_true(len <= sizeof(content));
    return pfl_span_of(content, len);
}

static void packets_pass_unchanged_where_nothing_is_asked(void **state)
{
    struct pfl_pipeline *pipeline = make(NULL, PFL_CODEC_NONE, 0);
    struct pfl_span packet;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        assert_true(pfl_pipeline_is_empty(pipeline));
        add(pipeline, "abc", 3, 0);
        add(pipeline, "de", 2, PFL_PIPELINE_SERVICE);
        run(pipeline);
        assert_true(pfl_pipeline_next(pipeline, &packet));
        assert_int_equal(packet.len, 3);
        assert_memory_equal(packet.data, "abc", 3);
        assert_true(pfl_pipeline_next(pipeline, &packet));
        assert_memory_equal(packet.data, "de", 2);
        assert_false(pfl_pipeline_next(pipeline, &packet));
    }
    pfl_pipeline_free(pipeline);
    pfl_sweep_assert_no_leak();
}

static void a_batch_becomes_one_packet_that_holds_a_trace(void **state)
{
    static const struct {
        enum pfl_codec codec;
        int level;
        uint32_t field_id;
    } cases[] = {{PFL_CODEC_DEFLATE, 0, 50},
                 {PFL_CODEC_ZSTD, 0, 133},
                 {PFL_CODEC_ZSTD, -5, 133},
                 {PFL_CODEC_ZSTD, 19, 133},
                 {PFL_CODEC_ZSTD, 1000, 133}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_pipeline *pipeline = make(NULL, cases[i].codec, cases[i].level);
        struct pfl_span packet;
        struct pfl_span trace;

        for (unsigned batch = 0; batch < 3; batch++) {
            static const uint8_t expected[] = {0x0a, 3, 'a', 'b', 'c', 0x0a, 2, 'd', 'e'};

            add(pipeline, "abc", 3, 0);
            add(pipeline, "de", 2, 1);
            run(pipeline);
            assert_true(pfl_pipeline_next(pipeline, &packet));
            trace = expand(packet, cases[i].field_id);
            assert_int_equal(trace.len, sizeof(expected));
            assert_memory_equal(trace.data, expected, sizeof(expected));
            assert_false(pfl_pipeline_next(pipeline, &packet));
        }
        pfl_pipeline_free(pipeline);
    }
    pfl_sweep_assert_no_leak();
}

static void bytes_that_do_not_compress_still_fit(void **state)
{
    static uint8_t noise[600000];
    uint32_t seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(noise); i++) {
        seed = seed * 1664525u + 1013904223u;
        noise[i] = (uint8_t)(seed >> 24);
    }
    for (unsigned codec = PFL_CODEC_DEFLATE; codec <= PFL_CODEC_ZSTD; codec++) {
        struct pfl_pipeline *pipeline = make(NULL, (enum pfl_codec)codec, 0);
        struct pfl_span packet;
        struct pfl_span trace;

        assert_false(pfl_pipeline_is_full(pipeline));
        add(pipeline, noise, sizeof(noise), 0);
        assert_true(pfl_pipeline_is_full(pipeline));
        run(pipeline);
        assert_true(pfl_pipeline_next(pipeline, &packet));
        trace = expand(packet, codec == PFL_CODEC_DEFLATE ? 50 : 133);
        assert_int_equal(trace.len, 1 + 3 + sizeof(noise));
        assert_memory_equal(trace.data + 4, noise, sizeof(noise));
        assert_false(pfl_pipeline_next(pipeline, &packet));
        pfl_pipeline_free(pipeline);
    }
}

static void filtered_packets_stay_and_malformed_ones_are_counted(void **state)
{
    struct pfl_pipeline *pipeline = make(make_filter(), PFL_CODEC_NONE, 0);
    const struct pfl_pipeline_stats *stats = pfl_pipeline_get_stats(pipeline);
    struct pfl_span packet;

    (void)state;
    assert_true(pfl_pipeline_has_filter(pipeline));
    add(pipeline, "\x08\x01\x10\x02", 4, 2);
    add(pipeline, "\x10\x02", 2, PFL_PIPELINE_SERVICE); /* nothing is left of it */
    add(pipeline, "\x08", 1, 2);                        /* malformed */
    add(pipeline, "\x10\x03", 2, PFL_PIPELINE_RAW);     /* not filtered */
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(packet.len, 2);
    assert_memory_equal(packet.data, "\x08\x01", 2);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(packet.len, 0);
    assert_non_null(packet.data);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(packet.len, 0);
    assert_null(packet.data); /* the malformed one */
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_memory_equal(packet.data, "\x10\x03", 2);
    assert_false(pfl_pipeline_next(pipeline, &packet));

    assert_int_equal(stats->input_packets, 4);
    assert_int_equal(stats->input_bytes, 9);
    assert_int_equal(stats->output_bytes, 4);
    assert_int_equal(stats->errors, 1);
    assert_int_equal(stats->time_ns, 7);
    assert_int_equal(stats->discarded_len, 3);
    assert_int_equal(stats->discarded_bytes[2], 2);
    pfl_pipeline_free(pipeline);
}

static void what_is_filtered_is_compressed_afterwards(void **state)
{
    static const uint8_t expected[] = {0x0a, 2, 0x08, 0x01, 0x0a, 0, 0x0a, 0};
    struct pfl_pipeline *pipeline = make(make_filter(), PFL_CODEC_DEFLATE, 0);
    struct pfl_span packet;
    struct pfl_span trace;

    (void)state;
    add(pipeline, "\x08\x01\x10\x02", 4, 0);
    add(pipeline, "\x10\x02", 2, 0);
    add(pipeline, "\x08", 1, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    trace = expand(packet, 50);
    assert_int_equal(trace.len, sizeof(expected));
    assert_memory_equal(trace.data, expected, sizeof(expected));
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static void a_plain_batch_is_not_compressed_and_the_next_one_is(void **state)
{
    struct pfl_pipeline *pipeline = make(NULL, PFL_CODEC_ZSTD, 0);
    struct pfl_span packet;

    (void)state;
    pfl_pipeline_set_plain(pipeline, true);
    add(pipeline, "\x08\x01", 2, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(packet.len, 2);
    assert_memory_equal(packet.data, "\x08\x01", 2);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_set_plain(pipeline, false);
    add(pipeline, "\x08\x01", 2, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(expand(packet, 133).len, 4);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static void a_head_is_drawn_closer_when_less_is_left(void **state)
{
    uint8_t big[303] = {0x08, 0x01, 0x12, 0xaa, 0x02};
    struct pfl_pipeline *pipeline = make(make_filter(), PFL_CODEC_NONE, 0);
    struct pfl_span packet;

    (void)state;
    add(pipeline, big, sizeof(big), 0);
    add(pipeline, "\x08\x02", 2, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_int_equal(packet.len, 2);
    assert_memory_equal(packet.data, "\x08\x01", 2);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_memory_equal(packet.data, "\x08\x02", 2);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static void a_cancelled_batch_yields_nothing_and_the_next_one_does(void **state)
{
    struct pfl_pipeline *pipeline = make(make_filter(), PFL_CODEC_ZSTD, 0);
    struct pfl_span packet;

    (void)state;
    add(pipeline, "\x08\x01", 2, 0);
    assert_int_equal(pfl_pipeline_seal(pipeline), 0);
    pfl_pipeline_cancel(pipeline);
    pfl_pipeline_run(pipeline);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    add(pipeline, "\x08\x01", 2, 0);
    run(pipeline);
    pfl_pipeline_cancel(pipeline); /* after the fact */
    assert_false(pfl_pipeline_next(pipeline, &packet));
    add(pipeline, "\x08\x01", 2, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static void an_empty_batch_yields_nothing(void **state)
{
    struct pfl_pipeline *pipeline = make(make_filter(), PFL_CODEC_ZSTD, 0);
    struct pfl_span packet;

    (void)state;
    run(pipeline);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static int pipeline_one(void *arg)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t) "\x08\x01", .iov_len = 2};
    const struct pfl_pipeline_conf conf = {.codec = *(enum pfl_codec *)arg};
    struct pfl_pipeline *pipeline;
    struct pfl_span packet;
    int rc = pfl_pipeline_new(&conf, &pipeline);

    if (rc != 0)
        return rc;
    rc = pfl_pipeline_add(pipeline, &slice, 1, (struct pfl_span){0}, 0);
    if (rc == 0)
        rc = pfl_pipeline_seal(pipeline);
    if (rc == 0) {
        pfl_pipeline_run(pipeline);
        while (pfl_pipeline_next(pipeline, &packet))
            assert_true(packet.len != 0);
    }
    pfl_pipeline_free(pipeline);
    return rc;
}

static void milling_survives_each_failed_allocation(void **state)
{
    (void)state;
    for (unsigned codec = PFL_CODEC_NONE; codec <= PFL_CODEC_ZSTD; codec++) {
        enum pfl_codec arg = (enum pfl_codec)codec;

        pfl_sweep(pipeline_one, &arg, false);
    }
    pfl_sweep_assert_no_leak();
}

static void what_stays_longer_than_readers_take_is_not_compressed(void **state)
{
    static uint8_t noise[PFL_COMPRESSED_MAX_BYTES + 100];
    uint32_t seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(noise); i++) {
        seed = seed * 1664525u + 1013904223u;
        noise[i] = (uint8_t)(seed >> 24);
    }
    for (unsigned codec = PFL_CODEC_DEFLATE; codec <= PFL_CODEC_ZSTD; codec++) {
        struct pfl_pipeline *pipeline = make(NULL, (enum pfl_codec)codec, 0);
        struct pfl_span packet;

        add(pipeline, noise, sizeof(noise), 0);
        run(pipeline);
        assert_true(pfl_pipeline_next(pipeline, &packet));
        assert_int_equal(packet.len, sizeof(noise));
        assert_memory_equal(packet.data, noise, sizeof(noise));
        assert_false(pfl_pipeline_next(pipeline, &packet));
        pfl_pipeline_free(pipeline);
    }
    pfl_sweep_assert_no_leak();
}

/* What comes of a packet of so many zeroes. */
static size_t compress_zeroes(struct pfl_pipeline *pipeline, size_t bytes)
{
    static const uint8_t zeroes[1 << 20];
    struct pfl_span packet;
    size_t len;

    assert_int_equal(pfl_pipeline_begin_packet(pipeline, bytes, 0), 0);
    while (bytes != 0) {
        size_t part = bytes < sizeof(zeroes) ? bytes : sizeof(zeroes);

        assert_true(pfl_pipeline_is_in_packet(pipeline));
        assert_false(pfl_pipeline_is_full(pipeline));
        pfl_pipeline_add_part(pipeline, pfl_span_of(zeroes, part));
        bytes -= part;
    }
    assert_true(pfl_pipeline_is_full(pipeline));
    assert_int_equal(pfl_pipeline_seal(pipeline), 0);
    pfl_pipeline_run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    len = packet.len;
    assert_false(pfl_pipeline_next(pipeline, &packet));
    return len;
}

static void a_batch_that_takes_long_to_compress_is_not_compressed(void **state)
{
    static const enum pfl_codec codecs[] = {PFL_CODEC_DEFLATE, PFL_CODEC_ZSTD};
    const size_t most = PFL_PIPELINE_COMPRESSED_MAX_BYTES;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct pfl_pipeline *pipeline = make(NULL, codecs[i], 3);

        assert_true(compress_zeroes(pipeline, most / 2) < most / 100);
        assert_int_equal(compress_zeroes(pipeline, most), most);
        assert_true(compress_zeroes(pipeline, most / 2) < most / 100);
        pfl_pipeline_free(pipeline);
    }
}

static void of_a_packet_whose_parts_do_not_come_nothing_is_left(void **state)
{
    struct pfl_pipeline *pipeline = make(NULL, PFL_CODEC_NONE, 0);
    struct pfl_span packet;

    (void)state;
    add(pipeline, "abc", 3, 0);
    assert_int_equal(pfl_pipeline_begin_packet(pipeline, 10, 0), 0);
    pfl_pipeline_add_part(pipeline, pfl_span_of((const uint8_t *)"xy", 2));
    pfl_pipeline_drop_packet(pipeline);
    add(pipeline, "def", 3, 0);
    run(pipeline);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_memory_equal(packet.data, "abc", 3);
    assert_true(pfl_pipeline_next(pipeline, &packet));
    assert_memory_equal(packet.data, "def", 3);
    assert_false(pfl_pipeline_next(pipeline, &packet));
    pfl_pipeline_free(pipeline);
}

static void a_batch_is_full_with_its_last_byte_and_not_within_a_packet(void **state)
{
    static uint8_t packet[PFL_PIPELINE_BATCH_BYTES];
    struct pfl_pipeline *pipeline = make(NULL, PFL_CODEC_DEFLATE, 0);
    const size_t head = 1 + 3; /* tag and size */

    (void)state;
    assert_true(pfl_pipeline_is_empty(pipeline));
    add(pipeline, packet, PFL_PIPELINE_BATCH_BYTES - head - 3 - 1, 0);
    assert_false(pfl_pipeline_is_empty(pipeline));
    assert_false(pfl_pipeline_is_full(pipeline));
    assert_int_equal(pfl_pipeline_begin_packet(pipeline, 1, 0), 0);
    assert_false(pfl_pipeline_is_full(pipeline));
    assert_true(pfl_pipeline_is_in_packet(pipeline));
    pfl_pipeline_add_part(pipeline, pfl_span_of("x", 1));
    assert_false(pfl_pipeline_is_full(pipeline)); /* one byte less */
    pfl_pipeline_free(pipeline);
    pipeline = make(NULL, PFL_CODEC_DEFLATE, 0);
    add(pipeline, packet, PFL_PIPELINE_BATCH_BYTES - head - 3, 0);
    assert_int_equal(pfl_pipeline_begin_packet(pipeline, 1, 0), 0);
    assert_false(pfl_pipeline_is_full(pipeline));
    pfl_pipeline_add_part(pipeline, pfl_span_of("x", 1));
    assert_true(pfl_pipeline_is_full(pipeline));
    pfl_pipeline_free(pipeline);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_pass_unchanged_where_nothing_is_asked),
        cmocka_unit_test(a_batch_becomes_one_packet_that_holds_a_trace),
        cmocka_unit_test(bytes_that_do_not_compress_still_fit),
        cmocka_unit_test(filtered_packets_stay_and_malformed_ones_are_counted),
        cmocka_unit_test(what_is_filtered_is_compressed_afterwards),
        cmocka_unit_test(a_plain_batch_is_not_compressed_and_the_next_one_is),
        cmocka_unit_test(a_head_is_drawn_closer_when_less_is_left),
        cmocka_unit_test(a_cancelled_batch_yields_nothing_and_the_next_one_does),
        cmocka_unit_test(an_empty_batch_yields_nothing),
        cmocka_unit_test(what_stays_longer_than_readers_take_is_not_compressed),
        cmocka_unit_test(a_batch_that_takes_long_to_compress_is_not_compressed),
        cmocka_unit_test(of_a_packet_whose_parts_do_not_come_nothing_is_left),
        cmocka_unit_test(milling_survives_each_failed_allocation),
        cmocka_unit_test(a_batch_is_full_with_its_last_byte_and_not_within_a_packet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
