/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/retain/keep_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DAY (UINT64_C(86400) * 1000000000)

static void each_class_has_its_bounds(void **state)
{
    struct pfl_keep_rules rules;
    const struct pfl_keep_rule *rule;
    const char *why = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    assert_true(pfl_keep_rules_add(&rules,
                                   "crash:age=12w,triggered=180d,bytes=500G,host-bytes=10M,"
                                   "order-bytes=7,per-trigger=20",
                                   &why));
    rule = pfl_keep_rules_find(&rules, "crash");
    assert_int_equal(rule->age_ns, 84 * DAY);
    assert_int_equal(rule->triggered_ns, 180 * DAY);
    assert_int_equal(rule->bytes, UINT64_C(500) << 30);
    assert_int_equal(rule->host_bytes, 10 << 20);
    assert_int_equal(rule->order_bytes, 7);
    assert_int_equal(rule->per_trigger, 20);
    rule = pfl_keep_rules_find(&rules, "default");
    assert_int_equal(rule->age_ns, 30 * DAY);
    assert_int_equal(rule->triggered_ns, 90 * DAY);
    assert_int_equal(rule->bytes, 0);
}

static void a_star_stands_for_all_others_once(void **state)
{
    struct pfl_keep_rules rules;
    const char *why = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    assert_true(pfl_keep_rules_add(&rules, "*:age=1h", &why));
    assert_int_equal(pfl_keep_rules_find(&rules, "any")->age_ns, DAY / 24);
    assert_int_equal(pfl_keep_rules_find(&rules, "any")->triggered_ns, 90 * DAY);
    assert_false(pfl_keep_rules_add(&rules, "*:age=2h", &why));
    assert_true(pfl_keep_rules_add(&rules, "a:age=2h", &why));
    assert_false(pfl_keep_rules_add(&rules, "a:bytes=2", &why));
    assert_string_equal(why, "is given twice for one class");
}

/* Unless a rule has another bound for it. */
static void what_a_trigger_made_is_not_kept_shorter(void **state)
{
    struct pfl_keep_rules rules;
    const char *why = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    assert_true(pfl_keep_rules_add(&rules, "a:age=200d", &why));
    assert_int_equal(pfl_keep_rules_find(&rules, "a")->triggered_ns, 200 * DAY);
    assert_true(pfl_keep_rules_add(&rules, "b:age=none", &why));
    assert_int_equal(pfl_keep_rules_find(&rules, "b")->age_ns, 0);
    assert_int_equal(pfl_keep_rules_find(&rules, "b")->triggered_ns, 0);
    assert_true(pfl_keep_rules_add(&rules, "c:age=1d,triggered=none", &why));
    assert_int_equal(pfl_keep_rules_find(&rules, "c")->triggered_ns, 0);
    assert_false(pfl_keep_rules_add(&rules, "d:age=2d,triggered=1d", &why));
    assert_false(pfl_keep_rules_add(&rules, "d:age=none,triggered=1d", &why));
}

static void malformed_rules_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "crash",
        "crash:",
        ":age=1d",
        "cr ash:age=1d",
        "a:age",
        "a:age=",
        "a:age=1",
        "a:age=1x",
        "a:age=1dd",
        "a:age=-1d",
        "a:age=0d",
        "a:age=1d,",
        "a:age=1d,,bytes=2",
        "a:bytes=1d",
        "a:other=1d",
        "a:age=36501d",
        "a:bytes=99999999999999999999",
        "a:bytes=4294967296000T",
        "a:bytes=42949672950T",
        "**:age=1d",
        "a:per-trigger=2K",
        "a:bytes=1.5G",
        "\xc3\xa9:age=1d",
    };
    struct pfl_keep_rules rules;

    (void)state;
    pfl_keep_rules_init(&rules);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *why = NULL;

        if (pfl_keep_rules_add(&rules, texts[i], &why))
            fail_msg("taken: %s", texts[i]);
        assert_non_null(why);
    }
    assert_int_equal(rules.len, 1);
}

static void there_are_fifteen_classes_at_most(void **state)
{
    struct pfl_keep_rules rules;
    const char *why = NULL;
    char text[32];

    (void)state;
    pfl_keep_rules_init(&rules);
    for (unsigned i = 0; i < PFL_KEEP_RULES_MAX - 1; i++) {
        (void)snprintf(text, sizeof(text), "c%u:age=1d", i);
        assert_true(pfl_keep_rules_add(&rules, text, &why));
    }
    assert_false(pfl_keep_rules_add(&rules, "one-more:age=1d", &why));
}

static void sizes_have_units(void **state)
{
    uint64_t bytes = 1;

    (void)state;
    assert_true(pfl_keep_rules_parse_bytes("none", &bytes));
    assert_int_equal(bytes, 0);
    assert_true(pfl_keep_rules_parse_bytes("2T", &bytes));
    assert_int_equal(bytes, UINT64_C(2) << 40);
    assert_true(pfl_keep_rules_parse_bytes("4096", &bytes));
    assert_int_equal(bytes, 4096);
    assert_false(pfl_keep_rules_parse_bytes("0", &bytes));
    assert_false(pfl_keep_rules_parse_bytes("G", &bytes));
    assert_false(pfl_keep_rules_parse_bytes("", &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_its_bounds),
        cmocka_unit_test(a_star_stands_for_all_others_once),
        cmocka_unit_test(what_a_trigger_made_is_not_kept_shorter),
        cmocka_unit_test(malformed_rules_are_refused),
        cmocka_unit_test(there_are_fifteen_classes_at_most),
        cmocka_unit_test(sizes_have_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
