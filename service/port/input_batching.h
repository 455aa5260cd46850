/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to let others run before a producer's commit is read. A producer that commits tens of
 * thousands of times a second wakes the service each time, for a chunk or two; if its thread gets
 * the CPU once more first, there is more to read, and most of the wake-ups are saved. Pure; time
 * is an argument.
 */
#ifndef PFL_SERVICE_INPUT_BATCHING_H
#define PFL_SERVICE_INPUT_BATCHING_H

#include <stdbool.h>
#include <stdint.h>

/* Input that comes more often than this is batched. */
#define PFL_INPUT_BATCHING_OFTEN_NS 1000000u
/* Input that is nearer than this belongs to one turn. */
#define PFL_INPUT_BATCHING_SAME_NS 5000u
/* A thread that runs for so long wants the CPU for itself ... */
#define PFL_INPUT_BATCHING_LONG_NS 300000u
/* ... and then nobody is let in first for so long, twice as long each time, at most the last. */
#define PFL_INPUT_BATCHING_REST_NS     10000000u
#define PFL_INPUT_BATCHING_REST_MAX_NS 64000000000u

struct pfl_input_batching {
    uint64_t last_ns;  /* when there was input last */
    uint64_t until_ns; /* until then nobody is let in first */
    uint64_t rest_ns;  /* how long that was the last time */
};

/* There is input. Shall others run first? `self` zeroed at first. */
bool pfl_input_batching_begin(struct pfl_input_batching *self, uint64_t now_ns);
/* They have run, from begin's now_ns on. */
void pfl_input_batching_end(struct pfl_input_batching *self, uint64_t now_ns);

#endif
