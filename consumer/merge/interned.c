/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned data that is present, or lost, by sequence.
 *
 *     UNKNOWN -- CLEARED --> VALID -- a loss, then NEEDS_STATE --> BROKEN -- CLEARED --> VALID
 *        |-- NEEDS_STATE ------------------------------------------^
 *        +-- PFL_INTERNED_PLAIN_AFTER packets without flags --> PLAIN
 *     VALID -- the next file --> LEAVING -- CLEARED --> VALID
 *                                   +-- the file before ends --> BROKEN
 *
 * Happy path: the first packet of a sequence brings its state; later ones need no check. Failure:
 * out of memory. Limits: eight bytes a sequence of the file, whose number the merge bounds.
 */
#include "consumer/merge/interned.h"

#include <string.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"

#define SLOTS_MIN 64u

void pfl_interned_fini(struct pfl_interned *self)
{
    pfl_mem_free(self->slots);
    *self = (struct pfl_interned){0};
}

static int grow(struct pfl_interned *self, uint32_t sequence)
{
    size_t len = self->len != 0 ? self->len : SLOTS_MIN;
    struct pfl_interned_slot *slots;

    while (len <= sequence)
        len *= 2;
    slots = pfl_mem_realloc(self->slots, len * sizeof(*slots));
    if (slots == NULL)
        return PFL_ENOMEM;
    memset(slots + self->len, 0, (len - self->len) * sizeof(*slots));
    self->slots = slots;
    self->len = len;
    return 0;
}

static void clear(struct pfl_interned *self, struct pfl_interned_slot *slot,
                  struct pfl_interned_counts *counts)
{
    self->leaving -= slot->state == PFL_INTERNED_LEAVING;
    counts->skipped -= slot->skipped;
    counts->recovered += slot->skipped;
    *slot = (struct pfl_interned_slot){.state = PFL_INTERNED_VALID};
}

static bool is_whole(const struct pfl_interned_slot *slot)
{
    return slot->state == PFL_INTERNED_VALID || slot->state == PFL_INTERNED_LEAVING;
}

int pfl_interned_note(struct pfl_interned *self, uint32_t sequence, uint32_t flags, bool has_loss,
                      struct pfl_interned_counts *counts)
{
    struct pfl_interned_slot *slot;
    int rc = sequence < self->len ? 0 : grow(self, sequence);

    if (rc != 0)
        return rc;
    slot = &self->slots[sequence];
    if (has_loss && is_whole(slot)) {
        self->leaving -= slot->state == PFL_INTERNED_LEAVING;
        slot->state = PFL_INTERNED_BROKEN;
    }
    if ((flags & TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED) != 0) {
        clear(self, slot, counts);
    } else if ((flags & TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE) != 0 && !is_whole(slot)) {
        slot->state = PFL_INTERNED_BROKEN;
        counts->skipped += slot->skipped != UINT32_MAX;
        slot->skipped += slot->skipped != UINT32_MAX;
    } else if (slot->state < PFL_INTERNED_PLAIN) {
        slot->state++;
    }
    return 0;
}

void pfl_interned_cut(struct pfl_interned *self)
{
    for (size_t i = 0; i < self->len; i++) {
        if (self->slots[i].state != PFL_INTERNED_VALID)
            continue;
        self->slots[i].state = PFL_INTERNED_LEAVING;
        self->leaving++;
    }
}

void pfl_interned_end_cut(struct pfl_interned *self)
{
    for (size_t i = 0; self->leaving != 0 && i < self->len; i++) {
        if (self->slots[i].state != PFL_INTERNED_LEAVING)
            continue;
        self->slots[i].state = PFL_INTERNED_BROKEN;
        self->leaving--;
    }
}
