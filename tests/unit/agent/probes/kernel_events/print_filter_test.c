/* SPDX-License-Identifier: Apache-2.0 */
/* FtraceConfig.print_filter and syscall_events: which texts, which system calls. */
#include "agent/probes/kernel_events/print_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "agent/probes/kernel_events/syscall_filter.h"
#include "tests/support/sweep.h"

#define TEXT(s) pfl_span_of((s), sizeof(s) - 1)

/* rules { prefix: "no" } rules { prefix: "n" allow: true }
 * rules { atrace_msg { type: "B" prefix: "in" } allow: true } rules { prefix: "" } */
static const char config[] = "\x0a\x04\x0a\x02no"
                             "\x0a\x05\x0a\x01n\x10\x01"
                             "\x0a\x0b\x1a\x07\x0a\x01"
                             "B\x12\x02in\x10\x01"
                             "\x0a\x02\x0a\x00";

static void first_rule_that_fits_decides(void **state)
{
    struct pfl_print_filter filter;

    (void)state;
    assert_int_equal(pfl_print_filter_parse(pfl_span_of(config, sizeof(config) - 1), &filter), 0);
    assert_true(filter.is_on);
    assert_int_equal(filter.count, 4);
    assert_false(pfl_print_filter_allows(&filter, TEXT("no way")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("nx")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("B|12|inside")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("B||in")));
    assert_false(pfl_print_filter_allows(&filter, TEXT("B|12|outside")));
    assert_false(pfl_print_filter_allows(&filter, TEXT("B|x|inside")));
    assert_false(pfl_print_filter_allows(&filter, TEXT("B|12")));
    assert_false(pfl_print_filter_allows(&filter, TEXT("B")));
    assert_false(pfl_print_filter_allows(&filter, pfl_span_of(NULL, 0)));
    pfl_print_filter_fini(&filter);
    pfl_sweep_assert_no_leak();
}

static void without_rules_everything_passes(void **state)
{
    struct pfl_print_filter filter;

    (void)state;
    assert_int_equal(pfl_print_filter_parse(pfl_span_of(NULL, 0), &filter), 0);
    assert_true(pfl_print_filter_allows(&filter, TEXT("x")));
    pfl_print_filter_fini(&filter);
}

static void filter_cut_at_every_length_is_read_or_refused(void **state)
{
    struct pfl_print_filter filter;

    (void)state;
    for (size_t len = 0; len < sizeof(config); len++) {
        int rc = pfl_print_filter_parse(pfl_span_of(config, len), &filter);

        assert_true(rc == 0 || rc == PFL_EPARSE);
        pfl_print_filter_fini(&filter);
    }
    pfl_sweep_assert_no_leak();
}

static int parse_once(void *arg)
{
    struct pfl_print_filter filter;
    int rc = pfl_print_filter_parse(pfl_span_of(config, sizeof(config) - 1), &filter);

    (void)arg;
    pfl_print_filter_fini(&filter);
    return rc;
}

static void parsing_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(parse_once, NULL, false);
}

static void names_of_system_calls_have_this_machines_numbers(void **state)
{
    uint32_t number = 7777;

    (void)state;
    assert_true(pfl_syscall_find(TEXT("sys_openat"), &number));
    assert_int_equal(number, SYS_openat);
    assert_true(pfl_syscall_find(TEXT("sys_read"), &number));
    assert_int_equal(number, SYS_read);
    assert_false(pfl_syscall_find(TEXT("read"), &number));
    assert_false(pfl_syscall_find(TEXT("sys_rea"), &number));
    assert_false(pfl_syscall_find(TEXT("sys_"), &number));
}

static void kernel_gets_the_union_of_the_sessions(void **state)
{
    struct pfl_syscall_filter one = {.is_on = true};
    struct pfl_syscall_filter other = {.is_on = true};
    struct pfl_syscall_filter all = {.is_on = false};
    char text[PFL_SYSCALL_FILTER_BYTES];

    (void)state;
    pfl_syscall_filter_text(&one, text);
    assert_string_equal(text, "id == -1"); /* names that no call has: none */
    pfl_syscall_filter_add(&one, 3);
    pfl_syscall_filter_add(&other, 257);
    pfl_syscall_filter_add(&other, PFL_SYSCALLS_MAX);
    pfl_syscall_filter_join(&one, &other);
    pfl_syscall_filter_text(&one, text);
    assert_string_equal(text, "id == 3 || id == 257");
    assert_true(pfl_syscall_filter_takes(&one, 257));
    assert_false(pfl_syscall_filter_takes(&one, 256));
    assert_false(pfl_syscall_filter_takes(&one, -1));
    assert_false(pfl_syscall_filter_takes(&one, INT64_MAX));
    pfl_syscall_filter_join(&one, &all);
    assert_true(pfl_syscall_filter_takes(&one, 256));
    pfl_syscall_filter_text(&one, text);
    assert_string_equal(text, "0");
}

static void filter_too_long_for_the_kernel_is_left_to_us(void **state)
{
    struct pfl_syscall_filter many = {.is_on = true};
    char text[PFL_SYSCALL_FILTER_BYTES];

    (void)state;
    for (uint32_t i = 0; i < 500; i++)
        pfl_syscall_filter_add(&many, i);
    pfl_syscall_filter_text(&many, text);
    assert_string_equal(text, "0");
    assert_false(pfl_syscall_filter_takes(&many, 600));
}

static void there_are_so_many_rules_and_not_one_more(void **state)
{
    static uint8_t bytes[5 * (PFL_PRINT_RULES_MAX + 1)];
    struct pfl_print_filter filter;

    (void)state;
    for (size_t i = 0; i <= PFL_PRINT_RULES_MAX; i++)
        memcpy(bytes + 5 * i, "\x0a\x03\x0a\x01x", 5);
    assert_int_equal(
        pfl_print_filter_parse(pfl_span_of(bytes, 5 * (size_t)PFL_PRINT_RULES_MAX), &filter), 0);
    assert_int_equal(filter.count, PFL_PRINT_RULES_MAX);
    assert_false(pfl_print_filter_allows(&filter, TEXT("xy")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("y")));
    pfl_print_filter_fini(&filter);
    assert_int_equal(pfl_print_filter_parse(pfl_span_of(bytes, sizeof(bytes)), &filter),
                     PFL_ELIMIT);
    assert_null(filter.rules);
    pfl_print_filter_fini(&filter);
    pfl_sweep_assert_no_leak();
}

static void of_an_atrace_text_each_part_has_its_end(void **state)
{
    /* rules { atrace_msg { type: "B" } allow: false } */
    static const char bytes[] = "\x0a\x07\x1a\x03\x0a\x01"
                                "B\x10\x00";
    struct pfl_print_filter filter;

    (void)state;
    assert_int_equal(pfl_print_filter_parse(pfl_span_of(bytes, sizeof(bytes) - 1), &filter), 0);
    assert_false(pfl_print_filter_allows(&filter, TEXT("B|1|")));
    assert_false(pfl_print_filter_allows(&filter, TEXT("B|1|x")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("B|1")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("B|")));
    assert_true(pfl_print_filter_allows(&filter, TEXT("B1|")));
    assert_true(pfl_print_filter_allows(&filter, pfl_span_of("B|1|", 3))); /* cut before the last */
    assert_true(pfl_print_filter_allows(&filter, pfl_span_of("B|1|", 1)));
    pfl_print_filter_fini(&filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_rule_that_fits_decides),
        cmocka_unit_test(without_rules_everything_passes),
        cmocka_unit_test(filter_cut_at_every_length_is_read_or_refused),
        cmocka_unit_test(parsing_survives_every_failed_allocation),
        cmocka_unit_test(names_of_system_calls_have_this_machines_numbers),
        cmocka_unit_test(kernel_gets_the_union_of_the_sessions),
        cmocka_unit_test(filter_too_long_for_the_kernel_is_left_to_us),
        cmocka_unit_test(there_are_so_many_rules_and_not_one_more),
        cmocka_unit_test(of_an_atrace_text_each_part_has_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
