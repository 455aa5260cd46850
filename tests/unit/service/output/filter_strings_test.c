/* SPDX-License-Identifier: Apache-2.0 */
#include "service/output/filter_strings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

enum {
    MATCH_REDACT = 1,
    ATRACE_MATCH_REDACT = 2,
    MATCH_BREAK = 3,
    ATRACE_MATCH_BREAK = 4,
    ATRACE_SEARCH_REDACT = 5,
};

static struct pfl_filter_strings make(const struct kit_rule *rules, size_t len)
{
    const struct kit_bytes chain = kit_chain(rules, len);
    struct pfl_filter_strings strings = {0};
    char why[PFL_FILTER_WHY_BYTES] = "";

    assert_int_equal(pfl_filter_strings_add(&strings, kit_span(&chain), "string_filter_chain", why),
                     0);
    return strings;
}

static void expect(struct pfl_filter_strings *strings, const char *in, uint32_t type,
                   const char *out)
{
    char text[256];
    size_t len = strlen(in);

    assert_true(len < sizeof(text));
    memcpy(text, in, len + 1);
    if (!pfl_filter_strings_apply(strings, (uint8_t *)text, len, type))
        assert_string_equal(in, out);
    assert_string_equal(text, out);
}

struct one {
    struct kit_rule rule;
    const char *in;
    const char *out;
};

/* The outputs are Perfetto v58.2's. */
static void each_policy_redacts_what_it_should(void **state)
{
    static const struct one cases[] = {
        {{MATCH_REDACT, "B\\|\\d+\\|foo (.*)", NULL, NULL, -1},
         "B|1234|foo 1234 bar baz",
         "B|1234|foo P60REDACTED-"},
        {{MATCH_REDACT, "B\\|\\d+\\|foo (.*)", NULL, NULL, -1},
         "B|1234|foo 1234",
         "B|1234|foo P60R"},
        {{MATCH_REDACT, "B\\|\\d+\\|foo (.*)", NULL, NULL, -1}, "B|1234|fooo", "B|1234|fooo"},
        {{MATCH_REDACT, "(a)?b(c)", NULL, NULL, -1}, "bc", "bP"},
        {{MATCH_REDACT, "((x)y)", NULL, NULL, -1}, "xy", "P6"},
        {{ATRACE_MATCH_REDACT, "B\\|\\d+\\|foo (.*)", "foo 1234 bar baz", NULL, -1},
         "B|1234|foo 1234 bar baz",
         "B|1234|foo P60REDACTED-"},
        {{ATRACE_MATCH_REDACT, "B\\|\\d+\\|foo (.*)", "foo 1234 bar baz ", NULL, -1},
         "B|1234|foo 1234 bar baz",
         "B|1234|foo 1234 bar baz"},
        {{ATRACE_MATCH_REDACT, "B\\|\\d+\\|(.*)", NULL, NULL, -1}, "B|1234|", "B|1234|"},
        {{ATRACE_MATCH_REDACT, "(E\\|\\d+\\|x)", NULL, NULL, -1}, "E|1234|x", "E|1234|x"},
        {{ATRACE_MATCH_REDACT, "(B\\|\\d+)", NULL, NULL, -1}, "B|1", "B|1"},
        {{ATRACE_SEARCH_REDACT, "x:(\\d+)", "foo", NULL, -1},
         "B|1234|foo x:1234 x:494 y:4904 x:dfja x:239039",
         "B|1234|foo x:P60R x:P60 y:4904 x:dfja x:P60RED"},
        {{ATRACE_SEARCH_REDACT, "x:(\\d+)|y:(\\d+)", "foo", NULL, -1},
         "B|1234|foo x:1234 x:494 y:4904 x:dfja x:239039",
         "B|1234|foo x:P60R x:P60 y:P60R x:dfja x:P60RED"},
        {{ATRACE_SEARCH_REDACT, "x:([^\\s-]*)", "foo", NULL, -1},
         "B|1234|foo x:1234 x:494 y:4904 x:dfja x:239039",
         "B|1234|foo x:P60R x:P60 y:4904 x:P60R x:P60RED"},
        {{ATRACE_SEARCH_REDACT, "(q*)", "foo", NULL, -1}, "B|1|foo qq", "B|1|foo P6"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_filter_strings strings = make(&cases[i].rule, 1);

        expect(&strings, cases[i].in, 0, cases[i].out);
        pfl_filter_strings_fini(&strings);
    }
    pfl_sweep_assert_no_leak();
}

static void the_first_rule_that_applies_decides(void **state)
{
    static const struct kit_rule rules[] = {
        {MATCH_BREAK, "keep.*", NULL, NULL, -1},
        {ATRACE_MATCH_BREAK, "B\\|\\d+\\|ok.*", "ok", NULL, -1},
        {ATRACE_MATCH_REDACT, "B\\|\\d+\\|foo (.*)", "foo", NULL, -1},
        {MATCH_REDACT, "(.*)", NULL, NULL, -1},
    };
    struct pfl_filter_strings strings = make(rules, 4);

    (void)state;
    expect(&strings, "keep me", 0, "keep me");
    expect(&strings, "B|1|ok then", 0, "B|1|ok then");
    expect(&strings, "B|1|foo x", 0, "B|1|foo P");
    expect(&strings, "B|1|bar", 0, "P60REDA");
    expect(&strings, "", 0, "");
    pfl_filter_strings_fini(&strings);
}

static void a_rule_applies_to_its_semantic_types(void **state)
{
    static const struct kit_rule rules[] = {
        {MATCH_REDACT, "a(.*)", NULL, NULL, 1},
        {MATCH_REDACT, "b(.*)", NULL, NULL, -1},
        {MATCH_REDACT, "c(.*)", NULL, NULL, 127},
    };
    struct pfl_filter_strings strings = make(rules, 3);

    (void)state;
    expect(&strings, "a1", 1, "aP");
    expect(&strings, "a1", 0, "a1");
    expect(&strings, "a1", 2, "a1");
    expect(&strings, "b1", 0, "bP");
    expect(&strings, "b1", 1, "b1");
    expect(&strings, "c1", 127, "cP");
    expect(&strings, "a1", 128, "aP"); /* no rule can name it: all apply */
    pfl_filter_strings_fini(&strings);
}

static void a_later_rule_of_the_same_name_takes_the_place(void **state)
{
    static const struct kit_rule base[] = {
        {MATCH_REDACT, "x(.*)", NULL, "first", -1},
        {MATCH_REDACT, "(x.*)", NULL, NULL, -1},
    };
    static const struct kit_rule newer[] = {
        {MATCH_BREAK, "x1", NULL, "first", -1},
        {MATCH_REDACT, "(y)", NULL, "other", -1},
    };
    const struct kit_bytes chain = kit_chain(newer, 2);
    struct pfl_filter_strings strings = make(base, 2);
    char why[PFL_FILTER_WHY_BYTES];

    (void)state;
    expect(&strings, "x1", 0, "xP");
    assert_int_equal(pfl_filter_strings_add(&strings, kit_span(&chain), "v54", why), 0);
    assert_int_equal(strings.len, 3);
    expect(&strings, "x1", 0, "x1");
    expect(&strings, "x2", 0, "P6");
    expect(&strings, "y", 0, "P");
    pfl_filter_strings_fini(&strings);
}

static void a_string_that_cannot_be_judged_is_redacted_as_a_whole(void **state)
{
    static const struct kit_rule rules[] = {{MATCH_BREAK, "((a+)+)+[bd]", NULL, NULL, -1}};
    struct pfl_filter_strings strings = make(rules, 1);

    (void)state;
    expect(&strings, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", 0,
           "P60REDACTED-----------------------------");
    pfl_filter_strings_fini(&strings);
}

static void rules_that_are_cancelled_are_not_applied(void **state)
{
    static const struct kit_rule rules[] = {{MATCH_BREAK, "keep", NULL, NULL, -1},
                                            {ATRACE_SEARCH_REDACT, "(x)", NULL, NULL, -1}};
    struct pfl_filter_strings strings = make(rules, 2);
    atomic_bool is_cancelled;

    (void)state;
    atomic_init(&is_cancelled, false);
    strings.is_cancelled = &is_cancelled;
    expect(&strings, "keep", 0, "keep");
    expect(&strings, "B|1|axb", 0, "B|1|aPb");
    atomic_store(&is_cancelled, true);
    expect(&strings, "keep", 0, "P60R");
    pfl_filter_strings_fini(&strings);
}

static void a_rule_that_is_none_is_refused_by_chain_and_index(void **state)
{
    static const struct {
        struct kit_rule rule;
        const char *words;
    } bad[] = {
        {{0, "a", NULL, NULL, -1}, "chain.rules[1]: policy"},
        {{6, "a", NULL, NULL, -1}, "chain.rules[1]: policy"},
        {{1, "(a", NULL, NULL, -1}, "chain.rules[1]: missing closing parenthesis"},
        {{1, "a", NULL, NULL, 128}, "chain.rules[1]: semantic_type"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct kit_rule rules[] = {{1, "a", NULL, NULL, -1}, bad[i].rule};
        const struct kit_bytes chain = kit_chain(rules, 2);
        struct pfl_filter_strings strings = {0};
        char why[PFL_FILTER_WHY_BYTES] = "";

        assert_int_equal(pfl_filter_strings_add(&strings, kit_span(&chain), "chain", why),
                         PFL_EPARSE);
        if (strstr(why, bad[i].words) == NULL)
            fail_msg("\"%s\" says nothing of \"%s\"", why, bad[i].words);
        pfl_filter_strings_fini(&strings);
        pfl_sweep_assert_no_leak();
    }
}

static int add_some(void *arg)
{
    static const struct kit_rule rules[] = {
        {1, "a(b)", "x", "n", 1}, {2, "c", NULL, "n", -1}, {3, "d", NULL, NULL, -1}};
    const struct kit_bytes chain = kit_chain(rules, 3);
    struct pfl_filter_strings strings = {0};
    char why[PFL_FILTER_WHY_BYTES];
    int rc = pfl_filter_strings_add(&strings, kit_span(&chain), "chain", why);

    (void)arg;
    pfl_filter_strings_fini(&strings);
    return rc;
}

static void adding_rules_survives_each_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(add_some, NULL, false);
}

static int add_one(struct pfl_filter_strings *strings, const struct kit_rule *rule, char *why)
{
    const struct kit_bytes chain = kit_chain(rule, 1);

    return pfl_filter_strings_add(strings, kit_span(&chain), "chain", why);
}

static void patterns_may_have_so_many_bytes_together_and_not_one_more(void **state)
{
    static const struct kit_rule rule = {MATCH_BREAK, "keep", NULL, NULL, -1};
    struct pfl_filter_strings strings = {0};
    char why[PFL_FILTER_WHY_BYTES] = "";
    size_t bytes;

    (void)state;
    assert_int_equal(add_one(&strings, &rule, why), 0);
    bytes = strings.bytes;
    assert_true(bytes != 0);
    strings.bytes = PFL_FILTER_MAX_RULES_BYTES - bytes; /* as if of other patterns */
    assert_int_equal(add_one(&strings, &rule, why), 0);
    assert_int_equal(strings.bytes, PFL_FILTER_MAX_RULES_BYTES);
    pfl_filter_strings_fini(&strings);
    assert_int_equal(add_one(&strings, &rule, why), 0);
    strings.bytes = PFL_FILTER_MAX_RULES_BYTES - bytes + 1;
    assert_int_equal(add_one(&strings, &rule, why), PFL_EPARSE);
    assert_non_null(strstr(why, "chain.rules[0]: all patterns together are too large"));
    pfl_filter_strings_fini(&strings);
    pfl_sweep_assert_no_leak();
}

static void as_many_rules_as_allowed_are_taken_and_not_one_more(void **state)
{
    static const struct kit_rule rule = {MATCH_BREAK, "k", NULL, NULL, -1};
    static const struct kit_rule last = {MATCH_REDACT, "(last)", NULL, NULL, -1};
    struct pfl_filter_strings strings = {0};
    char why[PFL_FILTER_WHY_BYTES] = "";

    (void)state;
    while (strings.len < PFL_FILTER_MAX_RULES - 1)
        assert_int_equal(add_one(&strings, &rule, why), 0);
    assert_int_equal(add_one(&strings, &last, why), 0);
    assert_int_equal(strings.len, PFL_FILTER_MAX_RULES);
    expect(&strings, "last", 0, "P60R");
    assert_int_equal(add_one(&strings, &rule, why), PFL_EPARSE);
    assert_non_null(strstr(why, "more than 1024 rules"));
    pfl_filter_strings_fini(&strings);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_redacts_what_it_should),
        cmocka_unit_test(the_first_rule_that_applies_decides),
        cmocka_unit_test(a_rule_applies_to_its_semantic_types),
        cmocka_unit_test(a_later_rule_of_the_same_name_takes_the_place),
        cmocka_unit_test(a_string_that_cannot_be_judged_is_redacted_as_a_whole),
        cmocka_unit_test(rules_that_are_cancelled_are_not_applied),
        cmocka_unit_test(a_rule_that_is_none_is_refused_by_chain_and_index),
        cmocka_unit_test(adding_rules_survives_each_failed_allocation),
        cmocka_unit_test(patterns_may_have_so_many_bytes_together_and_not_one_more),
        cmocka_unit_test(as_many_rules_as_allowed_are_taken_and_not_one_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
