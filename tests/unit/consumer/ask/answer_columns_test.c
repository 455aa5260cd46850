/* SPDX-License-Identifier: Apache-2.0 */
/* Names of columns are distinct, and the same for all traces. */
#include "consumer/ask/answer_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "consumer/ask/query_cells.h"
#include "consumer/text.h"
#include "tests/support/sweep.h"

static struct pfl_span name(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static void names_are_made_distinct(void **state)
{
    const struct pfl_span asked[] = {
        name("ts"), name("Host"), name("TS"),        name(""),
        name(""),   name("ts_2"), name("a\x1b\xff"), name("gr\xc3\xb6\xc3\x9f")};
    static const char *const want[] = {"host",
                                       "start",
                                       "trace",
                                       "ts",
                                       "Host_2",
                                       "TS_2",
                                       "column",
                                       "column_2",
                                       "ts_2_2",
                                       "a__",
                                       "gr\xc3\xb6\xc3\x9f"};
    struct pfl_answer_columns *columns;

    (void)state;
    assert_int_equal(pfl_answer_columns_new(asked, 8, &columns), 0);
    assert_int_equal(pfl_answer_columns_get_len(columns), 11);
    for (size_t i = 0; i < 11; i++)
        assert_string_equal(pfl_answer_columns_get_name(columns, i), want[i]);
    pfl_answer_columns_free(columns);
}

static void other_columns_are_seen(void **state)
{
    const struct pfl_span asked[] = {name("a"), name("b"), name("c")};
    const struct pfl_span other[] = {name("a"), name("c")};
    struct pfl_answer_columns *columns;

    (void)state;
    assert_int_equal(pfl_answer_columns_new(asked, 2, &columns), 0);
    assert_true(pfl_answer_columns_are(columns, asked, 2));
    assert_false(pfl_answer_columns_are(columns, asked, 1));
    assert_false(pfl_answer_columns_are(columns, asked, 3));
    assert_false(pfl_answer_columns_are(columns, other, 2));
    pfl_answer_columns_free(columns);
}

static int make_one(void *arg)
{
    const struct pfl_span asked[] = {name("a"), name("a")};
    struct pfl_answer_columns *columns = NULL;
    int rc = pfl_answer_columns_new(asked, 2, &columns);

    (void)arg;
    pfl_answer_columns_free(columns);
    return rc;
}

static void out_of_memory_is_reported_wherever_it_happens(void **state)
{
    (void)state;
    pfl_text_init_json();
    pfl_sweep(make_one, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_made_distinct),
        cmocka_unit_test(other_columns_are_seen),
        cmocka_unit_test(out_of_memory_is_reported_wherever_it_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
