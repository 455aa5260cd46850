/* SPDX-License-Identifier: Apache-2.0 */
/* What agents are asked in operators' names, and how their answers come back. */
#include "relay/hub/forwarded_request.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define UNDER_A_ROLE                                                                               \
    "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"look\" }"                            \
    "role { name: \"look\" method: \"Query*\" }"

static struct world_answer answer;
static struct world_peer *ann;
static struct world_peer *a;

static void connect_both(void)
{
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    a = world_connect(PFL_IDENTITY_HOST, "a");
}

static void each_request_is_the_agents_own_in_the_operators_name(void **state)
{
    static const struct pfl_h2_field triggers = {PFL_TUNNEL_H_TRIGGERS, "x,y"};
    static const struct {
        const char *method;
        const char *path;
        const char *asked;
        const char *audited; /* "": not */
    } requests[] = {
        {"GET", "/v1/hosts/a/clock", "GET /v1/clock operator=ann\n", ""},
        {"GET", "/v1/hosts/a/streams", "GET /v1/streams operator=ann\n", ""},
        {"GET", "/v1/hosts/a/alarms", "GET /v1/alarms operator=ann\n", ""},
        {"DELETE", "/v1/hosts/a/streams/" WORLD_STREAM,
         "DELETE /v1/streams/" WORLD_STREAM " operator=ann\n",
         "kill 200 ann a " WORLD_STREAM " 0/0 - -\n"},
        {"PUT", "/v1/hosts/a/alarms/s1", "PUT /v1/alarms/s1 operator=ann triggers=x,y\n",
         "arm 200 ann a - 0/0 - session=s1\n"},
        {"DELETE", "/v1/hosts/a/alarms/s1", "DELETE /v1/alarms/s1 operator=ann\n",
         "disarm 200 ann a - 0/0 - session=s1\n"},
        {"PUT", "/v1/hosts/a/triggers", "PUT /v1/triggers operator=ann triggers=x,y\n",
         "raise 200 ann a - 0/0 - triggers=x,y\n"},
    };

    (void)state;
    connect_both();
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        a->asked[0] = world.audited[0] = '\0';
        world_ask_with(ann, requests[i].method, requests[i].path, &triggers, &answer);
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, "{\"fine\":1}");
        assert_string_equal(a->asked, requests[i].asked);
        assert_string_equal(world.audited, requests[i].audited);
    }
    assert_int_equal(world.streams.unread.used, 0);
}

static void the_agent_gets_the_role_with_what_may_act_later(void **state)
{
    (void)state;
    world_set_policy(UNDER_A_ROLE);
    connect_both();
    world_ask(ann, "PUT", "/v1/hosts/a/alarms/s1", &answer);
    assert_int_equal(world_count(a->asked, "PUT /v1/alarms/s1 operator=ann role=0a046c6f6f6b"), 1);
    world_ask(ann, "PUT", "/v1/hosts/a/triggers", &answer);
    assert_int_equal(world_count(a->asked, "PUT /v1/triggers operator=ann role="), 1);
    world_assert_audited("raise 200 ann a - 0/0 - -\n");
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(world_count(a->asked, "role="), 2);
}

static void what_the_agent_refuses_is_passed_back_and_audited_as_refused(void **state)
{
    (void)state;
    connect_both();
    a->answer = 409;
    world_ask(ann, "PUT", "/v1/hosts/a/alarms/s1", &answer);
    assert_int_equal(answer.status, 409);
    assert_string_equal(answer.body, "{\"fine\":1}");
    world_assert_audited("arm 409 ann a - 0/0 - session=s1 (refused)\n");
    a->answer = 299;
    world_ask(ann, "DELETE", "/v1/hosts/a/alarms/s1", &answer);
    assert_string_equal(answer.type, "application/json");
    world_assert_audited("disarm 299 ann a - 0/0 - session=s1\n");
    a->answer = 300;
    world_ask(ann, "DELETE", "/v1/hosts/a/alarms/s2", &answer);
    assert_string_equal(answer.type, "application/problem+json");
    world_assert_audited("disarm 300 ann a - 0/0 - session=s2 (refused)\n");
}

static void an_answer_that_makes_no_sense_is_a_bad_one(void **state)
{
    static char large[(64u << 10) + 2];

    (void)state;
    connect_both();
    a->answer = 600;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_assert_refused(&answer, 502, "bad answer: the host's agent answered what makes no sense");
    a->answer = 599;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(answer.status, 599);
    a->answer = 200;
    memset(large, 'x', sizeof(large) - 1);
    a->answer_body = large;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_assert_refused(&answer, 502, "bad answer: the host's agent answered more than it may");
    large[64u << 10] = '\0';
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_len, 64u << 10);
}

static void an_agent_that_is_lost_is_not_connected(void **state)
{
    (void)state;
    connect_both();
    a->answer = 0;
    world_ask(ann, "DELETE", "/v1/hosts/a/alarms/s1", &answer);
    assert_int_equal(answer.status, 0);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "ann", "a"), 1);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "bob", "a"), 0);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "ann", "b"), 0);
    world_disconnect(a);
    world_pump();
    world_assert_refused(&answer, 503,
                         "host not connected: the host's agent was lost while it was asked");
    world_assert_audited("disarm 0 ann a - 0/0 - session=s1 (refused)\n");
}

static void an_operator_who_leaves_cancels_and_the_line_is_written_all_the_same(void **state)
{
    (void)state;
    connect_both();
    a->answer = 0;
    world_ask(ann, "PUT", "/v1/hosts/a/alarms/s1", &answer);
    assert_non_null(a->waiting);
    world_disconnect(ann);
    world_pump();
    assert_null(a->waiting);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "ann", "a"), 0);
    world_assert_audited("arm 0 ann a - 0/0 - session=s1 (refused)\n");
}

static void an_answer_counts_until_the_operator_has_read_it(void **state)
{
    struct world_answer late;

    (void)state;
    connect_both();
    world.streams.unread.max = 20;
    a->answer_body = "0123456789"; /* half of what is free */
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    assert_int_equal(answer.status, 200);
    a->answer_body = "01234567890";
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_assert_refused(&answer, 429,
                         "too much is not read: answers and streams wait at this relay: read them, "
                         "or close streams");
    /* An answer of more than one frame stays, as far as the operator's window does not take it. */
    world.streams.unread.max = 1u << 20;
    a->answer = 0;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &late);
    assert_int_equal(world.streams.unread.used, 0);
    world_answer_now(a, 200, "{}");
    assert_int_equal(late.status, 200);
    assert_int_equal(world.streams.unread.used, 0);
    world.streams.unread.max = 1;
    world_ask(ann, "GET", "/v1/hosts/a", &answer);
    assert_int_equal(answer.status, 429);
}

/* Who counts an operator's requests at a host does not look at thousands of unread answers. */
static void an_answered_request_is_with_the_agent_no_longer(void **state)
{
    static struct world_answer late; /* closed after this returns */

    (void)state;
    world.window_bytes = 1;
    connect_both();
    a->answer = 0;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &late);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "ann", "a"), 1);
    late.is_reading = false;
    world_answer_now(a, 200, "{}");
    assert_true(late.h2_stream != NULL);
    assert_int_equal(world.streams.unread.used, 2);
    assert_int_equal(pfl_forwarded_requests_count(&world.requests.forwarded, "ann", "a"), 0);
}

static void an_empty_answer_takes_nothing_and_has_no_type(void **state)
{
    (void)state;
    connect_both();
    world.streams.unread.max = 0;
    a->answer = 204;
    a->answer_body = "";
    world_ask(ann, "DELETE", "/v1/hosts/a/alarms/s1", &answer);
    assert_int_equal(answer.status, 204);
    assert_string_equal(answer.type, "");
    assert_int_equal(answer.body_len, 0);
}

static void an_agent_that_goes_takes_no_request(void **state)
{
    (void)state;
    connect_both();
    assert_int_equal(pfl_h2_goaway(a->far), 0);
    world_pump();
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_assert_refused(&answer, 503, "host not connected: a was last seen 1000 s ago");
}

static int ask(void *arg)
{
    (void)arg;
    world_open(UNDER_A_ROLE);
    connect_both();
    world_ask(ann, "PUT", "/v1/hosts/a/alarms/s1", &answer);
    world_ask(ann, "GET", "/v1/hosts/a", &answer);
    a->answer = 0;
    world_ask(ann, "GET", "/v1/hosts/a/streams", &answer);
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(ask, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xfbc9456fc87615f6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(each_request_is_the_agents_own_in_the_operators_name),
        WORLD_TEST(the_agent_gets_the_role_with_what_may_act_later),
        WORLD_TEST(what_the_agent_refuses_is_passed_back_and_audited_as_refused),
        WORLD_TEST(an_answer_that_makes_no_sense_is_a_bad_one),
        WORLD_TEST(an_agent_that_is_lost_is_not_connected),
        WORLD_TEST(an_operator_who_leaves_cancels_and_the_line_is_written_all_the_same),
        WORLD_TEST(an_answer_counts_until_the_operator_has_read_it),
        WORLD_TEST(an_answered_request_is_with_the_agent_no_longer),
        WORLD_TEST(an_empty_answer_takes_nothing_and_has_no_type),
        WORLD_TEST(an_agent_that_goes_takes_no_request),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
