/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a Trace Processor, whole, cut and false. */
#include "consumer/ask/query_cells.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/ask/replies.h"

#define COLUMNS 3u

static struct pfl_query_part part;

/* The rows of a result. */
static int read_all(struct pfl_span message, size_t columns, size_t *ret_rows)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_cell row[PFL_QUERY_COLUMNS_MAX];
    struct pfl_query_cells cells;
    int rc;

    *ret_rows = 0;
    while ((rc = pfl_query_cells_next_batch(&r, &cells)) == 0) {
        while ((rc = pfl_query_cells_read_row(&cells, row, columns)) == 0)
            ++*ret_rows;
        if (rc != PFL_EEOF)
            return rc;
    }
    return rc;
}

static void each_type_of_cell_is_read(void **state)
{
    struct pfl_query_cells cells;
    struct pfl_cell row[COLUMNS];
    struct pfl_reader r;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 4096);
    reply_make_result(&out, true);
    assert_int_equal(pfl_query_part_parse(pfl_buf_get(&out), &part), 0);
    assert_int_equal(part.columns_len, COLUMNS);
    assert_true(pfl_span_is(part.columns[1], "text"));
    assert_int_equal(part.error.len, 0);
    assert_true(part.is_last);
    r = pfl_reader_of(part.message);
    assert_int_equal(pfl_query_cells_next_batch(&r, &cells), 0);
    assert_int_equal(pfl_query_cells_read_row(&cells, row, COLUMNS), 0);
    assert_int_equal(row[0].type, PFL_CELL_INTEGER);
    assert_int_equal(row[0].integer, 7);
    assert_true(row[1].type == PFL_CELL_TEXT && pfl_span_is(row[1].bytes, "one"));
    assert_int_equal(row[2].type, PFL_CELL_NULL);
    assert_int_equal(pfl_query_cells_read_row(&cells, row, COLUMNS), 0);
    assert_int_equal(row[0].integer, -1);
    assert_int_equal(row[1].bytes.len, 0);
    assert_true(row[2].type == PFL_CELL_REAL && row[2].real == 0.5);
    assert_int_equal(pfl_query_cells_read_row(&cells, row, COLUMNS), PFL_EEOF);
    assert_int_equal(pfl_query_cells_next_batch(&r, &cells), PFL_EEOF);
    pfl_buf_fini(&out);
}

static void blobs_are_taken_in_their_order(void **state)
{
    static const uint8_t result[] = {0x1a, 12, 0x0a, 3, 5, 1, 5, 0x22, 1, 'a', 0x22, 2, 'b', 'c'};
    struct pfl_query_cells cells;
    struct pfl_cell row[1];
    struct pfl_reader r = pfl_reader_of(pfl_span_of(result, sizeof(result)));

    (void)state;
    assert_int_equal(pfl_query_cells_next_batch(&r, &cells), 0);
    assert_int_equal(pfl_query_cells_read_row(&cells, row, 1), 0);
    assert_true(row[0].type == PFL_CELL_BLOB && pfl_span_is(row[0].bytes, "a"));
    assert_int_equal(pfl_query_cells_read_row(&cells, row, 1), 0);
    assert_int_equal(row[0].type, PFL_CELL_NULL);
    assert_int_equal(pfl_query_cells_read_row(&cells, row, 1), 0);
    assert_true(pfl_span_is(row[0].bytes, "bc"));
}

static void a_result_cut_at_any_length_is_malformed_or_shorter(void **state)
{
    struct pfl_buf out;
    size_t rows;

    (void)state;
    pfl_buf_init(&out, 4096);
    reply_make_result(&out, true);
    for (size_t len = 0; len < out.len; len++) {
        struct pfl_span cut = pfl_span_of(pfl_buf_get(&out).data, len);
        int rc = pfl_query_part_parse(cut, &part);

        assert_true(rc == 0 || rc == PFL_EPROTO);
        rc = read_all(cut, COLUMNS, &rows);
        assert_true((rc == PFL_EEOF && (rows == 0 || rows == 2)) || rc == PFL_EPROTO);
    }
    pfl_buf_fini(&out);
}

static void values_that_are_not_there_are_malformed(void **state)
{
    static const struct {
        const char *what;
        uint8_t batch[12];
        uint8_t len;
    } cases[] = {
        {"an integer", {0x0a, 1, 2}, 3},
        {"the second integer", {0x0a, 2, 2, 2, 0x12, 1, 7}, 7},
        {"a real of seven bytes", {0x0a, 1, 3, 0x1a, 7, 0, 0, 0, 0, 0, 0, 0}, 12},
        {"a text", {0x0a, 1, 4}, 3},
        {"a text's NUL", {0x0a, 1, 4, 0x2a, 2, 'a', 'b'}, 7},
        {"a blob", {0x0a, 1, 5}, 3},
        {"a type that is known", {0x0a, 1, 6}, 3},
        {"a type", {0x0a, 1, 0}, 3},
        {"a second list of types", {0x0a, 1, 1, 0x0a, 1, 1}, 6},
        {"a list", {0x10, 7}, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t result[2 + sizeof(cases[0].batch)] = {0x1a, cases[i].len};
        size_t rows;

        memcpy(result + 2, cases[i].batch, cases[i].len);
        if (read_all(pfl_span_of(result, 2 + (size_t)cases[i].len), 1, &rows) != PFL_EPROTO)
            fail_msg("taken without %s", cases[i].what);
    }
}

static void a_batch_has_whole_rows(void **state)
{
    struct pfl_buf out;
    size_t rows;

    (void)state;
    pfl_buf_init(&out, 4096);
    reply_make_result(&out, true);
    assert_int_equal(read_all(pfl_buf_get(&out), 4, &rows), PFL_EPROTO);
    assert_int_equal(read_all(pfl_buf_get(&out), 0, &rows), PFL_EPROTO);
    pfl_buf_fini(&out);
}

static void columns_have_a_maximum(void **state)
{
    struct pfl_message m;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 1u << 20);
    m = pfl_message_of(&out);
    for (unsigned i = 0; i < PFL_QUERY_COLUMNS_MAX; i++)
        pfl_message_str(&m, QUERY_RESULT__COLUMN_NAMES, "c");
    assert_int_equal(pfl_query_part_parse(pfl_buf_get(&out), &part), 0);
    pfl_message_str(&m, QUERY_RESULT__COLUMN_NAMES, "c");
    assert_int_equal(pfl_query_part_parse(pfl_buf_get(&out), &part), PFL_ELIMIT);
    pfl_buf_clear(&out);
    pfl_message_bytes(
        &m, QUERY_RESULT__COLUMN_NAMES,
        pfl_span_of((char[PFL_QUERY_NAME_MAX_BYTES + 1]){'x'}, PFL_QUERY_NAME_MAX_BYTES + 1));
    assert_int_equal(pfl_query_part_parse(pfl_buf_get(&out), &part), PFL_ELIMIT);
    pfl_buf_clear(&out);
    pfl_message_bytes(&m, QUERY_RESULT__COLUMN_NAMES, pfl_span_of("a\0b", 3));
    assert_int_equal(pfl_query_part_parse(pfl_buf_get(&out), &part), PFL_EPROTO);
    pfl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_of_cell_is_read),
        cmocka_unit_test(blobs_are_taken_in_their_order),
        cmocka_unit_test(a_result_cut_at_any_length_is_malformed_or_shorter),
        cmocka_unit_test(values_that_are_not_there_are_malformed),
        cmocka_unit_test(a_batch_has_whole_rows),
        cmocka_unit_test(columns_have_a_maximum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
