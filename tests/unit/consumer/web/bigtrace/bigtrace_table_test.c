/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in memory: names, limits, filters, order, and rows that are joined. */
#include "consumer/web/bigtrace/bigtrace_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static struct pfl_span name(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static struct pfl_cell text(const char *value)
{
    return (struct pfl_cell){.type = PFL_CELL_TEXT, .bytes = name(value)};
}

static struct pfl_cell integer(int64_t value)
{
    return (struct pfl_cell){.type = PFL_CELL_INTEGER, .integer = value};
}

static const struct pfl_cell null = {.type = PFL_CELL_NULL};

/* n, s: 10 "b"; 9 "a"; 2.5 NULL; NULL "B[x]"; 9007199254740993 "" */
static int fill(struct pfl_bigtrace_table **ret_table)
{
    struct pfl_bigtrace_table *t = NULL;
    const struct pfl_cell rows[][2] = {
        {integer(10), text("b")},
        {integer(9), text("a")},
        {{.type = PFL_CELL_REAL, .real = 2.5}, null},
        {null, text("B[x]")},
        {integer(9007199254740993), text("")},
    };
    int rc = pfl_bigtrace_table_new(NULL, &t);

    if (rc == 0)
        rc = pfl_bigtrace_table_add_column(t, name("n"));
    if (rc == 0)
        rc = pfl_bigtrace_table_add_column(t, name("s"));
    for (size_t i = 0; rc == 0 && i < 5; i++)
        rc = pfl_bigtrace_table_add_row(t, 0, rows[i]);
    if (rc == 0)
        *ret_table = t;
    else
        pfl_bigtrace_table_free(t);
    return rc;
}

/* The rows as digits. */
static const char *rows_of(const struct pfl_bigtrace_table *t, const struct pfl_bigtrace_view *v)
{
    static char digits[16];
    struct pfl_bigtrace_rows rows;
    const char *missing;
    size_t i;

    assert_int_equal(pfl_bigtrace_table_select(t, v, &rows, &missing), 0);
    for (i = 0; i < rows.len; i++)
        digits[i] = (char)('0' + rows.all[i]);
    digits[i] = '\0';
    pfl_bigtrace_rows_fini(&rows);
    return digits;
}

static struct pfl_bigtrace_view filter(const char *field, enum pfl_bigtrace_op op,
                                       const char *value)
{
    struct pfl_bigtrace_view v = {.filters = {{field, op, 0, 1}}, .filters_len = 1};

    v.values[0] = value;
    v.values_len = 1;
    return v;
}

static void filters_hold_as_in_sql(void **state)
{
    static const struct {
        const char *field;
        enum pfl_bigtrace_op op;
        const char *value;
        const char *rows;
    } all[] = {
        {"n", PFL_BIGTRACE_EQUAL, "10", "0"},
        {"n", PFL_BIGTRACE_EQUAL, "10.0", "0"},
        {"n", PFL_BIGTRACE_EQUAL, "9007199254740993", "4"},
        {"n", PFL_BIGTRACE_EQUAL, "9007199254740992", ""},
        {"n", PFL_BIGTRACE_NOT_EQUAL, "10", "124"},
        {"n", PFL_BIGTRACE_LESS, "10", "12"},
        {"n", PFL_BIGTRACE_LESS_OR_EQUAL, "9", "12"},
        {"n", PFL_BIGTRACE_GREATER, "9.5", "04"},
        {"n", PFL_BIGTRACE_GREATER_OR_EQUAL, "10", "04"},
        {"n", PFL_BIGTRACE_LESS, "word", "0124"}, /* numbers are before texts */
        {"n", PFL_BIGTRACE_EQUAL, "", ""},
        {"n", PFL_BIGTRACE_GLOB, "*5", "2"},
        {"n", PFL_BIGTRACE_EQUAL, NULL, "3"},
        {"n", PFL_BIGTRACE_NOT_EQUAL, NULL, "0124"},
        {"n", PFL_BIGTRACE_LESS, NULL, ""},
        {"s", PFL_BIGTRACE_IS_NULL, NULL, "2"},
        {"s", PFL_BIGTRACE_IS_NOT_NULL, NULL, "0134"},
        {"s", PFL_BIGTRACE_EQUAL, "b", "0"},
        {"s", PFL_BIGTRACE_GREATER, "a", "0"},
        {"s", PFL_BIGTRACE_EQUAL, "", "4"},
        {"s", PFL_BIGTRACE_GLOB, "[ab]", "01"},
        {"s", PFL_BIGTRACE_GLOB, "[^a]", "0"},
        {"s", PFL_BIGTRACE_GLOB, "[a-c]*", "01"},
        {"s", PFL_BIGTRACE_GLOB, "*[x]*", "3"},
        {"s", PFL_BIGTRACE_GLOB, "?[[]x[]]", "3"},
        {"s", PFL_BIGTRACE_GLOB, "[b", ""},
        {"s", PFL_BIGTRACE_GLOB, "*", "0134"},
        {"s", PFL_BIGTRACE_GLOB, "", "4"},
        {"s", PFL_BIGTRACE_NOT_GLOB, "?", "34"},
        {"s", PFL_BIGTRACE_IN, "b", "0"},
        {"s", PFL_BIGTRACE_NOT_IN, "b", "134"},
        {"s", PFL_BIGTRACE_IN, NULL, ""},
    };
    struct pfl_bigtrace_table *t;

    (void)state;
    assert_int_equal(fill(&t), 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct pfl_bigtrace_view v = filter(all[i].field, all[i].op, all[i].value);

        assert_string_equal(rows_of(t, &v), all[i].rows);
    }
    pfl_bigtrace_table_free(t);
}

static void a_pattern_with_many_stars_takes_no_time(void **state)
{
    static char long_text[100000];
    struct pfl_bigtrace_view v =
        filter("s", PFL_BIGTRACE_GLOB, "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
    struct pfl_bigtrace_table *t = NULL;
    struct pfl_cell cell;

    (void)state;
    memset(long_text, 'a', sizeof(long_text) - 1);
    cell = text(long_text);
    assert_int_equal(pfl_bigtrace_table_new(NULL, &t), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(t, name("s")), 0);
    assert_int_equal(pfl_bigtrace_table_add_row(t, 0, &cell), 0);
    assert_string_equal(rows_of(t, &v), "");
    pfl_bigtrace_table_free(t);
}

static void rows_are_in_order_and_equal_ones_stay(void **state)
{
    struct pfl_bigtrace_view v = {.order = "n"};
    struct pfl_bigtrace_table *t;
    struct pfl_bigtrace_rows rows;
    const char *missing = NULL;

    (void)state;
    assert_int_equal(fill(&t), 0);
    assert_string_equal(rows_of(t, &v), "32104");
    v.is_descending = true;
    assert_string_equal(rows_of(t, &v), "40123");
    (void)snprintf(v.order, sizeof(v.order), "s");
    assert_string_equal(rows_of(t, &v), "01342");
    (void)snprintf(v.order, sizeof(v.order), "shoe");
    assert_int_equal(pfl_bigtrace_table_select(t, &v, &rows, &missing), PFL_ENOENT);
    assert_string_equal(missing, "shoe");
    pfl_bigtrace_table_free(t);
}

static void names_are_distinct_and_harmless(void **state)
{
    struct pfl_bigtrace_table *t = NULL;
    struct pfl_bigtrace_table *u = NULL;
    int rc = 0;

    (void)state;
    assert_int_equal(fill(&t), 0);
    assert_int_equal(pfl_bigtrace_table_new(t, &u), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(u, name("N")), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(u, name("")), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(u, name("")), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(u, name("\x1b[31m\xff")), 0);
    assert_string_equal(pfl_bigtrace_table_get_name(u, 0), "N_2");
    assert_string_equal(pfl_bigtrace_table_get_name(u, 1), "column");
    assert_string_equal(pfl_bigtrace_table_get_name(u, 2), "column_2");
    assert_string_equal(pfl_bigtrace_table_get_name(u, 3), "_[31m_");
    assert_string_equal(pfl_bigtrace_table_get_name(u, 4), "n");
    assert_int_equal(pfl_bigtrace_table_find(u, "s"), 5);
    assert_int_equal(pfl_bigtrace_table_get_own_columns(u), 4);
    while (rc == 0)
        rc = pfl_bigtrace_table_add_column(u, name("more"));
    assert_int_equal(rc, PFL_ELIMIT);
    assert_int_equal(pfl_bigtrace_table_get_columns(u), PFL_BIGTRACE_COLUMNS_MAX);
    pfl_bigtrace_table_free(u);
    pfl_bigtrace_table_free(t);
}

static void a_joined_row_has_the_cells_of_its_trace(void **state)
{
    struct pfl_bigtrace_view v = filter("s", PFL_BIGTRACE_EQUAL, "a");
    const struct pfl_cell blob = {.type = PFL_CELL_BLOB, .bytes = pfl_span_of("\x00\xab", 2)};
    struct pfl_bigtrace_table *t = NULL;
    struct pfl_bigtrace_table *u = NULL;
    struct pfl_cell cell;

    (void)state;
    assert_int_equal(fill(&t), 0);
    assert_int_equal(pfl_bigtrace_table_new(t, &u), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(u, name("x")), 0);
    assert_int_equal(pfl_bigtrace_table_add_row(u, 4, &blob), 0);
    assert_int_equal(pfl_bigtrace_table_add_row(u, 1, &null), 0);
    cell = pfl_bigtrace_table_get_cell(u, 0, 0);
    assert_int_equal(cell.type, PFL_CELL_TEXT);
    assert_int_equal(cell.bytes.len, 4);
    assert_memory_equal(cell.bytes.data, "00ab", 4);
    cell = pfl_bigtrace_table_get_cell(u, 0, 1);
    assert_true(cell.integer == 9007199254740993);
    assert_string_equal(rows_of(u, &v), "1");
    pfl_bigtrace_table_free(u);
    pfl_bigtrace_table_free(t);
}

static void beyond_its_limits_a_table_stays_as_it_is(void **state)
{
    static char mib[1u << 20];
    const struct pfl_cell large = {.type = PFL_CELL_TEXT, .bytes = pfl_span_of(mib, sizeof(mib))};
    struct pfl_cell one = integer(1);
    struct pfl_bigtrace_table *t = NULL;
    size_t rows = 0;

    (void)state;
    assert_int_equal(pfl_bigtrace_table_new(NULL, &t), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(t, name("x")), 0);
    while (pfl_bigtrace_table_add_row(t, 0, &large) == 0)
        rows++;
    assert_int_equal(rows, 7);
    assert_int_equal(pfl_bigtrace_table_get_rows(t), 7);
    assert_int_equal(pfl_bigtrace_table_add_row(t, 0, &one), 0);
    assert_int_equal(pfl_bigtrace_table_get_cell(t, 7, 0).integer, 1);
    pfl_bigtrace_table_free(t);
    assert_int_equal(pfl_bigtrace_table_new(NULL, &t), 0);
    assert_int_equal(pfl_bigtrace_table_add_column(t, name("x")), 0);
    for (rows = 0; pfl_bigtrace_table_add_row(t, 0, &one) == 0; rows++)
        ;
    assert_int_equal(rows, PFL_BIGTRACE_TABLE_ROWS);
    pfl_bigtrace_table_free(t);
}

static int use(void *arg)
{
    struct pfl_bigtrace_view v = {.order = "n"};
    struct pfl_bigtrace_table *t;
    struct pfl_bigtrace_table *u = NULL;
    struct pfl_bigtrace_rows rows = {.len = 0};
    const char *missing;
    int rc = fill(&t);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = pfl_bigtrace_table_new(t, &u);
    if (rc == 0)
        rc = pfl_bigtrace_table_add_column(u, name("x"));
    for (uint32_t i = 0; rc == 0 && i < 5; i++) {
        struct pfl_cell cell = text("a text that needs room");

        rc = pfl_bigtrace_table_add_row(u, i, &cell);
    }
    if (rc == 0)
        rc = pfl_bigtrace_table_select(u, &v, &rows, &missing);
    pfl_bigtrace_rows_fini(&rows);
    pfl_bigtrace_table_free(u);
    pfl_bigtrace_table_free(t);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(use, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_hold_as_in_sql),
        cmocka_unit_test(a_pattern_with_many_stars_takes_no_time),
        cmocka_unit_test(rows_are_in_order_and_equal_ones_stay),
        cmocka_unit_test(names_are_distinct_and_harmless),
        cmocka_unit_test(a_joined_row_has_the_cells_of_its_trace),
        cmocka_unit_test(beyond_its_limits_a_table_stays_as_it_is),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
