/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of all streams since the relay's start, including open ones. */
#ifndef PFL_RELAY_HUB_TRAFFIC_H
#define PFL_RELAY_HUB_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

struct pfl_traffic {
    uint64_t begun; /* streams */
    uint64_t open;  /* of them, currently open */
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    uint64_t resumed; /* of those begun */
    uint64_t cut;     /* that ended because a connection ended */
    /* Now: bytes received from one side and not sent to the other, */
    uint64_t held_to_host;
    uint64_t held_to_operator;
    /* bytes sent to a side and not used up there, counted against its windows, */
    uint64_t unused_to_host;
    uint64_t unused_to_operator;
    /* and bytes queued for the kernel: of all connections, and the longest queue. */
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
