/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy says about a collector at a host, alone or for an operator who has orders there.
 * A core. */
#ifndef PFL_RELAY_HUB_SPOOL_RIGHT_H
#define PFL_RELAY_HUB_SPOOL_RIGHT_H

#include "relay/hub/peer_table.h"

enum pfl_spool_verdict {
    PFL_SPOOL_ALLOWED,
    PFL_SPOOL_WANTS_LABELS, /* not yet: the host has not sent them */
    PFL_SPOOL_NO_COLLECTOR, /* the collector may not collect there */
    PFL_SPOOL_NO_ORDERER,   /* the orderer may not put orders there */
};

struct pfl_spool_right {
    enum pfl_spool_verdict verdict;
    struct pfl_policy_decision collector;
    struct pfl_span role; /* that the agent must enforce; borrowed from the policy; empty: none */
};

/* `orderer` NULL: the collector for itself. */
void pfl_spool_right_decide(const struct pfl_peer_table *peers, const char *collector,
                            const char *orderer, const char *host,
                            struct pfl_spool_right *ret_right);

#endif
