/* SPDX-License-Identifier: Apache-2.0 */
/* Brings the orders of the index to the hosts that they fit, and what hosts say of them back. */
#ifndef PFL_COLLECTOR_ORDER_ROLLOUT_PORT_H
#define PFL_COLLECTOR_ORDER_ROLLOUT_PORT_H

#include "collector/engines/engines_port.h"
#include "collector/order/known_orders_port.h"
#include "collector/order/rollout.h"
#include "collector/order/rollout_turn.h"
#include "collector/relay/relays_port.h"

#define PFL_ROLLOUT_POLL_MS 5000u /* the index is read so often: others may change it */

struct pfl_rollout_port;

struct pfl_rollout_port_conf {
    uv_loop_t *loop;
    struct pfl_engines *engines; /* borrowed until close returns */
    struct pfl_relays *relays;   /* borrowed until close returns */
    unsigned turns_max;          /* at most PFL_ROLLOUT_TURNS_MAX */
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_rollout_port_open(const struct pfl_rollout_port_conf *conf,
                                       struct pfl_rollout_port **ret_port);
/* What a relay says, as struct pfl_relays_conf has it. */
void pfl_rollout_port_on_host(struct pfl_rollout_port *self, unsigned relay,
                              const struct pfl_spool_host *host);
void pfl_rollout_port_on_listed(struct pfl_rollout_port *self, unsigned relay, bool is_whole);
void pfl_rollout_port_on_relay_lost(struct pfl_rollout_port *self, unsigned relay);
/* Leases of another collector are void. */
void pfl_rollout_port_on_collector_lost(struct pfl_rollout_port *self);
/* Segments of that host were taken. */
void pfl_rollout_port_on_visited(struct pfl_rollout_port *self, const char *host);
/* An order in the index was changed here: it is read now. */
void pfl_rollout_port_on_orders(struct pfl_rollout_port *self);

struct pfl_rollout_port_figures {
    struct pfl_rollout_figures rollout;
    struct pfl_rollout_turn_figures turns; /* of all so far */
};
void pfl_rollout_port_get_figures(const struct pfl_rollout_port *self,
                                  struct pfl_rollout_port_figures *ret_figures);

/* Begins no more work; NULL is legal. Works of the engines may still be under way: then close the
 * engines, which waits for them, and only then call pfl_rollout_port_close. */
void pfl_rollout_port_stop(struct pfl_rollout_port *self);
/* Frees it in the loop's next turns; NULL is legal. */
void pfl_rollout_port_close(struct pfl_rollout_port *self);

#endif
