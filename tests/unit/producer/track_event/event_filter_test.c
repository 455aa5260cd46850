/* SPDX-License-Identifier: Apache-2.0 */
/* Which categories a TrackEventConfig wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "producer/perfleet_track_event.h"
#include "producer/track_event/event_filter.h"

enum { DISABLED = 1, ENABLED = 2, DISABLED_TAGS = 3, ENABLED_TAGS = 4 };

struct rule {
    uint32_t field;
    const char *pattern;
};

/* `rules` ends with field 0. */
static bool wants(const struct rule *rules, const char *name, const char *tags)
{
    struct perfleet_category category = PERFLEET_CATEGORY_INIT(name, NULL, tags);
    uint8_t bytes[512];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    for (; rules->field != 0; rules++)
        pfl_writer_field_bytes(&w, rules->field, rules->pattern, strlen(rules->pattern));
    assert_false(w.failed);
    return pfl_event_filter_wants(pfl_span_of(bytes, sizeof(bytes) - w.left), &category);
}

#define RULES(...) ((const struct rule[]){__VA_ARGS__, {0, NULL}})

static void without_rules_all_but_slow_and_debug_are_wanted(void **state)
{
    const struct rule none[] = {{0, NULL}};

    (void)state;
    assert_true(wants(none, "net", NULL));
    assert_true(wants(none, "net", "fast"));
    assert_false(wants(none, "net", "fast,slow"));
    assert_false(wants(none, "net", "debug"));
    assert_true(wants(none, "net", "debugging"));
}

static void exact_names_win_over_patterns_and_patterns_over_the_star(void **state)
{
    (void)state;
    assert_true(wants(RULES({ENABLED, "net"}, {DISABLED, "*"}), "net", NULL));
    assert_false(wants(RULES({ENABLED, "net"}, {DISABLED, "*"}), "disk", NULL));
    assert_false(wants(RULES({DISABLED, "net.tls"}, {ENABLED, "net.*"}), "net.tls", NULL));
    assert_true(wants(RULES({DISABLED, "net.tls"}, {ENABLED, "net.*"}), "net.tcp", NULL));
    assert_false(wants(RULES({DISABLED, "net*"}, {ENABLED, "*"}), "network", NULL));
    assert_true(wants(RULES({DISABLED, "net*"}, {ENABLED, "*"}), "disk", NULL));
    assert_false(wants(RULES({DISABLED, "net"}), "net", NULL));
    assert_true(wants(RULES({DISABLED, "net"}), "net2", NULL));
}

static void of_equal_rank_enabled_categories_win(void **state)
{
    (void)state;
    assert_true(wants(RULES({DISABLED, "net"}, {ENABLED, "net"}), "net", NULL));
    assert_true(wants(RULES({DISABLED, "n*"}, {ENABLED, "ne*"}), "net", NULL));
    assert_true(wants(RULES({DISABLED, "*"}, {ENABLED, "*"}), "net", NULL));
}

static void tags_switch_categories(void **state)
{
    (void)state;
    assert_false(wants(RULES({DISABLED_TAGS, "io"}), "net", "io"));
    assert_true(wants(RULES({DISABLED_TAGS, "io"}), "net", "slow")); /* own rules, not the usual */
    assert_true(wants(RULES({ENABLED_TAGS, "slow"}, {DISABLED, "*"}), "net", "slow"));
    assert_false(wants(RULES({ENABLED_TAGS, "slow"}, {DISABLED, "*"}), "net", "io"));
    assert_true(wants(RULES({ENABLED_TAGS, "sl*"}, {DISABLED, "*"}), "net", "a,slow"));
    assert_false(wants(RULES({ENABLED, "*"}), "net", "slow")); /* exact tag before the star */
    assert_true(wants(RULES({ENABLED, "net"}), "net", "slow"));
}

static void a_group_is_wanted_when_one_member_is(void **state)
{
    (void)state;
    assert_true(wants(RULES({ENABLED, "disk"}, {DISABLED, "*"}), "net,disk", NULL));
    assert_false(wants(RULES({ENABLED, "cpu"}, {DISABLED, "*"}), "net,disk", NULL));
}

static void malformed_configs_end_nothing(void **state)
{
    static const uint8_t cut[] = {0x12, 3, 'n', 'e', 't', 0x0a, 9, '*'};
    struct perfleet_category category = PERFLEET_CATEGORY_INIT("net", NULL, NULL);

    (void)state;
    for (size_t len = 0; len <= sizeof(cut); len++)
        assert_true(pfl_event_filter_wants(pfl_span_of(cut, len), &category));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_all_but_slow_and_debug_are_wanted),
        cmocka_unit_test(exact_names_win_over_patterns_and_patterns_over_the_star),
        cmocka_unit_test(of_equal_rank_enabled_categories_win),
        cmocka_unit_test(tags_switch_categories),
        cmocka_unit_test(a_group_is_wanted_when_one_member_is),
        cmocka_unit_test(malformed_configs_end_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
