/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of timestamps, perfleet_time_ns: see clock.c. */
#ifndef PFL_PRODUCER_CLOCK_H
#define PFL_PRODUCER_CLOCK_H

#include <stdint.h>

/* Tests whether the CPU's counter can be used; before, and if not, the kernel is asked each time.
 * Any thread, any number of times. */
void pfl_clock_init(void);
/* In the child of a fork: it may be in another time namespace. */
void pfl_clock_forget(void);
/* CLOCK_MONOTONIC, for timers; always the kernel's. */
uint64_t pfl_clock_monotonic_ms(void);

#endif
