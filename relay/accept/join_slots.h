/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection of the join port is closed when too many are at the signer: nobody has shown a
 * certificate there, so the oldest one of the address that has most. A core. */
#ifndef PFL_RELAY_ACCEPT_JOIN_SLOTS_H
#define PFL_RELAY_ACCEPT_JOIN_SLOTS_H

#include <stdbool.h>

#include "base/list.h"
#include "base/pending_handshakes.h"

/* Zeroed by its owner, who sets the address. */
struct pfl_join_slot {
    struct pfl_list node;
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES];
    bool is_taken; /* it is at the signer, and was not closed for a newer one */
};

struct pfl_join_slots {
    struct pfl_list all; /* borrowed, the oldest first */
    unsigned taken;
    unsigned max;
};

void pfl_join_slots_init(struct pfl_join_slots *self, unsigned max);
void pfl_join_slots_add(struct pfl_join_slots *self, struct pfl_join_slot *slot);
void pfl_join_slots_remove(struct pfl_join_slots *self, struct pfl_join_slot *slot);
/* The connection reaches the signer. The one to close for it, whose slot is released; NULL: there
 * is room. */
struct pfl_join_slot *pfl_join_slots_take(struct pfl_join_slots *self, struct pfl_join_slot *slot);
/* It is no longer at the signer. Idempotent. */
void pfl_join_slots_release(struct pfl_join_slots *self, struct pfl_join_slot *slot);

#endif
