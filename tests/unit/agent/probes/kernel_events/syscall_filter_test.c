/* SPDX-License-Identifier: Apache-2.0 */
/* System calls by name and number, and the kernel's filter for some of them. */
#include "agent/probes/kernel_events/syscall_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

static bool find(const char *name, uint32_t *ret_number)
{
    return pfl_syscall_find(pfl_span_of(name, strlen(name)), ret_number);
}

static void a_call_is_found_by_its_whole_name(void **state)
{
    uint32_t number = 12345;

    (void)state;
    assert_false(find("", &number));
    assert_false(find("sys_", &number));
    assert_false(find("read", &number));
    assert_false(find("sys_rea", &number));
    assert_false(find("sys_readx", &number));
    assert_int_equal(number, 12345);
    assert_true(find("sys_read", &number));
    assert_int_equal(number, SYS_read);
    assert_true(find("sys_openat", &number));
    assert_int_equal(number, SYS_openat);
}

static void calls_that_return_an_open_file_are_known(void **state)
{
    (void)state;
    assert_true(pfl_syscall_opens_file(SYS_openat));
    assert_true(pfl_syscall_opens_file(SYS_socket));
    assert_true(pfl_syscall_opens_file(SYS_dup));
    assert_true(pfl_syscall_opens_file(SYS_dup3));
    assert_false(pfl_syscall_opens_file(SYS_read));
    assert_false(pfl_syscall_opens_file(-1));
}

static void a_filter_takes_what_was_added_and_all_if_it_is_off(void **state)
{
    struct pfl_syscall_filter some = {.is_on = true};
    struct pfl_syscall_filter more = {.is_on = true};
    struct pfl_syscall_filter all = {0};

    (void)state;
    pfl_syscall_filter_add(&some, 0);
    pfl_syscall_filter_add(&some, 9);
    pfl_syscall_filter_add(&some, PFL_SYSCALLS_MAX - 1);
    pfl_syscall_filter_add(&some, PFL_SYSCALLS_MAX);
    for (int64_t i = -1; i <= PFL_SYSCALLS_MAX; i++) {
        assert_int_equal(pfl_syscall_filter_takes(&some, i),
                         i == 0 || i == 9 || i == PFL_SYSCALLS_MAX - 1);
        assert_true(pfl_syscall_filter_takes(&all, i));
    }
    pfl_syscall_filter_add(&more, 10);
    pfl_syscall_filter_join(&more, &some);
    assert_true(more.is_on);
    assert_true(pfl_syscall_filter_takes(&more, 9));
    assert_true(pfl_syscall_filter_takes(&more, 10));
    assert_false(pfl_syscall_filter_takes(&some, 10));
    pfl_syscall_filter_join(&more, &all);
    assert_true(pfl_syscall_filter_takes(&more, 11));
}

static void the_kernels_text_names_each_call_or_is_no_filter_if_it_is_too_long(void **state)
{
    struct pfl_syscall_filter filter = {0};
    char text[PFL_SYSCALL_FILTER_BYTES + 32];
    uint32_t number = 1;
    size_t len;

    (void)state;
    memset(text, '#', sizeof(text));
    pfl_syscall_filter_text(&filter, text);
    assert_string_equal(text, "0");
    filter.is_on = true;
    pfl_syscall_filter_text(&filter, text);
    assert_string_equal(text, "id == -1");
    pfl_syscall_filter_add(&filter, 1);
    pfl_syscall_filter_text(&filter, text);
    assert_string_equal(text, "id == 1");
    for (len = 7; strcmp(text, "0") != 0; len = strlen(text)) {
        number++;
        assert_true(number < 400);
        pfl_syscall_filter_add(&filter, number);
        if (len + (number < 10 ? 11 : number < 100 ? 12 : 13) < PFL_SYSCALL_FILTER_BYTES) {
            pfl_syscall_filter_text(&filter, text);
            assert_int_equal(strlen(text), len + (number < 10 ? 11 : number < 100 ? 12 : 13));
        } else {
            pfl_syscall_filter_text(&filter, text);
            assert_string_equal(text, "0");
        }
        assert_int_equal(text[PFL_SYSCALL_FILTER_BYTES], '#');
    }
    assert_in_range(number, 300, 320);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_found_by_its_whole_name),
        cmocka_unit_test(calls_that_return_an_open_file_are_known),
        cmocka_unit_test(a_filter_takes_what_was_added_and_all_if_it_is_off),
        cmocka_unit_test(the_kernels_text_names_each_call_or_is_no_filter_if_it_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
