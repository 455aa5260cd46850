/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operator gets the consumer socket of this host, and under which role and quota. A
 * core. */
#ifndef PFL_RELAY_DIRECT_DIRECT_ADMISSION_H
#define PFL_RELAY_DIRECT_DIRECT_ADMISSION_H

#include "proto/gate/policy.h"
#include "proto/tunnel/identity.h"
#include "relay/policy/quota.h"

struct pfl_direct_admission_conf {
    const struct pfl_policy *policy; /* NULL: everything is allowed */
    struct pfl_quotas *quotas;
    const char *operator_name;
    const char *host;     /* ours */
    unsigned connections; /* of the operator */
    unsigned max_connections;
    uint64_t now_ms;
    bool can_audit;
};

struct pfl_direct_admission {
    unsigned status; /* 0: permitted; 403, 429, 503: refused */
    struct pfl_identity_refusal refusal;
    struct pfl_span role;    /* the operator's; empty: none. Borrowed from the policy */
    struct pfl_quota *quota; /* one stream of it is taken until pfl_quota_close; NULL: refused */
};

/* Why nobody is admitted whose connection cannot be audited. */
void pfl_direct_admission_refuse_unaudited(struct pfl_direct_admission *ret_admission);
void pfl_direct_admission_decide(const struct pfl_direct_admission_conf *conf,
                                 struct pfl_direct_admission *ret_admission);
/* The same for an existing connection with its quota, after the policy changed. `connections` do
 * not count. The quota is kept, with the rates of the new role if there is one. */
void pfl_direct_admission_review(const struct pfl_direct_admission_conf *conf,
                                 struct pfl_quota *quota,
                                 struct pfl_direct_admission *ret_admission);

#endif
