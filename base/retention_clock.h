/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock as retention takes it: a jump ahead does not make every trace old. Pure.
 *
 * A jump ahead of more than PFL_RETENTION_CLOCK_JUMP_NS is ignored for PFL_RETENTION_CLOCK_WAIT_NS:
 * meanwhile time passes as the boot clock says. After that the new time holds. A jump back holds at
 * once: it makes nothing older. A clock that begins with the time at which another one ended takes
 * the time between them as a jump, too: nobody knows how much of it passed.
 */
#ifndef PFL_BASE_RETENTION_CLOCK_H
#define PFL_BASE_RETENTION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_RETENTION_CLOCK_JUMP_NS (UINT64_C(3600) * 1000000000)
#define PFL_RETENTION_CLOCK_WAIT_NS (UINT64_C(86400) * 1000000000)

/* Zero-initialized; or with the wall_ns of another clock, and the boot_ns of now. */
struct pfl_retention_clock {
    uint64_t wall_ns; /* as taken last */
    uint64_t boot_ns;
    uint64_t jumped_boot_ns; /* when the jump that is ignored was seen; 0: none is */
};

/* The time to use now. `ret_has_jumped`: a jump is ignored from now on. */
uint64_t pfl_retention_clock_take(struct pfl_retention_clock *self, uint64_t wall_ns,
                                  uint64_t boot_ns, bool *ret_has_jumped);

#endif
