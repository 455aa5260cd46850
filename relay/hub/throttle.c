/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and inventory answers that exceeded an operator's rate: see throttle.h.
 *
 * Happy path: all waiting work of a connection is retried at once, and waits again if the rate
 * still does not allow it. Failures: none. Ownership: waiting work owns its node and removes it
 * before it is freed; the list is its connection's. Limits: its streams.
 */
#include "relay/hub/throttle.h"

#include "relay/hub/peer_table.h"

void pfl_throttle_run(struct pfl_hub_peer *peer)
{
    struct pfl_list *first = peer->throttled.next;

    /* The first in the list is last the next time. */
    if (!pfl_list_is_empty(&peer->throttled)) {
        pfl_list_remove(first);
        pfl_list_append(&peer->throttled, first);
    }
    while (!pfl_list_is_empty(&peer->throttled)) {
        struct pfl_throttled *t =
            PFL_CONTAINER_OF(peer->throttled.next, struct pfl_throttled, node);

        pfl_list_remove(&t->node);
        t->proceed(t);
    }
}

void pfl_throttle_add(struct pfl_hub_peer *peer, struct pfl_throttled *throttled)
{
    const struct pfl_hub_shell *shell = peer->table->shell;

    if (throttled->node.next == NULL)
        pfl_list_append(&peer->throttled, &throttled->node);
    shell->pace(shell->user, peer);
}
