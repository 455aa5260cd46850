/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of this host at work: kept on disk, and each that is to run has a session at the
 * tracing service, which writes segments. A session that ends, or a service that was restarted, is
 * followed by a new session; so is a reboot.
 */
#ifndef PFL_AGENT_ORDERS_PORT_H
#define PFL_AGENT_ORDERS_PORT_H

#include <uv.h>

#include "agent/daemon/order/order_book.h"
#include "agent/daemon/segment/segments_port.h"

#define PFL_ORDERS_STOP_MS 10000u /* a session that does not end is left */

struct pfl_orders;

struct pfl_orders_conf {
    uv_loop_t *loop;
    const char *dir;               /* borrowed until on_closed: of the segments, too */
    const char *socket;            /* likewise: the service's consumer socket */
    struct pfl_segments *segments; /* borrowed until on_closed */
    const char *const *labels;     /* "name=value", likewise */
    size_t labels_len;
    uint64_t tick_ms;               /* 0: 1000 */
    void (*on_changed)(void *user); /* an order, or its state */
    void (*on_closed)(void *user);  /* last callback */
    void *user;
};

/* Reads the folder: what is not an order that this user wrote is removed. PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_orders_open(const struct pfl_orders_conf *conf,
                                 struct pfl_orders **ret_orders);
/* Ends all sessions; on_closed follows. The orders stay on disk. */
void pfl_orders_close(struct pfl_orders *self);

/* As pfl_order_book_put; PFL_EIO: it cannot be kept on disk. Takes `order`. */
PFL_MUST_USE int pfl_orders_put(struct pfl_orders *self, Perfleet__HostOrder *order, char *ret_why);
/* PFL_ENOENT; PFL_EPERM: another collector's. */
PFL_MUST_USE int pfl_orders_remove(struct pfl_orders *self, const char *collector,
                                   const char *orderer, const char *name);
/* For each of a collector's orders, until `each` returns other than 0; returns that. */
int pfl_orders_each(const struct pfl_orders *self, const char *collector,
                    int (*each)(void *user, const Perfleet__HostOrderState *state), void *user);
uint64_t pfl_orders_hash(const struct pfl_orders *self);
/* All, and those that run. */
void pfl_orders_count(const struct pfl_orders *self, unsigned *ret_all, unsigned *ret_running);

#endif
