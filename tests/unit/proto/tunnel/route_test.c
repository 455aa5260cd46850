/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and methods: each has one spelling, and nothing else is a route. */
#include "proto/tunnel/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/h2/h2_head.h"

#define ID "0123456789abcdef0123456789abcdef"

static struct pfl_route route_of(const char *method, const char *path, bool is_relay)
{
    static struct pfl_h2_head head;
    struct pfl_route route;

    memset(&head, 0, sizeof(head));
    pfl_h2_head_add(&head, pfl_span_of(":method", 7), pfl_span_of(method, strlen(method)));
    pfl_h2_head_add(&head, pfl_span_of(":path", 5), pfl_span_of(path, strlen(path)));
    if (strcmp(method, "CONNECT") == 0)
        pfl_h2_head_add(&head, pfl_span_of(":protocol", 9),
                        pfl_span_of(PFL_TUNNEL_PROTOCOL, strlen(PFL_TUNNEL_PROTOCOL)));
    pfl_route_parse(&head, is_relay, &route);
    return route;
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

static void other_methods_are_told_apart(void **state)
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
        cmocka_unit_test(alarms_and_events),
        cmocka_unit_test(other_methods_are_told_apart),
        cmocka_unit_test(names_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
