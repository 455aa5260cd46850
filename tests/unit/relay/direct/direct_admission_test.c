/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operator gets this host's consumer socket: connections, policy, quota, in this order.
 */
#include "relay/direct/direct_admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define RULE "rule { name: \"r\" operator: \"ann\" host: \"a\" "

static struct pfl_quotas quotas;
static struct pfl_policy *policy;
static struct pfl_direct_admission_conf question;
static struct pfl_direct_admission admission;

static int set_policy(const char *text)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_policy *old = policy;
    int rc = pfl_policy_parse(pfl_span_of(text, strlen(text)), why, &policy);

    if (rc != 0)
        return rc;
    pfl_policy_free(old);
    question.policy = policy;
    return 0;
}

static int setup(void **state)
{
    (void)state;
    pfl_quotas_init(&quotas);
    policy = NULL;
    question = (struct pfl_direct_admission_conf){.quotas = &quotas,
                                                  .operator_name = "ann",
                                                  .host = "a",
                                                  .max_connections = 2,
                                                  .now_ms = 1000,
                                                  .can_audit = true};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_policy_free(policy);
    pfl_quotas_fini(&quotas);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void without_a_policy_everybody_is_admitted_without_a_role(void **state)
{
    (void)state;
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
    assert_int_equal(admission.role.len, 0);
    assert_non_null(admission.quota);
    assert_null(admission.refusal.reason);
}

static void without_a_role_connections_have_a_rate_too(void **state)
{
    unsigned admitted = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * PFL_QUOTA_STREAMS_AT_ONCE; i++) {
        pfl_direct_admission_decide(&question, &admission);
        admitted += admission.status == 0;
    }
    assert_int_equal(admitted, PFL_QUOTA_STREAMS_AT_ONCE);
    assert_int_equal(admission.status, 429);
    assert_string_equal(admission.refusal.reason, "this operator connects too often");
    question.operator_name = "bob";
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
}

static void without_an_audit_log_nobody_is_admitted(void **state)
{
    (void)state;
    question.can_audit = false;
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 503);
    assert_null(admission.quota);
    assert_string_equal(admission.refusal.reason, "this relay cannot write its audit log");
    assert_string_equal(admission.refusal.remedy, "free space on its disk, or set audit_optional");
}

static void an_operator_has_so_many_connections_and_no_more(void **state)
{
    (void)state;
    question.connections = 1;
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
    question.connections = 2;
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 429);
    assert_string_equal(admission.refusal.reason, "too many connections of this operator");
    assert_string_equal(admission.refusal.remedy, "close some");
    /* The policy is not asked then. */
    assert_int_equal(set_policy(""), 0);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 429);
}

static void without_a_rule_nobody_is_admitted(void **state)
{
    (void)state;
    assert_int_equal(set_policy(RULE "}"), 0);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
    question.host = "b";
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 403);
    assert_string_equal(admission.refusal.reason,
                        "no rule of the policy lets this operator use this host");
    assert_string_equal(admission.refusal.remedy, "add one to the policy, then SIGHUP");
    assert_null(admission.quota);
}

static void a_role_comes_with_a_stream_of_its_quota(void **state)
{
    (void)state;
    assert_int_equal(
        set_policy(RULE "role: \"x\" } role { name: \"x\" method: \"Query*\" max_streams: 1 }"), 0);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
    assert_true(admission.role.len != 0);
    assert_non_null(admission.quota);
    assert_int_equal(admission.quota->streams, 1);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 429);
    assert_string_equal(admission.refusal.reason,
                        "this operator's role gives no more streams at the moment");
    assert_string_equal(admission.refusal.remedy, "close some, or wait");
    assert_null(admission.quota);
    assert_int_equal(admission.role.len, 0);
}

static void each_connection_is_a_new_stream_of_its_minute(void **state)
{
    (void)state;
    assert_int_equal(
        set_policy(RULE "role: \"x\" } role { name: \"x\" max_new_streams_per_min: 1 }"), 0);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 429);
    question.now_ms += 60000;
    pfl_direct_admission_decide(&question, &admission);
    assert_int_equal(admission.status, 0);
}

static void another_policy_moves_the_stream_to_the_quota_of_its_role(void **state)
{
    struct pfl_quota *old;

    (void)state;
    assert_int_equal(set_policy(RULE "role: \"x\" } role { name: \"x\" max_streams: 1 }"), 0);
    pfl_direct_admission_decide(&question, &admission);
    old = admission.quota;
    question.connections = 2; /* does not count for one that is there */
    assert_int_equal(
        set_policy(RULE "role: \"y\" } role { name: \"y\" method: \"Query*\" max_streams: 1 }"), 0);
    pfl_direct_admission_review(&question, old, &admission);
    assert_int_equal(admission.status, 0);
    assert_ptr_not_equal(admission.quota, old);
    assert_string_equal(admission.quota->role, "y");
    assert_true(admission.role.len != 0);
    assert_int_equal(old->streams, 0);
    assert_int_equal(admission.quota->streams, 1);
}

static void a_quota_stays_when_there_is_no_role_and_none_comes_later(void **state)
{
    struct pfl_quota *quota;

    (void)state;
    assert_int_equal(set_policy(RULE "role: \"x\" } role { name: \"x\" max_streams: 1 }"), 0);
    pfl_direct_admission_decide(&question, &admission);
    quota = admission.quota;
    assert_int_equal(set_policy(RULE "}"), 0);
    pfl_direct_admission_review(&question, quota, &admission);
    assert_int_equal(admission.status, 0);
    assert_ptr_equal(admission.quota, quota);
    assert_int_equal(quota->streams, 1);
}

static void a_policy_that_forbids_leaves_the_quota_to_be_closed(void **state)
{
    struct pfl_quota *quota;

    (void)state;
    assert_int_equal(set_policy(RULE "role: \"x\" } role { name: \"x\" max_streams: 1 }"), 0);
    pfl_direct_admission_decide(&question, &admission);
    quota = admission.quota;
    assert_int_equal(set_policy(""), 0);
    pfl_direct_admission_review(&question, quota, &admission);
    assert_int_equal(admission.status, 403);
    assert_ptr_equal(admission.quota, quota);
    assert_int_equal(quota->streams, 1);
}

static int admit(void *arg)
{
    int rc;

    (void)setup(arg);
    rc = set_policy(RULE "role: \"x\" } role { name: \"x\" max_streams: 1 }");
    if (rc == 0) {
        pfl_direct_admission_decide(&question, &admission);
        rc = admission.quota == NULL ? PFL_ENOMEM : 0;
        assert_int_equal(admission.status, rc == 0 ? 0 : 429);
    }
    pfl_policy_free(policy);
    pfl_quotas_fini(&quotas);
    return rc;
}

static void without_memory_for_a_quota_nobody_is_admitted(void **state)
{
    (void)state;
    pfl_sweep(admit, NULL, true);
    (void)setup(NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(without_a_policy_everybody_is_admitted_without_a_role),
        T(without_a_role_connections_have_a_rate_too),
        T(without_an_audit_log_nobody_is_admitted),
        T(an_operator_has_so_many_connections_and_no_more),
        T(without_a_rule_nobody_is_admitted),
        T(a_role_comes_with_a_stream_of_its_quota),
        T(each_connection_is_a_new_stream_of_its_minute),
        T(another_policy_moves_the_stream_to_the_quota_of_its_role),
        T(a_quota_stays_when_there_is_no_role_and_none_comes_later),
        T(a_policy_that_forbids_leaves_the_quota_to_be_closed),
        T(without_memory_for_a_quota_nobody_is_admitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
