/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers for other hosts: to whom, when, how old, and what is said of the answers. */
#include "relay/hub/trigger_passing.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define RAISED(trigger)                                                                            \
    "{\"kind\":\"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":\"" trigger "\"}\n"
#define PASSED(trigger) "PUT /v1/alarms/s/raised operator=ann trigger=" trigger " raised-at=a "

#define ID "01J0000000000000000000000A"
#define RAISED_ORDER(trigger)                                                                      \
    "{\"kind\":\"trigger\",\"operator\":\"ann\",\"order\":\"o\",\"id\":\"" ID                      \
    "\",\"trigger\":\"" trigger "\"}\n"
#define PASSED_ORDER(trigger)                                                                      \
    "PUT /v1/orders/o/raised operator=ann trigger=" trigger " raised-at=a raised-ago-ms="

static struct world_peer *a;
static struct world_peer *b;

static void connect_hosts(void)
{
    a = world_connect(PFL_IDENTITY_HOST, "a");
    b = world_connect(PFL_IDENTITY_HOST, "b");
}

static void a_trigger_goes_to_every_other_host(void **state)
{
    struct world_peer *c;

    (void)state;
    connect_hosts();
    c = world_connect(PFL_IDENTITY_HOST, "c");
    (void)world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_say_events(a, RAISED("t"));
    assert_string_equal(a->asked, "");
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=0\n");
    assert_string_equal(c->asked, PASSED("t") "raised-ago-ms=0\n");
    world_assert_audited("trigger 200 ann a - 0/0 - session=s trigger=t\n");
    world_assert_audited("snapshot 200 ann b - 0/0 - session=s trigger=t raised_at=a\n");
    world_assert_audited("snapshot 200 ann c - 0/0 - session=s trigger=t raised_at=a\n");
    /* Raised again at the same time, by another host, it is the same one. */
    world_say_events(b, RAISED("t"));
    assert_string_equal(a->asked, "");
}

static unsigned count_passed(const char *trigger)
{
    unsigned count = 0;

    for (unsigned i = 0; i < world.peers_len; i++)
        count += world_count(world.peer[i].asked, trigger);
    return count;
}

/* The others get it with each answer, and with what any agent says. */
static void of_many_hosts_a_few_get_it_at_a_time(void **state)
{
    static const char *const names[] = {"c", "d", "e", "f"};

    (void)state;
    connect_hosts();
    world.triggers.hosts = 1;
    b->answer = 0;
    for (unsigned i = 0; i < 4; i++)
        world_connect(PFL_IDENTITY_HOST, names[i])->answer = 0;
    world_say_events(a, RAISED("t")); /* it is looked at, too, and gets nothing */
    world_say_events(a, RAISED_ORDER("x"));
    assert_in_range(count_passed("trigger=t"), 1, 2);
    world_answer_now(b, 200, "{}");
    assert_in_range(count_passed("trigger=t"), 2, 4);
    for (unsigned i = 0; i < 8; i++) {
        world.now_ms += PFL_TRIGGER_LOG_ORDER_MS;
        world_say_events(a, RAISED_ORDER("x"));
    }
    assert_int_equal(count_passed("trigger=t"), 5);
}

/* Whatever it raises, and however many raise: the relay's work for all hosts has a rate. */
static void all_triggers_together_have_a_rate(void **state)
{
    (void)state;
    connect_hosts();
    pfl_token_bucket_take(&world.triggers.budget, PFL_TRIGGER_PASSING_AT_ONCE);
    world_say_events(a, RAISED("t"));
    assert_int_equal(count_passed("trigger=t"), 0);
    world.now_ms += 1000;
    world_say_events(a, RAISED("u"));
    assert_int_equal(count_passed("trigger=t"), 1);
    assert_int_equal(count_passed("trigger=u"), 1);
}

static void its_age_is_by_the_hosts_clock_and_ours(void **state)
{
    (void)state;
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->now_ms = "5000";
    world_pump();
    b = world_connect(PFL_IDENTITY_HOST, "b");
    b->answer = 0;
    world.now_ms += 3000;
    world_say_events(a, "{\"kind\":\"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":"
                        "\"t\",\"at_ms\":7000}\n");
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=1000\n");
    /* One of the host's future is now, one without a time too. */
    world_say_events(a, "{\"kind\":\"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":"
                        "\"u\",\"at_ms\":9000}\n" RAISED("v"));
    world.now_ms += 500;
    b->answer = 200;
    b->asked[0] = '\0';
    world_answer_now(b, 200, "{}");
    assert_string_equal(b->asked,
                        PASSED("u") "raised-ago-ms=500\n" PASSED("v") "raised-ago-ms=500\n");
}

static void without_the_hosts_clock_it_is_now(void **state)
{
    (void)state;
    connect_hosts();
    world_say_events(a, "{\"kind\":\"trigger\",\"operator\":\"ann\",\"session\":\"s\",\"trigger\":"
                        "\"t\",\"at_ms\":1}\n");
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=0\n");
}

static void a_host_that_comes_within_ten_minutes_gets_it_and_a_later_one_does_not(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, RAISED("t"));
    world.now_ms += PFL_TRIGGER_LOG_KEPT_MS - 1;
    b = world_connect(PFL_IDENTITY_HOST, "b");
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=599999\n");
    world.now_ms += 1;
    b = world_connect(PFL_IDENTITY_HOST, "c");
    assert_string_equal(b->asked, "");
}

static void one_at_a_time_is_in_flight_to_a_host(void **state)
{
    (void)state;
    connect_hosts();
    b->answer = 0;
    world_say_events(a, RAISED("t") RAISED("u"));
    assert_int_equal(world_count(b->asked, "PUT"), 1);
    world_answer_now(b, 200, "{}");
    assert_int_equal(world_count(b->asked, "PUT"), 2);
    world_answer_now(b, 200, "{}");
    assert_int_equal(world_count(world.audited, "snapshot 200"), 2);
    pfl_trigger_passing_next(&world.triggers, &b->peer);
    world_pump();
    assert_int_equal(world_count(b->asked, "PUT"), 2);
}

static void an_agent_that_waits_for_nothing_is_not_audited(void **state)
{
    (void)state;
    connect_hosts();
    b->answer = 410;
    world_say_events(a, RAISED("t"));
    b->answer = 404;
    world_say_events(a, RAISED("u"));
    assert_int_equal(world_count(world.audited, "snapshot"), 0);
    b->answer = 409;
    world_say_events(a, RAISED("v"));
    world_assert_audited("snapshot 409 ann b - 0/0 - session=s trigger=v raised_at=a\n");
    assert_int_equal(world_count(b->asked, "PUT"), 3);
}

static void an_answer_that_is_too_large_is_a_bad_one(void **state)
{
    static char large[4098];

    (void)state;
    connect_hosts();
    memset(large, 'x', sizeof(large) - 1);
    b->answer_body = large;
    world_say_events(a, RAISED("t"));
    world_assert_audited("snapshot 502 ann b - 0/0 - session=s trigger=t raised_at=a\n");
}

static void one_whose_agent_is_lost_is_reported(void **state)
{
    (void)state;
    connect_hosts();
    b->answer = 0;
    world_say_events(a, RAISED("t"));
    world_disconnect(b);
    world_assert_reported("trigger-not-passed ann b - 0 session=s trigger=t raised_at=a\n");
    assert_int_equal(world_count(world.audited, "snapshot"), 0);
}

static void a_host_that_the_operator_may_not_use_does_not_get_it(void **state)
{
    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"a\" host: \"b\" }");
    connect_hosts();
    (void)world_connect(PFL_IDENTITY_HOST, "c");
    world_say_events(a, RAISED("t"));
    assert_int_equal(world_count(b->asked, "PUT"), 1);
    assert_string_equal(world.peer[2].asked, "");
    /* What c reports of the operator goes nowhere. */
    world_say_events(&world.peer[2], RAISED("u"));
    world_assert_audited("trigger 200 ann c - 0/0 - session=s trigger=u\n");
    assert_int_equal(world_count(b->asked, "PUT"), 1);
}

static void the_role_goes_with_it(void **state)
{
    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"x\" } "
                     "role { name: \"x\" method: \"Q*\" }");
    connect_hosts();
    world_say_events(a, RAISED("t"));
    assert_int_equal(world_count(b->asked, "PUT /v1/alarms/s/raised operator=ann role=0a0178"), 1);
}

static void an_orders_trigger_has_the_same_id_at_every_host(void **state)
{
    (void)state;
    connect_hosts();
    world_say_events(a, RAISED_ORDER("t"));
    assert_string_equal(b->asked, PASSED_ORDER("t") "0 trigger-id=" ID "\n");
    world_assert_audited("trigger 200 ann a - 0/0 - order=o trigger=t id=" ID "\n");
    world_assert_audited("snapshot 200 ann b - 0/0 - order=o trigger=t raised_at=a id=" ID "\n");
}

static void an_order_spreads_once_a_second_whoever_raises_it(void **state)
{
    (void)state;
    connect_hosts();
    for (unsigned i = 0; i < 8; i++) {
        world.now_ms += PFL_TRIGGER_LOG_ORDER_MS / 8;
        world_say_events(a, RAISED_ORDER("t"));
    }
    assert_int_equal(world_count(b->asked, "PUT"), 1);
    /* What is none of its triggers holds up none that is. */
    world_say_events(a, RAISED_ORDER("u"));
    assert_int_equal(world_count(b->asked, "trigger=u"), 1);
    world.now_ms += PFL_TRIGGER_LOG_ORDER_MS;
    world_say_events(a, RAISED_ORDER("t"));
    assert_int_equal(world_count(b->asked, "trigger=t"), 2);
}

static void an_orders_trigger_counts_where_the_operator_may_order(void **state)
{
    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"a\" host: \"b\" role: \"x\" } "
                     "rule { name: \"s\" operator: \"ann\" host: \"*\" role: \"y\" } "
                     "role { name: \"x\" order: true } role { name: \"y\" method: \"*\" }");
    connect_hosts();
    (void)world_connect(PFL_IDENTITY_HOST, "c");
    world_say_events(a, RAISED_ORDER("t"));
    assert_int_equal(world_count(b->asked, "PUT"), 1);
    assert_string_equal(world.peer[2].asked, "");
    world_say_events(&world.peer[2], RAISED_ORDER("u"));
    assert_int_equal(world_count(b->asked, "PUT"), 1);
}

static void an_agent_without_a_hello_waits(void **state)
{
    (void)state;
    a = world_connect(PFL_IDENTITY_HOST, "a");
    b = world_begin(PFL_IDENTITY_HOST, "b");
    b->hello_text = NULL;
    world_pump();
    world_say_events(a, RAISED("t"));
    assert_string_equal(b->asked, "");
    b->peer.state = PFL_HUB_PEER_INTRODUCED;
    pfl_trigger_passing_next(&world.triggers, &b->peer);
    world_pump();
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=0\n");
}

static void one_that_cannot_be_started_is_tried_again(void **state)
{
    (void)state;
    connect_hosts();
    for (unsigned nth = 1; nth <= 2; nth++) {
        pfl_mem_fail_at(nth == 1 ? 1 : 2);
        pfl_trigger_passing_raise(
            &world.triggers,
            &(struct pfl_trigger_log_entry){
                .operator_name = "ann", .session = "s", .trigger = "t", .host = "a"});
        pfl_trigger_passing_next(&world.triggers, &b->peer);
        pfl_mem_fail_at(0);
    }
    world_pump();
    pfl_agent_hello_repeat(&b->hello);
    world_pump();
    assert_string_equal(b->asked, PASSED("t") "raised-ago-ms=0\n");
}

static int raise_some(void *arg)
{
    (void)arg;
    world_open(NULL);
    connect_hosts();
    world_say_events(a, RAISED("t") RAISED("u"));
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(raise_some, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x469d16b41ac6fc47);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_trigger_goes_to_every_other_host),
        WORLD_TEST(of_many_hosts_a_few_get_it_at_a_time),
        WORLD_TEST(all_triggers_together_have_a_rate),
        WORLD_TEST(its_age_is_by_the_hosts_clock_and_ours),
        WORLD_TEST(without_the_hosts_clock_it_is_now),
        WORLD_TEST(a_host_that_comes_within_ten_minutes_gets_it_and_a_later_one_does_not),
        WORLD_TEST(one_at_a_time_is_in_flight_to_a_host),
        WORLD_TEST(an_agent_that_waits_for_nothing_is_not_audited),
        WORLD_TEST(an_answer_that_is_too_large_is_a_bad_one),
        WORLD_TEST(one_whose_agent_is_lost_is_reported),
        WORLD_TEST(a_host_that_the_operator_may_not_use_does_not_get_it),
        WORLD_TEST(the_role_goes_with_it),
        WORLD_TEST(an_orders_trigger_has_the_same_id_at_every_host),
        WORLD_TEST(an_order_spreads_once_a_second_whoever_raises_it),
        WORLD_TEST(an_orders_trigger_counts_where_the_operator_may_order),
        WORLD_TEST(an_agent_without_a_hello_waits),
        WORLD_TEST(one_that_cannot_be_started_is_tried_again),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
