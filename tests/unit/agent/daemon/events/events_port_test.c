/* SPDX-License-Identifier: Apache-2.0 */
/* Events to several relays: each gets all lines, and one that reads nothing holds up nobody. */
#include "agent/daemon/events/events_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/tunnel.h"
#include "tests/support/sweep.h"

static struct pfl_events events;
static uint64_t now_ms;

/* A relay's connection: it asks, the agent answers. */
struct relay {
    struct pfl_h2 *client_h2;
    struct pfl_h2 *server_h2;
    struct pfl_h2_stream *stream; /* NULL: closed */
    struct pfl_buf got;
    unsigned status;
    uint64_t now_ms;
    bool is_stuck; /* credits nothing */
};

static void on_response(void *user, const struct pfl_h2_head *head)
{
    struct relay *r = user;

    r->status = pfl_h2_head_get_status(head);
    (void)pfl_h2_head_get_number(head, PFL_TUNNEL_H_NOW, &r->now_ms);
}

static void on_data(void *user, struct pfl_span data)
{
    struct relay *r = user;

    (void)!pfl_buf_append(&r->got, data.data, data.len);
    if (!r->is_stuck)
        pfl_h2_stream_credit(r->stream, (uint32_t)data.len);
}

static void on_end(void *user)
{
    (void)user;
}

static void on_closed(void *user, uint32_t code)
{
    struct relay *r = user;

    (void)code;
    r->stream = NULL;
}

static const struct pfl_h2_stream_ops ops = {
    .on_response = on_response, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    (void)head;
    if (pfl_events_listen(&events, user, h2_stream, 4711) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_REFUSED);
}

static bool move(struct pfl_h2 *from, struct pfl_h2 *to)
{
    static uint8_t bytes[4 * PFL_H2_DRAIN_BYTES];
    struct pfl_writer out = pfl_writer_of(bytes, sizeof(bytes));

    if (pfl_h2_drain(from, &out) != 0 || out.left == sizeof(bytes))
        return false;
    return pfl_h2_feed(to, pfl_span_of(bytes, sizeof(bytes) - out.left)) == 0;
}

static void pump(struct relay *r)
{
    bool is_moving = true;

    while (is_moving) {
        is_moving = move(r->client_h2, r->server_h2);
        is_moving |= move(r->server_h2, r->client_h2);
    }
}

static int listen_as(struct relay *r)
{
    struct pfl_h2_request request = {
        .method = "GET", .path = PFL_TUNNEL_EVENTS_PATH, .ops = &ops, .user = r};
    int rc = pfl_h2_request(r->client_h2, &request, &r->stream);

    if (rc == 0)
        pump(r);
    return rc;
}

static int open_relay(struct relay *r)
{
    struct pfl_h2_conf conf = {.window_bytes = 1 << 20};
    int rc;

    memset(r, 0, sizeof(*r));
    pfl_buf_init(&r->got, 1 << 20);
    rc = pfl_h2_new(&conf, &r->client_h2);
    conf.is_answering = true;
    conf.on_request = on_request;
    conf.user = r;
    if (rc == 0)
        rc = pfl_h2_new(&conf, &r->server_h2);
    if (rc == 0)
        pump(r);
    return rc == 0 ? listen_as(r) : rc;
}

static void close_relay(struct relay *r)
{
    pfl_h2_free(r->client_h2);
    pfl_h2_free(r->server_h2);
    pfl_buf_fini(&r->got);
}

static unsigned count_of(struct relay *r, const char *text)
{
    struct pfl_span got = pfl_buf_get(&r->got);
    unsigned count = 0;

    while (got.len != 0) {
        const uint8_t *at = memmem(got.data, got.len, text, strlen(text));

        if (at == NULL)
            break;
        count++;
        got = pfl_span_of(at + 1, got.len - (size_t)(at + 1 - got.data));
    }
    return count;
}

static void request(const char *who, const char *method, const char *why, uint64_t at_ms)
{
    const struct pfl_request_event event = {
        .operator_name = who, .stream = "", .method = method, .why = why};

    pfl_events_tell_request(&events, &event, at_ms);
}

static void tell(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        request("me", "Flush", NULL, now_ms += 1000);
}

static int set_up(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_events_init(&events);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_events_fini(&events);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void every_relay_gets_every_line_and_the_time(void **state)
{
    struct relay one;
    struct relay two;

    (void)state;
    tell(3); /* before there is a listener */
    assert_int_equal(open_relay(&one), 0);
    assert_int_equal(one.status, 200);
    assert_int_equal(one.now_ms, 4711);
    assert_int_equal(count_of(&one, "\"request\""), 3);
    assert_int_equal(events.log.first, 3); /* used up */
    assert_int_equal(open_relay(&two), 0);
    pfl_events_tell_trigger(&events, "me", "ring", "boom", 99);
    pump(&one);
    pump(&two);
    assert_int_equal(count_of(&one, "\"trigger\":\"boom\",\"at_ms\":99}\n"), 1);
    assert_int_equal(count_of(&two, "\"trigger\":\"boom\",\"at_ms\":99}\n"), 1);
    assert_int_equal(count_of(&two, "\"request\""), 0);
    pfl_events_tell_order_trigger(
        &events, &(struct pfl_order_event){
                     .orderer = "me", .order = "web", .trigger = "boom", .id = "7", .at_ms = 9});
    pump(&one);
    assert_int_equal(count_of(&one, "{\"kind\":\"trigger\",\"operator\":\"me\",\"order\":\"web\","
                                    "\"trigger\":\"boom\",\"id\":\"7\",\"at_ms\":9}\n"),
                     1);
    close_relay(&one);
    close_relay(&two);
}

static void what_a_lost_relay_had_not_credited_goes_to_the_next(void **state)
{
    struct relay r;

    (void)state;
    assert_int_equal(open_relay(&r), 0);
    r.is_stuck = true;
    tell(2);
    pump(&r);
    assert_int_equal(count_of(&r, "\"request\""), 2);
    close_relay(&r);
    assert_int_equal(open_relay(&r), 0);
    assert_int_equal(count_of(&r, "\"request\""), 2);
    assert_int_equal(events.log.first, 2);
    close_relay(&r);
}

static void a_relay_that_reads_nothing_holds_up_nobody(void **state)
{
    struct relay good;
    struct relay stuck;

    (void)state;
    assert_int_equal(open_relay(&good), 0);
    assert_int_equal(open_relay(&stuck), 0);
    stuck.is_stuck = true;
    for (unsigned i = 0; i < 1000; i++) {
        tell(1);
        pump(&good);
        pump(&stuck);
    }
    assert_int_equal(count_of(&good, "\"request\""), 1000);
    assert_int_equal(count_of(&good, "\"lost\""), 0);
    assert_null(stuck.stream); /* it was notified */
    stuck.is_stuck = false;
    assert_int_equal(listen_as(&stuck), 0);
    tell(1);
    pump(&stuck);
    assert_int_equal(stuck.status, 200);
    assert_non_null(stuck.stream);
    close_relay(&good);
    close_relay(&stuck);
}

static void when_nobody_reads_triggers_still_find_room(void **state)
{
    struct relay r;

    (void)state;
    assert_int_equal(open_relay(&r), 0);
    r.is_stuck = true;
    tell(1000);
    pfl_events_tell_trigger(&events, "me", "ring", "boom", 99);
    pump(&r);
    assert_non_null(r.stream);
    assert_int_equal(count_of(&r, "\"boom\""), 1);
    close_relay(&r);
    assert_int_equal(open_relay(&r),
                     0); /* and what was lost is reported as soon as there is room */
    pump(&r);
    assert_int_equal(count_of(&r, "{\"kind\":\"lost\",\"count\":808}"), 1);
    close_relay(&r);
}

/* The relay takes 50 lines a second of a host, and the log holds 192. */
static void one_operators_requests_leave_lines_to_others(void **state)
{
    struct relay r;

    (void)state;
    assert_int_equal(open_relay(&r), 0);
    for (unsigned i = 0; i < 1000; i++)
        request("eve", "Flush", "no", 5000);
    request("me", "Attach", NULL, 5000);
    pump(&r);
    assert_int_equal(count_of(&r, "\"eve\""), PFL_EVENTS_REQUESTS_AT_ONCE);
    assert_int_equal(count_of(&r, "\"Attach\""), 1);
    /* A line has their number, once in a second. */
    for (unsigned i = 0; i < 1000; i++)
        request("eve", "Flush", "no", 5999);
    request("me", "Attach", NULL, 6000);
    pump(&r);
    assert_int_equal(count_of(&r, "\"eve\""),
                     PFL_EVENTS_REQUESTS_AT_ONCE + PFL_EVENTS_REQUESTS_PER_S - 1);
    assert_int_equal(count_of(&r, "\"Attach\""), 2);
    assert_int_equal(count_of(&r, "\"lost\""), 2);
    close_relay(&r);
}

static void a_relay_cannot_listen_without_end_and_leaves_room_for_others(void **state)
{
    struct relay r;
    struct relay other;

    (void)state;
    assert_int_equal(open_relay(&r), 0);
    for (unsigned i = 1; i < PFL_EVENTS_MAX_LISTENERS + 20; i++)
        assert_int_equal(listen_as(&r), 0);
    assert_int_equal(events.listeners_len, PFL_EVENTS_LISTENERS_OF_RELAY);
    assert_int_equal(open_relay(&other), 0);
    assert_int_equal(events.listeners_len, PFL_EVENTS_LISTENERS_OF_RELAY + 1);
    close_relay(&other);
    close_relay(&r);
    assert_int_equal(events.listeners_len, 0);
}

static int listen_once(void *arg)
{
    struct relay r;
    int rc;

    (void)arg;
    pfl_events_init(&events);
    rc = open_relay(&r);
    pfl_events_tell_trigger(&events, "me", "ring", "boom", 99);
    if (rc == 0)
        pump(&r);
    if (rc == 0 && count_of(&r, "\"boom\"") != 1)
        rc = PFL_ENOMEM;
    close_relay(&r);
    pfl_events_fini(&events);
    return rc == 0 ? 0 : PFL_ENOMEM; /* an end without memory is broken, and says so later */
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(listen_once, NULL, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_relay_gets_every_line_and_the_time),
        TEST(what_a_lost_relay_had_not_credited_goes_to_the_next),
        TEST(a_relay_that_reads_nothing_holds_up_nobody),
        TEST(when_nobody_reads_triggers_still_find_room),
        TEST(one_operators_requests_leave_lines_to_others),
        TEST(a_relay_cannot_listen_without_end_and_leaves_room_for_others),
        TEST(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
