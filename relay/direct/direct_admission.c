/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to the consumer socket: see direct_admission.h. Checks the operator's connections, the
 * policy and the quota, in this order; the first refusal is the reason. Owns nothing. Limits:
 * max_connections, quota.h's.
 */
#include "relay/direct/direct_admission.h"

static void decide(const struct pfl_direct_admission_conf *conf,
                   struct pfl_policy_decision *ret_decision)
{
    struct pfl_policy_question question = {.operator_name = conf->operator_name,
                                           .host = conf->host};

    pfl_policy_decide(conf->policy, &question, ret_decision);
}

static struct pfl_direct_admission refuse(unsigned status, const char *reason, const char *remedy)
{
    return (struct pfl_direct_admission){.status = status,
                                         .refusal = {.reason = reason, .remedy = remedy}};
}

static struct pfl_direct_admission refuse_forbidden(void)
{
    return refuse(403, "no rule of the policy lets this operator use this host",
                  "add one to the policy, then SIGHUP");
}

static struct pfl_quota *open_quota(const struct pfl_direct_admission_conf *conf,
                                    struct pfl_span rates)
{
    struct pfl_quota *quota =
        pfl_quotas_get(conf->quotas, conf->operator_name, rates, conf->now_ms);

    return quota != NULL && pfl_quota_try_open(quota, PFL_QUOTA_NEW, conf->now_ms) ? quota : NULL;
}

void pfl_direct_admission_refuse_unaudited(struct pfl_direct_admission *ret_admission)
{
    *ret_admission = refuse(503, "this relay cannot write its audit log",
                            "free space on its disk, or set audit_optional");
}

void pfl_direct_admission_decide(const struct pfl_direct_admission_conf *conf,
                                 struct pfl_direct_admission *ret_admission)
{
    struct pfl_policy_decision decision;

    if (conf->connections >= conf->max_connections) {
        *ret_admission = refuse(429, "too many connections of this operator", "close some");
        return;
    }
    decide(conf, &decision);
    if (!decision.is_allowed) {
        *ret_admission = refuse_forbidden();
        return;
    }
    if (!conf->can_audit) {
        pfl_direct_admission_refuse_unaudited(ret_admission);
        return;
    }
    *ret_admission = (struct pfl_direct_admission){.role = decision.role};
    ret_admission->quota = open_quota(conf, decision.rates);
    if (ret_admission->quota == NULL && decision.rates.len != 0)
        *ret_admission = refuse(429, "this operator's role gives no more streams at the moment",
                                "close some, or wait");
    else if (ret_admission->quota == NULL)
        *ret_admission = refuse(429, "this operator connects too often",
                                "wait, or ask for a role with max_new_streams_per_min");
}

void pfl_direct_admission_review(const struct pfl_direct_admission_conf *conf,
                                 struct pfl_quota *quota,
                                 struct pfl_direct_admission *ret_admission)
{
    struct pfl_policy_decision decision;

    decide(conf, &decision);
    if (!decision.is_allowed) {
        *ret_admission = refuse_forbidden();
        ret_admission->quota = quota;
        return;
    }
    *ret_admission = (struct pfl_direct_admission){.role = decision.role, .quota = quota};
    if (decision.rates.len != 0)
        ret_admission->quota = pfl_quotas_move(conf->quotas, quota, decision.rates, conf->now_ms);
}
