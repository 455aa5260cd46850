/* SPDX-License-Identifier: Apache-2.0 */
/* A relay's own figures: whole texts, who gets them, and how often they are taken. */
#include "relay/hub/relay_state.h"

#include "tests/unit/relay/hub/hub_world.h"

#define ANN "rule { name: \"a\" operator: \"ann\" host: \"web\" role: \"a\" } role { name: \"a\" } "

static struct world_answer one;

static void set_figures(void)
{
    world.figures = (struct pfl_relay_figures){
        .certificate_end_s = 1800000000,
        .crl_end_s = 1700009999,
        .cpu_ns = 12345678901,
        .traffic = {.begun = 11,
                    .open = 3,
                    .bytes_to_host = 500,
                    .bytes_to_operator = 9223372036854775807,
                    .resumed = 2,
                    .cut = 4,
                    .held_to_host = 6,
                    .held_to_operator = 70,
                    .queued = 9},
    };
}

static void all_figures_are_in_the_answer(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *gone = world_connect(PFL_IDENTITY_HOST, "web-2");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "web-1");
    (void)world_connect_collector("c1");
    world_disconnect(gone);
    set_figures();
    world.now_ms += 61234;
    world_ask(ann, "GET", "/v1/relay", &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(one.type, "application/json");
    assert_string_equal(
        one.body,
        "{\"relay\":\"meet\",\"fleet\":\"test\",\"version\":\"" PFL_VERSION "\",\"up_ms\":61234,"
        "\"certificate_end_s\":1800000000,\"crl_end_s\":1700009999,\"cpu_ms\":12345,"
        "\"hosts_known\":2,\"hosts_connected\":1,\"collectors\":1,\"streams\":3,"
        "\"streams_begun\":11,\"streams_resumed\":2,\"streams_cut\":4,\"bytes_to_host\":500,"
        "\"bytes_to_operator\":9223372036854775807,\"held_bytes\":76,\"queued_bytes\":9}");
    assert_int_equal(world.streams.unread.used, 0);
}

static void they_are_taken_once_a_second(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");

    (void)state;
    world.figures.cpu_ns = 1000000;
    world_ask(ann, "GET", "/v1/relay", &one);
    assert_non_null(strstr(one.body, "\"up_ms\":0,"));
    assert_non_null(strstr(one.body, "\"cpu_ms\":1,"));
    (void)world_connect(PFL_IDENTITY_HOST, "web");
    world.figures.cpu_ns = 2000000;
    world.now_ms += PFL_RELAY_STATE_FRESH_MS - 1;
    world_ask(ann, "GET", "/v1/relay", &one);
    assert_non_null(strstr(one.body, "\"up_ms\":0,"));
    assert_non_null(strstr(one.body, "\"cpu_ms\":1,"));
    assert_non_null(strstr(one.body, "\"hosts_connected\":0,"));
    world.now_ms += 1;
    world_ask(ann, "GET", "/v1/relay", &one);
    assert_non_null(strstr(one.body, "\"up_ms\":1000,"));
    assert_non_null(strstr(one.body, "\"cpu_ms\":2,"));
    assert_non_null(strstr(one.body, "\"hosts_connected\":1,"));
}

/* As /metrics has them for any operator of the fleet. */
static void who_may_use_some_host_gets_them_and_nobody_else(void **state)
{
    struct world_peer *ann;
    struct world_peer *bob;

    (void)state;
    world_set_policy(ANN);
    (void)world_connect(PFL_IDENTITY_HOST, "secret-db");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    world_ask(ann, "GET", "/v1/relay", &one);
    assert_int_equal(one.status, 200);
    assert_null(strstr(one.body, "secret"));
    world_ask(bob, "GET", "/v1/relay", &one);
    world_assert_refused(&one, 403, "not allowed: no rule of the policy lets bob use any host");
    world_assert_audited("refuse 403 bob - - 0/0 - relay\n");
    world_ask(ann, "PUT", "/v1/relay", &one);
    world_assert_refused(&one, 405, "wrong method: this path knows another method");
}

static int ask_both(void *arg)
{
    struct world_peer *ann;
    struct world_peer *bob;

    (void)arg;
    world_open(ANN);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    world_ask(ann, "GET", "/v1/relay", &one);
    world_ask(bob, "GET", "/v1/relay", &one);
    world_close();
    return world_result();
}

static void short_of_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(ask_both, NULL, true);
    world_open(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(all_figures_are_in_the_answer),
        WORLD_TEST(they_are_taken_once_a_second),
        WORLD_TEST(who_may_use_some_host_gets_them_and_nobody_else),
        WORLD_TEST(short_of_memory_nothing_is_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
