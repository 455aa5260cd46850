/* SPDX-License-Identifier: Apache-2.0 */
/* A host's losses, from its TraceStats (docs/abi/tracebuffer.md sections 8 and 9). Pure. */
#ifndef PFL_CONSUMER_LOSSES_H
#define PFL_CONSUMER_LOSSES_H

#include "base/bytes.h"
#include "base/err.h"

/* Sums over all buffers of one session, unless said otherwise. */
struct pfl_losses {
    uint64_t chunks_overwritten;
    uint64_t chunks_discarded;
    uint64_t patches_failed;
    uint64_t abi_violations;
    uint64_t writer_losses;
    uint64_t invalid_packets;
    uint64_t flushes_failed;
    /* Of the whole service: late data of earlier sessions counts, too, so these cannot be
     * attributed. */
    uint64_t service_chunks_discarded;
    uint64_t service_patches_discarded;
    uint64_t bytes_unread; /* roughly what a read-out will bring */
    uint64_t buffer_bytes; /* the sizes of the buffers */
};

/* A serialized GetTraceStatsResponse. PFL_EPARSE. */
PFL_MUST_USE int pfl_losses_parse(struct pfl_span response, struct pfl_losses *ret_losses);
/* Subtracts what the service had already lost before the session. */
void pfl_losses_subtract_baseline(struct pfl_losses *losses, const struct pfl_losses *before);
/* 0: nothing of this session was lost. Failed flushes count: unflushed data is missing. */
uint64_t pfl_losses_sum(const struct pfl_losses *losses);

#endif
