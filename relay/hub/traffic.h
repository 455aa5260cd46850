/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay has carried since it began, of those streams, too, that are under way. */
#ifndef PFL_RELAY_HUB_TRAFFIC_H
#define PFL_RELAY_HUB_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

struct pfl_traffic {
    uint64_t begun; /* streams */
    uint64_t open;  /* of them, now */
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    uint64_t resumed; /* of those begun */
    uint64_t cut;     /* that ended because a connection did */
    /* Now: what came from one side and has not gone to the other, */
    uint64_t held_to_host;
    uint64_t held_to_operator;
    /* what was sent to a side, and is not used up there: of its windows, */
    uint64_t unused_to_host;
    uint64_t unused_to_operator;
    /* and what waits for the kernel, of all connections and of the fullest. */
    uint64_t queued;
    uint64_t queued_longest;
};

static inline void pfl_traffic_add_queue(struct pfl_traffic *self, size_t bytes)
{
    self->queued += bytes;
    if (bytes > self->queued_longest)
        self->queued_longest = bytes;
}

#endif
