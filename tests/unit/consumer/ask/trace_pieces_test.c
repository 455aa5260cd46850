/* SPDX-License-Identifier: Apache-2.0 */
/* Which piece of a trace comes next, and when the question does. */
#include "consumer/ask/trace_pieces.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PIECE PFL_TRACE_PIECES_BYTES

static void expect_piece(struct pfl_trace_pieces *p, uint64_t offset, size_t len)
{
    size_t wanted = 0;

    assert_int_equal(pfl_trace_pieces_next(p, true, &wanted), PFL_TRACE_PIECES_PIECE);
    assert_int_equal(p->offset, offset);
    assert_int_equal(wanted, len);
    pfl_trace_pieces_begin(p, len);
}

static void expect_step(struct pfl_trace_pieces *p, bool is_written,
                        enum pfl_trace_pieces_step step)
{
    size_t len = 77;

    assert_int_equal(pfl_trace_pieces_next(p, is_written, &len), step);
    assert_int_equal(len, 77);
}

static void pieces_come_in_order_and_the_question_last(void **state)
{
    struct pfl_trace_pieces p;

    (void)state;
    pfl_trace_pieces_init(&p, 2ull * PIECE + 5);
    expect_piece(&p, 0, PIECE);
    assert_true(pfl_trace_pieces_take(&p, PIECE, true));
    expect_piece(&p, PIECE, PIECE);
    assert_true(pfl_trace_pieces_take(&p, PIECE, true));
    expect_piece(&p, 2ull * PIECE, 5);
    assert_true(pfl_trace_pieces_take(&p, 5, true));
    expect_step(&p, true, PFL_TRACE_PIECES_QUESTION);
    expect_step(&p, true, PFL_TRACE_PIECES_WAIT); /* once */
}

static void an_empty_trace_is_asked_at_once(void **state)
{
    struct pfl_trace_pieces p;

    (void)state;
    pfl_trace_pieces_init(&p, 0);
    expect_step(&p, false, PFL_TRACE_PIECES_WAIT);
    expect_step(&p, true, PFL_TRACE_PIECES_QUESTION);
}

static void the_next_piece_waits_for_the_last_reply(void **state)
{
    struct pfl_trace_pieces p;

    (void)state;
    pfl_trace_pieces_init(&p, PIECE + 3);
    expect_piece(&p, 0, PIECE);
    expect_step(&p, true, PFL_TRACE_PIECES_WAIT);
    assert_true(pfl_trace_pieces_take(&p, PIECE - 1, false));
    expect_step(&p, true, PFL_TRACE_PIECES_WAIT);
    assert_true(pfl_trace_pieces_take(&p, 1, false));
    expect_step(&p, true, PFL_TRACE_PIECES_WAIT);
    assert_true(pfl_trace_pieces_take(&p, 0, true)); /* the last one may be empty */
    expect_piece(&p, PIECE, 3);
}

static void the_next_piece_waits_for_the_process(void **state)
{
    struct pfl_trace_pieces p;

    (void)state;
    pfl_trace_pieces_init(&p, PIECE + 3);
    expect_piece(&p, 0, PIECE);
    assert_true(pfl_trace_pieces_take(&p, PIECE, false));
    assert_true(pfl_trace_pieces_take(&p, 0, true));
    expect_step(&p, false, PFL_TRACE_PIECES_WAIT);
    expect_piece(&p, PIECE, 3);
}

static void a_file_may_be_read_in_smaller_pieces(void **state)
{
    struct pfl_trace_pieces p;
    size_t len = 0;

    (void)state;
    pfl_trace_pieces_init(&p, 10);
    assert_int_equal(pfl_trace_pieces_next(&p, true, &len), PFL_TRACE_PIECES_PIECE);
    pfl_trace_pieces_begin(&p, 4);
    assert_true(pfl_trace_pieces_take(&p, 4, true));
    expect_piece(&p, 4, 6);
    assert_int_equal(p.left, 0);
}

static void a_piece_of_another_length_is_refused(void **state)
{
    struct pfl_trace_pieces p;

    (void)state;
    pfl_trace_pieces_init(&p, 10);
    expect_piece(&p, 0, 10);
    assert_false(pfl_trace_pieces_take(&p, 11, false));
    pfl_trace_pieces_init(&p, 10);
    expect_piece(&p, 0, 10);
    assert_false(pfl_trace_pieces_take(&p, 9, true));
    pfl_trace_pieces_init(&p, 10);
    expect_piece(&p, 0, 10);
    assert_true(pfl_trace_pieces_take(&p, 9, false));
    assert_false(pfl_trace_pieces_take(&p, 2, true));
    assert_false(p.is_awaiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_in_order_and_the_question_last),
        cmocka_unit_test(an_empty_trace_is_asked_at_once),
        cmocka_unit_test(the_next_piece_waits_for_the_last_reply),
        cmocka_unit_test(the_next_piece_waits_for_the_process),
        cmocka_unit_test(a_file_may_be_read_in_smaller_pieces),
        cmocka_unit_test(a_piece_of_another_length_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
