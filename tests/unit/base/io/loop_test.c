/* SPDX-License-Identifier: Apache-2.0 */
/* A loop has no io_uring, and making it restricts nobody. */
#include "base/io/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned count_rings(void)
{
    DIR *folder = opendir("/proc/self/fd");
    char target[PATH_MAX];
    struct dirent *entry;
    unsigned found = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        ssize_t len = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        found += strstr(target, "io_uring") != NULL;
    }
    (void)closedir(folder);
    return found;
}

/* A parameter block that the kernel cannot read: EFAULT where the call is allowed. */
static int try_ring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0;
}

static void on_async(uv_async_t *async)
{
    uv_close((uv_handle_t *)async, NULL);
}

static void a_loop_has_no_ring_and_runs(void **state)
{
    uv_async_t async;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    assert_int_equal(count_rings(), 0);
    assert_int_equal(uv_async_init(&loop, &async, on_async), 0);
    assert_int_equal(uv_async_send(&async), 0);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(count_rings(), 0); /* none was made later */
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void who_makes_a_loop_is_not_restricted(void **state)
{
    int new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    int filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    int ring = try_ring();
    uv_loop_t loop;

    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    assert_int_equal(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), new_privileges);
    assert_int_equal(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), filter);
    assert_int_equal(try_ring(), ring);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_has_no_ring_and_runs),
        cmocka_unit_test(who_makes_a_loop_is_not_restricted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
