/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of this host at work: kept on disk, and each that is to run has a session at the
 * tracing service, which writes segments. A session that ends, or a service that was restarted, is
 * followed by a new session; so is a reboot. The session of an order on a trigger is a ring, which
 * is copied when a trigger is raised here or at another host.
 */
#ifndef PFL_AGENT_ORDERS_PORT_H
#define PFL_AGENT_ORDERS_PORT_H

#include <uv.h>

#include "agent/daemon/alarm/alarm_watch_port.h"
#include "agent/daemon/order/host_orders.h"
#include "agent/daemon/order/order_files_port.h"
#include "agent/daemon/segment/segments_port.h"

struct pfl_orders;

struct pfl_orders_conf {
    uv_loop_t *loop;
    const char *dir;               /* borrowed until on_closed: of the segments, too */
    const char *socket;            /* likewise: the service's consumer socket */
    struct pfl_segments *segments; /* borrowed until on_closed */
    const char *const *labels;     /* "name=value", likewise */
    size_t labels_len;
    const char *host; /* likewise: this host's name */
    uint64_t tick_ms; /* 0: 1000 */
    uint64_t
        expire_ms; /* an order is removed when its collector has not put it so long; 0: never */
    /* Why this host's triggers of that name are not reported; NULL: they are. */
    const char *(*why_unwatched)(void *user, const char *trigger);
    /* pfl_orders_add_triggers has other ones now. */
    void (*on_triggers)(void *user);
    /* A trigger was raised here, and the order copies its ring: other hosts are to do so, too. */
    void (*on_raised)(void *user, const struct pfl_host_order *order,
                      const struct pfl_order_raise *raise);
    void (*on_changed)(void *user); /* an order, or its state */
    void (*on_closed)(void *user);  /* last callback */
    void *user;
};

/* Reads the folder: what is not an order that this user wrote is removed. PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_orders_open(const struct pfl_orders_conf *conf,
                                 struct pfl_orders **ret_orders);
/* Ends all sessions; on_closed follows. The orders stay on disk. */
void pfl_orders_close(struct pfl_orders *self);

/* As pfl_host_orders_put; takes `order`. `answer` follows from the loop when the order is on the
 * disk, unless `ret_keep` is cancelled: PFL_EIO: it cannot be kept, and is no order here;
 * PFL_ENOENT: it was removed meanwhile. Not at all when this fails. */
PFL_MUST_USE int pfl_orders_put(struct pfl_orders *self, Perfleet__HostOrder *order,
                                const struct pfl_order_answer *answer, char *ret_why,
                                struct pfl_order_keep **ret_keep);
/* PFL_ENOENT; PFL_EPERM: another collector's; PFL_ENOMEM, PFL_EIO: it stays. */
PFL_MUST_USE int pfl_orders_remove(struct pfl_orders *self, const char *collector,
                                   const char *orderer, const char *name);
/* Adds the triggers of the orders whose ring runs. */
void pfl_orders_add_triggers(const struct pfl_orders *self, struct pfl_alarm_watch_set *set);
/* A trigger was raised at this host. */
void pfl_orders_on_trigger(struct pfl_orders *self, const char *trigger);
/* One was raised at another host. PFL_ENOENT (no copy: `ret_why` says why), PFL_EPERM. */
struct pfl_orders_raised {
    const char *orderer;
    const char *name; /* of the order */
    struct pfl_order_raise event;
    struct pfl_span role; /* what the orderer may do here now; empty: anything */
};
PFL_MUST_USE int pfl_orders_raise(struct pfl_orders *self, const struct pfl_orders_raised *raised,
                                  char ret_why[PFL_ORDER_REASON_BYTES]);
/* For each of a collector's orders, until `each` returns other than 0; returns that. */
int pfl_orders_each(const struct pfl_orders *self, const char *collector,
                    int (*each)(void *user, const Perfleet__HostOrderState *state), void *user);
uint64_t pfl_orders_hash(const struct pfl_orders *self);
struct pfl_orders_figures {
    unsigned all;
    unsigned running;
    uint64_t unput_ms; /* the longest time for which a collector has not put one of them again */
    uint64_t expired;  /* since the start: removed, as it was too long */
};
void pfl_orders_get_figures(const struct pfl_orders *self, struct pfl_orders_figures *ret_figures);

#endif
