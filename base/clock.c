/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks by protocol id. Every supported kernel has all of them. */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static clockid_t kernel_clock(enum pfl_clock_id id)
{
    switch (id) {
    case PFL_CLOCK_REALTIME:
        return CLOCK_REALTIME;
    case PFL_CLOCK_REALTIME_COARSE:
        return CLOCK_REALTIME_COARSE;
    case PFL_CLOCK_MONOTONIC:
        return CLOCK_MONOTONIC;
    case PFL_CLOCK_MONOTONIC_COARSE:
        return CLOCK_MONOTONIC_COARSE;
    case PFL_CLOCK_MONOTONIC_RAW:
        return CLOCK_MONOTONIC_RAW;
    default:
        return CLOCK_BOOTTIME;
    }
}

uint64_t pfl_clock_now_ns(enum pfl_clock_id id)
{
    struct timespec ts;

    if (id == PFL_CLOCK_TSC) {
#if defined(__x86_64__)
        return __rdtsc();
#else
        return 0;
#endif
    }
    (void)clock_gettime(kernel_clock(id), &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void pfl_clock_read_boot_id(char ret_id[PFL_CLOCK_BOOT_ID_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    ret_id[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(ret_id, PFL_CLOCK_BOOT_ID_BYTES, file) == NULL)
        ret_id[0] = '\0';
    ret_id[strcspn(ret_id, "\n")] = '\0';
    (void)fclose(file);
}
