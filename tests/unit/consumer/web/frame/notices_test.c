/* SPDX-License-Identifier: Apache-2.0 */
/* Results of changes: the newest are kept, by number. */
#include "consumer/web/frame/notices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_notices notices;

static void newest_are_kept(void **state)
{
    char text[16];

    (void)state;
    memset(&notices, 0, sizeof(notices));
    assert_string_equal(pfl_notices_get(&notices, 0), "");
    assert_string_equal(pfl_notices_get(&notices, 1), "");
    for (unsigned i = 1; i <= PFL_NOTICES_KEPT; i++) {
        (void)snprintf(text, sizeof(text), "text %u", i);
        assert_int_equal(pfl_notices_add(&notices, text), i);
    }
    assert_string_equal(pfl_notices_get(&notices, 1), "text 1");
    assert_string_equal(pfl_notices_get(&notices, PFL_NOTICES_KEPT), "text 16");
    assert_string_equal(pfl_notices_get(&notices, PFL_NOTICES_KEPT + 1), "");
    assert_int_equal(pfl_notices_add(&notices, "text 17"), 17);
    assert_string_equal(pfl_notices_get(&notices, 1), "");
    assert_string_equal(pfl_notices_get(&notices, 2), "text 2");
    assert_string_equal(pfl_notices_get(&notices, 17), "text 17");
    assert_string_equal(pfl_notices_get(&notices, 0), "");
}

static void long_one_is_cut(void **state)
{
    static char text[PFL_NOTICES_MAX_BYTES + 1];

    (void)state;
    memset(&notices, 0, sizeof(notices));
    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(pfl_notices_add(&notices, text), 1);
    assert_int_equal(strlen(pfl_notices_get(&notices, 1)), PFL_NOTICES_MAX_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_are_kept),
        cmocka_unit_test(long_one_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
