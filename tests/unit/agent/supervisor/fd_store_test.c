/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors by name: kept once, bounded, closed when they are not kept. */
#include "agent/supervisor/fd_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/closer.h"

static struct pfl_fd_store store;

static int begin(void **state)
{
    (void)state;
    store.len = 0;
    store.max = 4;
    return 0;
}

static int end(void **state)
{
    (void)state;
    pfl_fd_store_fini(&store);
    assert_int_equal(store.len, 0);
    return 0;
}

static int open_file(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static bool is_open(int fd)
{
    pfl_closer_wait();
    return fcntl(fd, F_GETFD) >= 0;
}

static void what_is_kept_lies_above_where_the_program_finds_it(void **state)
{
    int fd = open_file();

    (void)state;
    assert_int_equal(pfl_fd_store_add(&store, "a", fd), 0);
    assert_int_equal(store.len, 1);
    assert_string_equal(store.list[0].name, "a");
    assert_true(store.list[0].fd >= PFL_STORED_FDS_FIRST + 4);
    assert_int_equal(fcntl(store.list[0].fd, F_GETFD), FD_CLOEXEC);
}

static void several_may_have_one_name_and_go_together(void **state)
{
    int first;

    (void)state;
    assert_int_equal(pfl_fd_store_add(&store, "a", open_file()), 0);
    assert_int_equal(pfl_fd_store_add(&store, "b", open_file()), 0);
    assert_int_equal(pfl_fd_store_add(&store, "a", open_file()), 0);
    first = store.list[0].fd;
    assert_int_equal(pfl_fd_store_remove(&store, "a"), 2);
    assert_int_equal(store.len, 1);
    assert_string_equal(store.list[0].name, "b");
    assert_false(is_open(first));
    assert_true(is_open(store.list[0].fd));
    assert_int_equal(pfl_fd_store_remove(&store, "a"), 0);
}

static void the_same_file_by_the_same_name_is_kept_once(void **state)
{
    int fd = open_file();
    int twin = dup(fd);
    int other_name = dup(fd);
    int rc;

    (void)state;
    assert_int_equal(pfl_fd_store_add(&store, "a", fd), 0);
    rc = pfl_fd_store_add(&store, "a", twin);
    assert_true(rc == PFL_EEXIST || (rc == 0 && store.len == 2)); /* a kernel without kcmp */
    assert_int_equal(pfl_fd_store_add(&store, "b", other_name), 0);
}

static void what_is_too_much_is_closed(void **state)
{
    int fd;

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pfl_fd_store_add(&store, "a", open_file()), 0);
    fd = open_file();
    assert_int_equal(pfl_fd_store_add(&store, "b", fd), PFL_ELIMIT);
    assert_false(is_open(fd));
    assert_int_equal(store.len, 4);
    store.max = 0;
    assert_int_equal(pfl_fd_store_add(&store, "b", open_file()), PFL_ELIMIT);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        FRESH(what_is_kept_lies_above_where_the_program_finds_it),
        FRESH(several_may_have_one_name_and_go_together),
        FRESH(the_same_file_by_the_same_name_is_kept_once),
        FRESH(what_is_too_much_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
