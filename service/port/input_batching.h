/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when to yield the CPU before a producer's commit is read. A producer that commits tens of
 * thousands of times a second wakes the service each time for a chunk or two. If its thread runs
 * once more first, there is more to read, and most wake-ups are saved. Pure; time is an argument.
 */
#ifndef PFL_SERVICE_INPUT_BATCHING_H
#define PFL_SERVICE_INPUT_BATCHING_H

#include <stdbool.h>
#include <stdint.h>

/* Input that comes more often than this is batched. */
#define PFL_INPUT_BATCHING_OFTEN_NS 1000000u
/* Input that is nearer than this belongs to the same turn. */
#define PFL_INPUT_BATCHING_SAME_NS 5000u
/* If yielding takes this long, another thread uses the whole CPU. */
#define PFL_INPUT_BATCHING_LONG_NS 300000u
/* Then do not yield for this long, doubled each time up to the maximum. */
#define PFL_INPUT_BATCHING_REST_NS     10000000u
#define PFL_INPUT_BATCHING_REST_MAX_NS 64000000000u

struct pfl_input_batching {
    uint64_t last_ns;  /* when the last input came */
    uint64_t until_ns; /* no yielding until then */
    uint64_t rest_ns;  /* length of the last pause */
};

/* There is input. True: yield first. `self` is zeroed before the first call. */
bool pfl_input_batching_begin(struct pfl_input_batching *self, uint64_t now_ns);
/* Called after yielding; measures the time since begin's now_ns. */
void pfl_input_batching_end(struct pfl_input_batching *self, uint64_t now_ns);

#endif
