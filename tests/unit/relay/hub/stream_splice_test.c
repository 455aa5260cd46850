/* SPDX-License-Identifier: Apache-2.0 */
/* A stream through the relay: operator - relay - agent, four HTTP/2 sessions and no socket. */
#include "relay/hub/stream_splice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/tunnel/route.h"
#include "proto/tunnel/tunnel_offer.h"
#include "tests/support/sweep.h"

#define WINDOW 100000u
#define LOTS   400000u

/* An end of the stream: the operator's or the agent's. */
struct end {
    struct pfl_h2_stream *h2_stream;
    size_t to_send;
    size_t got;
    uint64_t credited;
    unsigned status;
    struct pfl_resume_offer offer; /* by the other end */
    unsigned ends;
    unsigned closes;
    uint32_t code;
    bool is_ending;
};

static struct pfl_h2 *operator_h2;
static struct pfl_h2 *relay_front;
static struct pfl_h2 *relay_back;
static struct pfl_h2 *agent_h2;
static struct end operator_end;
static struct end agent_end;
static struct pfl_stream_splice_stats last;
static unsigned ended;
static unsigned answer_with;
static struct pfl_resume_offer agents_account;
static bool has_role;         /* the relay gives one */
static const char *kept_role; /* the agent says that it keeps this one */
static char agent_saw_role[64];
static size_t room_towards_operator;
static struct pfl_stream_splice *spliced;
static size_t memory_left;
static size_t memory_taken;
static char agent_saw_operator[64];

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct end *e = user;

    e->status = pfl_h2_head_get_status(head);
    (void)pfl_tunnel_offer_read(head, &e->offer);
}

static void on_data(void *user, struct pfl_span data)
{
    ((struct end *)user)->got += data.len;
}

static void on_end(void *user)
{
    ((struct end *)user)->ends++;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct end *e = user;
    size_t len = e->to_send < room ? e->to_send : room;

    memset(dst, 'x', len);
    e->to_send -= len;
    *ret_is_end = e->is_ending && e->to_send == 0;
    return len;
}

static void on_credit(void *user, uint32_t bytes)
{
    ((struct end *)user)->credited += bytes;
}

static void on_closed(void *user, uint32_t code)
{
    struct end *e = user;

    e->h2_stream = NULL;
    e->code = code;
    e->closes++;
}

static const struct pfl_h2_stream_ops ops = {on_response, on_data,   on_end,
                                             on_pull,     on_credit, on_closed};

static void on_ended(void *user, const struct pfl_stream_splice_stats *stats)
{
    (void)user;
    last = *stats;
    ended++;
}

static size_t get_room(void *user, size_t want)
{
    (void)user;
    return want < room_towards_operator ? want : room_towards_operator;
}

static void on_sent(void *user, size_t bytes)
{
    (void)user;
    room_towards_operator -= bytes;
}

static bool take_memory(void *user, size_t bytes)
{
    (void)user;
    if (bytes > memory_left - memory_taken)
        return false;
    memory_taken += bytes;
    return true;
}

static void give_memory(void *user, size_t bytes)
{
    (void)user;
    assert_true(bytes <= memory_taken);
    memory_taken -= bytes;
}

static void on_operator_request(void *user, struct pfl_h2_stream *h2_stream,
                                const struct pfl_h2_head *head)
{
    struct pfl_route route;
    struct pfl_stream_splice_conf conf = {
        .h2_stream = h2_stream,
        .head = head,
        .agent = relay_back,
        .operator_name = "me",
        .host_window_bytes = WINDOW,
        .operator_window_bytes = WINDOW,
        .get_room = get_room,
        .on_sent = on_sent,
        .take_memory = take_memory,
        .give_memory = give_memory,
        .on_ended = on_ended,
    };

    (void)user;
    pfl_route_parse(head, PFL_ROUTE_AT_RELAY, &route);
    conf.offer = route.has_offer ? &route.offer : NULL;
    if (has_role) {
        conf.role = pfl_span_of("\x0a\x01r", 3);
        conf.role_text = "0a0172";
    }
    spliced = NULL;
    (void)!pfl_stream_splice_new(&conf, &spliced); /* else: 404 */
}

static void on_forwarded_request(void *user, struct pfl_h2_stream *h2_stream,
                                 const struct pfl_h2_head *head)
{
    struct pfl_tunnel_offer_text text;
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 1];
    const char *name = pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR);
    const char *role = pfl_h2_head_get(head, PFL_TUNNEL_H_ROLE);

    (void)user;
    strncpy(agent_saw_operator, name != NULL ? name : "(none)", sizeof(agent_saw_operator) - 1);
    strncpy(agent_saw_role, role != NULL ? role : "(none)", sizeof(agent_saw_role) - 1);
    pfl_tunnel_offer_write(&agents_account, 5, &text, fields);
    fields[PFL_TUNNEL_OFFER_FIELDS] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, kept_role};
    if (answer_with != 200) {
        (void)!pfl_h2_stream_respond_body(h2_stream, answer_with, "application/problem+json",
                                          pfl_span_of("{}", 2));
        return;
    }
    agent_end.h2_stream = h2_stream;
    pfl_h2_stream_set_user(h2_stream, &ops, &agent_end);
    (void)!pfl_h2_stream_respond(h2_stream, 200, fields,
                                 PFL_TUNNEL_OFFER_FIELDS + (kept_role != NULL));
}

static int try_open(void)
{
    struct pfl_h2_conf ask = {.window_bytes = WINDOW};
    struct pfl_h2_conf front = {
        .is_answering = true, .window_bytes = WINDOW, .on_request = on_operator_request};
    struct pfl_h2_conf back = front;
    int rc = pfl_h2_new(&ask, &operator_h2);

    back.on_request = on_forwarded_request;
    if (rc == 0)
        rc = pfl_h2_new(&front, &relay_front);
    if (rc == 0)
        rc = pfl_h2_new(&ask, &relay_back);
    return rc == 0 ? pfl_h2_new(&back, &agent_h2) : rc;
}

static int move(struct pfl_h2 *from, struct pfl_h2 *to, bool *has_moved)
{
    static uint8_t wire[1u << 17];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));
    int rc;

    if (from == NULL || to == NULL)
        return 0;
    rc = pfl_h2_drain(from, &out);
    *has_moved |= out.pos != wire;
    return rc != 0 ? rc : pfl_h2_feed(to, pfl_span_of(wire, (size_t)(out.pos - wire)));
}

static int try_pump(void)
{
    bool has_moved = true;
    int rc = 0;

    while (rc == 0 && has_moved) {
        has_moved = false;
        rc = move(operator_h2, relay_front, &has_moved);
        if (rc == 0)
            rc = move(relay_front, operator_h2, &has_moved);
        if (rc == 0)
            rc = move(relay_back, agent_h2, &has_moved);
        if (rc == 0)
            rc = move(agent_h2, relay_back, &has_moved);
    }
    return rc;
}

static void pump(void)
{
    assert_int_equal(try_pump(), 0);
}

static int try_connect(const char *received, const char *credited)
{
    struct pfl_h2_field fields[] = {
        {PFL_TUNNEL_H_STREAM, "0123456789abcdef0123456789abcdef"},
        {PFL_TUNNEL_H_WINDOW, "100000"},
        {PFL_TUNNEL_H_OPERATOR, "root"}, /* not its to say */
        {PFL_TUNNEL_H_ROLE, "00"},       /* nor this */
        {PFL_TUNNEL_H_RECEIVED, received},
        {PFL_TUNNEL_H_CREDITED, credited},
    };
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = "/v1/hosts/a/consumer",
        .protocol = PFL_TUNNEL_PROTOCOL,
        .fields = fields,
        .fields_len = received != NULL ? 6 : 4,
        .ops = &ops,
        .user = &operator_end,
    };

    return pfl_h2_request(operator_h2, &request, &operator_end.h2_stream);
}

static int setup(void **state)
{
    (void)state;
    operator_end = agent_end = (struct end){0};
    ended = 0;
    answer_with = 200;
    agents_account = (struct pfl_resume_offer){.window_bytes = WINDOW};
    has_role = false;
    kept_role = NULL;
    room_towards_operator = SIZE_MAX;
    memory_left = SIZE_MAX;
    return try_open() == 0 && try_pump() == 0 ? 0 : -1;
}

static void free_all(void)
{
    pfl_h2_free(operator_h2);
    pfl_h2_free(relay_front);
    pfl_h2_free(relay_back);
    pfl_h2_free(agent_h2);
    operator_h2 = relay_front = relay_back = agent_h2 = NULL;
}

static int teardown(void **state)
{
    (void)state;
    free_all();
    assert_int_equal(memory_taken, 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void connect_them(void)
{
    assert_int_equal(try_connect(NULL, NULL), 0);
    pump();
    assert_int_equal(operator_end.status, 200);
    assert_non_null(agent_end.h2_stream);
}

static void send(struct end *from, size_t len)
{
    from->to_send += len;
    pfl_h2_stream_wake(from->h2_stream);
    pump();
}

static void the_agent_hears_who_asks_from_the_relay_alone(void **state)
{
    (void)state;
    connect_them();
    assert_string_equal(agent_saw_operator, "me");
}

static void the_role_is_the_relays_and_the_agent_has_to_keep_it(void **state)
{
    (void)state;
    connect_them();
    assert_string_equal(agent_saw_role, "(none)");
    free_all();
    assert_int_equal(setup(NULL), 0);
    has_role = true;
    kept_role = "r";
    connect_them();
    assert_string_equal(agent_saw_role, "0a0172");
    send(&operator_end, 1000);
    assert_int_equal(agent_end.got, 1000);
}

static void an_agent_that_keeps_no_role_gets_no_byte(void **state)
{
    static const char *const kept[] = {NULL, "", "other"};

    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        free_all();
        assert_int_equal(setup(NULL), 0);
        has_role = true;
        kept_role = kept[i];
        /* Bytes before the answer, which the protocol forbids. */
        assert_int_equal(try_connect(NULL, NULL), 0);
        operator_end.to_send = 500;
        pump();
        assert_int_equal(operator_end.status, 502);
        assert_int_equal(agent_end.got, 0);
        assert_int_equal(agent_end.closes, 1);
        assert_int_equal(agent_end.code, PFL_H2_CANCEL);
        assert_int_equal(ended, 1);
    }
}

static void the_operator_gets_as_much_as_there_is_room_for(void **state)
{
    (void)state;
    room_towards_operator = 0;
    connect_them();
    send(&agent_end, 50000);
    assert_int_equal(operator_end.got, 0);
    room_towards_operator = 30000;
    pfl_stream_splice_wake(spliced);
    pump();
    assert_int_equal(operator_end.got, 30000);
    assert_int_equal(agent_end.credited, 0);
    room_towards_operator = SIZE_MAX;
    pfl_stream_splice_wake(spliced);
    pump();
    assert_int_equal(operator_end.got, 50000);
}

static void bytes_and_ends_pass_both_ways(void **state)
{
    (void)state;
    connect_them();
    send(&operator_end, 1000);
    send(&agent_end, 50000);
    assert_int_equal(agent_end.got, 1000);
    assert_int_equal(operator_end.got, 50000);
    agent_end.is_ending = true;
    send(&agent_end, 0);
    assert_int_equal(operator_end.ends, 1);
    operator_end.is_ending = true;
    send(&operator_end, 0);
    assert_int_equal(agent_end.ends, 1);
    assert_int_equal(ended, 1);
    assert_int_equal(last.bytes_to_operator, 50000);
    assert_int_equal(last.bytes_to_host, 1000);
    assert_int_equal(operator_end.code, PFL_H2_NO_ERROR);
}

static void credit_is_what_the_other_end_credits_and_nothing_sooner(void **state)
{
    (void)state;
    connect_them();
    send(&agent_end, LOTS);
    assert_int_equal(operator_end.got, WINDOW);
    assert_int_equal(agent_end.credited, 0);
    assert_int_equal(agent_end.to_send, LOTS - WINDOW); /* the relay took no window of its own */
    pfl_h2_stream_credit(operator_end.h2_stream, 4321);
    pump();
    assert_int_equal(agent_end.credited, 4321);
    assert_int_equal(operator_end.got, WINDOW + 4321);
}

static void what_may_still_be_sent_is_counted_until_it_is_credited(void **state)
{
    struct pfl_stream_splice_stats stats;

    (void)state;
    connect_them();
    send(&operator_end, 1000);
    send(&agent_end, 50000);
    pfl_h2_stream_credit(operator_end.h2_stream, 20000);
    pfl_h2_stream_credit(agent_end.h2_stream, 300);
    pump();
    pfl_stream_splice_get_stats(spliced, &stats);
    assert_int_equal(stats.unused_to_operator, 30000);
    assert_int_equal(stats.unused_to_host, 700);
}

static void invented_credit_resets_the_stream(void **state)
{
    (void)state;
    connect_them();
    send(&agent_end, 100);
    pfl_h2_stream_credit(operator_end.h2_stream, 101);
    pump();
    assert_int_equal(operator_end.code, PFL_H2_FLOW_CONTROL_ERROR);
    assert_int_equal(agent_end.code, PFL_H2_DETACH);
    assert_int_equal(ended, 1);
}

static void a_resumed_operator_may_credit_what_it_held(void **state)
{
    struct pfl_stream_splice_stats stats;

    (void)state;
    assert_int_equal(try_connect("5000", "4900"), 0);
    pump();
    pfl_stream_splice_get_stats(spliced, &stats);
    assert_int_equal(stats.unused_to_operator, 100);
    pfl_h2_stream_credit(operator_end.h2_stream, 100);
    pump();
    assert_int_equal(agent_end.credited, 100);
    pfl_h2_stream_credit(operator_end.h2_stream, 1);
    pump();
    assert_int_equal(operator_end.code, PFL_H2_FLOW_CONTROL_ERROR);
}

/* Its process was replaced: of what it had received only what it had used up counts. */
static void an_agents_account_may_be_less_than_it_was(void **state)
{
    (void)state;
    connect_them();
    send(&operator_end, 5000);
    pfl_h2_stream_credit(agent_end.h2_stream, 1000);
    pump();
    assert_int_equal(operator_end.credited, 1000);
    free_all();
    assert_int_equal(ended, 1);

    operator_end = agent_end = (struct end){0};
    assert_int_equal(try_open(), 0);
    pump();
    agents_account.received = agents_account.credited = 1000;
    assert_int_equal(try_connect("0", "0"), 0);
    pump();
    assert_int_equal(operator_end.offer.received, 1000);
    assert_int_equal(operator_end.offer.credited, 1000);
    send(&operator_end, 14000);
    assert_int_equal(agent_end.got, 14000);
    pfl_h2_stream_credit(agent_end.h2_stream, 14000);
    pump();
    assert_int_equal(operator_end.credited, 14000);
    pfl_h2_stream_credit(agent_end.h2_stream, 1); /* of what it had before */
    pump();
    assert_int_equal(agent_end.code, PFL_H2_FLOW_CONTROL_ERROR);
    assert_int_equal(operator_end.code, PFL_H2_DETACH);
}

static void an_account_that_cannot_be_true_allows_nothing(void **state)
{
    (void)state;
    assert_int_equal(try_connect("100", "5000"), 0);
    pump();
    pfl_h2_stream_credit(operator_end.h2_stream, 1);
    pump();
    assert_int_equal(operator_end.code, PFL_H2_FLOW_CONTROL_ERROR);
}

static void a_stream_without_memory_is_detached_at_both_ends_and_gives_its_own_back(void **state)
{
    (void)state;
    room_towards_operator = 0;
    memory_left = 65536;
    connect_them();
    send(&agent_end, 30000);
    assert_in_range(memory_taken, 30000, memory_left);
    assert_int_equal(memory_taken, pfl_stream_splice_get_memory(spliced));
    send(&agent_end, WINDOW - 30000);
    assert_int_equal(memory_taken, 0);
    assert_int_equal(operator_end.code, PFL_H2_DETACH);
    assert_int_equal(agent_end.code, PFL_H2_DETACH);
    assert_int_equal(ended, 1);
}

static void what_is_passed_on_needs_no_memory_any_more(void **state)
{
    (void)state;
    room_towards_operator = 20000;
    connect_them();
    send(&agent_end, 50000);
    pfl_stream_splice_trim(spliced); /* 30000 are held */
    assert_true(pfl_stream_splice_get_memory(spliced) >= 30000);
    room_towards_operator = SIZE_MAX;
    pfl_stream_splice_wake(spliced);
    pump();
    assert_int_equal(operator_end.got, 50000);
    pfl_stream_splice_trim(spliced);
    assert_int_equal(pfl_stream_splice_get_memory(spliced), 0);
    assert_int_equal(memory_taken, 0);
    send(&agent_end, 50000);
    assert_int_equal(operator_end.got, WINDOW);
}

static void a_lost_agent_detaches_the_operator(void **state)
{
    (void)state;
    connect_them();
    send(&agent_end, 1000);
    pfl_h2_free(relay_back);
    relay_back = NULL;
    pump();
    assert_int_equal(operator_end.code, PFL_H2_DETACH);
    assert_int_equal(ended, 1);
}

static void a_lost_operator_detaches_the_agent(void **state)
{
    (void)state;
    connect_them();
    pfl_h2_free(relay_front);
    relay_front = NULL;
    pump();
    assert_int_equal(agent_end.code, PFL_H2_DETACH);
    assert_int_equal(ended, 1);
}

static void cancel_is_passed_on_as_cancel(void **state)
{
    (void)state;
    connect_them();
    pfl_h2_stream_reset(operator_end.h2_stream, PFL_H2_CANCEL);
    pump();
    assert_int_equal(agent_end.code, PFL_H2_CANCEL);
    assert_int_equal(ended, 1);
}

static void a_refusal_of_the_agents_is_passed_on_with_its_body(void **state)
{
    (void)state;
    answer_with = 410;
    assert_int_equal(try_connect(NULL, NULL), 0);
    pump();
    assert_int_equal(operator_end.status, 410);
    assert_int_equal(operator_end.got, 2);
    assert_int_equal(operator_end.ends, 1);
    pfl_h2_stream_reset(operator_end.h2_stream, PFL_H2_CANCEL);
    pump();
    assert_int_equal(ended, 1);
    assert_int_equal(last.status, 410);
}

static int run(void *arg)
{
    int rc = try_open();

    (void)arg;
    operator_end = agent_end = (struct end){0};
    if (rc == 0)
        rc = try_pump();
    if (rc == 0)
        rc = try_connect(NULL, NULL);
    if (rc == 0)
        rc = try_pump();
    if (rc == 0 && agent_end.h2_stream != NULL) {
        agent_end.to_send = 50000;
        pfl_h2_stream_wake(agent_end.h2_stream);
        rc = try_pump();
    }
    free_all();
    return rc;
}

static void running_out_of_memory_anywhere_ends_in_order(void **state)
{
    (void)state;
    free_all();
    pfl_sweep(run, NULL, true);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_agent_hears_who_asks_from_the_relay_alone),
        T(the_role_is_the_relays_and_the_agent_has_to_keep_it),
        T(an_agent_that_keeps_no_role_gets_no_byte),
        T(the_operator_gets_as_much_as_there_is_room_for),
        T(bytes_and_ends_pass_both_ways),
        T(credit_is_what_the_other_end_credits_and_nothing_sooner),
        T(what_may_still_be_sent_is_counted_until_it_is_credited),
        T(invented_credit_resets_the_stream),
        T(a_resumed_operator_may_credit_what_it_held),
        T(an_agents_account_may_be_less_than_it_was),
        T(an_account_that_cannot_be_true_allows_nothing),
        T(a_stream_without_memory_is_detached_at_both_ends_and_gives_its_own_back),
        T(what_is_passed_on_needs_no_memory_any_more),
        T(a_lost_agent_detaches_the_operator),
        T(a_lost_operator_detaches_the_agent),
        T(cancel_is_passed_on_as_cancel),
        T(a_refusal_of_the_agents_is_passed_on_with_its_body),
        T(running_out_of_memory_anywhere_ends_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
