/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed packets of hosts: what is in them gets into the trace as if it had come plain, and
 * what cannot be decoded is counted. */
#include "consumer/merge/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

#define PACKETS   100u
#define PLAIN_MAX ((size_t)8192)
#define ROOM      ((size_t)16384)
#define ZSTD      133u

static const uint32_t codecs[] = {COMPRESSED, ZSTD};

static void init(struct merge_world *w)
{
    assert_int_equal(merge_world_open(w), 0);
    assert_int_equal(pfl_merge_decode(w->merge), 0);
}

static void fini(struct merge_world *w)
{
    merge_world_close(w);
    pfl_sweep_assert_no_leak();
}

/* As they lie in a trace file; the length. */
static size_t make_plain(uint8_t *out, size_t packets)
{
    struct pfl_writer w = pfl_writer_of(out, PLAIN_MAX);
    uint8_t packet[64];

    for (size_t i = 0; i < packets; i++)
        pfl_writer_field_bytes(&w, 1, packet,
                               make_packet(packet, sizeof(packet), 7 + (uint32_t)i % 3, 0));
    assert_false(w.failed);
    return PLAIN_MAX - w.left;
}

/* A packet of `out` (ROOM bytes) that holds these bytes; its length. */
static size_t pack(uint32_t codec, const void *plain, size_t len, uint8_t *out)
{
    struct pfl_writer w = pfl_writer_of(out, ROOM);
    uint8_t *packed = pfl_mem_alloc(ROOM);
    uLongf deflated = ROOM;
    size_t packed_len;

    assert_non_null(packed);
    if (codec == ZSTD) {
        packed_len = ZSTD_compress(packed, ROOM, plain, len, 1);
        assert_false(ZSTD_isError(packed_len));
    } else {
        assert_int_equal(compress2(packed, &deflated, plain, len, 6), Z_OK);
        packed_len = deflated;
    }
    pfl_writer_field_bytes(&w, codec, packed, packed_len);
    pfl_mem_free(packed);
    assert_false(w.failed);
    return ROOM - w.left;
}

static const struct pfl_merge_stats *stats_of(const struct merge_world *w, size_t host)
{
    return pfl_merge_get_stats(w->merge, host);
}

/* The same packets, one by one and compressed, to two merges: one file. */
static void the_file_is_as_if_they_had_come_plain(void **state)
{
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];
    uint8_t packet[64];

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        size_t len = make_plain(plain, PACKETS);
        struct merge_world a;
        struct merge_world b;

        init(&a);
        init(&b);
        for (uint32_t i = 0; i < PACKETS; i++)
            assert_int_equal(merge_world_give(&a, a.b, packet,
                                              make_packet(packet, sizeof(packet), 7 + i % 3, 0)),
                             0);
        assert_int_equal(merge_world_give(&b, b.b, packed, pack(codecs[c], plain, len, packed)), 0);
        assert_int_equal(a.sink.file.len, b.sink.file.len);
        assert_memory_equal(a.sink.file.data, b.sink.file.data, a.sink.file.len);
        assert_int_equal(stats_of(&b, b.b)->packets, PACKETS);
        assert_int_equal(stats_of(&b, b.b)->decoded_packets, PACKETS);
        assert_int_equal(stats_of(&b, b.b)->decoded_bytes, len);
        assert_int_equal(stats_of(&b, b.b)->refused_packets, 0);
        assert_int_equal(stats_of(&a, a.b)->decoded_bytes, 0);
        merge_world_close(&a);
        fini(&b);
    }
}

static void slices_may_cut_it_anywhere(void **state)
{
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];
    struct merge_world w;
    size_t len;
    size_t before;

    (void)state;
    init(&w);
    len = pack(COMPRESSED, plain, make_plain(plain, 5), packed);
    before = trace_packets(&w.sink);
    for (size_t cut = 0; cut <= len; cut++) {
        struct iovec slices[] = {{packed, cut}, {packed + cut, len - cut}};

        assert_int_equal(pfl_merge_packet(w.merge, w.b, slices, 2, len), 0);
    }
    assert_int_equal(trace_packets(&w.sink) - before, 5 * (len + 1));
    assert_int_equal(stats_of(&w, w.b)->refused_packets, 0);
    fini(&w);
}

/* Further fields, in front and behind, in slices of their own. */
static void other_fields_of_the_packet_do_not_matter(void **state)
{
    static const uint8_t time[] = {TIMESTAMP << 3, 77};
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];
    struct merge_world w;
    struct iovec slices[] = {
        {(void *)(uintptr_t)time, 2}, {packed, 0}, {(void *)(uintptr_t)time, 2}};

    (void)state;
    init(&w);
    slices[1].iov_len = pack(ZSTD, plain, make_plain(plain, 5), packed);
    assert_int_equal(pfl_merge_packet(w.merge, w.b, slices, 3, slices[1].iov_len + 4), 0);
    assert_int_equal(stats_of(&w, w.b)->packets, 5);
    fini(&w);
}

static void one_inside_another_is_refused(void **state)
{
    struct merge_world w;
    uint8_t plain[PLAIN_MAX];
    uint8_t inner[ROOM];
    uint8_t outer[ROOM];
    struct pfl_writer both;
    size_t len;

    (void)state;
    init(&w);
    len = pack(ZSTD, plain, make_plain(plain, 5), inner);
    both = pfl_writer_of(plain, sizeof(plain));
    pfl_writer_field_bytes(&both, 1, inner, len);
    len = pack(COMPRESSED, plain, sizeof(plain) - both.left, outer);
    assert_int_equal(merge_world_give(&w, w.b, outer, len), 0);
    assert_int_equal(stats_of(&w, w.b)->refused_packets, 1);
    assert_int_equal(stats_of(&w, w.b)->packets, 0);
    /* The next one is decoded. */
    assert_int_equal(
        merge_world_give(&w, w.b, inner, pack(ZSTD, plain, make_plain(plain, 5), inner)), 0);
    assert_int_equal(stats_of(&w, w.b)->packets, 5);
    fini(&w);
}

static void what_cannot_be_decoded_is_counted_with_its_work(void **state)
{
    struct merge_world w;
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        size_t len = pack(codecs[c], plain, make_plain(plain, PACKETS), packed);

        init(&w);
        packed[len - 1] ^= 1; /* a checksum, or content */
        packed[len / 2] ^= 0x55;
        assert_int_equal(merge_world_give(&w, w.b, packed, len), 0);
        assert_int_equal(stats_of(&w, w.b)->refused_packets, 1);
        assert_int_equal(stats_of(&w, w.b)->packets, 0);
        assert_true(stats_of(&w, w.b)->decoded_bytes > 0);
        fini(&w);
    }
}

/* Its packets up to there are merged. */
static void what_is_no_trace_inside_is_counted(void **state)
{
    struct merge_world w;
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];
    size_t len;

    (void)state;
    init(&w);
    len = pack(ZSTD, plain, make_plain(plain, 5) - 1, packed);
    assert_int_equal(merge_world_give(&w, w.b, packed, len), 0);
    assert_int_equal(stats_of(&w, w.b)->packets, 4);
    assert_int_equal(stats_of(&w, w.b)->refused_packets, 1);
    fini(&w);
}

static void more_than_the_maximum_is_refused(void **state)
{
    static const size_t maximum = PFL_MERGE_DECODED_MAX_BYTES;
    uint8_t *zeros = pfl_mem_zalloc(maximum + 1);
    uint8_t packed[ROOM];
    struct merge_world w;

    (void)state;
    assert_non_null(zeros);
    init(&w);
    assert_int_equal(merge_world_give(&w, w.b, packed, pack(ZSTD, zeros, maximum + 1, packed)), 0);
    assert_int_equal(stats_of(&w, w.b)->refused_packets, 1);
    assert_int_equal(stats_of(&w, w.b)->decoded_bytes, 0); /* by its own word */
    assert_int_equal(merge_world_give(&w, w.b, packed, pack(ZSTD, zeros, maximum, packed)), 0);
    assert_int_equal(stats_of(&w, w.b)->decoded_bytes, maximum);
    pfl_mem_free(zeros);
    fini(&w);
}

static int sweep_body(void *arg)
{
    struct pfl_span packed = *(const struct pfl_span *)arg;
    struct iovec slices[] = {{(void *)(uintptr_t)packed.data, 9},
                             {(void *)(uintptr_t)(packed.data + 9), packed.len - 9}};
    struct merge_world w;
    int rc = merge_world_open(&w);

    if (rc == 0)
        rc = pfl_merge_decode(w.merge);
    if (rc == 0)
        rc = pfl_merge_packet(w.merge, w.b, slices, 2, packed.len);
    if (rc == 0)
        assert_int_equal(stats_of(&w, w.b)->packets, 5);
    merge_world_close(&w);
    return rc;
}

static void out_of_memory_anywhere_leaves_nothing(void **state)
{
    uint8_t plain[PLAIN_MAX];
    uint8_t packed[ROOM];
    struct pfl_span span = {packed, 0};

    (void)state;
    span.len = pack(COMPRESSED, plain, make_plain(plain, 5), packed);
    pfl_sweep(sweep_body, &span, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_as_if_they_had_come_plain),
        cmocka_unit_test(slices_may_cut_it_anywhere),
        cmocka_unit_test(other_fields_of_the_packet_do_not_matter),
        cmocka_unit_test(one_inside_another_is_refused),
        cmocka_unit_test(what_cannot_be_decoded_is_counted_with_its_work),
        cmocka_unit_test(what_is_no_trace_inside_is_counted),
        cmocka_unit_test(more_than_the_maximum_is_refused),
        cmocka_unit_test(out_of_memory_anywhere_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
