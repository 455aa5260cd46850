/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy of an order's ring: after a delay the session is cloned, the clone is read, and what it
 * has becomes the one segment of a run in the folder of segments.
 */
#ifndef PFL_AGENT_ORDER_COPY_PORT_H
#define PFL_AGENT_ORDER_COPY_PORT_H

#include <uv.h>

#include "agent/daemon/order/host_orders.h"
#include "agent/daemon/segment/segments_port.h"
#include "base/list.h"

#define PFL_ORDER_COPY_MS 60000u /* without progress the copy is given up */

struct pfl_order_copy;

struct pfl_order_copy_conf {
    uv_loop_t *loop;
    const char *socket;                  /* the service's; borrowed until on_closed */
    struct pfl_segments *segments;       /* likewise */
    const char *session;                 /* unique_session_name; copied */
    const struct pfl_order_raise *raise; /* copied */
    uint64_t ring_ns;                    /* the boot clock when the ring began */
    uint64_t max_bytes;
    uint64_t delay_ms;
    /* The delay is over: begins a run, with the `done` and `user` of `begin`. An error ends the
     * copy; it was reported. */
    int (*begin_run)(void *user, struct pfl_order_copy *copy,
                     const struct pfl_segments_begin *begin, char ret_id[PFL_SEGMENT_ID_BYTES],
                     struct pfl_segments_op **ret_op);
    /* The run has its segment, or its gap; `why` "": a segment. */
    void (*on_done)(void *user, struct pfl_order_copy *copy, const char *why);
    /* Last callback; the node is removed from its list. */
    void (*on_closed)(void *user);
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_order_copy_open(const struct pfl_order_copy_conf *conf,
                                     struct pfl_order_copy **ret_copy);
/* on_closed follows. A copy under way is found by the next process as LOST. Idempotent. */
void pfl_order_copy_close(struct pfl_order_copy *self);
const struct pfl_order_raise *pfl_order_copy_get_raise(const struct pfl_order_copy *self);
/* For the owner's list. */
struct pfl_list *pfl_order_copy_get_node(struct pfl_order_copy *self);
struct pfl_order_copy *pfl_order_copy_of_node(struct pfl_list *node);

#endif
