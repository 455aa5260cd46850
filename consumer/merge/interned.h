/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packets of a sequence a reader can interpret: SEQ_NEEDS_INCREMENTAL_STATE packets refer to
 * interned data of an earlier packet of their sequence. If that one is lost (overwritten in a
 * ring), Trace Processor skips them until the producer resends the data
 * (SEQ_INCREMENTAL_STATE_CLEARED). Pure.
 */
#ifndef PFL_CONSUMER_INTERNED_H
#define PFL_CONSUMER_INTERNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* TracePacket.sequence_flags */

/* After so many packets without flags the sequence counts as having none. */
#define PFL_INTERNED_PLAIN_AFTER 16u

enum pfl_interned_state {
    PFL_INTERNED_UNKNOWN,
    PFL_INTERNED_PLAIN = PFL_INTERNED_PLAIN_AFTER, /* it has no flags */
    PFL_INTERNED_VALID,
    PFL_INTERNED_BROKEN,  /* what its packets refer to is lost */
    PFL_INTERNED_LEAVING, /* valid in the file before this one only */
};

struct pfl_interned_slot {
    uint8_t state;    /* below PLAIN: packets without flags so far */
    uint32_t skipped; /* since it is broken */
};

struct pfl_interned {
    struct pfl_interned_slot *slots; /* owned; by the sequence's id in the file */
    size_t len;
    size_t leaving; /* how many are LEAVING */
};

struct pfl_interned_counts {
    uint64_t skipped;   /* packets of sequences that stay broken */
    uint64_t recovered; /* of sequences that were cleared later */
};

void pfl_interned_fini(struct pfl_interned *self); /* zeros are an empty one */
/* A packet of the sequence. PFL_ENOMEM. */
PFL_MUST_USE int pfl_interned_note(struct pfl_interned *self, uint32_t sequence, uint32_t flags,
                                   bool has_loss, struct pfl_interned_counts *counts);

/* A new file begins: packets of VALID sequences refer to data in the previous one. They are LEAVING
 * until they are cleared. */
void pfl_interned_cut(struct pfl_interned *self);
/* The previous file ends: the data of sequences that are still LEAVING is lost. */
void pfl_interned_end_cut(struct pfl_interned *self);

static inline bool pfl_interned_is_leaving(const struct pfl_interned *self, uint32_t sequence)
{
    return sequence < self->len && self->slots[sequence].state == PFL_INTERNED_LEAVING;
}

/* Its packets need no check, as long as they mark no loss. */
static inline bool pfl_interned_is_settled(const struct pfl_interned *self, uint32_t sequence)
{
    return sequence < self->len && (self->slots[sequence].state == PFL_INTERNED_PLAIN ||
                                    self->slots[sequence].state == PFL_INTERNED_VALID);
}

#endif
