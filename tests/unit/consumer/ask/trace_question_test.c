/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation with a Trace Processor: in order, out of order, in pieces, without memory. */
#include "consumer/ask/trace_question.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/ask/replies.h"

struct world {
    struct pfl_trace_question *q;
    struct pfl_buf requests;
    struct pfl_buf replies;
    size_t columns;
    size_t rows;
    int64_t sum;
    char text[32];
    int fails_with; /* of on_row */
};

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct world *w = user;

    assert_true(pfl_span_is(names[0], len == 3 ? "n" : "summary"));
    w->columns = len;
    return 0;
}

static int on_row(void *user, const struct pfl_cell *cells, size_t len)
{
    struct world *w = user;

    assert_int_equal(len, w->columns);
    w->rows++;
    if (cells[0].type == PFL_CELL_INTEGER)
        w->sum += cells[0].integer;
    if (cells[0].type == PFL_CELL_TEXT && cells[0].bytes.len < sizeof(w->text))
        memcpy(w->text, cells[0].bytes.data, cells[0].bytes.len);
    return w->fails_with;
}

static int open_world(struct world *w, bool is_summary)
{
    const struct pfl_trace_question_conf conf = {.text = pfl_span_of("SELECT 1", 8),
                                                 .is_summary = is_summary,
                                                 .on_columns = on_columns,
                                                 .on_row = on_row,
                                                 .user = w};

    *w = (struct world){0};
    pfl_buf_init(&w->requests, 4096);
    pfl_buf_init(&w->replies, 64u << 20);
    return pfl_trace_question_new(&conf, &w->q);
}

static void close_world(struct world *w)
{
    pfl_trace_question_free(w->q);
    pfl_buf_fini(&w->requests);
    pfl_buf_fini(&w->replies);
}

static void begin(struct world *w, bool is_summary)
{
    assert_int_equal(open_world(w, is_summary), 0);
    assert_int_equal(pfl_trace_question_load(w->q, pfl_span_of("trace", 5), &w->requests), 0);
    assert_int_equal(pfl_trace_question_ask(w->q, &w->requests), 0);
}

static void add_result(struct world *w, bool is_last)
{
    struct pfl_buf result;

    pfl_buf_init(&result, 4096);
    reply_make_result(&result, is_last);
    reply_add_result(&w->replies, pfl_buf_get(&result));
    pfl_buf_fini(&result);
}

static enum pfl_trace_question_outcome feed(struct world *w)
{
    assert_int_equal(pfl_trace_question_feed(w->q, pfl_buf_get(&w->replies)), 0);
    return pfl_trace_question_get(w->q);
}

static void requests_are_messages_of_one_stream_in_their_order(void **state)
{
    static const uint64_t methods[] = {TRACE_PROCESSOR_RPC__TPM_APPEND_TRACE_DATA,
                                       TRACE_PROCESSOR_RPC__TPM_FINALIZE_TRACE_DATA,
                                       TRACE_PROCESSOR_RPC__TPM_QUERY_STREAMING};
    struct pfl_reader stream;
    struct pfl_field message;
    struct pfl_field f;
    struct world w;

    (void)state;
    begin(&w, false);
    stream = pfl_reader_of(pfl_buf_get(&w.requests));
    for (uint64_t i = 0; i < 3; i++) {
        struct pfl_reader r;

        assert_true(pfl_reader_field(&stream, &message));
        assert_int_equal(message.id, TRACE_PROCESSOR_RPC_STREAM__MSG);
        r = pfl_reader_of(message.bytes);
        assert_true(pfl_reader_field(&r, &f));
        assert_true(f.id == TRACE_PROCESSOR_RPC__SEQ && f.value == i);
        assert_true(pfl_reader_field(&r, &f));
        assert_true(f.id == TRACE_PROCESSOR_RPC__REQUEST && f.value == methods[i]);
        if (i == 1)
            continue;
        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, i == 0 ? TRACE_PROCESSOR_RPC__APPEND_TRACE_DATA
                                      : TRACE_PROCESSOR_RPC__QUERY_ARGS);
        assert_true(i != 0 || pfl_span_is(f.bytes, "trace"));
    }
    assert_false(pfl_reader_field(&stream, &f));
    close_world(&w);
}

static void rows_come_from_each_part_of_a_result(void **state)
{
    struct pfl_buf second;
    struct world w;

    (void)state;
    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, false);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_OPEN);
    assert_true(w.columns == 3 && w.rows == 2 && w.sum == 6);
    assert_true(pfl_trace_question_has_columns(w.q));
    pfl_buf_clear(&w.replies);
    pfl_buf_init(&second, 64);
    /* one row, and the end */
    assert_int_equal(
        pfl_buf_append(&second, "\x1a\x0d\x0a\x03\x02\x01\x01\x12\x01\x09\x30\x01\x38\x01\x38", 15),
        0);
    reply_add_result(&w.replies, pfl_buf_get(&second));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN); /* a field without its value */
    close_world(&w);

    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, false);
    second.len = 0;
    assert_int_equal(
        pfl_buf_append(&second, "\x1a\x0a\x0a\x03\x02\x01\x01\x12\x01\x09\x30\x01", 12), 0);
    reply_add_result(&w.replies, pfl_buf_get(&second));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_ANSWERED);
    assert_true(w.rows == 3 && w.sum == 15);
    pfl_buf_fini(&second);
    close_world(&w);
}

static void bytes_may_come_one_by_one(void **state)
{
    struct pfl_span all;
    struct world w;

    (void)state;
    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, true);
    all = pfl_buf_get(&w.replies);
    for (size_t i = 0; i < all.len; i++) {
        assert_int_equal(pfl_trace_question_get(w.q), PFL_TRACE_QUESTION_OPEN);
        assert_int_equal(pfl_trace_question_feed(w.q, pfl_span_of(all.data + i, 1)), 0);
    }
    assert_int_equal(pfl_trace_question_get(w.q), PFL_TRACE_QUESTION_ANSWERED);
    assert_int_equal(w.rows, 2);
    assert_int_equal(pfl_trace_question_feed(w.q, pfl_span_of("junk", 4)), 0);
    assert_int_equal(pfl_trace_question_get(w.q), PFL_TRACE_QUESTION_ANSWERED);
    close_world(&w);
}

static void errors_are_outcomes_with_their_words(void **state)
{
    static const uint8_t no_table[] = "\x12\x0dno such table\x1a\x02\x30\x01";
    struct world w;

    (void)state;
    begin(&w, false);
    reply_add_appended(&w.replies, "Unknown trace type");
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_UNREADABLE);
    assert_string_equal(pfl_trace_question_get_why(w.q), "Unknown trace type");
    close_world(&w);

    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, "no packets");
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_UNREADABLE);
    close_world(&w);

    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    reply_add_result(&w.replies, pfl_span_of(no_table, sizeof(no_table) - 1));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_REFUSED);
    assert_string_equal(pfl_trace_question_get_why(w.q), "no such table");
    assert_false(pfl_trace_question_has_columns(w.q));
    close_world(&w);

    begin(&w, false);
    assert_int_equal(pfl_buf_append(&w.replies, "\x0a\x02\x20\x03", 4), 0); /* invalid_request */
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    assert_non_null(strstr(pfl_trace_question_get_why(w.q), "too old"));
    close_world(&w);

    begin(&w, false);
    assert_int_equal(pfl_buf_append(&w.replies,
                                    "\x0a\x05\x2a\x03"
                                    "end",
                                    7),
                     0); /* fatal_error */
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    assert_string_equal(pfl_trace_question_get_why(w.q), "end");
    close_world(&w);
}

static void on_about(void *user, const struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT])
{
    struct world *w = user;

    assert_int_equal(w->rows, 0);
    if (cells[0].type == PFL_CELL_TEXT)
        memcpy(w->text, cells[0].bytes.data, cells[0].bytes.len);
    w->sum = cells[1].integer;
}

static void open_about(struct world *w)
{
    const struct pfl_trace_question_conf conf = {.text = pfl_span_of("SELECT 1", 8),
                                                 .on_columns = on_columns,
                                                 .on_row = on_row,
                                                 .on_about = on_about,
                                                 .user = w};

    assert_int_equal(open_world(w, false), 0);
    pfl_trace_question_free(w->q);
    assert_int_equal(pfl_trace_question_new(&conf, &w->q), 0);
    assert_int_equal(pfl_trace_question_ask(w->q, &w->requests), 0);
    reply_add_finalized(&w->replies, NULL);
}

static void what_a_trace_says_about_itself_comes_first(void **state)
{
    static const uint8_t known[] =
        "\x0a\x01h\x0a\x01s\x1a\x0f\x0a\x02\x04\x02\x12\x01\x07\x2a\x04web\0\x30\x01";
    static const uint8_t unknown[] = "\x12\x02no\x1a\x02\x30\x01";
    struct world w;

    (void)state;
    open_about(&w);
    reply_add_result(&w.replies, pfl_span_of(known, sizeof(known) - 1));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_OPEN);
    assert_string_equal(w.text, "web");
    assert_int_equal(w.sum, 7);
    pfl_buf_clear(&w.replies);
    add_result(&w, true);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_ANSWERED);
    assert_int_equal(w.rows, 2);
    close_world(&w);

    open_about(&w);
    reply_add_result(&w.replies, pfl_span_of(unknown, sizeof(unknown) - 1));
    add_result(&w, true);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_ANSWERED);
    assert_true(w.rows == 2 && w.text[0] == '\0');
    close_world(&w);
}

static void a_summary_is_one_row_of_one_text(void **state)
{
    struct world w;

    (void)state;
    begin(&w, true);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    reply_add(&w.replies, TRACE_PROCESSOR_RPC__TPM_SUMMARIZE_TRACE,
              TRACE_PROCESSOR_RPC__TRACE_SUMMARY_RESULT, pfl_span_of("\x12\x03one", 5));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_ANSWERED);
    assert_true(w.columns == 1 && w.rows == 1);
    assert_string_equal(w.text, "one");
    close_world(&w);

    begin(&w, true);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    reply_add(&w.replies, TRACE_PROCESSOR_RPC__TPM_SUMMARIZE_TRACE,
              TRACE_PROCESSOR_RPC__TRACE_SUMMARY_RESULT,
              pfl_span_of("\x1a\x03"
                          "bad",
                          5));
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_REFUSED);
    close_world(&w);
}

static void what_nobody_asked_for_breaks_the_conversation(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, false), 0);
    reply_add_appended(&w.replies, NULL);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    close_world(&w);

    begin(&w, false);
    add_result(&w, true); /* before the trace is loaded */
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    assert_int_equal(w.rows, 0);
    close_world(&w);

    begin(&w, true);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, true); /* instead of a summary */
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    close_world(&w);

    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, false);
    add_result(&w, true); /* columns once more */
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    close_world(&w);

    begin(&w, false);
    assert_int_equal(pfl_buf_append(&w.replies, "HTTP/1.1 200 OK", 15), 0);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    close_world(&w);
}

/* Its length alone: nothing is allocated for it. */
static void a_reply_that_is_too_large_is_refused(void **state)
{
    uint8_t head[8] = {0x0a};
    struct world w;
    size_t len;

    (void)state;
    begin(&w, false);
    len = 1 + pfl_varint_put(head + 1, PFL_TRACE_QUESTION_REPLY_MAX_BYTES + 1);
    assert_int_equal(pfl_buf_append(&w.replies, head, len), 0);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    assert_non_null(strstr(pfl_trace_question_get_why(w.q), "16 MiB"));
    close_world(&w);

    begin(&w, false);
    len = 1 + pfl_varint_put(head + 1, PFL_TRACE_QUESTION_REPLY_MAX_BYTES);
    assert_int_equal(pfl_buf_append(&w.replies, head, len), 0);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_OPEN);
    close_world(&w);
}

/* A result of one column, and of `len` rows, which have NULL. */
static void add_rows(struct world *w, size_t len)
{
    struct pfl_buf result;
    struct pfl_message m;
    uint8_t *cells;
    size_t mark;

    pfl_buf_init(&result, 1u << 20);
    m = pfl_message_of(&result);
    pfl_message_bytes(&m, QUERY_RESULT__COLUMN_NAMES, pfl_span_of("summary", 7));
    mark = pfl_message_begin(&m, QUERY_RESULT__BATCH);
    cells = pfl_mem_alloc(len);
    assert_non_null(cells);
    memset(cells, QUERY_RESULT__CELLS_BATCH__CELL_NULL, len);
    pfl_message_bytes(&m, QUERY_RESULT__CELLS_BATCH__CELLS, pfl_span_of(cells, len));
    pfl_message_varint(&m, QUERY_RESULT__CELLS_BATCH__IS_LAST_BATCH, 1);
    pfl_message_end(&m, mark);
    assert_int_equal(m.rc, 0);
    reply_add_result(&w->replies, pfl_buf_get(&result));
    pfl_mem_free(cells);
    pfl_buf_fini(&result);
}

static void a_reply_of_too_many_cells_is_refused(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_rows(&w, PFL_TRACE_QUESTION_REPLY_MAX_CELLS);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_ANSWERED);
    assert_int_equal(w.rows, PFL_TRACE_QUESTION_REPLY_MAX_CELLS);
    close_world(&w);

    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_rows(&w, PFL_TRACE_QUESTION_REPLY_MAX_CELLS + 1);
    assert_int_equal(feed(&w), PFL_TRACE_QUESTION_BROKEN);
    assert_int_equal(w.rows, PFL_TRACE_QUESTION_REPLY_MAX_CELLS);
    close_world(&w);
}

static void what_a_callback_returns_is_returned(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    w.fails_with = PFL_EFULL;
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, true);
    assert_int_equal(pfl_trace_question_feed(w.q, pfl_buf_get(&w.replies)), PFL_EFULL);
    assert_int_equal(w.rows, 1);
    close_world(&w);
}

static int talk(void *arg)
{
    const struct pfl_buf *replies = arg;
    struct world w;
    int rc = open_world(&w, false);

    if (rc == 0)
        rc = pfl_trace_question_load(w.q, pfl_span_of("trace", 5), &w.requests);
    if (rc == 0)
        rc = pfl_trace_question_ask(w.q, &w.requests);
    if (rc == 0)
        rc = pfl_trace_question_feed(w.q, pfl_buf_get(replies));
    if (rc == 0)
        assert_int_equal(pfl_trace_question_get(w.q), PFL_TRACE_QUESTION_ANSWERED);
    close_world(&w);
    return rc;
}

static void out_of_memory_is_reported_wherever_it_happens(void **state)
{
    /* Static: the sweep wants no block that is live. */
    static uint8_t bytes[4096];
    struct pfl_buf replies = {.data = bytes};
    struct world w;

    (void)state;
    begin(&w, false);
    reply_add_appended(&w.replies, NULL);
    reply_add_finalized(&w.replies, NULL);
    add_result(&w, true);
    assert_true(w.replies.len <= sizeof(bytes));
    memcpy(bytes, pfl_buf_get(&w.replies).data, w.replies.len);
    replies.len = w.replies.len;
    close_world(&w);
    pfl_sweep(talk, &replies, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_messages_of_one_stream_in_their_order),
        cmocka_unit_test(rows_come_from_each_part_of_a_result),
        cmocka_unit_test(bytes_may_come_one_by_one),
        cmocka_unit_test(errors_are_outcomes_with_their_words),
        cmocka_unit_test(what_a_trace_says_about_itself_comes_first),
        cmocka_unit_test(a_summary_is_one_row_of_one_text),
        cmocka_unit_test(what_nobody_asked_for_breaks_the_conversation),
        cmocka_unit_test(a_reply_that_is_too_large_is_refused),
        cmocka_unit_test(a_reply_of_too_many_cells_is_refused),
        cmocka_unit_test(what_a_callback_returns_is_returned),
        cmocka_unit_test(out_of_memory_is_reported_wherever_it_happens),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
