/* SPDX-License-Identifier: Apache-2.0 */
/* Clock reports as text: there and back, and what is none. */
#include "proto/tunnel/clock_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BOOT "01234567-89ab-cdef-0123-456789abcdef"

static char text[PFL_CLOCK_REPORT_TEXT_BYTES];

static void a_report_is_read_as_it_was_written(void **state)
{
    struct pfl_clock_report p = {.relay = "hub.1",
                                 .relay_boot_id = BOOT,
                                 .offset_ns = -5120,
                                 .error_ns = 41000,
                                 .host_boot_ns = 7,
                                 .relay_unix_ns = 1700000000000000000};
    struct pfl_clock_report q;

    (void)state;
    pfl_clock_report_write(&p, text);
    assert_string_equal(text, "hub.1 " BOOT " -5120 41000 7 1700000000000000000");
    assert_int_equal(pfl_clock_report_read(text, &q), 0);
    assert_string_equal(q.relay, "hub.1");
    assert_string_equal(q.relay_boot_id, BOOT);
    assert_true(q.offset_ns == -5120 && q.error_ns == 41000 && q.host_boot_ns == 7);
    assert_true(q.relay_unix_ns == p.relay_unix_ns);
}

static void numbers_have_a_largest(void **state)
{
    struct pfl_clock_report p = {.relay = "r",
                                 .relay_boot_id = BOOT,
                                 .offset_ns = INT64_MIN,
                                 .error_ns = UINT64_MAX,
                                 .host_boot_ns = INT64_MAX,
                                 .relay_unix_ns = 0};
    struct pfl_clock_report q;

    (void)state;
    pfl_clock_report_write(&p, text);
    assert_int_equal(pfl_clock_report_read(text, &q), 0);
    assert_true(q.offset_ns == -INT64_MAX && q.error_ns == INT64_MAX);
    assert_true(q.host_boot_ns == INT64_MAX && q.relay_unix_ns == 0);
}

/* What is no report leaves the result alone. */
static void anything_else_is_none(void **state)
{
    static const char *const wrong[] = {
        "",
        "r " BOOT " 1 2 3",
        "r " BOOT " 1 2 3 4 5",
        "r " BOOT " 1 2 3 4 ",
        " r " BOOT " 1 2 3 4",
        "r  " BOOT " 1 2 3 4",
        "-r " BOOT " 1 2 3 4",
        "r 01234567-89ab-cdef-0123-456789abcde 1 2 3 4",
        "r 01234567-89ab-cdef-0123-456789abcdeg 1 2 3 4",
        "r " BOOT " -- 2 3 4",
        "r " BOOT " - 2 3 4",
        "r " BOOT " +1 2 3 4",
        "r " BOOT " 1 -2 3 4",
        "r " BOOT " 1 2 0x3 4",
        "r " BOOT " 1 2 3 9223372036854775808",
        "r " BOOT " 1 2 3 18446744073709551617",
        "r " BOOT " 1 2 3 00000000000000000000",
    };
    struct pfl_clock_report p = {.error_ns = 99};
    char longer[2 * PFL_CLOCK_REPORT_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(pfl_clock_report_read(wrong[i], &p), PFL_EPARSE);
    memset(longer, '1', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(pfl_clock_report_read(longer, &p), PFL_EPARSE);
    assert_true(p.error_ns == 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_read_as_it_was_written),
        cmocka_unit_test(numbers_have_a_largest),
        cmocka_unit_test(anything_else_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
