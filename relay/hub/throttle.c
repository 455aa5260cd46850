/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and inventory answers that exceeded an operator's rate: see throttle.h.
 *
 * Happy path: the first of a connection's waiting work is retried, and waits again, behind the
 * other, if the rate still does not allow it. Failures: none. Ownership: waiting work owns its node
 * and removes it before it is freed; the list is its connection's. Limits: its streams;
 * THROTTLED_AT_ONCE.
 */
#include "relay/hub/throttle.h"

#include "relay/hub/peer_table.h"

/* A retry costs 1 us, whether there is something to send or not, and in the time of no peer. */
#define THROTTLED_AT_ONCE 16u

static void move_first(struct pfl_list *from, struct pfl_list *to)
{
    struct pfl_list *first = from->next;

    pfl_list_remove(first);
    pfl_list_append(to, first);
}

void pfl_throttle_run(struct pfl_hub_peer *peer)
{
    const struct pfl_hub_shell *shell = peer->table->shell;
    struct pfl_list due;

    pfl_list_init(&due);
    for (unsigned i = 0; i < THROTTLED_AT_ONCE && !pfl_list_is_empty(&peer->throttled); i++)
        move_first(&peer->throttled, &due);
    /* Of so few, the first is last the next time. */
    if (pfl_list_is_empty(&peer->throttled) && !pfl_list_is_empty(&due))
        move_first(&due, &due);
    if (!pfl_list_is_empty(&peer->throttled))
        shell->pace(shell->user, peer);
    /* What waits again at once waits for the next time. */
    while (!pfl_list_is_empty(&due)) {
        struct pfl_throttled *t = PFL_CONTAINER_OF(due.next, struct pfl_throttled, node);

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
