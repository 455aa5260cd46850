/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and inventory answers that exceeded an operator's rate.
 *
 * Happy path: every PACE_MS all waiting work of a connection is retried, and waits again if the
 * rate still does not allow it. Failures: none. Ownership: waiting work owns its node and removes
 * it before it is freed; the list is its connection's. Limits: its streams.
 */
#include "relay/hub/hub_impl.h"

#define PACE_MS 10u

static struct pfl_throttled *held_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_throttled, node);
}

static void on_pace(uv_timer_t *timer)
{
    struct pfl_hub_peer *p = timer->data;
    struct pfl_list *first = p->held.next;

    /* The first in the list is last the next time. */
    if (!pfl_list_is_empty(&p->held)) {
        pfl_list_remove(first);
        pfl_list_append(&p->held, first);
    }
    while (!pfl_list_is_empty(&p->held)) {
        struct pfl_throttled *held = held_of(p->held.next);

        pfl_list_remove(&held->node);
        held->go_on(held);
    }
}

void pfl_throttle_add(struct pfl_hub_peer *p, struct pfl_throttled *held)
{
    if (held->node.next == NULL)
        pfl_list_append(&p->held, &held->node);
    if (!uv_is_active((uv_handle_t *)&p->timer))
        (void)uv_timer_start(&p->timer, on_pace, PACE_MS, 0);
}

void pfl_throttle_drop_all(struct pfl_hub_peer *p)
{
    while (!pfl_list_is_empty(&p->held))
        pfl_list_remove(p->held.next);
}
