/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks by protocol id. Every supported kernel has all of them. */
#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/hash.h"

#define MIXED_DIGITS 8u /* of a boot's id */

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

/* The line that says how far the boot clock of this time namespace is from the kernel's. False: it
 * is the kernel's. */
static bool read_boot_offset(char *line, int room)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    bool is_other = false;

    if (file == NULL)
        return false; /* the kernel has no such namespaces */
    while (!is_other && fgets(line, room, file) != NULL)
        is_other = strncmp(line, "boottime", 8) == 0 && strpbrk(line, "123456789") != NULL;
    (void)fclose(file);
    return is_other;
}

static void mix_in(char *id, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t hash = pfl_hash_str(text);

    for (size_t i = strlen(id) - MIXED_DIGITS; id[i] != '\0'; i++) {
        const char *digit = strchr(digits, id[i]);

        if (digit != NULL)
            id[i] = digits[((size_t)(digit - digits) ^ hash) & 15];
        hash >>= 4;
    }
}

void pfl_clock_read_boot_id(char ret_id[PFL_CLOCK_BOOT_ID_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char offset[96];

    ret_id[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(ret_id, PFL_CLOCK_BOOT_ID_BYTES, file) == NULL)
        ret_id[0] = '\0';
    ret_id[strcspn(ret_id, "\n")] = '\0';
    (void)fclose(file);
    if (strlen(ret_id) > MIXED_DIGITS && read_boot_offset(offset, sizeof(offset)))
        mix_in(ret_id, offset);
}
