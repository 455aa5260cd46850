/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How slowly a host may bring its trace. Each PFL_READ_PACE_BYTES that come give it the time of a
 * step, and so do the first ones: a read-out takes at most 1 + bytes / PFL_READ_PACE_BYTES steps.
 * Hosts that are read at the same time share the operator's link, so each may be as many times
 * slower as there are. Pure.
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
    uint64_t bytes; /* for which it has had the time */
};

/* It has brought `bytes` before. */
void pfl_read_pace_begin(struct pfl_read_pace *self, uint64_t step_ms, uint64_t bytes);
/* So much time passed while `hosts` (1 or more, with this one) were read; `bytes` are all that it
 * has brought. False: it is too slow. */
bool pfl_read_pace_take(struct pfl_read_pace *self, uint64_t elapsed_ms, uint64_t bytes,
                        size_t hosts);

#endif
