/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards a trigger that one host raised to every other host that its operator may use, also to
 * those that connect within ten minutes; hosts that have the alarm, or the order, make their copy.
 * Of many hosts a few get it at a time, the next ones with an answer or with any other event of an
 * agent: a host that raises all the time holds nobody up. A core.
 */
#ifndef PFL_RELAY_HUB_TRIGGER_PASSING_H
#define PFL_RELAY_HUB_TRIGGER_PASSING_H

#include "base/token_bucket.h"
#include "relay/hub/peer_table.h"
#include "relay/hub/trigger_log.h"

/* Hosts that get triggers in one turn of the loop; and, of all together, at once and per second. */
#define PFL_TRIGGER_PASSING_HOSTS   64u
#define PFL_TRIGGER_PASSING_AT_ONCE 16384u
#define PFL_TRIGGER_PASSING_PER_S   5000u

struct pfl_trigger_passing {
    struct pfl_peer_table *peers; /* borrowed */
    struct pfl_trigger_log log;
    struct pfl_list waiting;        /* agents that have not got the last ones; borrowed */
    uint64_t listed;                /* the last trigger for which agents were put there */
    unsigned hosts;                 /* in one turn: PFL_TRIGGER_PASSING_HOSTS */
    struct pfl_token_bucket budget; /* in triggers for a host */
};

void pfl_trigger_passing_init(struct pfl_trigger_passing *self, struct pfl_peer_table *peers);
/* Takes a trigger that a host raised (trigger_log.h), and forwards it. */
void pfl_trigger_passing_raise(struct pfl_trigger_passing *self,
                               const struct pfl_trigger_log_entry *raised);
/* Whether triggers of the operator count that are raised at this host: of an alarm if the operator
 * may use it, of an order if the operator may order there. They are forwarded to such hosts alone.
 */
bool pfl_trigger_passing_may(const struct pfl_peer_table *peers, const char *operator_name,
                             const char *host, bool is_order);
/* Sends this agent the triggers that it has not got yet, one after the other, and continues with
 * others that wait. Legal at any time. */
void pfl_trigger_passing_next(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent);

#endif
