/* SPDX-License-Identifier: Apache-2.0 */
/* Collectors' connections: who may have one, which counts, who reaches it; scopes. */
#include "relay/hub/collector_list.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define COLLECT "rule { name: \"c\" operator: \"col*\" host: \"web-*\" role: \"c\" } "
#define C_ROLE  "role { name: \"c\" collect: true } "
#define ANN     "rule { name: \"a\" operator: \"ann\" host: \"*\" role: \"a\" } role { name: \"a\" "

static struct world_answer one;
static struct world_answer two;
static struct world_answer three;

static void connect_to(struct world_peer *p, const char *name, struct world_answer *answer)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/v1/collectors/%s", name);
    world_dial(p, path, PFL_TUNNEL_PROTOCOL_COLLECTOR, NULL, answer);
}

static void collectors_are_listed_while_they_are_connected(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *c;

    (void)state;
    world_ask(ann, "GET", "/v1/collectors", &one);
    assert_string_equal(one.body, "{\"collectors\":[]}");
    c = world_connect_collector("c1");
    (void)world_connect_collector("c2");
    world_ask(ann, "GET", "/v1/collectors", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(one.body, "{\"collectors\":[{\"name\":\"c1\"},{\"name\":\"c2\"}]}");
    world_disconnect(c);
    world_ask(ann, "GET", "/v1/collectors", &one);
    assert_string_equal(one.body, "{\"collectors\":[{\"name\":\"c2\"}]}");
    assert_int_equal(world.streams.unread.used, 0);
    assert_int_equal(c->hellos + c->clocks, 0); /* it is no agent */
}

static void an_operators_stream_to_a_collector_carries_bytes(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *c = world_connect_collector("c1");

    (void)state;
    connect_to(ann, "c1", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(c->asked, "CONNECT /v1/collector operator=ann\n");
    world_assert_audited("connect 0 ann - - 0/0 - collector=c1\n");
    c->services[0].to_send = 3000;
    pfl_h2_stream_wake(c->services[0].h2_stream);
    one.to_send = 200;
    pfl_h2_stream_wake(one.h2_stream);
    world_pump();
    assert_int_equal(one.body_len, 3000);
    assert_int_equal(c->services[0].got, 200);
    world_reset(&one, PFL_H2_CANCEL);
    assert_int_equal(c->services[0].code, PFL_H2_CANCEL);
    world_assert_audited("end 200 ann - - 200/3000 - collector=c1\n");
    connect_to(ann, "c2", &one);
    world_assert_refused(&one, 503,
                         "collector not connected: no collector c2 is connected to this relay");
}

/* Only the relay says who the operator is. */
static void what_an_operator_claims_does_not_reach_the_collector(void **state)
{
    struct world_peer *eve = world_connect(PFL_IDENTITY_OPERATOR, "eve");
    struct world_peer *c = world_connect_collector("c1");
    static const char *const names[] = {PFL_TUNNEL_H_OPERATOR, PFL_TUNNEL_H_FOR,
                                        PFL_TUNNEL_H_COLLECTOR, PFL_TUNNEL_H_ROLE};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pfl_h2_field field = {names[i], "ann"};

        c->asked[0] = '\0';
        world_dial(eve, "/v1/collectors/c1", PFL_TUNNEL_PROTOCOL_COLLECTOR, &field, &one);
        assert_int_equal(one.status, 200);
        assert_string_equal(c->asked, "CONNECT /v1/collector operator=eve\n");
    }
}

static void of_two_with_one_name_the_newer_counts_until_it_is_gone(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *older = world_connect_collector("c1");
    struct world_peer *newer;

    (void)state;
    connect_to(ann, "c1", &one);
    newer = world_connect_collector("c1");
    assert_false(pfl_h2_is_going(older->far)); /* or it would come again, and the newer one go */
    assert_non_null(one.h2_stream);
    connect_to(ann, "c1", &two);
    assert_int_equal(newer->services_len, 1);
    world_ask(ann, "GET", "/v1/collectors", &three);
    assert_string_equal(three.body, "{\"collectors\":[{\"name\":\"c1\"}]}");
    world_disconnect(newer);
    world_ask(ann, "GET", "/v1/collectors", &three);
    assert_string_equal(three.body, "{\"collectors\":[{\"name\":\"c1\"}]}");
    connect_to(ann, "c1", &two);
    assert_int_equal(older->services_len, 2);
    world_disconnect(older);
    connect_to(ann, "c1", &three);
    assert_int_equal(three.status, 503);
}

/* Connections that wait do not fill the port. */
static void the_oldest_unused_connection_of_a_collector_gives_way(void **state)
{
    struct world_peer *p[PFL_PEER_TABLE_OF_HOST + 1];

    (void)state;
    for (unsigned i = 0; i < PFL_PEER_TABLE_OF_HOST + 1; i++)
        p[i] = world_connect_collector("c1");
    assert_true(p[0]->is_link_gone);
    assert_false(p[1]->is_link_gone);
    assert_int_equal(world.peers.collectors_len, 1);
}

static void who_may_collect_nowhere_is_no_collector(void **state)
{
    struct world_peer *c;

    (void)state;
    world_set_policy(COLLECT C_ROLE ANN "order: true }");
    assert_null(world_connect_collector("ann"));
    assert_null(world_connect_collector("bob"));
    c = world_connect_collector("col1");
    assert_non_null(c);
    assert_false(pfl_peer_table_is_forbidden(&c->peer));
    world_set_policy(ANN "order: true }");
    assert_true(pfl_peer_table_is_forbidden(&c->peer));
}

static void collectors_have_a_largest_number(void **state)
{
    struct pfl_hub_peer *ousted;
    struct pfl_identity c1 = {.role = PFL_IDENTITY_OPERATOR, .name = "c1"};
    struct pfl_identity c2 = {.role = PFL_IDENTITY_OPERATOR, .name = "c2"};

    (void)state;
    (void)world_connect_collector("c1");
    world.peers.collectors_len += PFL_PEER_TABLE_COLLECTORS - 1;
    assert_int_equal(pfl_peer_table_admit(&world.peers, &c1, true, &ousted), 0);
    assert_int_equal(pfl_peer_table_admit(&world.peers, &c2, true, &ousted), PFL_ELIMIT);
    world.peers.collectors_len -= PFL_PEER_TABLE_COLLECTORS - 1;
    /* Its connection is none of the operator's. */
    world.peers.max_per_operator = 1;
    assert_non_null(world_connect(PFL_IDENTITY_OPERATOR, "c1"));
    assert_null(world_connect(PFL_IDENTITY_OPERATOR, "c1"));
}

static void only_who_has_a_rule_reaches_collectors(void **state)
{
    struct world_peer *bob;
    struct world_peer *ann;

    (void)state;
    world_set_policy(COLLECT C_ROLE ANN "max_streams: 1 }");
    (void)world_connect_collector("col1");
    bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    connect_to(bob, "col1", &one);
    world_assert_refused(&one, 403, "not allowed: no rule of the policy lets bob use any host");
    world_assert_audited("refuse 403 bob - - 0/0 - collector=col1\n");
    world_ask(bob, "GET", "/v1/collectors", &one);
    world_assert_refused(&one, 403, "not allowed: no rule of the policy lets bob use any host");
    world_assert_audited("refuse 403 bob - - 0/0 - collectors\n");
    /* The first rule's role has the rates. */
    connect_to(ann, "col1", &one);
    assert_int_equal(one.status, 200);
    connect_to(ann, "col1", &two);
    assert_int_equal(two.status, 429);
    world_set_policy(COLLECT C_ROLE);
    world_pump();
    assert_int_equal(one.code, PFL_H2_CANCEL);
    world_assert_audited("forbid 403 ann - - 0/0 - collector=col1\n");
}

static void other_rates_hold_for_streams_to_collectors_from_now_on(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy(COLLECT C_ROLE ANN "max_streams: 1 }");
    (void)world_connect_collector("col1");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    connect_to(ann, "col1", &one);
    world_set_policy("rule { name: \"a\" operator: \"ann\" host: \"*\" role: \"b\" } "
                     "role { name: \"b\" max_streams: 2 } " COLLECT C_ROLE);
    connect_to(ann, "col1", &two);
    assert_int_equal(two.status, 200);
    connect_to(ann, "col1", &three);
    assert_int_equal(three.status, 429); /* the one that was open counts */
}

static void a_collector_reads_scopes_and_nobody_else(void **state)
{
    struct world_peer *col;
    struct world_peer *ann;

    (void)state;
    world_set_policy(COLLECT C_ROLE ANN "traces: true }");
    col = world_connect(PFL_IDENTITY_OPERATOR, "col1");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_ask(col, "GET", "/v1/scopes/ann", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(one.type, "text/plain");
    assert_string_equal(one.body, "rule {\n  operator: \"ann\"\n  name: \"a\"\n  host: \"*\"\n"
                                  "  role: \"a\"\n}\nrole {\n  name: \"a\"\n  traces: true\n}\n");
    world_ask(ann, "GET", "/v1/scopes/ann", &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets ann collect anywhere (collect: true)");
    world_assert_audited("refuse 403 ann - - 0/0 - scope\n");
    world_ask(col, "GET", "/v1/scopes/bob", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(one.body, "");
    world_set_policy(NULL);
    world_ask(col, "GET", "/v1/scopes/ann", &one);
    assert_string_equal(one.body,
                        "rule {\n  name: \"all\"\n  host: \"*\"\n  operator: \"ann\"\n}\n");
}

static int ask_all(void *arg)
{
    struct world_peer *col;
    struct world_peer *ann;

    (void)arg;
    world_open(COLLECT C_ROLE ANN "traces: true }");
    col = world_connect(PFL_IDENTITY_OPERATOR, "col1");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect_collector("col1");
    world_ask(ann, "GET", "/v1/collectors", &one);
    world_ask(col, "GET", "/v1/scopes/ann", &one);
    connect_to(ann, "col1", &two);
    world_set_policy(COLLECT C_ROLE);
    world_pump();
    world_close();
    return world_result();
}

static void short_of_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(ask_all, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xef721a1bef507e12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(collectors_are_listed_while_they_are_connected),
        WORLD_TEST(an_operators_stream_to_a_collector_carries_bytes),
        WORLD_TEST(what_an_operator_claims_does_not_reach_the_collector),
        WORLD_TEST(of_two_with_one_name_the_newer_counts_until_it_is_gone),
        WORLD_TEST(the_oldest_unused_connection_of_a_collector_gives_way),
        WORLD_TEST(who_may_collect_nowhere_is_no_collector),
        WORLD_TEST(collectors_have_a_largest_number),
        WORLD_TEST(only_who_has_a_rule_reaches_collectors),
        WORLD_TEST(other_rates_hold_for_streams_to_collectors_from_now_on),
        WORLD_TEST(a_collector_reads_scopes_and_nobody_else),
        WORLD_TEST(short_of_memory_nothing_is_left_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
