/* SPDX-License-Identifier: Apache-2.0 */
/* Two HTTP/2 ends face to face: requests, streams, exact credit, ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/h2/h2_call.h"
#include "tests/support/sweep.h"
#include "tests/unit/proto/h2/h2_kit.h"

static void a_connect_waits_for_the_peers_settings(void **state)
{
    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    assert_int_equal(h2_kit_connect(), PFL_ESTATE);
    h2_kit_pump();
    assert_int_equal(kit.readies, 2);
    assert_int_equal(h2_kit_connect(), 0);
    h2_kit_pump();
    assert_string_equal(kit.seen_path, "/v1/hosts/a/consumer");
    assert_string_equal(kit.seen_field, "abc");
    assert_int_equal(kit.client.status, 200);
}

static void bytes_go_both_ways_and_each_end_is_reported_once(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    h2_kit_write(&kit.client, 1000);
    h2_kit_write(&kit.server, 60000);
    h2_kit_pump();
    assert_int_equal(kit.server.got.len, 1000);
    assert_int_equal(kit.client.got.len, 60000);
    kit.client.is_ending = true;
    pfl_h2_stream_wake(kit.client.stream);
    h2_kit_pump();
    assert_int_equal(kit.server.ends, 1);
    assert_int_equal(kit.client.ends, 0);
    kit.server.is_ending = true;
    pfl_h2_stream_wake(kit.server.stream);
    h2_kit_pump();
    assert_int_equal(kit.client.ends, 1);
    assert_int_equal(kit.client.closes + kit.server.closes, 2);
    assert_int_equal(kit.client.code, PFL_H2_NO_ERROR);
    assert_int_equal(pfl_h2_count_streams(kit.client_h2) + pfl_h2_count_streams(kit.server_h2), 0);
}

static void nothing_passes_the_window_and_credit_is_reported_to_the_byte(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    h2_kit_write(&kit.server, 200000);
    h2_kit_pump();
    assert_int_equal(kit.client.got.len, WINDOW);
    assert_int_equal(kit.server.credited, 0);
    pfl_h2_stream_credit(kit.client.stream, 1);
    pfl_h2_stream_credit(kit.client.stream, 12344);
    h2_kit_pump();
    assert_int_equal(kit.server.credited, 12345);
    assert_int_equal(kit.client.got.len, WINDOW + 12345);
    /* The other way is a window of its own, and so is another stream. */
    h2_kit_write(&kit.client, 10);
    h2_kit_pump();
    assert_int_equal(kit.server.got.len, 10);
}

static void a_stream_that_nobody_reads_does_not_hold_back_a_call(void **state)
{
    struct pfl_h2_request request = {.method = "GET", .path = "/x", .ops = &h2_kit_ask_ops};
    struct pfl_h2_stream *stream;
    struct side other = {.code = 1};

    (void)state;
    h2_kit_open_and_connect();
    h2_kit_write(&kit.server, 200000);
    h2_kit_pump();
    kit.serve = h2_kit_serve_body;
    pfl_buf_init(&other.got, 100);
    request.user = &other;
    assert_int_equal(pfl_h2_request(kit.client_h2, &request, &stream), 0);
    h2_kit_pump();
    assert_int_equal(other.got.len, 7);
    assert_int_equal(other.closes, 1);
    pfl_buf_fini(&other.got);
}

static void a_reset_tells_its_code_and_nothing_after_it(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    h2_kit_write(&kit.server, 1000);
    pfl_h2_stream_reset(kit.client.stream, PFL_H2_CANCEL);
    h2_kit_pump();
    assert_int_equal(kit.client.got.len, 0);
    assert_int_equal(kit.server.code, PFL_H2_CANCEL);
    assert_int_equal(kit.client.closes + kit.server.closes, 2);
}

static void a_lost_connection_detaches_every_stream(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    pfl_h2_free(kit.client_h2);
    kit.client_h2 = NULL;
    assert_int_equal(kit.client.code, PFL_H2_DETACH);
    assert_int_equal(kit.client.closes, 1);
}

static void on_closed_ask_again(void *user, uint32_t code)
{
    (void)code;
    *(int *)user = h2_kit_connect();
}

static void a_stream_that_ends_with_its_connection_cannot_make_another(void **state)
{
    static const struct pfl_h2_stream_ops ops = {.on_closed = on_closed_ask_again};
    int rc = 0;

    (void)state;
    h2_kit_open_and_connect();
    pfl_h2_stream_set_user(kit.client.stream, &ops, &rc);
    pfl_h2_free(kit.client_h2);
    kit.client_h2 = NULL;
    assert_int_equal(rc, PFL_ESTATE);
}

static void after_goaway_streams_go_on_and_requests_do_not(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    assert_int_equal(pfl_h2_goaway(kit.client_h2), 0);
    h2_kit_pump();
    assert_int_equal(kit.goaways, 1);
    assert_true(pfl_h2_is_going(kit.client_h2) && pfl_h2_is_going(kit.server_h2));
    assert_int_equal(h2_kit_connect(), PFL_ESTATE);
    kit.client.stream = NULL;
    h2_kit_write(&kit.server, 500);
    h2_kit_pump();
    assert_int_equal(kit.client.got.len, 500);
    assert_false(pfl_h2_is_over(kit.client_h2));
    pfl_h2_stream_reset(kit.server.stream, PFL_H2_CANCEL);
    h2_kit_pump();
    assert_true(pfl_h2_is_over(kit.client_h2));
}

static void a_request_that_goaway_overtakes_is_reported_its_end(void **state)
{
    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(pfl_h2_goaway(kit.server_h2), 0);
    assert_int_equal(h2_kit_connect(), 0);
    pfl_h2_stream_reset(kit.client.stream, PFL_H2_CANCEL);
    h2_kit_pump();
    assert_int_equal(kit.client.closes, 1);
    assert_int_equal(pfl_h2_count_streams(kit.client_h2), 0);
}

static void requests_nobody_takes_are_404(void **state)
{
    (void)state;
    kit.serve = h2_kit_serve_nothing;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(h2_kit_connect(), 0);
    h2_kit_pump();
    assert_int_equal(kit.client.status, 404);
    assert_int_equal(kit.client.closes, 1); /* whose own direction was still open */
    assert_int_equal(pfl_h2_count_streams(kit.server_h2), 0);
}

static void too_large_a_head_is_431(void **state)
{
    char value[PFL_H2_HEAD_BYTES];
    struct pfl_h2_field field = {"x-large", value};
    struct pfl_h2_request request = {.method = "GET",
                                     .path = "/",
                                     .fields = &field,
                                     .fields_len = 1,
                                     .ops = &h2_kit_ops,
                                     .user = &kit.client};

    (void)state;
    memset(value, 'a', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(pfl_h2_request(kit.client_h2, &request, &kit.client.stream), 0);
    h2_kit_pump();
    assert_int_equal(kit.client.status, 431);
    assert_int_equal(kit.server.closes, 0);
}

static void more_streams_than_allowed_are_refused_here_already(void **state)
{
    struct pfl_h2_stream *first = NULL;

    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(h2_kit_connect(), 0);
        first = kit.client.stream;
    }
    assert_int_equal(h2_kit_connect(), PFL_ELIMIT);
    h2_kit_pump();
    assert_int_equal(h2_kit_connect(), PFL_ELIMIT);
    pfl_h2_stream_reset(first, PFL_H2_CANCEL);
    h2_kit_pump();
    assert_int_equal(h2_kit_connect(), 0);
}

static void every_cut_of_the_bytes_gives_the_same(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 20; piece += 3) {
        assert_int_equal(h2_kit_open(), 0);
        assert_int_equal(h2_kit_try_pump(piece), 0);
        assert_int_equal(h2_kit_connect(), 0);
        assert_int_equal(h2_kit_try_pump(piece), 0);
        h2_kit_write(&kit.server, 3000);
        assert_int_equal(h2_kit_try_pump(piece), 0);
        assert_int_equal(kit.client.got.len, 3000);
        pfl_h2_free(kit.client_h2);
        pfl_h2_free(kit.server_h2);
        pfl_buf_clear(&kit.client.got);
    }
    kit.client_h2 = kit.server_h2 = NULL;
}

struct answer {
    unsigned count;
    int err;
    unsigned status;
    size_t len;
};

static void on_done(void *user, int err, unsigned status, struct pfl_span body)
{
    struct answer *a = user;

    *a = (struct answer){a->count + 1, err, status, body.len};
}

static int try_call(struct answer *a, size_t max)
{
    struct pfl_h2_call_conf conf = {
        .method = "GET", .path = "/v1/hosts", .body_max_bytes = max, .on_done = on_done, .user = a};

    return pfl_h2_call_start(kit.client_h2, &conf, NULL);
}

static void a_call_brings_status_and_body(void **state)
{
    struct answer a = {0};

    (void)state;
    kit.serve = h2_kit_serve_body;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(try_call(&a, 7), 0);
    h2_kit_pump();
    assert_int_equal(a.count, 1);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, 7);
    assert_int_equal(try_call(&a, 6), 0);
    h2_kit_pump();
    assert_int_equal(a.err, PFL_ELIMIT);
    assert_int_equal(try_call(&a, 7), 0);
    pfl_h2_free(kit.client_h2);
    kit.client_h2 = NULL;
    assert_int_equal(a.err, PFL_ECLOSED);
    assert_int_equal(a.count, 3);
}

static int run_all(void *arg)
{
    struct answer a = {0};
    int rc = h2_kit_open();

    (void)arg;
    kit.serve = h2_kit_serve_stream;
    if (rc == 0)
        rc = h2_kit_try_pump(SIZE_MAX);
    if (rc == 0)
        rc = h2_kit_connect();
    if (rc == 0)
        rc = h2_kit_try_pump(SIZE_MAX);
    kit.serve = h2_kit_serve_body;
    if (rc == 0)
        rc = try_call(&a, 100);
    if (rc == 0)
        rc = h2_kit_try_pump(SIZE_MAX);
    pfl_h2_free(kit.client_h2);
    pfl_h2_free(kit.server_h2);
    kit.client_h2 = kit.server_h2 = NULL;
    pfl_buf_fini(&kit.client.got);
    pfl_buf_fini(&kit.server.got);
    return rc;
}

static void running_out_of_memory_anywhere_ends_in_order(void **state)
{
    (void)state;
    pfl_sweep(run_all, NULL, true);
}

#define T(name) cmocka_unit_test_setup_teardown(name, h2_kit_setup, h2_kit_teardown)

static void a_ping_is_answered_and_wakes_who_sends(void **state)
{
    uint8_t bytes[PFL_H2_DRAIN_BYTES + 64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    unsigned wakes;

    (void)state;
    h2_kit_open_and_connect();
    wakes = kit.wakes;
    assert_int_equal(pfl_h2_ping(kit.client_h2), 0);
    assert_int_equal(kit.wakes, wakes + 1);
    assert_int_equal(pfl_h2_drain(kit.client_h2, &w), 0);
    assert_int_equal(sizeof(bytes) - w.left, 9 + 8);
    assert_int_equal(bytes[3], 6); /* PING */
    assert_int_equal(bytes[4], 0);
    assert_int_equal(pfl_h2_feed(kit.server_h2, pfl_span_of(bytes, 17)), 0);
    w = pfl_writer_of(bytes, sizeof(bytes));
    assert_int_equal(pfl_h2_drain(kit.server_h2, &w), 0);
    assert_int_equal(sizeof(bytes) - w.left, 9 + 8);
    assert_int_equal(bytes[3], 6);
    assert_int_equal(bytes[4], 1); /* ACK */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_connect_waits_for_the_peers_settings),
        T(bytes_go_both_ways_and_each_end_is_reported_once),
        T(nothing_passes_the_window_and_credit_is_reported_to_the_byte),
        T(a_stream_that_nobody_reads_does_not_hold_back_a_call),
        T(a_reset_tells_its_code_and_nothing_after_it),
        T(a_lost_connection_detaches_every_stream),
        T(a_stream_that_ends_with_its_connection_cannot_make_another),
        T(after_goaway_streams_go_on_and_requests_do_not),
        T(a_request_that_goaway_overtakes_is_reported_its_end),
        T(requests_nobody_takes_are_404),
        T(too_large_a_head_is_431),
        T(more_streams_than_allowed_are_refused_here_already),
        T(every_cut_of_the_bytes_gives_the_same),
        T(a_call_brings_status_and_body),
        T(running_out_of_memory_anywhere_ends_in_order),
        T(a_ping_is_answered_and_wakes_who_sends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
