/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator may do at a host, by its name and the labels that it had. */
#include "collector/serve/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/message.h"
#include "perfleet/policy.fields.h"
#include "perfleet/segment.fields.h"
#include "proto/gate/policy.h"
#include "tests/support/sweep.h"

static const char text[] =
    "rule { name: \"db\" operator: \"ann\" host: \"db*\" role: \"none\" }\n"
    "rule { name: \"web\" operator: \"ann\" host: \"*\" label: \"role=web*\" role: \"reader\" }\n"
    "role { name: \"none\" }\n"
    "role { name: \"reader\" traces: true }\n";

static struct pfl_scope *make(const char *policy, const char *operator_name)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_scope *scope = NULL;

    assert_int_equal(pfl_scope_new(pfl_span_of(policy, strlen(policy)), operator_name, why, &scope),
                     0);
    return scope;
}

static bool gives(const struct pfl_scope *scope, uint32_t right, const char *name,
                  const char *label)
{
    struct pfl_scope_host host = {.name = name, .has_no_labels = label == NULL};
    struct pfl_message m;
    struct pfl_buf labels;
    bool is_given;

    pfl_buf_init(&labels, 4096);
    m = pfl_message_of(&labels);
    pfl_message_str(&m, SEGMENT__HOST, "what is no label is passed over");
    if (label != NULL)
        pfl_message_str(&m, SEGMENT__LABEL, label);
    assert_int_equal(m.rc, 0);
    host.labels = pfl_buf_get(&labels);
    is_given = pfl_scope_gives(scope, right, &host);
    pfl_buf_fini(&labels);
    return is_given;
}

static void labels_decide(void **state)
{
    struct pfl_scope *scope = make(text, "ann");

    (void)state;
    assert_true(gives(scope, ROLE__TRACES, "a", "role=web"));
    assert_true(gives(scope, ROLE__TRACES, "a", "role=web-2"));
    assert_false(gives(scope, ROLE__TRACES, "a", "role=we"));
    assert_false(gives(scope, ROLE__TRACES, "a", "roles=web"));
    assert_false(gives(scope, ROLE__TRACES, "a", "rol=web"));
    assert_false(gives(scope, ROLE__TRACES, "a", "role"));
    assert_false(gives(scope, ROLE__TRACES, "a", NULL));
    assert_false(gives(scope, ROLE__MANAGE_TRACES, "a", "role=web"));
    pfl_scope_free(scope);
}

static void the_first_rule_decides(void **state)
{
    struct pfl_scope *scope = make(text, "ann");

    (void)state;
    assert_false(gives(scope, ROLE__TRACES, "db1", "role=web"));
    assert_true(pfl_scope_gives_anywhere(scope, ROLE__TRACES));
    assert_false(pfl_scope_gives_anywhere(scope, ROLE__ORDER));
    pfl_scope_free(scope);
}

static void another_operators_rules_are_not_ours(void **state)
{
    struct pfl_scope *scope = make(text, "eve");

    (void)state;
    assert_false(gives(scope, ROLE__TRACES, "a", "role=web"));
    assert_false(pfl_scope_gives_anywhere(scope, ROLE__TRACES));
    pfl_scope_free(scope);
}

static void an_empty_scope_allows_nothing(void **state)
{
    struct pfl_scope *scope = make("", "ann");

    (void)state;
    assert_false(gives(scope, ROLE__TRACES, "a", "role=web"));
    assert_false(pfl_scope_gives_anywhere(scope, ROLE__TRACES));
    pfl_scope_free(scope);
}

static void a_rule_without_a_role_allows_all(void **state)
{
    struct pfl_scope *scope = make("rule { name: \"all\" operator: \"ann\" host: \"*\" }", "ann");

    (void)state;
    assert_true(gives(scope, ROLE__TRACES, "a", NULL));
    assert_true(gives(scope, ROLE__MANAGE_TRACES, "a", "x=y"));
    assert_true(gives(scope, ROLE__ORDER, "a", NULL));
    pfl_scope_free(scope);
}

/* Cut, it could fit a pattern that the whole one does not fit; left out, a later rule would
 * decide. */
/* As many as a host may have; those of a trace that was stored before that was checked, too. */
static void labels_behind_the_64th_give_nothing(void **state)
{
    struct pfl_scope *scope = make(text, "ann");
    struct pfl_scope *other = make("rule { name: \"all\" operator: \"ann\" host: \"*\" }\n", "ann");

    (void)state;
    for (unsigned before = 62; before <= 65; before++) {
        for (int is_last = 0; is_last < 2; is_last++) {
            uint64_t work = 0;
            struct pfl_scope_host host = {.name = "a", .work = &work};
            struct pfl_buf labels;
            struct pfl_message m;

            pfl_buf_init(&labels, 4096);
            m = pfl_message_of(&labels);
            for (unsigned i = 0; i < before; i++)
                pfl_message_str(&m, SEGMENT__LABEL, "x=y");
            pfl_message_str(&m, SEGMENT__LABEL, "role=web");
            pfl_message_str(&m, SEGMENT__LABEL, "x=y");
            host.labels = pfl_buf_get(&labels);
            if (is_last)
                host.labels.len -= 5;
            assert_int_equal(pfl_scope_gives(scope, ROLE__TRACES, &host), before < 64);
            assert_in_range(work, 4, 16); /* however many there are */
            assert_true(pfl_scope_gives(other, ROLE__TRACES, &host));
            pfl_buf_fini(&labels);
        }
    }
    pfl_scope_free(scope);
    pfl_scope_free(other);
}

static void work_grows_with_the_rules(void **state)
{
    static char rules[65 * 80];
    struct pfl_scope *scope;
    uint64_t work = 0;
    struct pfl_scope_host host = {.name = "a", .work = &work};
    size_t len = 0;

    (void)state;
    for (int i = 0; i < 64; i++)
        len +=
            (size_t)snprintf(rules + len, sizeof(rules) - len,
                             "rule { name: \"r%d\" operator: \"ann\" host: \"*\" label: \"r=%d\" "
                             "}\n",
                             i, i);
    scope = make(rules, "ann");
    assert_false(pfl_scope_gives(scope, ROLE__TRACES, &host));
    assert_in_range(work, 3 * 64, 4 * 64);
    pfl_scope_free(scope);
}

static void a_label_that_is_too_long_to_judge_gives_nothing(void **state)
{
    static const char two[] =
        "rule { name: \"no\" operator: \"ann\" host: \"*\" label: \"role=*x\" role: \"none\" }\n"
        "rule { name: \"all\" operator: \"ann\" host: \"*\" }\n"
        "role { name: \"none\" }\n";
    struct pfl_scope *scope = make(two, "ann");
    char label[PFL_SCOPE_LABEL_BYTES + 8] = "role=";

    (void)state;
    memset(label + 5, 'x', sizeof(label) - 6);
    assert_false(gives(scope, ROLE__TRACES, "a", label));
    label[5 + PFL_SCOPE_LABEL_BYTES - 1] = '\0';
    assert_false(gives(scope, ROLE__TRACES, "a", label));
    label[5 + PFL_SCOPE_LABEL_BYTES - 2] = 'y';
    assert_true(gives(scope, ROLE__TRACES, "a", label));
    pfl_scope_free(scope);
}

static void what_is_no_policy_is_refused(void **state)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_scope *scope = NULL;

    (void)state;
    assert_int_equal(pfl_scope_new(pfl_span_of("rule {", 6), "ann", why, &scope), PFL_EPARSE);
    assert_null(scope);
    pfl_scope_free(NULL);
}

static int make_and_free(void *arg)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_scope *scope = NULL;
    int rc = pfl_scope_new(pfl_span_of(text, sizeof(text) - 1), "ann", why, &scope);

    (void)arg;
    pfl_scope_free(scope);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_and_free, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_decide),
        cmocka_unit_test(the_first_rule_decides),
        cmocka_unit_test(another_operators_rules_are_not_ours),
        cmocka_unit_test(an_empty_scope_allows_nothing),
        cmocka_unit_test(a_rule_without_a_role_allows_all),
        cmocka_unit_test(a_label_that_is_too_long_to_judge_gives_nothing),
        cmocka_unit_test(labels_behind_the_64th_give_nothing),
        cmocka_unit_test(work_grows_with_the_rules),
        cmocka_unit_test(what_is_no_policy_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
