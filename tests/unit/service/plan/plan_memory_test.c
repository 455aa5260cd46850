/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan keeps is what its user is charged, until the last one that has a part of it is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/message.h"
#include "perfetto/trace_config.fields.h"
#include "service/plan/session_plan.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

#define USER        7u
#define RULES       40u
#define PATTERNS    20u
#define MATCH_BYTES 400u /* at most, of a pattern */
#define BIG_REGEX   "(?:[a-c]y){200}"

static struct pfl_shares shares;

static int set_up(void **state)
{
    (void)state;
    shares = (struct pfl_shares){.max = 64u << 20};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(shares.used, 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* buffers { size_kb: 4 }, and data sources with filters, each with a pattern of its own. */
static void put_sources(struct pfl_buf *config, unsigned sources, const char *regex)
{
    struct pfl_message m = pfl_message_of(config);

    for (unsigned i = 0; i < sources; i++) {
        size_t source = pfl_message_begin(&m, TRACE_CONFIG__DATA_SOURCES);
        size_t inner = pfl_message_begin(&m, TRACE_CONFIG__DATA_SOURCE__CONFIG);
        char text[64];

        (void)snprintf(text, sizeof(text), "s%u", i);
        pfl_message_bytes(&m, 1, pfl_span_of(text, strlen(text)));
        pfl_message_end(&m, inner);
        (void)snprintf(text, sizeof(text), "%u%s", i, regex);
        pfl_message_bytes(&m, TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_REGEX_FILTER,
                          pfl_span_of(text, strlen(text)));
        pfl_message_end(&m, source);
    }
    assert_int_equal(m.rc, 0);
}

static void put_filter(struct pfl_buf *config)
{
    struct kit_rule rules[RULES];
    struct kit_bytes filter = {.len = 0};
    struct kit_bytes code = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_STRING(900), KIT_END);
    struct kit_bytes chain;
    struct pfl_message m = pfl_message_of(config);

    for (size_t i = 0; i < RULES; i++)
        rules[i] = (struct kit_rule){.policy = 1, .pattern = BIG_REGEX, .type = -1};
    chain = kit_chain(rules, RULES);
    kit_put(&filter, 1, code.data, code.len);
    kit_put(&filter, 3, chain.data, chain.len);
    pfl_message_bytes(&m, TRACE_CONFIG__TRACE_FILTER, kit_span(&filter));
    assert_int_equal(m.rc, 0);
}

static struct pfl_session_plan *make_plan(unsigned sources, const char *regex, bool has_filter)
{
    struct pfl_session_plan *plan;
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_buf config;

    pfl_buf_init(&config, 1u << 20);
    assert_int_equal(pfl_buf_append(&config, (const uint8_t[]){0x0a, 0x02, 0x08, 0x04}, 4), 0);
    put_sources(&config, sources, regex);
    if (has_filter)
        put_filter(&config);
    assert_int_equal(pfl_session_plan_new(pfl_buf_get(&config), &plan), 0);
    pfl_buf_fini(&config);
    if (pfl_session_plan_check_early(plan, why) != 0 || pfl_session_plan_check_late(plan, why) != 0)
        fail_msg("%s", why);
    return plan;
}

static uint64_t get_live_bytes(void)
{
    struct pfl_mem_stats stats;

    pfl_mem_stats_get(&stats);
    return stats.live_bytes;
}

static void what_a_plan_keeps_is_charged_until_it_is_freed(void **state)
{
    static const struct {
        unsigned sources;
        const char *regex;
        bool has_filter;
    } plans[] = {{1, "x", false}, {PATTERNS, BIG_REGEX, false}, {1, "x", true}, {100, "x", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        uint64_t before = get_live_bytes();
        struct pfl_session_plan *plan =
            make_plan(plans[i].sources, plans[i].regex, plans[i].has_filter);
        uint64_t kept = get_live_bytes() - before;
        /* What matches need is not of base/mem. */
        uint64_t of_matches = MATCH_BYTES * (plans[i].sources + (plans[i].has_filter ? RULES : 0));

        assert_int_equal(pfl_session_plan_charge(plan, &shares, USER), 0);
        assert_in_range(pfl_shares_get(&shares, USER), kept, kept + kept / 20 + of_matches);
        pfl_session_plan_free(plan);
        assert_int_equal(shares.used, 0);
    }
}

static void past_the_share_nothing_is_charged(void **state)
{
    struct pfl_session_plan *plan = make_plan(1, "x", true);

    (void)state;
    assert_int_equal(pfl_session_plan_charge(plan, &shares, USER), 0);
    shares.max = 2 * shares.used - 1;
    pfl_session_plan_free(plan);
    plan = make_plan(1, "x", true);
    assert_int_equal(pfl_session_plan_charge(plan, &shares, USER), PFL_EPERM);
    pfl_session_plan_free(plan);
    assert_int_equal(shares.used, 0);
}

static void what_copies_of_a_filter_share_is_charged_once_until_the_last_is_gone(void **state)
{
    struct pfl_session_plan *first = make_plan(1, "x", true);
    struct pfl_session_plan *second = make_plan(1, "x", false);
    uint64_t both;
    uint64_t alone;

    (void)state;
    assert_int_equal(pfl_session_plan_charge(first, &shares, USER), 0);
    alone = shares.used;
    assert_int_equal(pfl_trace_filter_copy(first->filter, &second->filter), 0);
    assert_int_equal(pfl_session_plan_charge(second, &shares, USER + 1), 0);
    both = shares.used;
    assert_in_range(both - alone, 1000, alone / 4);
    pfl_session_plan_free(first);
    assert_in_range(shares.used, alone / 2, both);
    assert_true(pfl_shares_get(&shares, USER) > alone / 2); /* who had it compiled */
    pfl_session_plan_free(second);
}

/* Of a plan with one data source. */
static int change(struct pfl_session_plan *plan, const char *regex)
{
    struct pfl_span source;
    struct pfl_buf config;
    uint8_t *bytes;
    int rc;

    pfl_buf_init(&config, 1u << 20);
    put_sources(&config, 1, regex);
    bytes = pfl_mem_alloc(config.len + PFL_PLAN_DURATIONS_BYTES);
    assert_non_null(bytes);
    memcpy(bytes, pfl_buf_get(&config).data, config.len);
    source = pfl_span_of(bytes + 2, config.len - 2); /* behind its tag and length */
    rc = pfl_session_plan_change(plan, bytes, config.len, &source);
    if (rc != 0)
        pfl_mem_free(bytes);
    pfl_buf_fini(&config);
    return rc;
}

static void a_change_is_charged_or_refused(void **state)
{
    struct pfl_session_plan *plan = make_plan(1, "x", true);
    uint64_t small;
    uint64_t large;

    (void)state;
    assert_int_equal(pfl_session_plan_charge(plan, &shares, USER), 0);
    assert_int_equal(change(plan, "y"), 0);
    small = shares.used;
    assert_int_equal(change(plan, BIG_REGEX), 0);
    large = shares.used;
    assert_true(large > small + 2000);
    assert_int_equal(change(plan, "z"), 0);
    assert_int_equal(shares.used, small);
    shares.max = 2 * large - 1;
    assert_int_equal(change(plan, BIG_REGEX), PFL_EPERM);
    assert_int_equal(shares.used, small);
    assert_int_equal(plan->index.filters[0].text.len, 2); /* "0z" */
    pfl_session_plan_set_duration(plan, 1000000);         /* the config has room for it */
    assert_int_equal(change(plan, "w"), 0);
    assert_in_range(shares.used, small, small + PFL_PLAN_DURATIONS_BYTES);
    pfl_session_plan_free(plan);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_a_plan_keeps_is_charged_until_it_is_freed),
        TEST(past_the_share_nothing_is_charged),
        TEST(what_copies_of_a_filter_share_is_charged_once_until_the_last_is_gone),
        TEST(a_change_is_charged_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
