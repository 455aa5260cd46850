/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The minimal rate of a read-out: see read_pace.h. Bytes are converted to microseconds, so that
 * rounding errors stay small at any frequency of calls. No failures; numbers saturate.
 */
#include "consumer/host/read_pace.h"

#define US_PER_MS 1000u

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b == 0 || a <= UINT64_MAX / b ? a * b : UINT64_MAX;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

void pfl_read_pace_begin(struct pfl_read_pace *self, uint64_t step_ms, uint64_t bytes)
{
    uint64_t step_us = multiply(step_ms, US_PER_MS);

    *self = (struct pfl_read_pace){.step_us = step_us, .left_us = step_us, .bytes = bytes};
}

static uint64_t time_of(const struct pfl_read_pace *self, uint64_t bytes, size_t hosts)
{
    uint64_t step_us = multiply(self->step_us, hosts);

    return add(multiply(bytes / PFL_READ_PACE_BYTES, step_us),
               multiply(bytes % PFL_READ_PACE_BYTES, step_us) / PFL_READ_PACE_BYTES);
}

bool pfl_read_pace_take(struct pfl_read_pace *self, uint64_t elapsed_ms, uint64_t bytes,
                        size_t hosts)
{
    uint64_t elapsed_us = multiply(elapsed_ms, US_PER_MS);
    uint64_t more = bytes > self->bytes ? bytes - self->bytes : 0;

    self->left_us = add(self->left_us, time_of(self, more, hosts));
    self->bytes += more;
    if (self->left_us < elapsed_us)
        return false;
    self->left_us -= elapsed_us;
    return true;
}

uint64_t pfl_read_pace_charge_away(uint64_t *away_sum_ms, uint64_t elapsed_ms)
{
    *away_sum_ms = add(*away_sum_ms, elapsed_ms);
    return *away_sum_ms < PFL_READ_PACE_AWAY_MS ? 0 : elapsed_ms;
}
