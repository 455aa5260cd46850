/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol's clock ids are the kernel's clocks. */
#include "base/clock.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t kernel_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void each_id_reads_its_kernel_clock(void **state)
{
    static const struct {
        enum pfl_clock_id id;
        clockid_t kernel;
    } clocks[] = {
        {PFL_CLOCK_REALTIME, CLOCK_REALTIME},
        {PFL_CLOCK_REALTIME_COARSE, CLOCK_REALTIME_COARSE},
        {PFL_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
        {PFL_CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_COARSE},
        {PFL_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
        {PFL_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        uint64_t before = kernel_ns(clocks[i].kernel);
        uint64_t ours = pfl_clock_now_ns(clocks[i].id);
        uint64_t after = kernel_ns(clocks[i].kernel);

        assert_true(before <= ours && ours <= after);
    }
}

static void the_boot_has_one_id(void **state)
{
    char first[PFL_CLOCK_BOOT_ID_BYTES];
    char again[PFL_CLOCK_BOOT_ID_BYTES];

    (void)state;
    pfl_clock_read_boot_id(first);
    pfl_clock_read_boot_id(again);
    assert_string_equal(first, again);
    assert_true(strlen(first) == 0 || strlen(first) == PFL_CLOCK_BOOT_ID_BYTES - 1);
}

/* A child with such a boot clock reads it. False: it may not have one. */
static bool read_in_namespace(const char *offsets, char *ret_id)
{
    int fds[2];
    int status = 1;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        FILE *file = unshare(CLONE_NEWTIME) == 0 ? fopen("/proc/self/timens_offsets", "we") : NULL;
        pid_t inner;

        if (file == NULL || fputs(offsets, file) < 0 || fclose(file) != 0)
            _exit(1);
        inner = fork(); /* the first one that is in it */
        if (inner == 0) {
            pfl_clock_read_boot_id(ret_id);
            _exit(write(fds[1], ret_id, PFL_CLOCK_BOOT_ID_BYTES) != PFL_CLOCK_BOOT_ID_BYTES);
        }
        _exit(inner < 0 || waitpid(inner, &status, 0) < 0 || status != 0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    close(fds[1]);
    if (status == 0)
        assert_int_equal(read(fds[0], ret_id, PFL_CLOCK_BOOT_ID_BYTES), PFL_CLOCK_BOOT_ID_BYTES);
    close(fds[0]);
    return status == 0;
}

static void another_boot_clock_has_another_id(void **state)
{
    char here[PFL_CLOCK_BOOT_ID_BYTES];
    char ahead[PFL_CLOCK_BOOT_ID_BYTES];
    char further[PFL_CLOCK_BOOT_ID_BYTES];
    char same[PFL_CLOCK_BOOT_ID_BYTES];

    (void)state;
    pfl_clock_read_boot_id(here);
    if (here[0] == '\0' || !read_in_namespace("boottime 5000 0", ahead))
        skip(); /* not root, or no such namespaces */
    assert_true(read_in_namespace("boottime 5001 0", further));
    assert_true(read_in_namespace("monotonic 5000 0", same));
    assert_string_equal(here, same);
    assert_string_not_equal(here, ahead);
    assert_string_not_equal(here, further);
    assert_string_not_equal(ahead, further);
    assert_int_equal(strlen(ahead), strlen(here));
    assert_memory_equal(ahead, here, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_id_reads_its_kernel_clock),
        cmocka_unit_test(the_boot_has_one_id),
        cmocka_unit_test(another_boot_clock_has_another_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
