/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimal rate of a read-out: a host gets one step's time, and one more for each
 * PFL_READ_PACE_BYTES received, so that it takes at most 1 + bytes / PFL_READ_PACE_BYTES steps.
 * Hosts that are read at the same time share the operator's link, so each may be slower by their
 * number. Pure.
 */
#ifndef PFL_CONSUMER_READ_PACE_H
#define PFL_CONSUMER_READ_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_READ_PACE_BYTES (256u << 10)

struct pfl_read_pace {
    uint64_t step_us;
    uint64_t left_us;
    uint64_t bytes; /* bytes that were converted into time */
};

/* It has sent `bytes` before. */
void pfl_read_pace_begin(struct pfl_read_pace *self, uint64_t step_ms, uint64_t bytes);
/* `elapsed_ms` passed while `hosts` (1 or more, with this one) were read; `bytes` are all that it
 * has sent. False: it is too slow. */
bool pfl_read_pace_take(struct pfl_read_pace *self, uint64_t elapsed_ms, uint64_t bytes,
                        size_t hosts);

/* Time away counts when it is more than that in sum. */
#define PFL_READ_PACE_AWAY_MS (600u * 1000)
/* How much of `elapsed_ms`, in which the host was away, counts; adds it to the sum. */
uint64_t pfl_read_pace_charge_away(uint64_t *away_sum_ms, uint64_t elapsed_ms);

#endif
