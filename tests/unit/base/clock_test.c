/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol's clock ids are the kernel's clocks. */
#include "base/clock.h"

#include <time.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_id_reads_its_kernel_clock),
        cmocka_unit_test(the_boot_has_one_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
