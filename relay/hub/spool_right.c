/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights at hosts' spools: see spool_right.h. The collector is asked about first, so that nobody
 * else learns what others may. Owns nothing; cannot fail.
 */
#include "relay/hub/spool_right.h"

#include "perfleet/policy.fields.h"

void pfl_spool_right_decide(const struct pfl_peer_table *peers, const char *collector,
                            const char *orderer, const char *host,
                            struct pfl_spool_right *ret_right)
{
    struct pfl_policy_decision own;
    struct pfl_policy_decision theirs;

    pfl_peer_table_decide(peers, collector, host, &own);
    *ret_right = (struct pfl_spool_right){.collector = own, .role = own.role};
    if (own.wants_labels) {
        ret_right->verdict = PFL_SPOOL_WANTS_LABELS;
        return;
    }
    if (!pfl_policy_gives(&own, ROLE__COLLECT)) {
        ret_right->verdict = PFL_SPOOL_NO_COLLECTOR;
        return;
    }
    if (orderer == NULL)
        return;
    pfl_peer_table_decide(peers, orderer, host, &theirs);
    ret_right->role = theirs.role;
    if (theirs.wants_labels)
        ret_right->verdict = PFL_SPOOL_WANTS_LABELS;
    else if (!pfl_policy_gives(&theirs, ROLE__ORDER))
        ret_right->verdict = PFL_SPOOL_NO_ORDERER;
}
