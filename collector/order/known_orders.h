/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of the index as they were read last, each checked, with the rounds of those that have
 * a schedule. Pure.
 *
 *     pfl_known_orders_begin(table);
 *     ... pfl_known_orders_add(table, &row, why) ...   // each order of the index
 *     has_changed = pfl_known_orders_end(table, is_whole);
 */
#ifndef PFL_COLLECTOR_ORDER_KNOWN_ORDERS_H
#define PFL_COLLECTOR_ORDER_KNOWN_ORDERS_H

#include "collector/index/index.h"
#include "proto/order/order.h"
#include "proto/order/schedule.h"
#include "proto/tunnel/identity.h"

#define PFL_KNOWN_ORDERS_MAX 1024u /* orders; more are ignored */

/* An order of one generation: it does not change. Counted: valid while a reference is held. */
struct pfl_known_order {
    unsigned refs;
    Perfleet__Order *order;       /* owned; as hosts get it: without `paused` */
    struct pfl_order_terms terms; /* of it */
    uint32_t generation;
    bool is_paused;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

void pfl_known_order_ref(struct pfl_known_order *entry);
void pfl_known_order_unref(struct pfl_known_order *entry); /* NULL is legal */

/* What is known of an order's rounds. */
enum pfl_known_rounds {
    PFL_KNOWN_ROUNDS_NONE = 0, /* it has no schedule */
    PFL_KNOWN_ROUNDS_UNREAD,   /* read them from the index */
    PFL_KNOWN_ROUNDS_SAVED,    /* as in the index: runs may be given out */
    PFL_KNOWN_ROUNDS_UNSAVED,  /* hosts were chosen: save them before a run is given out */
};

struct pfl_known_orders_slot {
    struct pfl_known_order *entry; /* a reference */
    struct pfl_schedule *schedule; /* owned; NULL while unread, or without one */
    uint64_t version;              /* of the rounds in the index; 0: none are there */
    enum pfl_known_rounds rounds;
    bool is_seen; /* since begin */
};

struct pfl_known_orders {
    struct pfl_known_orders_slot *slots[PFL_KNOWN_ORDERS_MAX]; /* owned; by orderer and name */
    size_t len;
    bool has_changed; /* since begin */
};

void pfl_known_orders_fini(struct pfl_known_orders *self); /* legal on zeroed memory */

void pfl_known_orders_begin(struct pfl_known_orders *self);
/* PFL_EPARSE: it is no order that a host could have, and counts as removed, `ret_why`
 * (PFL_ORDER_WHY_BYTES) says why; PFL_ELIMIT; PFL_ENOMEM. */
PFL_MUST_USE int pfl_known_orders_add(struct pfl_known_orders *self,
                                      const struct pfl_index_order *row, char *ret_why);
/* `is_whole`: orders that were not added are removed. True: the orders are others than before. */
bool pfl_known_orders_end(struct pfl_known_orders *self, bool is_whole);

/* NULL: there is none. Borrowed until the next begin. */
struct pfl_known_orders_slot *pfl_known_orders_find(const struct pfl_known_orders *self,
                                                    const char *orderer, const char *name);
/* The rounds as the index has them. `version` 0, or what is none: the schedule begins with `seed`
 * now. PFL_ENOMEM. */
PFL_MUST_USE int pfl_known_orders_set_rounds(struct pfl_known_orders_slot *slot, uint64_t version,
                                             struct pfl_span rounds_untrusted, uint64_t seed,
                                             uint64_t now_unix_ms);

#endif
