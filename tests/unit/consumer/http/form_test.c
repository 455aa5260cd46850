/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of forms, as browsers send them. */
#include "consumer/http/form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static int parse(const char *text, struct pfl_form *form)
{
    return pfl_form_parse(pfl_span_of(text, strlen(text)), form);
}

static void fields_are_decoded(void **state)
{
    struct pfl_form form;

    (void)state;
    assert_int_equal(parse("q=a+b%2B%3c%C3%A9&&empty=&flag&q=2&=x&a%3Db=c", &form), 0);
    assert_int_equal(form.len, 6);
    assert_string_equal(pfl_form_get(&form, "q"), "a b+<\xc3\xa9");
    assert_string_equal(pfl_form_get(&form, "empty"), "");
    assert_string_equal(pfl_form_get(&form, "a=b"), "c");
    assert_string_equal(pfl_form_get(&form, "none"), "");
    assert_true(pfl_form_has(&form, "flag"));
    assert_false(pfl_form_has(&form, "none"));
    pfl_form_fini(&form);
    pfl_sweep_assert_no_leak();
}

static void broken_escapes_are_refused(void **state)
{
    static const char *const all[] = {"a=%", "a=%4", "a=%4x", "%zz=1", "a=%00"};
    struct pfl_form form;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_int_equal(parse(all[i], &form), PFL_EPARSE);
    assert_int_equal(pfl_form_parse(pfl_span_of("a\0b", 3), &form), PFL_EPARSE);
    pfl_sweep_assert_no_leak();
}

static void number_of_fields_has_a_limit(void **state)
{
    char text[2 * PFL_FORM_MAX_FIELDS + 4] = "";
    struct pfl_form form;

    (void)state;
    for (size_t i = 0; i < PFL_FORM_MAX_FIELDS; i++)
        memcpy(text + 2 * i, "a&", 3);
    assert_int_equal(parse(text, &form), 0);
    pfl_form_fini(&form);
    memcpy(text + strlen(text), "b", 2);
    assert_int_equal(parse(text, &form), PFL_ELIMIT);
    pfl_sweep_assert_no_leak();
}

static int parse_one(void *arg)
{
    struct pfl_form form;
    int rc = parse(arg, &form);

    if (rc == 0)
        pfl_form_fini(&form);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    static char text[] = "a=1&b=2";

    (void)state;
    pfl_sweep(parse_one, text, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_decoded),
        cmocka_unit_test(broken_escapes_are_refused),
        cmocka_unit_test(number_of_fields_has_a_limit),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
