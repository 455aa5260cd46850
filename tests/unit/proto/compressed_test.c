/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed packets, as zlib and zstd make them: what went in comes out, and what claims or holds
 * too much costs no more than the maximum. */
#include "proto/compressed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "tests/support/sweep.h"

#define DEFLATE TRACE_PACKET__COMPRESSED_PACKETS
#define ZSTD    TRACE_PACKET__ZSTD_COMPRESSED_PACKETS
#define MIB     ((size_t)1 << 20)

static const uint32_t codecs[] = {DEFLATE, ZSTD};

static struct pfl_compressed_decoder *decoder;
#define PLAIN_BYTES  (20 * MIB)
#define PACKED_BYTES (21 * MIB)

static uint8_t plain[PLAIN_BYTES];
static uint8_t packed[PACKED_BYTES];

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLAIN_BYTES; i++)
        plain[i] = i % 256 < 240 ? 0 : (uint8_t)(i * i / 977);
    return pfl_compressed_decoder_new(&decoder);
}

static int teardown(void **state)
{
    (void)state;
    pfl_compressed_decoder_free(decoder);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* The field of such a packet, with `len` plain bytes inside. */
static struct pfl_field pack(uint32_t codec, size_t len)
{
    struct pfl_field f = {.id = codec, .type = PFL_WIRE_BYTES};
    uLongf deflated = PACKED_BYTES;

    if (codec == ZSTD) {
        f.bytes = pfl_span_of(packed, ZSTD_compress(packed, PACKED_BYTES, plain, len, 1));
        assert_false(ZSTD_isError(f.bytes.len));
        return f;
    }
    assert_int_equal(compress2(packed, &deflated, plain, len, 1), Z_OK);
    f.bytes = pfl_span_of(packed, deflated);
    return f;
}

static void what_is_compressed_comes_back(void **state)
{
    static const size_t lens[] = {0, 1, 100, 300000, MIB, PLAIN_BYTES};

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
            struct pfl_field f = pack(codecs[c], lens[i]);
            struct pfl_buf out;

            pfl_buf_init(&out, PLAIN_BYTES + 3);
            assert_int_equal(pfl_buf_append(&out, "abc", 3), 0);
            assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
            assert_int_equal(out.len, lens[i] + 3);
            assert_memory_equal(out.data + out.start, "abc", 3);
            assert_memory_equal(out.data + out.start + 3, plain, lens[i]);
            pfl_buf_fini(&out);
        }
    }
}

static void a_bomb_costs_no_more_than_the_maximum(void **state)
{
    (void)state;
    memset(plain, 0, PLAIN_BYTES);
    for (size_t c = 0; c < 2; c++) {
        struct pfl_field f = pack(codecs[c], PLAIN_BYTES);
        uint64_t before = pfl_compressed_get_work_bytes(decoder);
        struct pfl_buf out;

        pfl_buf_init(&out, 2 * MIB);
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
        assert_int_equal(out.len, 0);
        assert_in_range(out.capacity, 0, 4 * MIB);
        assert_in_range(pfl_compressed_get_work_bytes(decoder) - before, 0, 5 * MIB);
        assert_int_equal(pfl_buf_append(&out, "x", 1), 0);
        pfl_buf_fini(&out);
        /* It is none where there is room: deflate's own ratio is the most. */
        pfl_buf_init(&out, PLAIN_BYTES);
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
        assert_int_equal(out.len, PLAIN_BYTES);
        pfl_buf_fini(&out);
    }
}

/* A hostile one of 5 MiB takes half a second: empty blocks, each with codes of its own. */
static void a_stream_that_is_too_long_is_not_decoded(void **state)
{
    uint64_t before = pfl_compressed_get_work_bytes(decoder);
    struct pfl_buf out;

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct pfl_field f = pack(codecs[c], 100);

        pfl_buf_init(&out, MIB);
        f.bytes.len = PFL_COMPRESSED_MAX_BYTES + 1;
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
        assert_int_equal(out.capacity, 0);
        assert_int_equal(pfl_compressed_get_work_bytes(decoder), before);
        f.bytes.len = PFL_COMPRESSED_MAX_BYTES; /* what follows the end is nonsense */
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_EPARSE);
        before = pfl_compressed_get_work_bytes(decoder);
        pfl_buf_fini(&out);
    }
}

/* Each has three tables, of 1280 states, and three bytes. */
static size_t make_tiny_blocks(uint32_t blocks)
{
    static const uint8_t tiny[] = {0x6c, 0, 0, 0x00, 0x01, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4};
    static const uint8_t first[] = {0x40, 0, 0, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
    static const uint8_t tables[] = {0xe4, 0xff, 0xe3, 0x7f, 0xe4, 0xff};
    uint32_t bytes = 8 + 3 * blocks;
    size_t at = 9;

    memcpy(packed, (const uint8_t[]){0x28, 0xb5, 0x2f, 0xfd, 0xa0}, 5);
    for (size_t i = 0; i < 4; i++)
        packed[5 + i] = (uint8_t)(bytes >> (8 * i));
    memcpy(packed + at, first, sizeof(first));
    at += sizeof(first);
    for (uint32_t i = 0; i < blocks; i++, at += sizeof(tiny)) {
        memcpy(packed + at, tiny, sizeof(tiny));
        memcpy(packed + at + 6, tables, sizeof(tables));
    }
    memcpy(packed + at, (const uint8_t[]){1, 0, 0}, 3);
    return at + 3;
}

static void tiny_blocks_of_zstd_are_not_decoded(void **state)
{
    uint64_t before = pfl_compressed_get_work_bytes(decoder);
    struct pfl_field f = {.id = ZSTD, .type = PFL_WIRE_BYTES};
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, MIB);
    f.bytes = pfl_span_of(packed, make_tiny_blocks(10)); /* it is one that is read */
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
    assert_int_equal(out.len, 38);
    assert_memory_equal(pfl_buf_get(&out).data, "abcdefgh", 8);
    assert_int_equal(pfl_compressed_get_work_bytes(decoder) - before, 38);
    f.bytes = pfl_span_of(packed, make_tiny_blocks(10000));
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
    for (unsigned flag = 1; flag < 4;
         flag++) { /* with the number of a dictionary before the size */
        size_t len = make_tiny_blocks(10000);

        memmove(packed + 5 + (1u << (flag - 1)), packed + 5, len - 5);
        packed[4] = (uint8_t)(packed[4] | flag);
        f.bytes = pfl_span_of(packed, len + (1u << (flag - 1)));
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
    }
    assert_int_equal(pfl_compressed_get_work_bytes(decoder) - before, 38);
    pfl_buf_fini(&out);
}

/* The highest levels split blocks. */
static void what_any_level_of_zstd_makes_is_read(void **state)
{
    static const size_t lens[] = {1, 70000, MIB};

    (void)state;
    for (size_t i = 0; i < MIB; i++)
        plain[i] = (uint8_t)(i % 7 != 0 ? i / 300 : i * i / 977);
    for (int level = ZSTD_minCLevel() < -5 ? -5 : 1; level <= ZSTD_maxCLevel(); level += 3) {
        for (size_t i = 0; i < 3; i++) {
            struct pfl_field f = {.id = ZSTD, .type = PFL_WIRE_BYTES};
            struct pfl_buf out;

            f.bytes =
                pfl_span_of(packed, ZSTD_compress(packed, PACKED_BYTES, plain, lens[i], level));
            pfl_buf_init(&out, MIB);
            assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
            assert_int_equal(out.len, lens[i]);
            pfl_buf_fini(&out);
        }
    }
}

static void a_claim_allocates_nothing_beyond_the_maximum(void **state)
{
    /* A frame of a single segment, whose size is in 8 bytes: 2^40. */
    static const uint8_t claims[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0};
    struct pfl_field f = {.id = ZSTD, .bytes = pfl_span_of(claims, sizeof(claims))};
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 64 * MIB);
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
    assert_int_equal(out.capacity, 0);
    assert_int_equal(pfl_compressed_get_work_bytes(decoder), 0);
    pfl_buf_fini(&out);
}

static void refuse(uint32_t codec, const uint8_t *bytes, size_t len)
{
    struct pfl_field f = {.id = codec, .bytes = pfl_span_of(bytes, len)};
    struct pfl_buf out;

    pfl_buf_init(&out, MIB);
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_EPARSE);
    assert_int_equal(out.len, 0);
    pfl_buf_fini(&out);
}

static void what_is_cut_short_or_longer_is_refused(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        size_t len = pack(codecs[c], 200).bytes.len;

        for (size_t cut = 0; cut < len; cut++)
            refuse(codecs[c], packed, cut);
        packed[len] = 0;
        refuse(codecs[c], packed, len + 1);
    }
}

static void only_todays_zstd_frames_with_a_size_are_read(void **state)
{
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0};
    static const uint8_t old[] = {0x27, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0, 0}; /* version 0.7 */
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_outBuffer out = {packed, PACKED_BYTES, 0};
    ZSTD_inBuffer in = {plain, 1000, 0};
    size_t len;

    (void)state;
    refuse(ZSTD, skippable, sizeof(skippable));
    refuse(ZSTD, old, sizeof(old));
    assert_non_null(c); /* a stream, which does not know its size at the begin */
    assert_false(ZSTD_isError(ZSTD_compressStream2(c, &out, &in, ZSTD_e_flush)));
    assert_false(ZSTD_isError(ZSTD_compressStream2(c, &out, &in, ZSTD_e_end)));
    refuse(ZSTD, packed, out.pos);
    ZSTD_freeCCtx(c);
    len = pack(ZSTD, 1000).bytes.len; /* two frames, of which the first says 1000 */
    memcpy(packed + len, packed, len);
    refuse(ZSTD, packed, 2 * len);
    refuse(DEFLATE, packed, len);
}

static void a_packet_is_compressed_if_it_has_such_a_field(void **state)
{
    static const uint8_t plain_packet[] = {0x40, 1, 0x50, 2};
    static const uint8_t deflated[] = {0x40, 1, 0x92, 0x03, 2, 'x', 'y'};
    static const uint8_t number[] = {0x90, 0x03, 2};
    struct pfl_field f;

    (void)state;
    assert_false(pfl_compressed_find(pfl_span_of(plain_packet, sizeof(plain_packet)), &f));
    assert_false(pfl_compressed_find(pfl_span_of(number, sizeof(number)), &f));
    assert_false(pfl_compressed_find(pfl_span_of(deflated, sizeof(deflated) - 1), &f));
    assert_true(pfl_compressed_find(pfl_span_of(deflated, sizeof(deflated)), &f));
    assert_int_equal(f.id, DEFLATE);
    assert_int_equal(f.bytes.len, 2);
}

static int decode_both(void *arg)
{
    struct pfl_compressed_decoder *one = NULL;
    struct pfl_buf out;
    int rc = pfl_compressed_decoder_new(&one);

    (void)arg;
    pfl_buf_init(&out, 2 * MIB);
    for (size_t c = 0; rc == 0 && c < 2; c++) {
        struct pfl_field f = pack(codecs[c], MIB);

        rc = pfl_compressed_decode(one, &f, &out);
        pfl_buf_clear(&out);
    }
    pfl_compressed_decoder_free(one);
    pfl_buf_fini(&out);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    memset(plain, 0, MIB);                /* more than the first guess */
    pfl_compressed_decoder_free(decoder); /* the sweep counts what is live */
    decoder = NULL;
    pfl_sweep(decode_both, NULL, false);
}

static void a_guess_that_is_too_small_grows_to_the_maximum_and_no_faster_than_fourfold(void **state)
{
    uint64_t before = pfl_compressed_get_work_bytes(decoder);
    struct pfl_field f;
    struct pfl_buf out;

    (void)state;
    for (size_t i = 0; i < 3 * MIB; i++)
        plain[i] = i % 256 == 0 ? (uint8_t)(i * i / 977) : 0;
    f = pack(DEFLATE, 3 * MIB);
    assert_in_range(f.bytes.len, 3 * MIB / 1000, 3 * MIB / 16); /* the first guess is too small */
    pfl_buf_init(&out, 64 * MIB);
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
    assert_int_equal(out.len, 3 * MIB);
    assert_memory_equal(pfl_buf_get(&out).data, plain, 3 * MIB);
    assert_in_range(out.capacity, 3 * MIB, 16 * MIB);
    assert_in_range(pfl_compressed_get_work_bytes(decoder) - before, 3 * MIB, 16 * MIB);
    pfl_buf_fini(&out);
    for (size_t more = 0; more < 2; more++) {
        pfl_buf_init(&out, 3 * MIB + more); /* four times the guess does not fit */
        assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
        assert_int_equal(out.len, 3 * MIB);
        pfl_buf_fini(&out);
    }
    pfl_buf_init(&out, 3 * MIB - 1);
    assert_int_equal(pfl_compressed_decode(decoder, &f, &out), PFL_ELIMIT);
    pfl_buf_fini(&out);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_compressed_comes_back),
        TEST(a_bomb_costs_no_more_than_the_maximum),
        TEST(a_stream_that_is_too_long_is_not_decoded),
        TEST(tiny_blocks_of_zstd_are_not_decoded),
        TEST(what_any_level_of_zstd_makes_is_read),
        TEST(a_claim_allocates_nothing_beyond_the_maximum),
        TEST(what_is_cut_short_or_longer_is_refused),
        TEST(only_todays_zstd_frames_with_a_size_are_read),
        TEST(a_packet_is_compressed_if_it_has_such_a_field),
        TEST(every_allocation_may_fail),
        TEST(a_guess_that_is_too_small_grows_to_the_maximum_and_no_faster_than_fourfold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
