/* SPDX-License-Identifier: Apache-2.0 */
/* What was encoded comes back, in order, from the thread or from the loop; however it is cut, how
 * little it was, at any time of a close; and no more is decoded than is asked for. */
#include "tunnel/decode_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "proto/codec.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"

#define TOTAL (6u << 20)

static uv_loop_t loop;
static struct pfl_worker *worker;
static struct pfl_decode_pool pool;
static struct pfl_decode_port *port;
static uint8_t *plain;
static struct pfl_buf wire;
static size_t back;    /* bytes that came, each as it was */
static size_t largest; /* piece */
static unsigned pieces;
static unsigned ready; /* how often it was notified */
static bool is_closing_on_ready;
static uint64_t dice;

static void close_port(void)
{
    pfl_decode_port_close(port);
    port = NULL;
}

static void on_ready(void *user)
{
    (void)user;
    ready++;
    if (is_closing_on_ready)
        close_port();
}

static int open_port(void)
{
    const struct pfl_decode_port_conf conf = {
        .worker = worker, .pool = &pool, .on_ready = on_ready};

    return pfl_decode_port_new(&conf, &port);
}

/* A frame more on the wire. */
static void encode_more(struct pfl_span in)
{
    struct pfl_encoder *e;
    struct pfl_span out;
    bool is_done = false;

    assert_int_equal(pfl_encoder_new(&e), 0);
    while (!is_done) {
        assert_int_equal(pfl_encoder_next(e, &in, false, &out, &is_done), 0);
        assert_int_equal(pfl_buf_append(&wire, out.data, out.len), 0);
    }
    pfl_encoder_free(e);
}

static void encode(size_t len)
{
    pfl_buf_clear(&wire);
    encode_more(pfl_span_of(plain, len));
}

static size_t roll(size_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(dice >> 33) % sides;
}

/* Frames one after the other, of little and of much; none is ended by its encoder. */
static void encode_frames(size_t total)
{
    struct pfl_span end = pfl_encoder_frame_end();
    size_t len;

    pfl_buf_clear(&wire);
    for (size_t at = 0; at < total; at += len) {
        len = 1 + roll(roll(2) == 0 ? 50 : 300000);
        len = len < total - at ? len : total - at;
        if (at != 0)
            assert_int_equal(pfl_buf_append(&wire, end.data, end.len), 0);
        encode_more(pfl_span_of(plain + at, len));
    }
}

/* A quarter is noise, the rest is easy; the last two MiB are one byte. */
static int setup(void **state)
{
    uint32_t seed = 1;

    (void)state;
    back = largest = 0;
    ready = pieces = 0;
    is_closing_on_ready = false;
    pfl_buf_init(&wire, 2 * TOTAL);
    plain = pfl_mem_zalloc(TOTAL);
    if (plain == NULL)
        return -1;
    for (size_t i = 0; i < TOTAL - (2u << 20); i++) {
        seed = seed * 1664525 + 1013904223;
        plain[i] = (uint8_t)(seed >> (i / 65536 % 4 == 3 ? 24 : 31));
    }
    return pfl_loop_init(&loop) != 0 ||
           pfl_worker_open(&(struct pfl_worker_conf){.loop = &loop, .threads_max = 1}, &worker) !=
               0 ||
           open_port() != 0;
}

static int teardown(void **state)
{
    (void)state;
    close_port();
    pfl_worker_close(worker);
    pfl_decode_pool_fini(&pool);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_mem_free(plain);
    pfl_buf_fini(&wire);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void check(struct pfl_span piece)
{
    assert_in_range(piece.len, 0, TOTAL - back);
    assert_memory_equal(piece.data, plain + back, piece.len);
    back += piece.len;
    largest = piece.len > largest ? piece.len : largest;
    pieces++;
}

/* As much as there is now. */
static int use_all(struct pfl_span *in)
{
    bool is_more = true;
    int rc = 0;

    while (rc == 0 && is_more) {
        size_t before = in->len;
        struct pfl_span piece;

        rc = pfl_decode_port_next(port, in, &piece);
        is_more = in->len != before || piece.len != 0;
        if (rc == 0 && piece.len != 0)
            check(piece);
    }
    return rc;
}

/* All of `wire`, of which `step` bytes come at a time, of 0 a number by dice; 0 at the end, or why
 * not. */
static int feed(size_t step)
{
    struct pfl_span all = pfl_buf_get(&wire);
    struct pfl_span held = pfl_span_of(all.data, 0);
    int rc = 0;

    while (rc == 0 && (all.len != 0 || held.len != 0 || !pfl_decode_port_is_idle(port))) {
        size_t n = step != 0 ? step : 1 + roll(roll(2) == 0 ? 7 : 400000);

        n = n < all.len ? n : all.len;
        held.len += n;
        all = pfl_span_of(all.data + n, all.len - n);
        rc = use_all(&held);
        if (rc == 0 && !pfl_decode_port_is_idle(port))
            (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    return rc;
}

static void all_comes_back_in_order_however_it_is_cut(void **state)
{
    static const size_t steps[] = {TOTAL, 300000, 65536, 20000, 9000};

    (void)state;
    encode(TOTAL);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        close_port();
        assert_int_equal(open_port(), 0);
        back = 0;
        assert_int_equal(feed(steps[i]), 0);
        assert_int_equal(back, TOTAL);
    }
    assert_true(ready != 0);
    assert_in_range(largest, PFL_CODEC_PIECE_BYTES, PFL_DECODE_PIECE_BYTES);
}

static void frames_of_many_encoders_come_back_as_one_stream(void **state)
{
    (void)state;
    for (dice = 1; dice < 20; dice++) {
        uint64_t seed = dice;

        encode_frames(TOTAL / 4);
        pfl_has_no_thread = seed % 3 == 0;
        pool.taken = seed % 3 == 1 ? PFL_DECODE_POOL_PIECES - 1 : 0; /* on the loop, then */
        close_port();
        assert_int_equal(open_port(), 0);
        back = 0;
        assert_int_equal(feed(0), 0);
        assert_int_equal(back, TOTAL / 4);
        assert_true(pfl_decode_port_is_idle(port));
        pfl_has_no_thread = false;
        pool.taken = 0;
        dice = seed;
    }
    assert_true(ready != 0);
}

static void who_keeps_up_decodes_on_the_loop(void **state)
{
    (void)state;
    encode(TOTAL);
    assert_in_range(wire.len, 2 * PFL_DECODE_AT_ONCE_BYTES, TOTAL);
    assert_int_equal(feed(PFL_DECODE_AT_ONCE_BYTES), 0);
    assert_int_equal(back, TOTAL);
    assert_int_equal(ready, 0);
    assert_int_equal(pool.spares_len, 0);
    assert_true(pfl_decode_port_is_idle(port));
}

/* Of one byte. */
static void few_bytes_that_expand_to_many_come_in_pieces(void **state)
{
    (void)state;
    memset(plain, 0, TOTAL);
    encode(TOTAL);
    assert_in_range(wire.len, 1, 8 * 1024);
    assert_int_equal(feed(wire.len), 0);
    assert_int_equal(back, TOTAL);
    assert_in_range(largest, 1, PFL_DECODE_PIECE_BYTES);
}

static void nothing_is_decoded_ahead_of_who_does_not_ask(void **state)
{
    struct pfl_span in;
    struct pfl_span piece;

    (void)state;
    encode(TOTAL);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decode_port_next(port, &in, &piece), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until there is nothing to wait for */
    assert_int_equal(ready, 1);
    assert_int_equal(in.len, wire.len - PFL_DECODE_TAKEN_BYTES);
    assert_false(pfl_decode_port_is_idle(port));
    in = pfl_span_of(plain, 0);
    while (!pfl_decode_port_is_idle(port)) {
        assert_int_equal(use_all(&in), 0);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_in_range(back, 1, TOTAL - 1);
}

static void what_cannot_be_decoded_is_reported_for_good(void **state)
{
    struct pfl_span none = pfl_span_of(plain, 0);
    struct pfl_span piece;

    (void)state;
    encode(TOTAL);
    memset(wire.data + wire.start + wire.len / 2, 0xff, 5000);
    assert_int_equal(feed(300000), PFL_EPARSE);
    assert_in_range(back, 1, TOTAL - 1); /* what was before it is as it was */
    assert_false(pfl_decode_port_is_idle(port));
    assert_int_equal(pfl_decode_port_next(port, &none, &piece), PFL_EPARSE);
}

static void a_port_closed_with_a_job_at_work_calls_nobody(void **state)
{
    struct pfl_span in;
    struct pfl_span piece;

    (void)state;
    encode(TOTAL);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decode_port_next(port, &in, &piece), 0);
    close_port();
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(ready, 0);
}

static void a_port_closed_with_its_lane_leaves_nothing(void **state)
{
    struct pfl_span in;
    struct pfl_span piece;

    (void)state;
    encode(TOTAL);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decode_port_next(port, &in, &piece), 0);
    close_port();
    pfl_worker_close(worker);
    worker = NULL;
    assert_int_equal(ready, 0);
}

static void a_port_may_be_closed_where_it_is_reported(void **state)
{
    struct pfl_span in;
    struct pfl_span piece;

    (void)state;
    is_closing_on_ready = true;
    encode(TOTAL);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decode_port_next(port, &in, &piece), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(ready, 1);
    assert_null(port);
}

static void without_a_thread_all_comes_back_all_the_same(void **state)
{
    (void)state;
    encode(TOTAL);
    pfl_has_no_thread = true;
    assert_int_equal(feed(300000), 0);
    pfl_has_no_thread = false;
    assert_int_equal(ready, 0);
    assert_int_equal(back, TOTAL);
    assert_true(pfl_decode_port_is_idle(port));
}

static void who_gets_no_buffer_decodes_on_the_loop(void **state)
{
    (void)state;
    encode(TOTAL);
    pool.taken = PFL_DECODE_POOL_PIECES - 1; /* one is left, and two are needed */
    assert_int_equal(feed(300000), 0);
    assert_int_equal(pool.taken, PFL_DECODE_POOL_PIECES - 1);
    pool.taken = 0;
    assert_int_equal(ready, 0);
    assert_int_equal(back, TOTAL);
}

static void who_is_idle_has_no_buffer(void **state)
{
    (void)state;
    encode(TOTAL);
    assert_int_equal(feed(TOTAL), 0);
    assert_true(ready != 0);
    assert_int_equal(pool.taken, 0);
    assert_int_equal(pool.spares_len, 2);
}

/* Blocks of three bytes each, with three tables of codes in 16: 8 us. */
static void encode_tiny_blocks(size_t blocks)
{
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x50, 0x40, 0, 0,
                                    0,    0,    0,    0,    0, 0,    0,    0};
    static const uint8_t tiny[] = {0x6c, 0,    0,    0,    1, 0xa8, 0xe4, 0xff,
                                   0xe3, 0x7f, 0xe4, 0xff, 0, 0,    0,    4};

    pfl_buf_clear(&wire);
    assert_int_equal(pfl_buf_append(&wire, frame, sizeof(frame)), 0);
    for (size_t i = 0; i < blocks; i++)
        assert_int_equal(pfl_buf_append(&wire, tiny, sizeof(tiny)), 0);
    memset(plain, 0, 8 + 3 * blocks);
}

static void bytes_that_take_long_are_decoded_in_parts(void **state)
{
    struct pfl_span in;
    struct pfl_span piece;

    (void)state;
    encode_tiny_blocks(PFL_DECODE_AT_ONCE_BYTES / 16 - 2);
    in = pfl_buf_get(&wire);
    assert_int_equal(pfl_decode_port_next(port, &in, &piece), 0); /* on the loop */
    assert_int_equal(in.len, wire.len - PFL_DECODE_PART_BYTES);
    assert_in_range(piece.len, 1, PFL_DECODE_PART_BYTES);
    close_port();
    assert_int_equal(open_port(), 0);
    back = 0;
    assert_int_equal(feed(wire.len), 0);
    assert_int_equal(back, 8 + 3 * (PFL_DECODE_AT_ONCE_BYTES / 16 - 2));
    assert_int_equal(ready, 0);
}

static void a_job_that_takes_long_gives_way(void **state)
{
    size_t blocks = 2 * PFL_DECODE_AT_ONCE_BYTES / 16;

    (void)state;
    encode_tiny_blocks(blocks);
    assert_int_equal(feed(wire.len), 0);
    assert_int_equal(back, 8 + 3 * blocks);
    /* The rest of at most AT_ONCE is decoded on the loop; of all of TAKEN there would be five jobs.
     */
    assert_true(ready > 6);
}

static int decode_all(void *arg)
{
    int rc = open_port();

    (void)arg;
    back = 0;
    if (rc == 0)
        rc = feed(TOTAL);
    close_port();
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    pfl_decode_pool_fini(&pool);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    close_port();
    encode(1u << 20);
    pfl_sweep(decode_all, NULL, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_comes_back_in_order_however_it_is_cut),
        TEST(frames_of_many_encoders_come_back_as_one_stream),
        TEST(who_keeps_up_decodes_on_the_loop),
        TEST(few_bytes_that_expand_to_many_come_in_pieces),
        TEST(nothing_is_decoded_ahead_of_who_does_not_ask),
        TEST(what_cannot_be_decoded_is_reported_for_good),
        TEST(a_port_closed_with_a_job_at_work_calls_nobody),
        TEST(a_port_closed_with_its_lane_leaves_nothing),
        TEST(a_port_may_be_closed_where_it_is_reported),
        TEST(without_a_thread_all_comes_back_all_the_same),
        TEST(who_gets_no_buffer_decodes_on_the_loop),
        TEST(who_is_idle_has_no_buffer),
        TEST(bytes_that_take_long_are_decoded_in_parts),
        TEST(a_job_that_takes_long_gives_way),
        TEST(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
