/* SPDX-License-Identifier: Apache-2.0 */
/* The tunnel's encoding: what goes in comes out, whatever the cuts; bombs and garbage are bounded.
 */
#include "proto/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/buf.h"
#include "tests/support/sweep.h"

#define TOTAL (1u << 20)

static uint8_t plain[TOTAL];
static struct pfl_buf wire;
static struct pfl_buf back;

static int setup(void **state)
{
    (void)state;
    pfl_buf_init(&wire, 4u * TOTAL);
    pfl_buf_init(&back, 4u * TOTAL);
    for (size_t i = 0; i < TOTAL; i++)
        plain[i] = (uint8_t)(i * i >> 9);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_buf_fini(&wire);
    pfl_buf_fini(&back);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void encode(struct pfl_encoder *e, struct pfl_span in, bool is_end)
{
    struct pfl_span out;
    bool is_done = false;

    while (!is_done) {
        assert_int_equal(pfl_encoder_next(e, &in, is_end, &out, &is_done), 0);
        assert_true(out.len <= PFL_CODEC_PIECE_BYTES);
        assert_int_equal(pfl_buf_append(&wire, out.data, out.len), 0);
    }
    assert_int_equal(in.len, 0);
}

static int decode(struct pfl_decoder *d, struct pfl_span in)
{
    struct pfl_span out;
    bool is_done = false;
    int rc = 0;

    while (rc == 0 && !is_done) {
        rc = pfl_decoder_next(d, &in, &out, &is_done);
        if (rc == 0)
            assert_int_equal(pfl_buf_append(&back, out.data, out.len), 0);
    }
    return rc;
}

static void each_flush_brings_all_that_was_given(void **state)
{
    struct pfl_encoder *e;
    struct pfl_decoder *d;
    size_t at = 0;

    (void)state;
    assert_int_equal(pfl_encoder_new(&e), 0);
    assert_int_equal(pfl_decoder_new(&d), 0);
    for (size_t len = 1; at + len < TOTAL; at += len, len = len * 3 + 1) {
        encode(e, pfl_span_of(plain + at, len), false);
        assert_int_equal(decode(d, pfl_buf_get(&wire)), 0);
        pfl_buf_clear(&wire);
        assert_int_equal(back.len, at + len);
    }
    encode(e, pfl_span_of(NULL, 0), true);
    assert_int_equal(decode(d, pfl_buf_get(&wire)), 0);
    assert_memory_equal(pfl_buf_get(&back).data, plain, at);
    pfl_encoder_free(e);
    pfl_decoder_free(d);
}

static void cuts_anywhere_change_nothing(void **state)
{
    struct pfl_encoder *e;

    (void)state;
    assert_int_equal(pfl_encoder_new(&e), 0);
    encode(e, pfl_span_of(plain, 50000), false);
    encode(e, pfl_span_of(plain + 50000, 50000), true);
    pfl_encoder_free(e);
    for (size_t piece = 1; piece < 5000; piece = piece * 5 + 2) {
        struct pfl_decoder *d;

        pfl_buf_clear(&back);
        assert_int_equal(pfl_decoder_new(&d), 0);
        for (size_t at = 0; at < wire.len; at += piece) {
            size_t len = piece < wire.len - at ? piece : wire.len - at;

            assert_int_equal(decode(d, pfl_span_of(pfl_buf_get(&wire).data + at, len)), 0);
        }
        assert_int_equal(back.len, 100000);
        assert_memory_equal(pfl_buf_get(&back).data, plain, 100000);
        pfl_decoder_free(d);
    }
}

/* Each encoder goes after a flush, and the next one continues. */
static void encode_by_many(size_t total)
{
    size_t at = 0;

    for (size_t len = 0; at < total; at += len, len = len * 2 + 1) {
        struct pfl_span end = pfl_encoder_frame_end();
        struct pfl_encoder *e;

        len = len < total - at ? len : total - at;
        assert_int_equal(pfl_encoder_new(&e), 0);
        encode(e, pfl_span_of(plain + at, len / 3), false);
        encode(e, pfl_span_of(plain + at + len / 3, len - len / 3), false);
        encode(e, pfl_span_of(NULL, 0), false);
        pfl_encoder_free(e);
        if (len == 0)
            assert_int_equal(wire.len, 0); /* nothing to end */
        else if (at + len < total)
            assert_int_equal(pfl_buf_append(&wire, end.data, end.len), 0);
    }
}

static void encoders_that_go_are_followed_by_others_whatever_the_cuts(void **state)
{
    (void)state;
    encode_by_many(100000);
    for (size_t piece = 1; piece < 100000; piece = piece * 3 + 1) {
        struct pfl_decoder *d;

        pfl_buf_clear(&back);
        assert_int_equal(pfl_decoder_new(&d), 0);
        for (size_t at = 0; at < wire.len; at += piece) {
            size_t len = piece < wire.len - at ? piece : wire.len - at;

            assert_int_equal(decode(d, pfl_span_of(pfl_buf_get(&wire).data + at, len)), 0);
        }
        assert_int_equal(back.len, 100000);
        assert_memory_equal(pfl_buf_get(&back).data, plain, 100000);
        pfl_decoder_free(d);
    }
}

static void a_frame_may_end_wherever_it_was_flushed_and_any_frame_may_follow(void **state)
{
    struct pfl_span end = pfl_encoder_frame_end();
    size_t lens[] = {1, 2, 131071, 131072, 131073, 524288, 600000}; /* blocks, the window */
    struct pfl_encoder *e;
    struct pfl_decoder *d;

    (void)state;
    assert_int_equal(pfl_decoder_new(&d), 0);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        size_t len = lens[i];

        pfl_buf_clear(&wire);
        pfl_buf_clear(&back);
        assert_int_equal(pfl_encoder_new(&e), 0);
        encode(e, pfl_span_of(plain, len), false);
        pfl_encoder_free(e);
        assert_int_equal(pfl_buf_append(&wire, end.data, end.len), 0);
        assert_int_equal(decode(d, pfl_buf_get(&wire)), 0);
        assert_int_equal(back.len, len);
        assert_memory_equal(pfl_buf_get(&back).data, plain, len);
    }
    /* The last one ends in order, one of nothing too. */
    for (size_t i = 0; i < 2; i++) {
        pfl_buf_clear(&wire);
        pfl_buf_clear(&back);
        assert_int_equal(pfl_encoder_new(&e), 0);
        encode(e, pfl_span_of(plain, 0), true);
        pfl_encoder_free(e);
        assert_int_not_equal(wire.len, 0);
        assert_int_equal(decode(d, pfl_buf_get(&wire)), 0);
        assert_int_equal(back.len, 0);
    }
    pfl_decoder_free(d);
}

static void a_bomb_comes_in_pieces(void **state)
{
    static uint8_t zeros[TOTAL];
    struct pfl_encoder *e;
    struct pfl_decoder *d;
    struct pfl_span in;
    struct pfl_span out;
    size_t total = 0;
    bool is_done = false;

    (void)state;
    assert_int_equal(pfl_encoder_new(&e), 0);
    encode(e, pfl_span_of(zeros, TOTAL), true);
    pfl_encoder_free(e);
    assert_true(wire.len < 1000);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decoder_new(&d), 0);
    while (!is_done) {
        assert_int_equal(pfl_decoder_next(d, &in, &out, &is_done), 0);
        assert_true(out.len <= PFL_CODEC_PIECE_BYTES);
        total += out.len;
    }
    assert_int_equal(total, TOTAL);
    pfl_decoder_free(d);
}

static void garbage_and_too_large_a_window_are_refused_for_good(void **state)
{
    static uint8_t large[TOTAL + 1000];
    ZSTD_CCtx *c = ZSTD_createCCtx();
    struct pfl_decoder *d;
    size_t len;

    (void)state;
    assert_int_equal(pfl_decoder_new(&d), 0);
    assert_int_equal(decode(d, pfl_span_of("not zstd at all", 15)), PFL_EPARSE);
    assert_int_equal(decode(d, pfl_span_of("x", 1)), PFL_EPARSE);
    pfl_decoder_free(d);
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 24);
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
    {
        ZSTD_inBuffer in = {plain, TOTAL, 0};
        ZSTD_outBuffer out = {large, sizeof(large), 0};

        assert_false(ZSTD_isError(ZSTD_compressStream2(c, &out, &in, ZSTD_e_flush)));
        len = out.pos;
    }
    ZSTD_freeCCtx(c);
    assert_int_equal(pfl_decoder_new(&d), 0);
    assert_int_equal(decode(d, pfl_span_of(large, len)), PFL_EPARSE);
    pfl_decoder_free(d);
}

/* An old format's frame would get its own window, whatever the limit: 0.5 to 0.7, as a first frame
 * and after a good one; and a skippable frame. */
static void frames_of_older_formats_are_refused_at_their_first_byte(void **state)
{
    const uint8_t first[] = {0x25, 0x26, 0x27, 0x50, 0x22};
    struct pfl_encoder *e;
    struct pfl_decoder *d;

    (void)state;
    assert_int_equal(pfl_encoder_new(&e), 0);
    encode(e, pfl_span_of(plain, 1000), true);
    pfl_encoder_free(e);
    for (size_t i = 0; i < 2 * sizeof(first); i++) {
        uint8_t old[10] = {first[i / 2], 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

        pfl_buf_clear(&back);
        assert_int_equal(pfl_decoder_new(&d), 0);
        if (i % 2 == 1)
            assert_int_equal(decode(d, pfl_buf_get(&wire)), 0);
        assert_int_equal(decode(d, pfl_span_of(old, 1)), PFL_EPARSE);
        assert_int_equal(decode(d, pfl_span_of(old, sizeof(old))), PFL_EPARSE);
        assert_int_equal(back.len, i % 2 == 1 ? 1000 : 0);
        pfl_decoder_free(d);
    }
}

static void a_magic_number_may_be_cut_anywhere(void **state)
{
    struct pfl_encoder *e;
    struct pfl_decoder *d;

    (void)state;
    assert_int_equal(pfl_encoder_new(&e), 0);
    encode(e, pfl_span_of(plain, 10), true);
    pfl_encoder_free(e);
    assert_int_equal(pfl_decoder_new(&d), 0);
    for (size_t round = 0; round < 3; round++)
        for (size_t at = 0; at < wire.len; at++)
            assert_int_equal(decode(d, pfl_span_of(pfl_buf_get(&wire).data + at, 1)), 0);
    assert_int_equal(back.len, 30);
    assert_int_equal(decode(d, pfl_span_of("\x28\xb5\x2e", 3)), PFL_EPARSE);
    pfl_decoder_free(d);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_flush_brings_all_that_was_given),
        T(cuts_anywhere_change_nothing),
        T(encoders_that_go_are_followed_by_others_whatever_the_cuts),
        T(a_frame_may_end_wherever_it_was_flushed_and_any_frame_may_follow),
        T(a_bomb_comes_in_pieces),
        T(garbage_and_too_large_a_window_are_refused_for_good),
        T(frames_of_older_formats_are_refused_at_their_first_byte),
        T(a_magic_number_may_be_cut_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
