/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: who may use which hosts; what is no policy. */
#include "perfleet/policy.fields.h"
#include "proto/gate/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gate/role.h"
#include "tests/support/sweep.h"

static char why[PFL_POLICY_WHY_BYTES];

static int parse(const char *text, struct pfl_policy **ret_policy)
{
    return pfl_policy_parse(pfl_span_of(text, strlen(text)), why, ret_policy);
}

static bool allows(const struct pfl_policy *p, const char *operator_name, const char *host)
{
    struct pfl_policy_question q = {.operator_name = operator_name, .host = host};
    struct pfl_policy_decision d;

    pfl_policy_decide(p, &q, &d);
    return d.is_allowed;
}

static void what_no_rule_allows_is_refused(void **state)
{
    static const char text[] = "# web people\n"
                               "rule { name: \"web\" operator: \"ann\" operator: \"web-*\"\n"
                               "       host: \"web-*\" host: \"db-1\" }\n"
                               "rule { name: \"all\" operator: \"root\" host: \"*\" }\n";
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse(text, &p), 0);
    assert_true(allows(p, "ann", "web-3"));
    assert_true(allows(p, "web-jo", "db-1"));
    assert_true(allows(p, "root", "db-2"));
    assert_false(allows(p, "ann", "db-2"));
    assert_false(allows(p, "ann", "xweb-3"));
    assert_false(allows(p, "anna", "web-3"));
    assert_false(allows(p, "web", "web-3"));
    assert_false(allows(p, "all", "web-3"));
    pfl_policy_free(p);
    assert_int_equal(parse("", &p), 0);
    assert_false(allows(p, "root", "a"));
    pfl_policy_free(p);
    assert_true(allows(NULL, "guest", "a"));
    pfl_sweep_assert_no_leak();
}

static void stars_stand_for_anything(void **state)
{
    static const struct {
        const char *pattern;
        const char *name;
        bool is_match;
    } cases[] = {
        {"*", "a", true},
        {"a*", "a", true},
        {"*a", "a", true},
        {"a*b*c", "abc", true},
        {"a*b*c", "axbybc", true},
        {"a*b*c", "acb", false},
        {"a**b", "ab", true},
        {"*ab*", "xaab", true},
        {"*.x", "a.x.y", false},
        {"*.x.*", "a.x.y", true},
        {"a", "ab", false},
        {"ab", "a", false},
        {"*aaaab", "aaaaaaaaaaaab", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200] = "rule { name: \"r\" operator: \"o\" host: \"";
        struct pfl_policy *p;

        strncat(text, cases[i].pattern, 60);
        strncat(text, "\" }", 4);
        assert_int_equal(parse(text, &p), 0);
        if (allows(p, "o", cases[i].name) != cases[i].is_match)
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
        pfl_policy_free(p);
    }
}

static const char *get_label(void *user, struct pfl_span name)
{
    (void)user;
    if (name.len == 4 && memcmp(name.data, "role", 4) == 0)
        return "web";
    return name.len == 4 && memcmp(name.data, "zone", 4) == 0 ? "b/1" : NULL;
}

static struct pfl_policy_decision decide(const struct pfl_policy *p, const char *operator_name,
                                         bool has_labels)
{
    struct pfl_policy_question q = {.operator_name = operator_name,
                                    .host = "h",
                                    .get_label = get_label,
                                    .has_no_labels_yet = !has_labels};
    struct pfl_policy_decision d;

    pfl_policy_decide(p, &q, &d);
    return d;
}

static void labels_and_roles_decide_and_the_first_rule_that_fits_does(void **state)
{
    static const char text[] =
        "rule { name: \"a\" operator: \"ann\" host: \"*\" label: \"role=w*\" label: \"zone=b/*\"\n"
        "       role: \"look\" }\n"
        "rule { name: \"b\" operator: \"bob\" host: \"*\" label: \"role=db\" }\n"
        "rule { name: \"c\" operator: \"bob\" host: \"*\" label: \"tier=*\" }\n"
        "rule { name: \"d\" operator: \"*\" host: \"*\" role: \"little\" }\n"
        "role { name: \"look\" method: \"Query*\" max_streams: 2 }\n"
        "role { name: \"little\" max_buffer_kb: 64 }\n";
    struct pfl_policy_decision d;
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse(text, &p), 0);
    assert_int_equal(pfl_policy_count_rules(p), 4);
    assert_int_equal(pfl_policy_count_roles(p), 2);
    d = decide(p, "ann", true);
    assert_true(d.is_allowed);
    assert_memory_equal(pfl_role_get_name(d.role).data, "look", 4);
    assert_int_equal(pfl_role_get_number(d.rates, ROLE__MAX_STREAMS), 2);
    assert_int_equal(pfl_role_get_number(d.role, ROLE__MAX_STREAMS), 0);
    d = decide(p, "bob", true);
    assert_true(d.is_allowed);
    assert_memory_equal(pfl_role_get_name(d.role).data, "little", 6);
    /* Before the labels are said a rule with labels may be the one that decides. */
    d = decide(p, "ann", false);
    assert_false(d.is_allowed);
    assert_true(d.wants_labels);
    d = decide(p, "eve", false);
    assert_true(d.is_allowed);
    pfl_policy_free(p);
    pfl_sweep_assert_no_leak();
}

/* Forgetting hosts is between operator and relay: agents that know no such field never see it. */
static void what_a_role_may_forget_stays_with_the_relay(void **state)
{
    static const char text[] = "rule { name: \"a\" operator: \"ann\" host: \"*\" role: \"may\" }\n"
                               "rule { name: \"b\" operator: \"bob\" host: \"*\" role: \"no\" }\n"
                               "role { name: \"may\" forget: true }\n"
                               "role { name: \"no\" forget: false max_streams: 1 }\n";
    struct pfl_policy_decision d;
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse(text, &p), 0);
    d = decide(p, "ann", true);
    assert_int_equal(pfl_role_get_number(d.rates, ROLE__FORGET), 1);
    assert_false(pfl_role_has(d.role, ROLE__FORGET));
    assert_null(pfl_role_check(d.role, false));
    d = decide(p, "bob", true);
    assert_int_equal(pfl_role_get_number(d.rates, ROLE__FORGET), 0);
    assert_false(pfl_role_has(d.role, ROLE__FORGET));
    pfl_policy_free(p);
    pfl_sweep_assert_no_leak();
}

#define COLLECTING                                                                                 \
    "rule { name: \"c\" operator: \"col-*\" operator: \"eve\" host: \"web-*\" role: \"c\" }\n"     \
    "rule { name: \"w\" operator: \"ann\" host: \"*\" label: \"role=web\" role: \"w\" }\n"         \
    "rule { name: \"o\" operator: \"ann\" host: \"db-1\" }\n"                                      \
    "role { name: \"c\" method: \"none\" collect: true max_streams: 8 }\n"                         \
    "role { name: \"w\" order: true traces: true manage_traces: false }\n"

static void rights_of_collectors_stay_with_the_relay(void **state)
{
    struct pfl_policy_decision d;
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse(COLLECTING, &p), 0);
    d = decide(p, "ann", true);
    assert_true(pfl_policy_gives(&d, ROLE__ORDER));
    assert_true(pfl_policy_gives(&d, ROLE__TRACES));
    assert_false(pfl_policy_gives(&d, ROLE__COLLECT));
    assert_false(pfl_policy_gives(&d, ROLE__MANAGE_TRACES));
    assert_false(pfl_role_has(d.role, ROLE__ORDER));
    assert_null(pfl_role_check(d.role, false));
    /* Who may not use the host has no right there. */
    d = decide(p, "eve", true);
    assert_false(pfl_policy_gives(&d, ROLE__COLLECT));
    /* A rule without a role gives all, and so does no policy. */
    pfl_policy_decide(p, &(struct pfl_policy_question){.operator_name = "ann", .host = "db-1"}, &d);
    assert_true(pfl_policy_gives(&d, ROLE__COLLECT));
    d = decide(NULL, "eve", true);
    assert_true(pfl_policy_gives(&d, ROLE__MANAGE_TRACES));
    pfl_policy_free(p);
    pfl_sweep_assert_no_leak();
}

static void rights_anywhere_are_those_of_any_rule(void **state)
{
    struct pfl_policy_decision d;
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse(COLLECTING, &p), 0);
    assert_true(pfl_policy_gives_anywhere(p, "col-1", ROLE__COLLECT));
    assert_false(pfl_policy_gives_anywhere(p, "col-1", ROLE__ORDER));
    assert_true(pfl_policy_gives_anywhere(p, "ann", ROLE__COLLECT)); /* at db-1 */
    assert_false(pfl_policy_gives_anywhere(p, "bob", ROLE__COLLECT));
    assert_true(pfl_policy_gives_anywhere(NULL, "bob", ROLE__COLLECT));
    pfl_policy_decide_anywhere(p, "ann", &d);
    assert_true(d.is_allowed);
    assert_memory_equal(pfl_role_get_name(d.rates).data, "w", 1);
    pfl_policy_decide_anywhere(p, "bob", &d);
    assert_false(d.is_allowed);
    pfl_policy_decide_anywhere(NULL, "bob", &d);
    assert_true(d.is_allowed);
    pfl_policy_free(p);
    pfl_sweep_assert_no_leak();
}

static bool gives_everywhere(const char *rules)
{
    struct pfl_policy *p;
    bool gives;

    assert_int_equal(parse(rules, &p), 0);
    gives = pfl_policy_gives_everywhere(p, "ann", ROLE__TRACES);
    pfl_policy_free(p);
    return gives;
}

static void a_right_everywhere_depends_on_no_host(void **state)
{
#define RULE(rest) "rule { name: \"r\" operator: \"ann\" " rest " }\n"
#define ROLES      "role { name: \"t\" traces: true } role { name: \"n\" max_streams: 1 }"
    (void)state;
    assert_true(pfl_policy_gives_everywhere(NULL, "ann", ROLE__TRACES));
    assert_true(gives_everywhere(RULE("host: \"*\"") ROLES));
    assert_true(gives_everywhere(RULE("host: \"a\" host: \"*\" role: \"t\"") ROLES));
    assert_true(gives_everywhere(RULE("host: \"a\" role: \"t\"") RULE("host: \"*\"") ROLES));
    assert_false(gives_everywhere(RULE("host: \"a\" role: \"n\"") RULE("host: \"*\"") ROLES));
    assert_false(gives_everywhere(RULE("host: \"*\" label: \"a=*\"") ROLES));
    assert_false(gives_everywhere(RULE("host: \"a*\"") ROLES));
    assert_false(gives_everywhere(RULE("host: \"*\" role: \"n\"") RULE("host: \"*\"") ROLES));
    assert_false(gives_everywhere("rule { name: \"r\" operator: \"bob\" host: \"*\" }\n" ROLES));
    pfl_sweep_assert_no_leak();
}

/* Another program judges by it as the relay does. */
static void a_scope_is_the_policy_of_one_operator(void **state)
{
    static const char text[] = "rule {\n"
                               "  operator: \"ann\"\n"
                               "  name: \"w\"\n"
                               "  host: \"*\"\n"
                               "  label: \"role=web\"\n"
                               "  role: \"w\"\n"
                               "}\n"
                               "rule {\n"
                               "  operator: \"ann\"\n"
                               "  name: \"o\"\n"
                               "  host: \"db-1\"\n"
                               "}\n"
                               "role {\n"
                               "  name: \"w\"\n"
                               "  order: true\n"
                               "  traces: true\n"
                               "  manage_traces: false\n"
                               "}\n";
    struct pfl_policy_decision d;
    struct pfl_policy *p;
    struct pfl_policy *cut;
    struct pfl_buf scope;

    (void)state;
    assert_int_equal(parse(COLLECTING, &p), 0);
    pfl_buf_init(&scope, PFL_POLICY_MAX_BYTES);
    assert_int_equal(pfl_policy_write_scope(p, "ann", &scope), 0);
    assert_int_equal(scope.len, strlen(text));
    assert_memory_equal(pfl_buf_get(&scope).data, text, strlen(text));
    assert_int_equal(pfl_policy_parse(pfl_buf_get(&scope), why, &cut), 0);
    d = decide(cut, "ann", true);
    assert_true(pfl_policy_gives(&d, ROLE__TRACES));
    assert_false(allows(cut, "col-1", "web-1"));
    pfl_policy_free(cut);

    pfl_buf_clear(&scope);
    assert_int_equal(pfl_policy_write_scope(p, "col-1", &scope), 0);
    assert_int_equal(pfl_policy_parse(pfl_buf_get(&scope), why, &cut), 0);
    assert_true(pfl_policy_gives_anywhere(cut, "col-1", ROLE__COLLECT));
    assert_false(pfl_policy_gives_anywhere(cut, "col-2", ROLE__COLLECT));
    pfl_policy_free(cut);

    pfl_buf_clear(&scope);
    assert_int_equal(pfl_policy_write_scope(p, "bob", &scope), 0);
    assert_int_equal(scope.len, 0); /* nothing is allowed */
    assert_int_equal(pfl_policy_write_scope(NULL, "bob", &scope), 0);
    assert_int_equal(pfl_policy_parse(pfl_buf_get(&scope), why, &cut), 0);
    assert_true(allows(cut, "bob", "any"));
    pfl_policy_free(cut);
    pfl_buf_fini(&scope);
    pfl_policy_free(p);
    pfl_sweep_assert_no_leak();
}

static void what_is_no_policy_is_refused_with_words(void **state)
{
    static const char *const bad[] = {
        "rule { name: \"r\" operator: \"o\" }",
        "rule { name: \"r\" host: \"h\" }",
        "rule { operator: \"o\" host: \"h\" }",
        "rule { name: \"r\" name: \"s\" operator: \"o\" host: \"h\" }",
        "rule { name: \"r\" operator: \"\" host: \"h\" }",
        "rule { name: \"r\" operator: \"a/b\" host: \"h\" }",
        "rule { name: \"r\" operator: \"o\" host: \"[h]\" }",
        "rule { name: \"r\" operator: \"o\" hosts: \"h\" }",
        "rules { }",
        "rule { name: \"r\" operator: \"o\" host: \"h\" role: \"x\" }",
        "rule { name: \"r\" operator: \"o\" host: \"h\" label: \"x\" }",
        "rule { name: \"r\" operator: \"o\" host: \"h\" label: \"=x\" }",
        "role { name: \"x\" } role { name: \"x\" }",
        "role { method: \"x\" }",
        "role { name: \"x\" max_duration_ms: 1 max_duration_ms: 2 }",
        "role { name: \"x\" max_duration_ms: -1 }",
        "role { name: \"x\" forget: 2 }",
        "role { name: \"x\" forget: true forget: true }",
        "role { name: \"x\" data_source: \"a b\" }",
        "rule {",
    };
    struct pfl_policy *p;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        if (parse(bad[i], &p) != PFL_EPARSE || why[0] == '\0')
            fail_msg("accepted: %s", bad[i]);
    }
    pfl_sweep_assert_no_leak();
}

static void the_place_of_what_makes_no_sense_is_reported(void **state)
{
    struct pfl_policy *p;

    (void)state;
    assert_int_equal(parse("# { a comment\nrole { name: \"{\" }\n\nrule { name: \"r\" }\n", &p),
                     PFL_EPARSE);
    assert_memory_equal(why, "4: a rule wants", 15);
    assert_int_equal(parse("\nrule {\n  hots: \"h\" }", &p), PFL_EPARSE);
    assert_memory_equal(why, "3:3: ", 5);
    pfl_sweep_assert_no_leak();
}

/* Roles are judged first, so a rule before them may be as wrong as it likes. */
static void braces_in_texts_comments_and_blocks_begin_no_block(void **state)
{
    static const char *const before[] = {
        "rule { name: \"}{\" }",    "rule { name: '}\"{' }", "rule { name: \"\\\"{\" }",
        "rule { } # } { \" '",      "rule < name: \"r\" >",  "rule { name: \"#\" }",
        "rule { } # '{' \"<\"",     "rule { } # it's",       "rule { name: \"\\\\\" }",
        "rule < name: \"'\" > # >", "rule { name: '\\'<' }", "rule { host: \"#\" host: \"{\" }",
    };
    char text[200];
    struct pfl_policy *p;

    (void)state;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s\nrole { }\nrole { name: \"r\" }\n", before[i]);
        assert_int_equal(parse(text, &p), PFL_EPARSE);
        if (strncmp(why, "2: ", 3) != 0)
            fail_msg("%s: %s", before[i], why);
    }
    pfl_sweep_assert_no_leak();
}

static int parse_one(void *arg)
{
    struct pfl_policy *p = NULL;
    int rc = parse("rule { name: \"r\" operator: \"o\" host: \"h\" } role { name: \"x\" }", &p);

    (void)arg;
    pfl_policy_free(p);
    return rc;
}

static int write_one(void *arg)
{
    struct pfl_buf scope;
    int rc;

    pfl_buf_init(&scope, PFL_POLICY_MAX_BYTES);
    rc = pfl_policy_write_scope(arg, "ann", &scope);
    pfl_buf_fini(&scope);
    return rc;
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    pfl_sweep(parse_one, NULL, false);
    pfl_sweep(write_one, NULL, false); /* without a policy */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_rule_allows_is_refused),
        cmocka_unit_test(stars_stand_for_anything),
        cmocka_unit_test(labels_and_roles_decide_and_the_first_rule_that_fits_does),
        cmocka_unit_test(what_a_role_may_forget_stays_with_the_relay),
        cmocka_unit_test(rights_of_collectors_stay_with_the_relay),
        cmocka_unit_test(rights_anywhere_are_those_of_any_rule),
        cmocka_unit_test(a_right_everywhere_depends_on_no_host),
        cmocka_unit_test(a_scope_is_the_policy_of_one_operator),
        cmocka_unit_test(the_place_of_what_makes_no_sense_is_reported),
        cmocka_unit_test(braces_in_texts_comments_and_blocks_begin_no_block),
        cmocka_unit_test(what_is_no_policy_is_refused_with_words),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
