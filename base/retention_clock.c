/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of retention: see retention_clock.h. Pure. Cannot fail. */
#include "base/retention_clock.h"

uint64_t pfl_retention_clock_take(struct pfl_retention_clock *self, uint64_t wall_ns,
                                  uint64_t boot_ns, bool *ret_has_jumped)
{
    uint64_t passed_ns = boot_ns > self->boot_ns ? boot_ns - self->boot_ns : 0;
    uint64_t steady_ns = self->wall_ns + passed_ns;
    bool is_ahead = self->wall_ns != 0 && wall_ns > steady_ns + PFL_RETENTION_CLOCK_JUMP_NS;

    *ret_has_jumped = is_ahead && self->jumped_boot_ns == 0;
    if (*ret_has_jumped)
        self->jumped_boot_ns = boot_ns != 0 ? boot_ns : 1;
    if (is_ahead && boot_ns - self->jumped_boot_ns >= PFL_RETENTION_CLOCK_WAIT_NS &&
        !*ret_has_jumped)
        is_ahead = false;
    if (!is_ahead)
        self->jumped_boot_ns = 0;
    self->wall_ns = is_ahead ? steady_ns : wall_ns;
    self->boot_ns = boot_ns;
    return self->wall_ns;
}
