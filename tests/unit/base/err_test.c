/* SPDX-License-Identifier: Apache-2.0 */
/* Every code has words of its own. */
#include "base/err.h"

#include <limits.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_code_has_words_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a >= PFL_ENOTSUP; a--) {
        assert_string_not_equal(pfl_err_str(a), "unknown error");
        for (int b = 0; b > a; b--)
            assert_string_not_equal(pfl_err_str(a), pfl_err_str(b));
    }
}

static void what_is_no_code_says_so(void **state)
{
    (void)state;
    assert_string_equal(pfl_err_str(1), "unknown error");
    assert_string_equal(pfl_err_str(PFL_ENOTSUP - 1), "unknown error");
    assert_string_equal(pfl_err_str(INT_MIN), "unknown error");
    assert_string_equal(pfl_err_str(INT_MAX), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_words_of_its_own),
        cmocka_unit_test(what_is_no_code_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
