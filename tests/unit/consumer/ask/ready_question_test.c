/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded questions; what they answer is in tests/integration/ask_engine_test.sh. */
#include "consumer/ask/ready_question.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void each_has_a_line_that_describes_it_and_a_statement(void **state)
{
    (void)state;
    assert_true(pfl_ready_questions_len >= 4);
    for (size_t i = 0; i < pfl_ready_questions_len; i++) {
        const struct pfl_ready_question *q = &pfl_ready_questions[i];
        struct pfl_span summary = pfl_ready_question_get_summary(q);

        assert_memory_equal(q->text, "-- ", 3);
        assert_true(summary.len > 10 && summary.len < 100);
        assert_memory_equal(summary.data + summary.len, "\nSELECT\n", 8);
        assert_ptr_equal(pfl_ready_question_find(q->name), q);
    }
}

static void another_is_not_found(void **state)
{
    (void)state;
    assert_non_null(pfl_ready_question_find("losses"));
    assert_null(pfl_ready_question_find("losse"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_a_line_that_describes_it_and_a_statement),
        cmocka_unit_test(another_is_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
