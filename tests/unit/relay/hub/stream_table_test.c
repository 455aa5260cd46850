/* SPDX-License-Identifier: Apache-2.0 */
/* Operators' streams: who gets one, what they may hold, and what another policy does to them. */
#include "relay/hub/stream_table.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define RULE "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"x\" } "
#define ROLE RULE "role { name: \"x\" "
/* Two fields to know them by. */
#define OTHER_ROLE                                                                                 \
    "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"y\" } role { name: \"y\" method: "   \
    "\"Q*\" }"

static struct world_answer one;
static struct world_answer two;
static struct world_answer three;
static struct world_peer *ann;
static struct world_peer *a;

static void connect_both(const char *policy)
{
    world_set_policy(policy);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    a->kept_role = "x";
}

static void service_sends(unsigned i, size_t bytes)
{
    a->services[i].to_send += bytes;
    if (a->services[i].h2_stream != NULL)
        pfl_h2_stream_wake(a->services[i].h2_stream);
    world_pump();
}

/* In pieces, each of which has continued as far as it may before the next one comes. */
static void service_drips(unsigned i, size_t bytes)
{
    for (; bytes != 0; bytes -= bytes < 5000 ? bytes : 5000)
        service_sends(i, bytes < 5000 ? bytes : 5000);
}

static unsigned streams_of_a(void)
{
    return pfl_host_inventory_find(&world.peers.inventory, "a")->streams;
}

static void a_stream_carries_bytes_and_is_counted_until_its_end(void **state)
{
    struct pfl_traffic t;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 200);
    assert_string_equal(a->asked, "CONNECT /v1/consumer operator=ann stream=" WORLD_STREAM "\n");
    world_assert_audited("connect 0 ann a " WORLD_STREAM " 0/0 - -\n");
    assert_int_equal(streams_of_a(), 1);
    assert_int_equal(pfl_stream_table_count(&world.streams, "ann", "a"), 1);
    assert_int_equal(pfl_stream_table_count(&world.streams, "ann", "b"), 0);
    assert_int_equal(pfl_stream_table_count(&world.streams, "bob", "a"), 0);
    service_sends(0, 3000);
    one.to_send = 200;
    pfl_h2_stream_wake(one.h2_stream);
    world_pump();
    assert_int_equal(one.body_len, 3000);
    assert_int_equal(a->services[0].got, 200);
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.begun, 1);
    assert_int_equal(t.open, 1);
    assert_int_equal(t.resumed, 0);
    assert_int_equal(t.bytes_to_host, 200);
    assert_int_equal(t.bytes_to_operator, 3000);
    assert_int_equal(t.unused_to_operator, 3000);
    assert_int_equal(t.unused_to_host, 200);
    world_reset(&one, PFL_H2_CANCEL);
    assert_int_equal(a->services[0].code, PFL_H2_CANCEL);
    assert_int_equal(streams_of_a(), 0);
    world_assert_audited("end 200 ann a " WORLD_STREAM " 200/3000 - -\n");
    world_assert_reported("stream-ended ann a " WORLD_STREAM " 200 -\n");
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.begun, 1);
    assert_int_equal(t.open, 0);
    assert_int_equal(t.cut, 0);
    assert_int_equal(t.bytes_to_host, 200);
    assert_int_equal(t.bytes_to_operator, 3000);
    assert_int_equal(world.streams.unread.used, 0);
}

static void what_waits_is_in_the_traffic(void **state)
{
    struct pfl_traffic t;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    service_sends(0, 150000); /* the operator's window is 100000 */
    a->kept_role = NULL;
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.held_to_operator, 50000);
    assert_int_equal(t.held_to_host, 0);
    assert_true(world.streams.unread.used >= 50000);
}

static void a_connection_that_is_lost_cuts_its_streams(void **state)
{
    struct pfl_traffic t;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "a", WORLD_OTHER, "0", &two);
    world_assert_audited("resume 0 ann a " WORLD_OTHER " 0/0 - -\n");
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.begun, 2);
    assert_int_equal(t.resumed, 1);
    world_disconnect(a);
    world_pump();
    assert_int_equal(one.code, PFL_H2_DETACH);
    assert_int_equal(two.code, PFL_H2_DETACH);
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.open, 0);
    assert_int_equal(t.cut, 2);
}

static void an_operators_lost_connection_cuts_a_stream_too(void **state)
{
    struct pfl_traffic t;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_disconnect(ann);
    world_pump();
    assert_int_equal(a->services[0].code, PFL_H2_DETACH);
    pfl_stream_table_get_traffic(&world.streams, &t);
    assert_int_equal(t.cut, 1);
}

static void what_the_host_refuses_is_audited_as_refused(void **state)
{
    (void)state;
    connect_both(NULL);
    a->answer = 410;
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 410);
    world_assert_audited("refuse 410 ann a " WORLD_STREAM " 0/2 - -\n");
    world_assert_reported("stream-ended ann a " WORLD_STREAM " 410 -\n");
    assert_int_equal(streams_of_a(), 0);
}

static void a_role_gives_so_many_streams(void **state)
{
    (void)state;
    connect_both(ROLE "max_streams: 1 }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 200);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    world_assert_refused(&two, 429,
                         "too many streams: the role x gives ann no more streams at the moment: "
                         "close some, or wait");
    world_assert_audited("refuse 429 ann a " WORLD_OTHER " 0/0 - -\n");
    world_reset(&one, PFL_H2_CANCEL);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
}

/* The old connection may be there for a while after the operator has given it up. */
static void a_stream_that_an_older_connection_carries_is_taken_over(void **state)
{
    struct world_peer *again;

    (void)state;
    connect_both(ROLE "max_streams: 1 }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    again = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_open_stream(again, "a", WORLD_OTHER, "0", &three);
    assert_int_equal(three.status, 429);
    world_open_stream(again, "a", WORLD_STREAM, "0", &two);
    assert_int_equal(two.status, 200);
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world_open_stream(again, "b", WORLD_STREAM, "0", &three);
    assert_int_equal(three.status, 429);
    world_reset(&one, PFL_H2_DETACH);
    world_reset(&two, PFL_H2_DETACH);
    world_open_stream(again, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
}

static void without_an_id_nothing_is_taken_over(void **state)
{
    (void)state;
    connect_both(ROLE "max_streams: 1 }");
    world_open_stream(ann, "a", "", NULL, &one);
    assert_int_equal(one.status, 200);
    world_open_stream(ann, "a", "", NULL, &two);
    assert_int_equal(two.status, 429);
}

static void resumes_of_streams_that_the_host_does_not_have_count_as_new(void **state)
{
    (void)state;
    connect_both(ROLE "max_new_streams_per_min: 2 }");
    a->answer = 410;
    for (unsigned i = 0; i < 2; i++) {
        world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
        assert_int_equal(one.status, 410);
    }
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
    assert_int_equal(one.status, 429);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 429);
    world.now_ms += 30000;
    a->answer = 409;
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
    assert_int_equal(one.status, 409);
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
    assert_int_equal(one.status, 429);
}

static void other_refusals_of_resumes_do_not_count_as_new(void **state)
{
    (void)state;
    connect_both(ROLE "max_new_streams_per_min: 1 }");
    a->answer = 503;
    for (unsigned i = 0; i < 3; i++) {
        world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
        assert_int_equal(one.status, 503);
    }
    a->answer = 410; /* and a new one is none that the host does not have */
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 410);
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one);
    assert_int_equal(one.status, 410);
}

static void a_role_gives_so_many_bytes_a_second(void **state)
{
    (void)state;
    connect_both(ROLE "max_bytes_per_s: 40000 }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    one.is_reading = true;
    service_sends(0, 50000);
    assert_int_equal(one.body_len, 32768); /* at once */
    assert_true(ann->is_paced);
    world_run_paced();
    assert_int_equal(one.body_len, 32768);
    assert_true(ann->is_paced);
    world.now_ms += 250;
    world_run_paced();
    assert_int_equal(one.body_len, 42768);
    world.now_ms += 500;
    world_run_paced();
    assert_int_equal(one.body_len, 50000);
    /* One that ends while it waits is not woken. */
    service_sends(0, 90000);
    assert_true(ann->is_paced);
    world_reset(&one, PFL_H2_CANCEL);
    world.now_ms += 250;
    world_run_paced();
    assert_int_equal(streams_of_a(), 0);
}

static void the_stream_that_holds_most_of_his_memory_is_detached(void **state)
{
    struct world_peer *bob;

    (void)state;
    connect_both(NULL);
    bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    world.streams.unread.max = 1u << 20;
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    world_open_stream(bob, "a", WORLD_STREAM, NULL, &three);
    service_sends(0, 300000);
    assert_int_equal(world_count(world.reported, "detached"), 0);
    service_sends(2, 300000);
    for (unsigned i = 0; i < 40 && one.h2_stream != NULL; i++)
        service_sends(1, 10000);
    assert_null(one.h2_stream);
    assert_int_equal(one.code, PFL_H2_DETACH);
    assert_int_equal(a->services[0].code, PFL_H2_DETACH);
    assert_non_null(two.h2_stream);
    assert_non_null(three.h2_stream); /* another's */
    assert_int_equal(world_count(world.reported, "stream-detached ann a " WORLD_STREAM " 262144"),
                     1);
    assert_int_equal(world_count(world.reported, "detached"), 1);
}

static void a_stream_that_holds_most_itself_gives_way(void **state)
{
    (void)state;
    connect_both(NULL);
    world.streams.unread.max = 200000;
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    service_drips(1, 101000);
    service_drips(0, 400000);
    assert_null(one.h2_stream);
    assert_non_null(two.h2_stream);
    assert_int_equal(world_count(world.reported, "stream-detached ann a " WORLD_STREAM), 1);
    assert_int_equal(world_count(world.reported, "detached"), 1);
}

static void who_has_not_read_begins_nothing(void **state)
{
    struct world_peer *bob;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    service_drips(0, 160000);
    assert_int_equal(world.streams.unread.used, 65536);
    world.streams.unread.max = 140000;
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    world_assert_refused(
        &two, 429,
        "too much is not read: ann has not read the data that waits at this relay: "
        "read it, or close streams");
    world_assert_audited("refuse 429 ann a " WORLD_OTHER " 0/0 - -\n");
    bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    world_open_stream(bob, "a", WORLD_OTHER, NULL, &three);
    assert_int_equal(three.status, 200);
    /* What the operator has read is memory again, also before its ring has another use. */
    one.is_reading = true;
    pfl_h2_stream_credit(one.h2_stream, 100000);
    world_pump();
    assert_int_equal(one.body_len, 160000);
    /* That costs a look at all streams: it is looked for once in a millisecond, not by each of many
     * requests. */
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 429);
    world_assert_audited("refuse 429 ann a " WORLD_OTHER " 0/0 - -\n");
    world.now_ms++;
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
}

static void memory_for_answers_comes_from_rings_that_are_empty(void **state)
{
    uint64_t share = pfl_stream_table_get_share("ann");

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    service_sends(0, 70000);
    assert_true(world.streams.unread.used >= 65536);
    world.streams.unread.max = world.streams.unread.used;
    assert_true(pfl_stream_table_take_memory(&world.streams, share, 1000));
    assert_int_equal(world.streams.unread.used, 1000);
    assert_false(pfl_stream_table_take_memory(&world.streams, share, 1u << 20));
    pfl_stream_table_give_memory(&world.streams, share, 1000);
    assert_int_equal(world.streams.unread.used, 0);
}

static void a_policy_that_forbids_kills_at_both_ends(void **state)
{
    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_set_policy("");
    assert_int_equal(one.code, PFL_H2_CANCEL);
    assert_int_equal(a->services[0].code, PFL_H2_CANCEL);
    world_assert_audited("forbid 403 ann a " WORLD_STREAM " 0/0 - -\n");
}

static void another_role_is_reported_to_the_agent_which_keeps_it(void **state)
{
    (void)state;
    connect_both(ROLE "max_streams: 3 method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 200);
    a->asked[0] = '\0';
    a->answer = 204;
    a->answer_body = "";
    world_set_policy(OTHER_ROLE);
    assert_int_equal(world_count(a->asked, "PUT /v1/streams/" WORLD_STREAM " operator=ann role="),
                     1);
    assert_non_null(one.h2_stream);
    a->asked[0] = '\0';
    world_set_policy(OTHER_ROLE); /* it has that one */
    assert_string_equal(a->asked, "");
    /* A role is replaced, not removed. */
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" }");
    assert_string_equal(a->asked, "");
    assert_non_null(one.h2_stream);
    assert_int_equal(world_count(world.audited, "forbid"), 0);
}

/* Else the agent would keep a role that the policy has taken back. */
static void a_role_that_is_taken_back_before_its_answer_is_replaced(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    a->answer = 0;
    world_set_policy(OTHER_ROLE);
    a->asked[0] = '\0';
    world_set_policy(OTHER_ROLE); /* on its way */
    assert_string_equal(a->asked, "");
    a->answer = 204;
    a->answer_body = "";
    world_set_policy(ROLE "method: \"Q*\" }");
    assert_int_equal(world_count(a->asked, "PUT /v1/streams/" WORLD_STREAM " operator=ann role="),
                     1);
    world_answer_now(a, 204, "");
    a->asked[0] = '\0';
    world_set_policy(ROLE "method: \"Q*\" }"); /* it has that one */
    assert_string_equal(a->asked, "");
    assert_non_null(one.h2_stream);
}

static void a_role_that_the_agent_does_not_take_ends_the_stream(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    a->answer = 409;
    world_set_policy(OTHER_ROLE);
    assert_null(one.h2_stream);
    assert_null(two.h2_stream);
    world_assert_audited("forbid 409 ann a " WORLD_STREAM " 0/0 - -\n");
    world_assert_audited("forbid 409 ann a " WORLD_OTHER " 0/0 - -\n");
}

static void an_agent_that_answers_a_role_with_too_much_loses_the_stream(void **state)
{
    static char large[4098];

    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    memset(large, 'x', sizeof(large) - 1);
    a->answer_body = large;
    a->answer = 500;
    world_set_policy(OTHER_ROLE);
    assert_null(one.h2_stream);
    world_assert_audited("forbid 502 ann a " WORLD_STREAM " 0/0 - -\n");
}

static void a_role_for_one_stream_is_not_anothers(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    a->answer = 0;
    world_set_policy(OTHER_ROLE);
    a->answer = 200;
    a->kept_role = "y";
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
    world_answer_now(a, 500, "{}");
    assert_null(one.h2_stream);
    assert_non_null(two.h2_stream);
}

/* A lost agent has not refused: the stream gets its role when it is resumed. */
static void a_role_whose_agent_is_lost_forbids_nothing(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    a->answer = 0;
    world_set_policy(OTHER_ROLE);
    world_disconnect(a);
    world_pump();
    assert_int_equal(one.code, PFL_H2_DETACH);
    assert_int_equal(world_count(world.audited, "forbid"), 0);
}

/* It has not lost the stream with it: the stream may not stay under the old role. */
static void a_role_whose_request_is_reset_detaches_the_stream(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    a->answer = 0;
    world_set_policy(OTHER_ROLE);
    if (a->waiting != NULL)
        pfl_h2_stream_reset(a->waiting, PFL_H2_REFUSED);
    world_pump();
    assert_null(two.h2_stream);
    assert_int_equal(two.code, PFL_H2_DETACH);
    assert_int_equal(a->services[1].code, PFL_H2_DETACH);
    assert_non_null(one.h2_stream); /* its request is not answered yet */
    assert_int_equal(world_count(world.audited, "forbid"), 0);
}

static void a_role_where_there_was_none_ends_the_stream(void **state)
{
    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_set_policy(ROLE "method: \"Q*\" }");
    assert_null(one.h2_stream);
    world_assert_audited("forbid 403 ann a " WORLD_STREAM " 0/0 - -\n");
}

static void a_stream_without_an_id_cannot_get_another_role(void **state)
{
    (void)state;
    connect_both(ROLE "method: \"Q*\" }");
    world_open_stream(ann, "a", "", NULL, &one);
    assert_int_equal(one.status, 200);
    world_set_policy(OTHER_ROLE);
    assert_null(one.h2_stream);
    world_assert_audited("forbid 403 ann a - 0/0 - -\n");
}

static void another_roles_rates_count_from_now_on(void **state)
{
    (void)state;
    connect_both(ROLE "max_streams: 1 }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    a->answer = 204;
    a->answer_body = "";
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"y\" } "
                     "role { name: \"y\" max_streams: 2 }");
    a->answer = 200;
    a->kept_role = "y";
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
    world_open_stream(ann, "a", "", NULL, &three);
    assert_int_equal(three.status, 429);
}

static void a_hosts_labels_are_looked_at_for_its_own_streams(void **state)
{
    struct world_peer *b;

    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"*\" label: \"tier=web\" }");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    a = world_connect(PFL_IDENTITY_HOST, "a");
    b = world_connect(PFL_IDENTITY_HOST, "b");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_open_stream(ann, "b", WORLD_STREAM, NULL, &two);
    assert_int_equal(two.status, 200);
    assert_int_equal(pfl_host_inventory_take_hello(a->peer.host, pfl_span_of("{}", 2)), 0);
    assert_int_equal(pfl_host_inventory_take_hello(b->peer.host, pfl_span_of("{}", 2)), 0);
    pfl_stream_table_review(&world.streams, "a");
    world_pump();
    assert_null(one.h2_stream);
    assert_non_null(two.h2_stream);
}

static void an_agent_with_too_many_streams_takes_no_more(void **state)
{
    enum { ROOM = PFL_H2_MAX_STREAMS - 1 }; /* the agent's events have one */
    static struct world_answer many[ROOM];
    struct world_peer *asker = NULL;

    (void)state;
    connect_both(ROLE "}");
    world_set_policy(NULL);
    a->answer = 0;
    for (unsigned i = 0; i < ROOM; i++) {
        if (i % 100 == 0)
            asker = world_connect(PFL_IDENTITY_OPERATOR, i == 0 ? "b" : i == 100 ? "c" : "d");
        world_ask(asker, "GET", "/v1/hosts/a/streams", &many[i]);
        assert_int_equal(many[i].status, 0);
    }
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world_assert_refused(&one, 503, "relay busy: this host carries too many streams at the moment");
    world_ask(ann, "GET", "/v1/hosts/a/streams", &two);
    world_assert_refused(&two, 503,
                         "relay busy: too much is being asked of this host at the moment");
    world_assert_audited("refuse 503 ann a " WORLD_STREAM " 0/0 - -\n");
}

static void without_a_role_new_streams_have_a_rate_too(void **state)
{
    struct pfl_quota *quota;

    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    assert_int_equal(one.status, 200);
    quota = pfl_quotas_get(&world.quotas, "ann", pfl_span_of(NULL, 0), world.now_ms);
    while (pfl_quota_try_open(quota, PFL_QUOTA_NEW, world.now_ms))
        pfl_quota_close(quota);
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    world_assert_refused(&two, 429,
                         "too many streams: ann opened 4128 streams: no more than 1808 a minute "
                         "from now on, or what a role's max_new_streams_per_min says");
    world_assert_audited("refuse 429 ann a " WORLD_OTHER " 0/0 - -\n");
    world_reset(&one, PFL_H2_DETACH);
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one); /* a resume is not a new one */
    assert_int_equal(one.status, 200);
    world_open_stream(world_connect(PFL_IDENTITY_OPERATOR, "bob"), "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
}

static void requests_that_change_something_have_a_rate(void **state)
{
    struct pfl_quota *quota;

    (void)state;
    connect_both(NULL);
    world_ask(ann, "DELETE", "/v1/hosts/a/streams/" WORLD_STREAM, &one);
    assert_int_equal(one.status, 200);
    quota = pfl_quotas_get(&world.quotas, "ann", pfl_span_of(NULL, 0), world.now_ms);
    while (pfl_quota_try_change(quota, world.now_ms))
        ;
    world_ask(ann, "DELETE", "/v1/hosts/a/streams/" WORLD_STREAM, &one);
    world_assert_refused(&one, 429,
                         "too many requests: ann changes more than this relay audits: wait");
    world_ask(ann, "GET", "/v1/hosts/a/streams", &one);
    assert_int_equal(one.status, 200);
}

#define NO_AUDIT_LOG                                                                               \
    "no audit log: this relay cannot write its audit log: free space on its disk, or set "         \
    "audit_optional"

static void nothing_begins_that_cannot_be_audited(void **state)
{
    (void)state;
    connect_both(NULL);
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    world.is_audit_full = true;
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    world_assert_refused(&two, 503, NO_AUDIT_LOG);
    world_ask(ann, "DELETE", "/v1/hosts/a/streams/" WORLD_STREAM, &two);
    world_assert_refused(&two, 503, NO_AUDIT_LOG);
    world_reset(&one, PFL_H2_DETACH);
    world_open_stream(ann, "a", WORLD_STREAM, "0", &one); /* it began before */
    assert_int_equal(one.status, 200);
    assert_int_equal(a->services_len, 2);
    world.is_audit_full = false;
    world_open_stream(ann, "a", WORLD_OTHER, NULL, &two);
    assert_int_equal(two.status, 200);
    assert_int_equal(pfl_quotas_get(&world.quotas, "ann", pfl_span_of(NULL, 0), 0)->streams, 2);
}

static int carry(void *arg)
{
    (void)arg;
    world_open(NULL);
    connect_both(ROLE "max_streams: 3 method: \"Q*\" }");
    world_open_stream(ann, "a", WORLD_STREAM, NULL, &one);
    service_sends(0, 3000);
    world_set_policy(OTHER_ROLE);
    world_open_stream(ann, "a", WORLD_OTHER, "0", &two);
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(carry, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x240f4efbf84fa560);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_stream_carries_bytes_and_is_counted_until_its_end),
        WORLD_TEST(what_waits_is_in_the_traffic),
        WORLD_TEST(a_connection_that_is_lost_cuts_its_streams),
        WORLD_TEST(an_operators_lost_connection_cuts_a_stream_too),
        WORLD_TEST(what_the_host_refuses_is_audited_as_refused),
        WORLD_TEST(a_role_gives_so_many_streams),
        WORLD_TEST(a_stream_that_an_older_connection_carries_is_taken_over),
        WORLD_TEST(without_an_id_nothing_is_taken_over),
        WORLD_TEST(resumes_of_streams_that_the_host_does_not_have_count_as_new),
        WORLD_TEST(other_refusals_of_resumes_do_not_count_as_new),
        WORLD_TEST(a_role_gives_so_many_bytes_a_second),
        WORLD_TEST(the_stream_that_holds_most_of_his_memory_is_detached),
        WORLD_TEST(a_stream_that_holds_most_itself_gives_way),
        WORLD_TEST(who_has_not_read_begins_nothing),
        WORLD_TEST(memory_for_answers_comes_from_rings_that_are_empty),
        WORLD_TEST(a_policy_that_forbids_kills_at_both_ends),
        WORLD_TEST(another_role_is_reported_to_the_agent_which_keeps_it),
        WORLD_TEST(a_role_that_is_taken_back_before_its_answer_is_replaced),
        WORLD_TEST(a_role_that_the_agent_does_not_take_ends_the_stream),
        WORLD_TEST(an_agent_that_answers_a_role_with_too_much_loses_the_stream),
        WORLD_TEST(a_role_for_one_stream_is_not_anothers),
        WORLD_TEST(a_role_whose_agent_is_lost_forbids_nothing),
        WORLD_TEST(a_role_whose_request_is_reset_detaches_the_stream),
        WORLD_TEST(a_role_where_there_was_none_ends_the_stream),
        WORLD_TEST(a_stream_without_an_id_cannot_get_another_role),
        WORLD_TEST(another_roles_rates_count_from_now_on),
        WORLD_TEST(a_hosts_labels_are_looked_at_for_its_own_streams),
        WORLD_TEST(an_agent_with_too_many_streams_takes_no_more),
        WORLD_TEST(without_a_role_new_streams_have_a_rate_too),
        WORLD_TEST(requests_that_change_something_have_a_rate),
        WORLD_TEST(nothing_begins_that_cannot_be_audited),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
