/* SPDX-License-Identifier: Apache-2.0 */
/* When the log says that a certificate or a list ends, and how many days are left. */
#include "relay/accept/expiry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW 1700000000
#define DAY 86400

static void each_end_has_its_state_and_days(void **state)
{
    static const struct {
        int64_t end_s;
        enum pfl_expiry_state is;
        int64_t days;
    } rows[] = {
        {NOW + 365 * DAY, PFL_EXPIRY_LATER, 365},
        {NOW + 14 * DAY, PFL_EXPIRY_LATER, 14},
        {NOW + 14 * DAY - 1, PFL_EXPIRY_SOON, 13},
        {NOW + DAY, PFL_EXPIRY_SOON, 1},
        {NOW + DAY - 1, PFL_EXPIRY_SOON, 0},
        {NOW, PFL_EXPIRY_SOON, 0},
        {NOW - 1, PFL_EXPIRY_PAST, 0},
        {NOW - DAY, PFL_EXPIRY_PAST, -1},
        {NOW - 3 * DAY - 5, PFL_EXPIRY_PAST, -3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t days = 99;

        assert_int_equal(pfl_expiry_judge(rows[i].end_s, NOW, &days), rows[i].is);
        assert_int_equal(days, rows[i].days);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_end_has_its_state_and_days)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
