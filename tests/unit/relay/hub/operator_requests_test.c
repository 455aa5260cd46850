/* SPDX-License-Identifier: Apache-2.0 */
/* Operators' requests: statuses, sentences, and lines of the audit log. */
#include "relay/hub/operator_requests.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define NO_RULE "rule { name: \"r\" operator: \"bob\" host: \"*\" }"
#define NOT_FORGETTING                                                                             \
    "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"look\" }"                            \
    "role { name: \"look\" max_streams: 9 }"
#define FORGETTING                                                                                 \
    "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"tidy\" }"                            \
    "role { name: \"tidy\" forget: true }"

static struct world_answer answer;

static void paths_methods_and_names_that_do_not_exist_are_said_apart(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        unsigned status;
        const char *problem;
    } wrong[] = {
        {"GET", "/v1/nothing", 404, "no such path: this relay knows no such path"},
        {"GET", "/v1/hello", 404, "no such path: this relay knows no such path"},
        {"GET", "/v1/events", 404, "no such path: this relay knows no such path"},
        {"PUT", "/v1/hosts", 405, "wrong method: this path knows another method"},
        {"GET", "/v1/hosts/-x", 400,
         "bad request: that cannot be the name of a host, a stream or a session"},
    };
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        world_ask(ann, wrong[i].method, wrong[i].path, &answer);
        world_assert_refused(&answer, wrong[i].status, wrong[i].problem);
    }
    world_ask(ann, "GET", "/healthz", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "ok\n");
    assert_string_equal(world.audited, "");
}

static void one_host_is_described(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    world_ask(ann, "GET", "/v1/hosts/a", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "\"name\":\"a\",\"is_connected\":true"));
    assert_int_equal(world.streams.unread.used, 0);
    world_ask(ann, "GET", "/v1/hosts/b", &answer);
    world_assert_refused(&answer, 404, "no such host: b has never been connected to this relay");
    assert_string_equal(world.audited, "");
}

static void what_no_rule_allows_is_refused_and_audited(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy(NO_RULE);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    world_ask(ann, "GET", "/v1/hosts/a", &answer);
    world_assert_refused(&answer, 403, "not allowed: no rule of the policy lets ann use a");
    world_assert_audited("refuse 403 ann a - 0/0 - -\n");
    /* Nobody learns by it which hosts there are. */
    world_ask(ann, "GET", "/v1/hosts/b", &answer);
    world_assert_refused(&answer, 403, "not allowed: no rule of the policy lets ann use b");
}

static void a_host_without_its_labels_is_not_there_yet(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" label: \"tier=web\" }");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_ask(ann, "GET", "/v1/hosts/a", &answer);
    world_assert_refused(&answer, 503, "host not connected: its agent has not said its labels yet");
    assert_string_equal(world.audited, "");
}

static void of_a_host_that_left_it_is_said_when(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *a = world_connect(PFL_IDENTITY_HOST, "a");

    (void)state;
    world_disconnect(a);
    world.now_ms += 61500;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_assert_refused(&answer, 503, "host not connected: a was last seen 61 s ago");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &answer);
    world_assert_refused(&answer, 503, "host not connected: a was last seen 61 s ago");
}

static void a_host_that_left_is_forgotten_and_one_that_is_there_is_not(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *a = world_connect(PFL_IDENTITY_HOST, "a");

    (void)state;
    world_ask(ann, "DELETE", "/v1/hosts/a", &answer);
    world_assert_refused(
        &answer, 409, "host connected: a is connected: a host can be forgotten once it has left");
    assert_string_equal(world.audited, "");
    world_disconnect(a);
    world.now_ms += 2000;
    world_ask(ann, "DELETE", "/v1/hosts/a", &answer);
    assert_int_equal(answer.status, 204);
    assert_null(pfl_host_inventory_find(&world.peers.inventory, "a"));
    assert_int_equal(world.peers.inventory.forgotten[PFL_HOST_INVENTORY_ASKED], 1);
    world_assert_audited("forget 204 ann a - 0/0 - left 2 s ago\n");
    world_assert_reported("host-forgotten ann a - 2 -\n");
}

static void only_a_role_that_says_so_forgets(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy(NOT_FORGETTING);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_disconnect(world_connect(PFL_IDENTITY_HOST, "a"));
    world_ask(ann, "DELETE", "/v1/hosts/a", &answer);
    world_assert_refused(
        &answer, 403,
        "not allowed: role look does not allow forgetting hosts (it has no forget: true)");
    world_assert_audited("refuse 403 ann a - 0/0 - role look does not allow forgetting hosts (it "
                         "has no forget: true)\n");
    world_set_policy(FORGETTING);
    world_ask(ann, "DELETE", "/v1/hosts/a", &answer);
    assert_int_equal(answer.status, 204);
}

static void one_operator_leaves_some_of_an_agents_streams_to_others(void **state)
{
    enum { HALF = PFL_H2_MAX_STREAMS / 2, FULL = PFL_H2_MAX_STREAMS * 3 / 4 };
    static struct world_answer many[FULL];
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    struct world_peer *a = world_connect(PFL_IDENTITY_HOST, "a");

    (void)state;
    a->answer = 0;
    a->events_status = 404;
    /* One stream of the agent's connection has its events. */
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &answer);
    for (unsigned i = 0; i < FULL - 1; i++) {
        world_ask(i < HALF - 1 ? bob : ann, "GET", "/v1/hosts/a/streams", &many[i]);
        assert_int_equal(many[i].status, 0);
    }
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "bob", "a"), HALF - 1);
    /* Ann has less than half: she may still ask. Bob is one short of half, and may once more. */
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(answer.status, 0);
    world_reset(&answer, PFL_H2_CANCEL);
    world_ask(bob, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(answer.status, 0);
    world_ask(bob, "GET", "/v1/hosts/a/alarms", &many[0]);
    world_assert_refused(&many[0], 429,
                         "too many streams: bob has 128 streams and questions at a, the last are "
                         "for others: close some, or wait");
    world_assert_audited("refuse 429 bob a - 0/0 - -\n");
}

/* Without memory there is no answer, a problem, or what HTTP/2 says of a request nobody took. */
static void assert_answered(unsigned status)
{
    if (answer.status != 0 && answer.status != 503 && answer.status != 404)
        assert_int_equal(answer.status, status);
}

static int ask_all(void *arg)
{
    struct world_peer *ann;

    (void)arg;
    world_open(FORGETTING);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    if (!world.is_broken && world.peer[1].peer.host != NULL) {
        world_ask(ann, "GET", "/v1/hosts/a", &answer);
        assert_answered(200);
        world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
        assert_answered(200);
        world_ask(ann, "DELETE", "/v1/hosts/a", &answer); /* which may have left by now */
    }
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(ask_all, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x6343872bc90f7a10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(paths_methods_and_names_that_do_not_exist_are_said_apart),
        WORLD_TEST(one_host_is_described),
        WORLD_TEST(what_no_rule_allows_is_refused_and_audited),
        WORLD_TEST(a_host_without_its_labels_is_not_there_yet),
        WORLD_TEST(of_a_host_that_left_it_is_said_when),
        WORLD_TEST(a_host_that_left_is_forgotten_and_one_that_is_there_is_not),
        WORLD_TEST(only_a_role_that_says_so_forgets),
        WORLD_TEST(one_operator_leaves_some_of_an_agents_streams_to_others),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
