/* SPDX-License-Identifier: Apache-2.0 */
/* Collectors' streams to spools: who gets one, what the relay sends to the agent, what another
 * policy does. */
#include "relay/hub/spool_right.h"

#include "perfleet/policy.fields.h"
#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define COLLECT "rule { name: \"c\" operator: \"col\" host: \"*\" role: \"c\" } "
#define C_ROLE  "role { name: \"c\" collect: true } "
#define ORDER   "rule { name: \"o\" operator: \"ann\" host: \"*\" role: \"o\" } "
#define O_ROLE  "role { name: \"o\" order: true } "
#define ALL     COLLECT C_ROLE ORDER O_ROLE

/* As hex: the roles above without what stays with the relay. */
#define C_HEX "0a0163"
#define O_HEX "0a016f"

static struct world_answer one;
static struct world_answer two;
static struct world_peer *col;
static struct world_peer *a;

static void connect_both(const char *policy, const char *kept_role)
{
    world_set_policy(policy);
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    a->kept_role = kept_role;
}

static void dial(const char *host, const char *orderer, struct world_answer *answer)
{
    const struct pfl_h2_field field = {PFL_TUNNEL_H_FOR, orderer};
    char path[128];

    (void)snprintf(path, sizeof(path), "/v1/hosts/%s/spool", host);
    world_dial(col, path, PFL_TUNNEL_PROTOCOL_SPOOL, orderer != NULL ? &field : NULL, answer);
}

static void a_collector_reads_a_spool(void **state)
{
    (void)state;
    connect_both(NULL, NULL);
    dial("a", NULL, &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(a->asked, "CONNECT /v1/spool operator=col collector=col\n");
    world_assert_audited("connect 0 col a - 0/0 - spool\n");
    a->services[0].to_send = 3000;
    pfl_h2_stream_wake(a->services[0].h2_stream);
    one.to_send = 200;
    pfl_h2_stream_wake(one.h2_stream);
    world_pump();
    assert_int_equal(one.body_len, 3000);
    assert_int_equal(a->services[0].got, 200);
    world_reset(&one, PFL_H2_CANCEL);
    assert_int_equal(a->services[0].code, PFL_H2_CANCEL);
    world_assert_audited("end 200 col a - 200/3000 - spool\n");
    assert_int_equal(world.streams.unread.used, 0);
}

static void the_agent_learns_for_whom_and_with_which_role(void **state)
{
    (void)state;
    connect_both(ALL, "o");
    dial("a", "ann", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(a->asked,
                        "CONNECT /v1/spool operator=ann role=" O_HEX " collector=col for=ann\n");
    world_assert_audited("connect 0 col a - 0/0 - spool for=ann\n");
    /* For itself: with its own role. */
    a->asked[0] = '\0';
    a->kept_role = "c";
    dial("a", NULL, &two);
    assert_int_equal(two.status, 200);
    assert_string_equal(a->asked, "CONNECT /v1/spool operator=col role=" C_HEX " collector=col\n");
}

static void an_agent_that_does_not_keep_the_role_gets_no_stream(void **state)
{
    (void)state;
    connect_both(ALL, NULL);
    dial("a", "ann", &one);
    world_assert_refused(&one, 502,
                         "agent too old: the host's agent does not keep operators to roles: update "
                         "perfleet-agent there");
}

/* Only the relay says these to an agent. */
static void what_a_collector_claims_is_not_passed_on(void **state)
{
    static const char *const names[] = {PFL_TUNNEL_H_OPERATOR, PFL_TUNNEL_H_COLLECTOR,
                                        PFL_TUNNEL_H_ROLE, PFL_TUNNEL_H_STREAM};

    (void)state;
    connect_both(NULL, NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pfl_h2_field field = {names[i], WORLD_STREAM};

        a->asked[0] = '\0';
        world_dial(col, "/v1/hosts/a/spool", PFL_TUNNEL_PROTOCOL_SPOOL, &field, &one);
        assert_int_equal(one.status, 200);
        assert_string_equal(a->asked, "CONNECT /v1/spool operator=col collector=col\n");
    }
}

static void who_may_not_is_refused_and_audited(void **state)
{
    (void)state;
    connect_both(COLLECT "role { name: \"c\" } " ORDER O_ROLE, NULL);
    dial("a", NULL, &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets col collect at a (collect: true)");
    world_assert_audited("refuse 403 col a - 0/0 - spool\n");
    /* What others may is not in the answer. */
    dial("a", "ann", &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets col collect at a (collect: true)");
    world_assert_audited("refuse 403 col a - 0/0 - spool for=ann\n");
    world_set_policy(COLLECT C_ROLE ORDER "role { name: \"o\" max_streams: 9 }");
    dial("a", "ann", &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets ann put orders at a (order: true)");
    dial("a", "bob", &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets bob put orders at a (order: true)");
    assert_string_equal(a->asked, "");
}

static void names_that_cannot_be_are_refused(void **state)
{
    (void)state;
    connect_both(NULL, NULL);
    dial("a", "../ann", &one);
    world_assert_refused(&one, 400, "bad request: perfleet-for cannot be the name of an operator");
    dial("a", "", &one);
    assert_int_equal(one.status, 400);
    dial("b", NULL, &one);
    world_assert_refused(&one, 404, "no such host: b has never been connected to this relay");
    world_disconnect(a);
    dial("a", NULL, &one);
    assert_int_equal(one.status, 503);
}

static void rules_with_labels_wait_for_them(void **state)
{
    (void)state;
    world_set_policy("rule { name: \"c\" operator: \"col\" host: \"*\" role: \"c\" } " C_ROLE
                     "rule { name: \"o\" operator: \"ann\" host: \"*\" label: \"tier=web\" }");
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    dial("a", "ann", &one);
    world_assert_refused(&one, 503, "host not connected: its agent has not said its labels yet");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    dial("a", "ann", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(a->asked, "CONNECT /v1/spool operator=ann collector=col for=ann\n");
}

static void a_policy_that_takes_a_right_back_ends_the_stream(void **state)
{
    (void)state;
    connect_both(ALL, "o");
    dial("a", "ann", &one);
    a->kept_role = "c";
    dial("a", NULL, &two);
    world_set_policy(COLLECT C_ROLE);
    world_pump();
    assert_int_equal(one.code, PFL_H2_CANCEL);
    assert_int_equal(a->services[0].code, PFL_H2_CANCEL);
    world_assert_audited("forbid 403 col a - 0/0 - spool for=ann\n");
    assert_non_null(two.h2_stream);
    world_set_policy(ORDER O_ROLE);
    world_pump();
    assert_int_equal(two.code, PFL_H2_CANCEL);
    world_assert_audited("forbid 403 col a - 0/0 - spool\n");
}

static void the_longest_name_of_an_orderer_is_audited_whole(void **state)
{
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char line[128];

    (void)state;
    memset(orderer, 'x', sizeof(orderer) - 1);
    orderer[sizeof(orderer) - 1] = '\0';
    connect_both(COLLECT C_ROLE, NULL);
    dial("a", orderer, &one);
    assert_int_equal(one.status, 403);
    (void)snprintf(line, sizeof(line), "refuse 403 col a - 0/0 - spool for=%s\n", orderer);
    world_assert_audited(line);
}

static void another_role_of_the_orderer_is_got_by_dialling_again(void **state)
{
    (void)state;
    connect_both(ALL, "o");
    dial("a", "ann", &one);
    world_set_policy(ALL "role { name: \"unused\" }");
    world_pump();
    assert_non_null(one.h2_stream); /* it is the same role */
    world_set_policy(COLLECT C_ROLE ORDER "role { name: \"o\" order: true method: \"Q*\" }");
    world_pump();
    assert_int_equal(one.code, PFL_H2_DETACH);
    assert_int_equal(world_count(world.audited, "forbid"), 0);
    assert_int_equal(world_count(a->asked, "PUT"), 0);
}

static void a_collectors_role_bounds_its_streams(void **state)
{
    (void)state;
    connect_both(COLLECT "role { name: \"c\" collect: true max_streams: 1 } " ORDER O_ROLE, "c");
    dial("a", NULL, &one);
    assert_int_equal(one.status, 200);
    dial("a", NULL, &two);
    assert_int_equal(two.status, 429);
    world_set_policy(COLLECT "role { name: \"c\" collect: true max_streams: 2 } " ORDER O_ROLE);
    dial("a", NULL, &two);
    assert_int_equal(two.status, 200);
}

static int carry(void *arg)
{
    (void)arg;
    world_open(ALL);
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    if (a != NULL)
        a->kept_role = "o";
    dial("a", "ann", &one);
    dial("a", "bob", &two);
    world_set_policy(COLLECT C_ROLE);
    world_pump();
    world_close();
    return world_result();
}

static void short_of_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(carry, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xf31f6b1bd512af97);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_collector_reads_a_spool),
        WORLD_TEST(the_agent_learns_for_whom_and_with_which_role),
        WORLD_TEST(an_agent_that_does_not_keep_the_role_gets_no_stream),
        WORLD_TEST(what_a_collector_claims_is_not_passed_on),
        WORLD_TEST(who_may_not_is_refused_and_audited),
        WORLD_TEST(names_that_cannot_be_are_refused),
        WORLD_TEST(rules_with_labels_wait_for_them),
        WORLD_TEST(a_policy_that_takes_a_right_back_ends_the_stream),
        WORLD_TEST(the_longest_name_of_an_orderer_is_audited_whole),
        WORLD_TEST(another_role_of_the_orderer_is_got_by_dialling_again),
        WORLD_TEST(a_collectors_role_bounds_its_streams),
        WORLD_TEST(short_of_memory_nothing_is_left_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
