/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and methods: each has one spelling, and nothing else is a route. */
#include "proto/tunnel/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/h2/h2_head.h"

#define ID "0123456789abcdef0123456789abcdef"

static struct pfl_route route_at(const char *method, const char *path, const char *protocol,
                                 enum pfl_route_side side)
{
    static struct pfl_h2_head head;
    struct pfl_route route;

    memset(&head, 0, sizeof(head));
    pfl_h2_head_add(&head, pfl_span_of(":method", 7), pfl_span_of(method, strlen(method)));
    pfl_h2_head_add(&head, pfl_span_of(":path", 5), pfl_span_of(path, strlen(path)));
    if (strcmp(method, "CONNECT") == 0)
        pfl_h2_head_add(&head, pfl_span_of(":protocol", 9),
                        pfl_span_of(protocol, strlen(protocol)));
    pfl_route_parse(&head, side, &route);
    return route;
}

static struct pfl_route route_of(const char *method, const char *path, bool is_relay)
{
    return route_at(method, path, PFL_TUNNEL_PROTOCOL,
                    is_relay ? PFL_ROUTE_AT_RELAY : PFL_ROUTE_AT_AGENT);
}

static enum pfl_route_kind kind_of(const char *method, const char *path, bool is_relay)
{
    return route_of(method, path, is_relay).kind;
}

static void a_relays_paths(void **state)
{
    (void)state;
    assert_int_equal(kind_of("GET", "/v1/hosts", true), PFL_ROUTE_HOSTS);
    assert_int_equal(kind_of("GET", "/v1/hosts/a", true), PFL_ROUTE_HOST);
    assert_int_equal(kind_of("DELETE", "/v1/hosts/a", true), PFL_ROUTE_FORGET);
    assert_string_equal(route_of("DELETE", "/v1/hosts/a", true).host, "a");
    assert_int_equal(kind_of("CONNECT", "/v1/hosts/a.b-c_D/consumer", true), PFL_ROUTE_CONSUMER);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/clock", true), PFL_ROUTE_CLOCK);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/streams", true), PFL_ROUTE_STREAMS);
    assert_string_equal(route_of("DELETE", "/v1/hosts/a/streams/" ID, true).stream, ID);
    assert_string_equal(route_of("DELETE", "/v1/hosts/a/streams/" ID, true).host, "a");
    assert_int_equal(kind_of("GET", "/v1/hello", true), PFL_ROUTE_NONE);
}

static void an_agents_paths(void **state)
{
    (void)state;
    assert_int_equal(kind_of("GET", "/v1/hello", false), PFL_ROUTE_HELLO);
    assert_int_equal(kind_of("CONNECT", "/v1/consumer", false), PFL_ROUTE_CONSUMER);
    assert_int_equal(kind_of("GET", "/v1/clock", false), PFL_ROUTE_CLOCK);
    assert_int_equal(kind_of("GET", "/v1/streams", false), PFL_ROUTE_STREAMS);
    assert_int_equal(kind_of("DELETE", "/v1/streams/" ID, false), PFL_ROUTE_KILL);
    assert_int_equal(kind_of("GET", "/v1/hosts", false), PFL_ROUTE_NONE);
}

static enum pfl_route_kind connect_to(const char *path, const char *protocol,
                                      enum pfl_route_side side)
{
    return route_at("CONNECT", path, protocol, side).kind;
}

static void spools_and_collectors(void **state)
{
    static const char spool[] = PFL_TUNNEL_PROTOCOL_SPOOL;
    static const char collector[] = PFL_TUNNEL_PROTOCOL_COLLECTOR;
    struct pfl_route r;

    (void)state;
    r = route_at("CONNECT", "/v1/hosts/a/spool", spool, PFL_ROUTE_AT_RELAY);
    assert_int_equal(r.kind, PFL_ROUTE_SPOOL);
    assert_string_equal(r.host, "a");
    assert_int_equal(connect_to("/v1/spool", spool, PFL_ROUTE_AT_AGENT), PFL_ROUTE_SPOOL);
    assert_int_equal(connect_to("/v1/spool", spool, PFL_ROUTE_AT_RELAY), PFL_ROUTE_NONE);
    r = route_at("CONNECT", "/v1/collectors/c.1", collector, PFL_ROUTE_AT_RELAY);
    assert_int_equal(r.kind, PFL_ROUTE_COLLECTOR);
    assert_string_equal(r.name, "c.1");
    assert_int_equal(connect_to("/v1/collector", collector, PFL_ROUTE_AT_COLLECTOR),
                     PFL_ROUTE_COLLECTOR);
    assert_int_equal(kind_of("GET", "/v1/spools", true), PFL_ROUTE_SPOOLS);
    assert_int_equal(kind_of("GET", "/v1/collectors", true), PFL_ROUTE_COLLECTORS);
    assert_int_equal(kind_of("GET", "/v1/relay", true), PFL_ROUTE_RELAY);
    assert_int_equal(kind_of("PUT", "/v1/relay", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/relay", false), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/v1/relay/x", true), PFL_ROUTE_NONE);
    r = route_of("GET", "/v1/scopes/ann", true);
    assert_int_equal(r.kind, PFL_ROUTE_SCOPE);
    assert_string_equal(r.name, "ann");
}

static void spools_and_collectors_are_distinguished(void **state)
{
    static const char spool[] = PFL_TUNNEL_PROTOCOL_SPOOL;

    (void)state;
    /* Each has a protocol of its own. */
    assert_int_equal(connect_to("/v1/hosts/a/spool", PFL_TUNNEL_PROTOCOL, PFL_ROUTE_AT_RELAY),
                     PFL_ROUTE_METHOD);
    assert_int_equal(connect_to("/v1/hosts/a/consumer", spool, PFL_ROUTE_AT_RELAY),
                     PFL_ROUTE_METHOD);
    assert_int_equal(connect_to("/v1/collectors/c", spool, PFL_ROUTE_AT_RELAY), PFL_ROUTE_METHOD);
    assert_int_equal(connect_to("/v1/collector", spool, PFL_ROUTE_AT_COLLECTOR), PFL_ROUTE_METHOD);
    /* What another side is asked. */
    assert_int_equal(kind_of("GET", "/v1/spools", false), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/v1/scopes/ann", false), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("CONNECT", "/v1/collector", false), PFL_ROUTE_NONE);
    assert_int_equal(connect_to("/v1/consumer", PFL_TUNNEL_PROTOCOL, PFL_ROUTE_AT_COLLECTOR),
                     PFL_ROUTE_NONE);
    assert_int_equal(kind_of("PUT", "/v1/spools", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/collectors/c", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/spool", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/scopes/a/b", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/v1/scopes/", true), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("GET", "/v1/scopes/a%20b", true), PFL_ROUTE_NAME);
    assert_int_equal(
        connect_to("/v1/collectors/..", PFL_TUNNEL_PROTOCOL_COLLECTOR, PFL_ROUTE_AT_RELAY),
        PFL_ROUTE_NAME);
}

static void alarms_and_events(void **state)
{
    (void)state;
    assert_int_equal(kind_of("GET", "/v1/hosts/a/alarms", true), PFL_ROUTE_ALARMS);
    assert_int_equal(kind_of("PUT", "/v1/hosts/a/alarms/ring", true), PFL_ROUTE_ALARM_SET);
    assert_string_equal(route_of("PUT", "/v1/hosts/a/alarms/ring.1", true).session, "ring.1");
    assert_string_equal(route_of("PUT", "/v1/hosts/a/alarms/ring.1", true).host, "a");
    assert_int_equal(kind_of("DELETE", "/v1/hosts/a/alarms/ring", true), PFL_ROUTE_ALARM_DROP);
    assert_int_equal(kind_of("GET", "/v1/alarms", false), PFL_ROUTE_ALARMS);
    assert_int_equal(kind_of("PUT", "/v1/hosts/a/triggers", true), PFL_ROUTE_RAISE);
    assert_int_equal(kind_of("PUT", "/v1/triggers", false), PFL_ROUTE_RAISE);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/triggers", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("PUT", "/v1/alarms/ring", false), PFL_ROUTE_ALARM_SET);
    assert_int_equal(kind_of("DELETE", "/v1/alarms/ring", false), PFL_ROUTE_ALARM_DROP);
    assert_int_equal(kind_of("PUT", "/v1/alarms/ring/raised", false), PFL_ROUTE_ALARM_RAISED);
    assert_int_equal(kind_of("PUT", "/v1/orders/ring/raised", false), PFL_ROUTE_ORDER_RAISED);
    assert_int_equal(kind_of("GET", "/v1/orders/ring/raised", false), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("PUT", "/v1/orders/ring", false), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("PUT", "/v1/orders/../raised", false), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("PUT", "/v1/orders/ring/raised", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/v1/events", false), PFL_ROUTE_EVENTS);

    /* What relays alone ask of agents, and names that are none. */
    assert_int_equal(kind_of("PUT", "/v1/hosts/a/alarms/ring/raised", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/events", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("DELETE", "/v1/alarms/ring/raised", false), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("PUT", "/v1/alarms/ring/other", false), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("POST", "/v1/alarms/ring", false), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("PUT", "/v1/alarms/", false), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("PUT", "/v1/alarms/..", false), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("PUT", "/v1/alarms/a%2fb", false), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("PUT",
                             "/v1/alarms/0123456789012345678901234567890123456789"
                             "012345678901234567890123",
                             false),
                     PFL_ROUTE_NAME);
}

static void add(struct pfl_h2_head *head, const char *name, const char *value)
{
    pfl_h2_head_add(head, pfl_span_of(name, strlen(name)), pfl_span_of(value, strlen(value)));
}

static struct pfl_h2_head *head_of(const char *method, const char *path)
{
    static struct pfl_h2_head head;

    memset(&head, 0, sizeof(head));
    add(&head, ":method", method);
    add(&head, ":path", path);
    add(&head, ":protocol", PFL_TUNNEL_PROTOCOL);
    return &head;
}

static void the_fields_of_a_connect_are_read(void **state)
{
    struct pfl_h2_head *head = head_of("CONNECT", "/v1/consumer");
    struct pfl_route r;

    (void)state;
    add(head, PFL_TUNNEL_H_OPERATOR, "me");
    add(head, PFL_TUNNEL_H_ROLE, "00ff");
    add(head, PFL_TUNNEL_H_STREAM, ID);
    add(head, PFL_TUNNEL_H_RECEIVED, "30");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_int_equal(r.kind, PFL_ROUTE_CONSUMER);
    assert_string_equal(r.operator_name, "me");
    assert_string_equal(r.role, "00ff");
    assert_string_equal(r.stream, ID);
    assert_true(r.is_resume);
    assert_false(r.has_offer);
    assert_null(r.triggers);

    add(head, PFL_TUNNEL_H_CREDITED, "20");
    add(head, PFL_TUNNEL_H_WINDOW, "10");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_true(r.has_offer);
    assert_int_equal(r.offer.received, 30);
    assert_int_equal(r.offer.credited, 20);
    assert_int_equal(r.offer.window_bytes, 10);
}

static void the_fields_of_spools_are_read(void **state)
{
    struct pfl_h2_head *head = head_of("CONNECT", "/v1/spool");
    struct pfl_route r;

    (void)state;
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_null(r.collector);
    assert_null(r.orderer);
    assert_false(r.has_orderer);
    add(head, PFL_TUNNEL_H_COLLECTOR, "c");
    add(head, PFL_TUNNEL_H_FOR, "ann");
    add(head, PFL_TUNNEL_H_CLOCK, "any");
    add(head, PFL_TUNNEL_H_AFTER, "7");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_string_equal(r.collector, "c");
    assert_string_equal(r.orderer, "ann");
    assert_true(r.has_orderer);
    assert_string_equal(r.clock, "any");
    assert_string_equal(r.after, "7");
    head = head_of("CONNECT", "/v1/spool");
    add(head, PFL_TUNNEL_H_FOR, "a/b");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_null(r.orderer);
    assert_true(r.has_orderer);
}

static void the_fields_of_triggers_are_read(void **state)
{
    struct pfl_h2_head *head = head_of("PUT", "/v1/alarms/ring/raised");
    struct pfl_route r;

    (void)state;
    add(head, PFL_TUNNEL_H_TRIGGERS, "a,b");
    add(head, PFL_TUNNEL_H_TRIGGER, "a");
    add(head, PFL_TUNNEL_H_RAISED_AT, "db1");
    add(head, PFL_TUNNEL_H_RAISED_AGO, "1234");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_int_equal(r.kind, PFL_ROUTE_ALARM_RAISED);
    assert_string_equal(r.triggers, "a,b");
    assert_string_equal(r.trigger, "a");
    assert_string_equal(r.raised_at, "db1");
    assert_int_equal(r.raised_ago_ms, 1234);
    assert_null(r.operator_name);
    assert_null(r.role);
    assert_null(r.trigger_id);
    add(head, PFL_TUNNEL_H_TRIGGER_ID, "01J0000000000000000000000A");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_string_equal(r.trigger_id, "01J0000000000000000000000A");
}

static void fields_that_cannot_be_names_are_none(void **state)
{
    struct pfl_h2_head *head = head_of("CONNECT", "/v1/hosts/a/consumer");
    struct pfl_route r;

    (void)state;
    add(head, PFL_TUNNEL_H_OPERATOR, "..");
    add(head, PFL_TUNNEL_H_TRIGGER, "");
    add(head, PFL_TUNNEL_H_RAISED_AT, "a/b");
    add(head, PFL_TUNNEL_H_RAISED_AGO, "soon");
    add(head, PFL_TUNNEL_H_TRIGGER_ID, "01j0000000000000000000000a");
    add(head, PFL_TUNNEL_H_STREAM, ID "0");
    pfl_route_parse(head, PFL_ROUTE_AT_RELAY, &r);
    assert_int_equal(r.kind, PFL_ROUTE_CONSUMER);
    assert_null(r.operator_name);
    assert_null(r.trigger);
    assert_null(r.raised_at);
    assert_int_equal(r.raised_ago_ms, 0);
    assert_null(r.trigger_id);
    assert_string_equal(r.stream, "");
    assert_false(r.is_resume);
}

static void a_field_does_not_name_the_stream_of_a_path(void **state)
{
    struct pfl_h2_head *head = head_of("DELETE", "/v1/streams/" ID);
    struct pfl_route r;

    (void)state;
    add(head, PFL_TUNNEL_H_STREAM, "ffffffffffffffffffffffffffffffff");
    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &r);
    assert_int_equal(r.kind, PFL_ROUTE_KILL);
    assert_string_equal(r.stream, ID);
}

static void other_methods_are_distinguished(void **state)
{
    (void)state;
    assert_int_equal(kind_of("POST", "/v1/hosts", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("DELETE", "/v1/hosts", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("PUT", "/v1/hosts/a", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/consumer", true), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("GET", "/v1/streams/" ID, false), PFL_ROUTE_METHOD);
    assert_int_equal(kind_of("get", "/v1/hosts", true), PFL_ROUTE_METHOD);
}

static void names_that_cannot_be_are_refused(void **state)
{
    static const char *const bad[] = {"/v1/hosts/",         "/v1/hosts/..",  "/v1/hosts/../hosts",
                                      "/v1/hosts/-a/clock", "/v1/hosts/%61", "/v1/hosts/a?x=1",
                                      "/v1/hosts//clock"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(kind_of("GET", bad[i], true), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("DELETE", "/v1/hosts/a/streams/" ID "0", true), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("DELETE", "/v1/hosts/a/streams/..", true), PFL_ROUTE_NAME);
    assert_int_equal(kind_of("DELETE", "/v1/streams/0123456789ABCDEF0123456789ABCDEF", false),
                     PFL_ROUTE_NAME);
    assert_int_equal(kind_of("GET", "/v1/hosts/a/clock/", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "/", true), PFL_ROUTE_NONE);
    assert_int_equal(kind_of("GET", "", true), PFL_ROUTE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relays_paths),
        cmocka_unit_test(an_agents_paths),
        cmocka_unit_test(spools_and_collectors),
        cmocka_unit_test(spools_and_collectors_are_distinguished),
        cmocka_unit_test(the_fields_of_spools_are_read),
        cmocka_unit_test(alarms_and_events),
        cmocka_unit_test(the_fields_of_a_connect_are_read),
        cmocka_unit_test(the_fields_of_triggers_are_read),
        cmocka_unit_test(fields_that_cannot_be_names_are_none),
        cmocka_unit_test(a_field_does_not_name_the_stream_of_a_path),
        cmocka_unit_test(other_methods_are_distinguished),
        cmocka_unit_test(names_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
