/* SPDX-License-Identifier: Apache-2.0 */
/* Work that waits for an operator's rate: bytes of streams, the list of hosts. A core. */
#ifndef PFL_RELAY_HUB_THROTTLE_H
#define PFL_RELAY_HUB_THROTTLE_H

#include "base/list.h"

struct pfl_hub_peer;

/* Part of the waiting object, which removes the node before it is freed. */
struct pfl_throttled {
    struct pfl_list node; /* in its peer's list; zeroed, or removed: not waiting */
    void (*proceed)(struct pfl_throttled *self);
};

/* Retries it soon. Idempotent. */
void pfl_throttle_add(struct pfl_hub_peer *peer, struct pfl_throttled *throttled);
/* Retries some waiting work, which may wait again. The shell calls it (hub_shell.h, `pace`). */
void pfl_throttle_run(struct pfl_hub_peer *peer);

#endif
