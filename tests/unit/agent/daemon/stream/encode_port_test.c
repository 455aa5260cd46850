/* SPDX-License-Identifier: Apache-2.0 */
/* What is encoded on the worker or at once decodes to what was written, in order; however it is
 * cut, paced, ended, broken, closed, or continued by another port. */
#include "agent/daemon/stream/encode_port.h"

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

#define TOTAL      (3u << 20)
#define PIPE_BYTES (1u << 20)

static uv_loop_t loop;
static struct pfl_worker *worker;
static struct pfl_encode_port *port;
static struct pfl_buf wire;
static struct pfl_buf back;
static uint8_t *plain;
static int answer;       /* what on_output says */
static int progress_err; /* the last argument of on_progress */
static unsigned progress;
static bool is_closing_on_progress;
static bool is_plain;
static unsigned idle;
static uint8_t pipe_memory[PIPE_BYTES];
static struct pfl_encode_state begin_state;

static void on_idle(void *user)
{
    (void)user;
    idle++;
}

static void close_port(void)
{
    if (port != NULL)
        pfl_encode_port_close(port, on_idle, NULL);
    port = NULL;
}

static bool is_over(void)
{
    struct pfl_encode_state state;

    pfl_encode_port_get_state(port, &state);
    return state.is_over;
}

static int on_output(void *user, struct pfl_span data)
{
    (void)user;
    if (answer != 0)
        return answer;
    return pfl_buf_append(&wire, data.data, data.len);
}

static void on_progress(void *user, int err)
{
    (void)user;
    progress_err = err;
    progress++;
    if (is_closing_on_progress)
        close_port();
}

static int open_port(void *arg)
{
    struct pfl_encode_port_conf conf = {.worker = worker,
                                        .is_zstd = !is_plain,
                                        .pipe = pipe_memory,
                                        .pipe_bytes = PIPE_BYTES,
                                        .state = begin_state,
                                        .on_output = on_output,
                                        .on_progress = on_progress};
    int rc = pfl_encode_port_new(&conf, &port);

    if (rc == 0 && arg != NULL)
        close_port();
    return rc;
}

static int setup(void **state)
{
    uint32_t seed = 1;

    (void)state;
    pfl_buf_init(&wire, 4 * TOTAL);
    pfl_buf_init(&back, 4 * TOTAL);
    answer = progress_err = 0;
    progress = 0;
    is_closing_on_progress = is_plain = false;
    idle = 0;
    begin_state = (struct pfl_encode_state){0};
    plain = pfl_mem_alloc(TOTAL);
    if (plain == NULL)
        return -1;
    for (size_t i = 0; i < TOTAL; i++) {
        seed = seed * 1664525 + 1013904223;
        plain[i] = (uint8_t)(seed >> (i / 65536 % 2 == 0 ? 24 : 30)); /* much and little in it */
    }
    return pfl_loop_init(&loop) != 0 ||
           pfl_worker_open(&(struct pfl_worker_conf){.loop = &loop, .threads_max = 1}, &worker) !=
               0 ||
           open_port(NULL) != 0;
}

static int teardown(void **state)
{
    (void)state;
    close_port();
    pfl_worker_close(worker);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_mem_free(plain);
    pfl_buf_fini(&wire);
    pfl_buf_fini(&back);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void assert_decodes_to(size_t len)
{
    struct pfl_span in = pfl_buf_get(&wire);
    struct pfl_decoder *d;
    struct pfl_span out;
    bool is_done = false;

    assert_int_equal(pfl_decoder_new(&d), 0);
    while (!is_done) {
        assert_int_equal(pfl_decoder_next(d, &in, &out, &is_done), 0);
        assert_int_equal(pfl_buf_append(&back, out.data, out.len), 0);
    }
    pfl_decoder_free(d);
    assert_int_equal(back.len, len);
    assert_memory_equal(pfl_buf_get(&back).data, plain, len);
}

static void turn_until_pending_is_below(size_t limit)
{
    while (pfl_encode_port_pending(port) >= limit)
        (void)uv_run(&loop, UV_RUN_ONCE);
}

static void write_all(size_t len, size_t step)
{
    size_t n;

    for (size_t at = 0; at < len; at += n) {
        n = at % 7 == 0 ? step : step / 50 + 1; /* much and little in turns */
        n = n < len - at ? n : len - at;
        assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain + at, n)), 0);
        turn_until_pending_is_below(PFL_ENCODE_PENDING_BYTES);
    }
}

static void all_that_was_written_comes_out_and_the_end_follows(void **state)
{
    (void)state;
    write_all(TOTAL, 128 * 1024);
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 1)), PFL_ESTATE);
    while (!is_over())
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(progress_err, 0);
    assert_true(progress != 0);
    assert_decodes_to(TOTAL);
}

static void small_pieces_come_out_at_once(void **state)
{
    (void)state;
    write_all(40000, 3000);
    assert_int_equal(progress, 0);
    assert_int_equal(pfl_encode_port_pending(port), 0);
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_true(is_over());
    assert_decodes_to(40000);
}

/* The loop has not turned: nothing was used yet. */
static void no_more_than_it_may_is_taken(void **state)
{
    size_t at = 0;
    int rc = 0;

    (void)state;
    while (rc == 0 && at < TOTAL) {
        rc = pfl_encode_port_write(port, pfl_span_of(plain + at, 64 * 1024));
        at += rc == 0 ? 64 * 1024 : 0;
    }
    assert_int_equal(rc, PFL_ELIMIT);
    assert_int_equal(at, PIPE_BYTES);
    turn_until_pending_is_below(1);
    assert_decodes_to(at);
}

static void an_owner_that_takes_no_more_is_reported_his_own_error(void **state)
{
    (void)state;
    answer = PFL_ELIMIT;
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 10)), PFL_ELIMIT);
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 100000)), 0);
    while (progress == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(progress_err, PFL_ELIMIT);
}

static void a_port_closed_with_a_job_at_work_calls_nobody(void **state)
{
    (void)state;
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 300000)), 0);
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 100)), 0);
    close_port();
    assert_int_equal(idle, 0); /* the thread may read the pipe */
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(idle, 1);
    assert_int_equal(progress, 0);
    assert_int_equal(wire.len, 0);
}

static void a_port_may_be_closed_where_progress_is_reported(void **state)
{
    (void)state;
    is_closing_on_progress = true;
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain, 200000)), 0);
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain + 200000, 200000)), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* the second job is at work then */
    assert_int_equal(progress, 1);
    assert_null(port);
}

static void without_a_thread_all_comes_out_all_the_same(void **state)
{
    (void)state;
    pfl_has_no_thread = true;
    write_all(TOTAL / 2, 128 * 1024);
    pfl_has_no_thread = false;
    assert_int_equal(progress, 0);
    assert_int_equal(pfl_encode_port_pending(port), 0);
    assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain + TOTAL / 2, 100000)), 0);
    turn_until_pending_is_below(1); /* and there are threads again */
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_true(is_over());
    assert_true(progress != 0);
    assert_decodes_to(TOTAL / 2 + 100000);
}

static void what_was_read_into_the_pipe_is_as_if_written(void **state)
{
    struct iovec pieces[2];
    size_t at = 0;
    bool was_cut = false;

    (void)state;
    while (at < TOTAL) {
        unsigned len =
            pfl_encode_port_get_room(port, TOTAL - at < 100000 ? TOTAL - at : 100000, pieces);

        was_cut = was_cut || len == 2;
        for (unsigned i = 0; i < len; i++) {
            memcpy(pieces[i].iov_base, plain + at, pieces[i].iov_len);
            at += pieces[i].iov_len;
            if (i + 1 == len)
                assert_int_equal(pfl_encode_port_wrote(
                                     port, pieces[0].iov_len + (len == 2 ? pieces[1].iov_len : 0)),
                                 0);
        }
        turn_until_pending_is_below(PFL_ENCODE_PENDING_BYTES);
    }
    turn_until_pending_is_below(1);
    assert_true(was_cut); /* at the ring's end */
    assert_decodes_to(TOTAL);
}

static void without_encoding_the_output_is_the_input(void **state)
{
    (void)state;
    close_port();
    is_plain = true;
    assert_int_equal(open_port(NULL), 0);
    write_all(TOTAL, 128 * 1024);
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_true(is_over());
    assert_int_equal(wire.len, TOTAL);
    assert_memory_equal(pfl_buf_get(&wire).data, plain, TOTAL);
    assert_int_equal(progress, 0);
}

/* As after the death of a process: what its port was at is not known, the rest is in the pipe. */
static void another_port_goes_on_where_one_was_noted(void **state)
{
    uint32_t seed = 7;
    unsigned deaths = 0;
    size_t n;

    (void)state;
    for (size_t at = 0; at < TOTAL; at += n) {
        seed = seed * 1664525 + 1013904223;
        n = seed >> 8 & 0x1ffff;
        n = n < TOTAL - at ? n : TOTAL - at;
        assert_int_equal(pfl_encode_port_write(port, pfl_span_of(plain + at, n)), 0);
        turn_until_pending_is_below(seed >> 28 < 8 ? 1 : PFL_ENCODE_PENDING_BYTES);
        if ((seed >> 24 & 3) != 0)
            continue;
        pfl_encode_port_get_state(port, &begin_state);
        close_port();
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(open_port(NULL), 0);
        assert_int_equal(pfl_encode_port_wrote(port, 0), 0); /* continues */
        deaths++;
    }
    assert_int_equal(pfl_encode_port_end(port), 0);
    while (!is_over())
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_true(deaths > 5);
    assert_decodes_to(TOTAL);
}

static void a_port_that_was_over_says_nothing_more(void **state)
{
    size_t len;

    (void)state;
    write_all(1000, 1000);
    assert_int_equal(pfl_encode_port_end(port), 0);
    pfl_encode_port_get_state(port, &begin_state);
    assert_true(begin_state.is_over);
    assert_false(begin_state.is_frame_open);
    len = wire.len;
    close_port();
    assert_int_equal(open_port(NULL), 0);
    assert_int_equal(pfl_encode_port_wrote(port, 0), 0);
    assert_int_equal(pfl_encode_port_end(port), 0);
    assert_true(is_over());
    assert_int_equal(wire.len, len);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    close_port();
    pfl_sweep(open_port, &loop, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_was_written_comes_out_and_the_end_follows),
        TEST(small_pieces_come_out_at_once),
        TEST(no_more_than_it_may_is_taken),
        TEST(an_owner_that_takes_no_more_is_reported_his_own_error),
        TEST(a_port_closed_with_a_job_at_work_calls_nobody),
        TEST(a_port_may_be_closed_where_progress_is_reported),
        TEST(without_a_thread_all_comes_out_all_the_same),
        TEST(what_was_read_into_the_pipe_is_as_if_written),
        TEST(without_encoding_the_output_is_the_input),
        TEST(another_port_goes_on_where_one_was_noted),
        TEST(a_port_that_was_over_says_nothing_more),
        TEST(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
