/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batching of input: see input_batching.h.
 *
 * If yielding costs a whole time slice (the CPU is busy), producers fill their memory meanwhile.
 * Then begin does not yield for 10 ms, and for twice as long each further time, up to 64 s. The
 * pause is reset after as long without such a delay. Failures: none.
 */
#include "service/port/input_batching.h"

bool pfl_input_batching_begin(struct pfl_input_batching *self, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - self->last_ns;

    self->last_ns = now_ns;
    return since_ns > PFL_INPUT_BATCHING_SAME_NS && since_ns < PFL_INPUT_BATCHING_OFTEN_NS &&
           now_ns >= self->until_ns;
}

void pfl_input_batching_end(struct pfl_input_batching *self, uint64_t now_ns)
{
    bool was_long = now_ns - self->last_ns > PFL_INPUT_BATCHING_LONG_NS;

    self->last_ns = now_ns;
    if (was_long) {
        self->rest_ns = self->rest_ns == 0 ? PFL_INPUT_BATCHING_REST_NS : self->rest_ns * 2;
        if (self->rest_ns > PFL_INPUT_BATCHING_REST_MAX_NS)
            self->rest_ns = PFL_INPUT_BATCHING_REST_MAX_NS;
        self->until_ns = now_ns + self->rest_ns;
    } else if (now_ns - self->until_ns > self->rest_ns) {
        self->rest_ns = 0;
    }
}
