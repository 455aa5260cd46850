/* SPDX-License-Identifier: Apache-2.0 */
/* Reads orders and rounds of the index into a rollout, and saves the rounds of schedules. */
#ifndef PFL_COLLECTOR_ORDER_KNOWN_ORDERS_PORT_H
#define PFL_COLLECTOR_ORDER_KNOWN_ORDERS_PORT_H

#include "collector/engines/engines_port.h"
#include "collector/order/rollout.h"

#define PFL_KNOWN_ORDERS_READ_BYTES (16u << 20) /* all orders together; the rounds of one */

struct pfl_known_orders_port;

struct pfl_known_orders_port_conf {
    struct pfl_engines *engines;    /* borrowed until they are closed */
    struct pfl_rollout *rollout;    /* borrowed until free */
    void (*on_changed)(void *user); /* something was read, or saved */
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_known_orders_port_new(const struct pfl_known_orders_port_conf *conf,
                                           struct pfl_known_orders_port **ret_port);
/* After engines are closed; NULL is legal. */
void pfl_known_orders_port_free(struct pfl_known_orders_port *self);
/* Reads the orders, also after a failure. */
void pfl_known_orders_port_read(struct pfl_known_orders_port *self);
/* Hosts may have been chosen: reads and saves rounds, unless something failed since the last read.
 */
void pfl_known_orders_port_continue(struct pfl_known_orders_port *self);
/* The orders were read once: before, nobody knows what hosts should have. */
bool pfl_known_orders_port_is_read(const struct pfl_known_orders_port *self);
/* Begins no more work, and calls nobody. Before engines are closed. */
void pfl_known_orders_port_stop(struct pfl_known_orders_port *self);

#endif
