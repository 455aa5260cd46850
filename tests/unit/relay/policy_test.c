/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: who may use which hosts; what is no policy. */
#include "relay/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static char why[320];

static int parse(const char *text, struct pfl_policy **ret_policy)
{
    return pfl_policy_parse(pfl_span_of(text, strlen(text)), why, sizeof(why), ret_policy);
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
    assert_true(pfl_policy_allows(p, "ann", "web-3"));
    assert_true(pfl_policy_allows(p, "web-jo", "db-1"));
    assert_true(pfl_policy_allows(p, "root", "db-2"));
    assert_false(pfl_policy_allows(p, "ann", "db-2"));
    assert_false(pfl_policy_allows(p, "ann", "xweb-3"));
    assert_false(pfl_policy_allows(p, "anna", "web-3"));
    assert_false(pfl_policy_allows(p, "web", "web-3"));
    assert_false(pfl_policy_allows(p, "all", "web-3"));
    pfl_policy_free(p);
    assert_int_equal(parse("", &p), 0);
    assert_false(pfl_policy_allows(p, "root", "a"));
    pfl_policy_free(p);
    assert_true(pfl_policy_allows(NULL, "anybody", "a"));
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
        if (pfl_policy_allows(p, "o", cases[i].name) != cases[i].is_match)
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
        pfl_policy_free(p);
    }
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
        "rule { name: \"r\" operator: \"o\" hosts: \"h\" }",
        "rules { }",
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

static int parse_one(void *arg)
{
    struct pfl_policy *p = NULL;
    int rc = parse("rule { name: \"r\" operator: \"o\" host: \"h\" }", &p);

    (void)arg;
    pfl_policy_free(p);
    return rc;
}

static void running_out_of_memory_is_told(void **state)
{
    (void)state;
    pfl_sweep(parse_one, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_rule_allows_is_refused),
        cmocka_unit_test(stars_stand_for_anything),
        cmocka_unit_test(what_is_no_policy_is_refused_with_words),
        cmocka_unit_test(running_out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
