/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as text, CSV, JSON and summary; strangers' strings in each. */
#include "consumer/ask/answer_format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "tests/support/sweep.h"

#define CELLS 3u

static struct pfl_answer_columns *columns;
static struct pfl_buf out;

static struct pfl_cell text_cell(const char *text)
{
    return (struct pfl_cell){.type = PFL_CELL_TEXT, .bytes = pfl_span_of(text, strlen(text))};
}

/* One row of a number and two others, in `form`; with a NUL. */
static const char *write_row(enum pfl_answer_form form, struct pfl_cell second,
                             struct pfl_cell third)
{
    const struct pfl_cell cells[CELLS] = {
        {.type = PFL_CELL_INTEGER, .integer = INT64_MIN}, second, third};
    const struct pfl_answer_row row = {
        .host = "web1", .start = "2026-11-23T14:03:01.500Z", .trace = "a,b", .cells = cells};

    pfl_buf_clear(&out);
    assert_int_equal(pfl_answer_format_row(form, columns, &row, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    return (const char *)pfl_buf_get(&out).data;
}

static int open_all(void **state)
{
    const struct pfl_span names[CELLS] = {pfl_span_of("n", 1), pfl_span_of("b", 1),
                                          pfl_span_of("c \"d\"", 5)};

    (void)state;
    pfl_text_init_json();
    pfl_buf_init(&out, 4u << 20);
    return pfl_answer_columns_new(names, CELLS, &columns);
}

static int close_all(void **state)
{
    (void)state;
    pfl_answer_columns_free(columns);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void text_has_columns_and_nothing_that_a_terminal_interprets(void **state)
{
    static char longest[400];
    const char *line;

    (void)state;
    pfl_buf_clear(&out);
    assert_int_equal(pfl_answer_format_head(PFL_ANSWER_TEXT, columns, &out), 0);
    assert_memory_equal(pfl_buf_get(&out).data, "host              start   ", 26);
    line = write_row(PFL_ANSWER_TEXT, (struct pfl_cell){.type = PFL_CELL_REAL, .real = 1.0 / 3},
                     text_cell("\x1b[31m\n\xc3\xb6"));
    assert_string_equal(line, "web1              2026-11-23T14:03:01.500Z  a,b                     "
                              "    -9223372036854775808  0.333333    \\x1b[31m\\x0a\\xc3\\xb6\n");
    memset(longest, 'x', sizeof(longest) - 1);
    line = write_row(PFL_ANSWER_TEXT, (struct pfl_cell){0}, text_cell(longest));
    assert_non_null(strstr(line, "-           xxx"));
    assert_string_equal(line + strlen(line) - 5, "x...\n");
}

static void csv_quotes_what_would_end_a_field(void **state)
{
    (void)state;
    pfl_buf_clear(&out);
    assert_int_equal(pfl_answer_format_head(PFL_ANSWER_CSV, columns, &out), 0);
    assert_memory_equal(pfl_buf_get(&out).data, "host,start,trace,n,b,\"c \"\"d\"\"\"\r\n",
                        out.len);
    assert_string_equal(
        write_row(PFL_ANSWER_CSV, text_cell("a \"b\"\r\n"), text_cell("plain text")),
        "web1,2026-11-23T14:03:01.500Z,\"a,b\",-9223372036854775808,\"a \"\"b\"\"\r\n\",plain "
        "text\r\n");
    assert_string_equal(write_row(PFL_ANSWER_CSV, (struct pfl_cell){0}, text_cell("")),
                        "web1,2026-11-23T14:03:01.500Z,\"a,b\",-9223372036854775808,,\"\"\r\n");
}

static void json_is_an_object_a_line(void **state)
{
    struct pfl_cell blob = {.type = PFL_CELL_BLOB, .bytes = pfl_span_of("\x01\xfe", 2)};

    (void)state;
    assert_string_equal(
        write_row(PFL_ANSWER_JSON, blob, text_cell("\x1b\x7f")),
        "{\"host\": \"web1\", \"start\": \"2026-11-23T14:03:01.500Z\", \"trace\": \"a,b\", \"n\": "
        "-9223372036854775808, \"b\": \"01fe\", \"c \\\"d\\\"\": \"\\u001B\\u007F\"}\n");
    assert_non_null(
        strstr(write_row(PFL_ANSWER_JSON, (struct pfl_cell){.type = PFL_CELL_REAL, .real = NAN},
                         text_cell("\xff")),
               "\"b\": null, \"c \\\"d\\\"\": \"\\\"\\\\xff\\\"\"}\n"));
}

static void a_summary_has_its_lines(void **state)
{
    const struct pfl_cell cell = text_cell("metric {\n  x: \x1b\n}\n");
    const struct pfl_answer_row row = {.host = "", .start = "", .trace = "f", .cells = &cell};

    (void)state;
    pfl_buf_clear(&out);
    assert_int_equal(pfl_answer_format_row(PFL_ANSWER_SUMMARY, columns, &row, &out), 0);
    assert_int_equal(out.len, strlen("# f\nmetric {\n  x: \\x1b\n}\n\n"));
    assert_memory_equal(pfl_buf_get(&out).data, "# f\nmetric {\n  x: \\x1b\n}\n\n", out.len);
}

static void the_start_is_utc(void **state)
{
    char start[PFL_ANSWER_START_BYTES];

    (void)state;
    pfl_answer_format_start(1795442581500000000u, start);
    assert_string_equal(start, "2026-11-23T14:03:01.500Z");
    pfl_answer_format_start(0, start);
    assert_string_equal(start, "");
    pfl_answer_format_start(UINT64_MAX, start);
}

static int write_one(void *arg)
{
    const struct pfl_cell cells[CELLS] = {text_cell("a\x1b\""),
                                          text_cell("\xff"),
                                          {.type = PFL_CELL_BLOB, .bytes = pfl_span_of("b", 1)}};
    const struct pfl_answer_row row = {.host = "h", .start = "", .trace = "t", .cells = cells};
    const enum pfl_answer_form *form = arg;
    struct pfl_buf line;
    int rc;

    pfl_buf_init(&line, 4096);
    rc = pfl_answer_format_row(*form, columns, &row, &line);
    pfl_buf_fini(&line);
    return rc;
}

/* Without its own blocks the sweep sees those of a row alone. */
static void out_of_memory_is_reported_wherever_it_happens(void **state)
{
    static const enum pfl_answer_form forms[] = {PFL_ANSWER_TEXT, PFL_ANSWER_CSV, PFL_ANSWER_JSON,
                                                 PFL_ANSWER_SUMMARY};

    (void)state;
    pfl_buf_fini(&out);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        enum pfl_answer_form form = forms[i];

        for (uint64_t n = 1; n < 40; n++) {
            pfl_mem_fail_at(n);
            assert_true(write_one(&form) == 0 || n < 39);
        }
        pfl_mem_fail_at(0);
        assert_int_equal(write_one(&form), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_columns_and_nothing_that_a_terminal_interprets),
        cmocka_unit_test(csv_quotes_what_would_end_a_field),
        cmocka_unit_test(json_is_an_object_a_line),
        cmocka_unit_test(a_summary_has_its_lines),
        cmocka_unit_test(the_start_is_utc),
        cmocka_unit_test(out_of_memory_is_reported_wherever_it_happens),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
