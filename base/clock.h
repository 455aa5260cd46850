/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks by the protocol's ids (BuiltinClock). Shells read them; cores get the time as an
 * argument.
 */
#ifndef PFL_BASE_CLOCK_H
#define PFL_BASE_CLOCK_H

#include <stdint.h>

enum pfl_clock_id {
    PFL_CLOCK_REALTIME = 1,
    PFL_CLOCK_REALTIME_COARSE = 2,
    PFL_CLOCK_MONOTONIC = 3,
    PFL_CLOCK_MONOTONIC_COARSE = 4,
    PFL_CLOCK_MONOTONIC_RAW = 5,
    PFL_CLOCK_BOOTTIME = 6,
    PFL_CLOCK_TSC = 9, /* raw cycles; 0 where the CPU has no time-stamp counter */
};

/* Nanoseconds of that clock now (cycles for TSC). Cannot fail for the ids above. */
uint64_t pfl_clock_now_ns(enum pfl_clock_id id);

/* 36 characters, with NUL. */
#define PFL_CLOCK_BOOT_ID_BYTES 37u
/* The id of what PFL_CLOCK_BOOTTIME is the time of: the kernel's id of this boot; in a time
 * namespace whose boot clock is another one, that id with other last digits. "" where it is
 * hidden. */
void pfl_clock_read_boot_id(char ret_id[PFL_CLOCK_BOOT_ID_BYTES]);

#endif
