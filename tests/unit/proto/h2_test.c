/* SPDX-License-Identifier: Apache-2.0 */
/* Two HTTP/2 ends face to face: requests, streams, exact credit, ends, limits. */
#include "proto/h2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/h2_call.h"
#include "proto/tunnel.h"
#include "tests/support/sweep.h"

#define WINDOW 70000u

struct side {
    struct pfl_h2_stream *stream;
    struct pfl_buf to_send; /* pulled from here */
    struct pfl_buf got;
    uint64_t credited; /* by the peer */
    unsigned status;
    uint32_t code;
    unsigned ends;
    unsigned closes;
    bool is_ending;
};

static struct pfl_h2 *asker;
static struct pfl_h2 *answerer;
static struct side client;
static struct side server;
static unsigned wakes;
static unsigned goaways;
static unsigned readies;
static char seen_path[200];
static char seen_field[64];
static void (*serve)(struct pfl_h2_stream *stream);

static void on_response(void *user, const struct pfl_h2_head *head)
{
    ((struct side *)user)->status = pfl_h2_head_get_status(head);
}

static void on_data(void *user, struct pfl_span data)
{
    (void)!pfl_buf_append(&((struct side *)user)->got, data.data, data.len);
}

static void on_end(void *user)
{
    ((struct side *)user)->ends++;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct side *s = user;
    struct pfl_span data = pfl_buf_get(&s->to_send);
    size_t len = data.len < room ? data.len : room;

    if (len != 0)
        memcpy(dst, data.data, len);
    pfl_buf_consume(&s->to_send, len);
    *ret_is_end = s->is_ending && s->to_send.len == 0;
    return len;
}

static void on_credit(void *user, uint32_t bytes)
{
    ((struct side *)user)->credited += bytes;
}

static void on_closed(void *user, uint32_t code)
{
    struct side *s = user;

    s->stream = NULL;
    s->code = code;
    s->closes++;
}

static const struct pfl_h2_stream_ops ops = {on_response, on_data,   on_end,
                                             on_pull,     on_credit, on_closed};

static void on_request(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head)
{
    const char *field = pfl_h2_head_get(head, "perfleet-stream");

    (void)user;
    (void)snprintf(seen_path, sizeof(seen_path), "%s", pfl_h2_head_get(head, ":path"));
    (void)snprintf(seen_field, sizeof(seen_field), "%s", field != NULL ? field : "");
    serve(stream);
}

static void on_wake(void *user)
{
    (void)user;
    wakes++;
}

static void on_ready(void *user)
{
    (void)user;
    readies++;
}

static void on_goaway(void *user)
{
    (void)user;
    goaways++;
}

static void serve_stream(struct pfl_h2_stream *stream)
{
    server.stream = stream;
    pfl_h2_stream_set_user(stream, &ops, &server);
    (void)!pfl_h2_stream_respond(stream, 200, NULL, 0);
}

static void serve_body(struct pfl_h2_stream *stream)
{
    (void)!pfl_h2_stream_respond_body(stream, 200, "application/json", pfl_span_of("{\"a\":1}", 7));
}

static void serve_nothing(struct pfl_h2_stream *stream)
{
    (void)stream;
}

static int try_open(void)
{
    struct pfl_h2_conf conf = {.window_bytes = WINDOW, .on_wake = on_wake, .on_ready = on_ready};
    int rc = pfl_h2_new(&conf, &asker);

    if (rc != 0)
        return rc;
    conf.is_answering = true;
    conf.on_request = on_request;
    conf.on_goaway = on_goaway;
    conf.max_streams = 4;
    return pfl_h2_new(&conf, &answerer);
}

static int setup(void **state)
{
    (void)state;
    asker = answerer = NULL;
    client = server = (struct side){.code = 12345};
    pfl_buf_init(&client.to_send, 1u << 20);
    pfl_buf_init(&client.got, 1u << 20);
    pfl_buf_init(&server.to_send, 1u << 20);
    pfl_buf_init(&server.got, 1u << 20);
    wakes = goaways = readies = 0;
    serve = serve_stream;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_h2_free(asker);
    pfl_h2_free(answerer);
    pfl_buf_fini(&client.to_send);
    pfl_buf_fini(&client.got);
    pfl_buf_fini(&server.to_send);
    pfl_buf_fini(&server.got);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* Moves bytes until both are quiet, `piece` at a time. */
static int try_pump(size_t piece)
{
    struct pfl_h2 *from[2] = {asker, answerer};
    static uint8_t wire[1u << 16];
    bool has_moved = true;
    int rc = 0;

    while (rc == 0 && has_moved) {
        has_moved = false;
        for (unsigned i = 0; i < 2 && rc == 0; i++) {
            struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));
            size_t len;

            rc = pfl_h2_drain(from[i], &out);
            len = (size_t)(out.pos - wire);
            has_moved |= len != 0;
            for (size_t at = 0; rc == 0 && at < len; at += piece) {
                size_t some = piece < len - at ? piece : len - at;

                rc = pfl_h2_feed(from[1 - i], pfl_span_of(wire + at, some));
                if (piece == SIZE_MAX)
                    break;
            }
        }
    }
    return rc;
}

static void pump(void)
{
    assert_int_equal(try_pump(SIZE_MAX), 0);
}

static int try_connect(void)
{
    struct pfl_h2_field field = {"perfleet-stream", "abc"};
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = "/v1/hosts/a/consumer",
        .protocol = PFL_TUNNEL_PROTOCOL,
        .fields = &field,
        .fields_len = 1,
        .ops = &ops,
        .user = &client,
    };

    return pfl_h2_request(asker, &request, &client.stream);
}

static void open_and_connect(void)
{
    assert_int_equal(try_open(), 0);
    pump();
    assert_int_equal(try_connect(), 0);
    pump();
    assert_int_equal(client.status, 200);
}

static void write_bytes(struct side *from, size_t len)
{
    uint8_t *room;

    assert_int_equal(pfl_buf_reserve(&from->to_send, len, &room), 0);
    for (size_t i = 0; i < len; i++)
        room[i] = (uint8_t)(i * 31 >> 3);
    pfl_buf_extend(&from->to_send, len);
    pfl_h2_stream_wake(from->stream);
}

static void a_connect_waits_for_the_peers_settings(void **state)
{
    (void)state;
    assert_int_equal(try_open(), 0);
    assert_int_equal(try_connect(), PFL_ESTATE);
    pump();
    assert_int_equal(readies, 2);
    assert_int_equal(try_connect(), 0);
    pump();
    assert_string_equal(seen_path, "/v1/hosts/a/consumer");
    assert_string_equal(seen_field, "abc");
    assert_int_equal(client.status, 200);
}

static void bytes_go_both_ways_and_each_end_is_told_once(void **state)
{
    (void)state;
    open_and_connect();
    write_bytes(&client, 1000);
    write_bytes(&server, 60000);
    pump();
    assert_int_equal(server.got.len, 1000);
    assert_int_equal(client.got.len, 60000);
    client.is_ending = true;
    pfl_h2_stream_wake(client.stream);
    pump();
    assert_int_equal(server.ends, 1);
    assert_int_equal(client.ends, 0);
    server.is_ending = true;
    pfl_h2_stream_wake(server.stream);
    pump();
    assert_int_equal(client.ends, 1);
    assert_int_equal(client.closes + server.closes, 2);
    assert_int_equal(client.code, PFL_H2_NO_ERROR);
    assert_int_equal(pfl_h2_count_streams(asker) + pfl_h2_count_streams(answerer), 0);
}

static void nothing_passes_the_window_and_credit_is_told_to_the_byte(void **state)
{
    (void)state;
    open_and_connect();
    write_bytes(&server, 200000);
    pump();
    assert_int_equal(client.got.len, WINDOW);
    assert_int_equal(server.credited, 0);
    pfl_h2_stream_credit(client.stream, 1);
    pfl_h2_stream_credit(client.stream, 12344);
    pump();
    assert_int_equal(server.credited, 12345);
    assert_int_equal(client.got.len, WINDOW + 12345);
    /* The other way is a window of its own, and so is another stream. */
    write_bytes(&client, 10);
    pump();
    assert_int_equal(server.got.len, 10);
}

static void a_stream_that_nobody_reads_does_not_hold_back_a_call(void **state)
{
    struct pfl_h2_request request = {.method = "GET", .path = "/x", .ops = &ops};
    struct pfl_h2_stream *stream;
    struct side other = {.code = 1};

    (void)state;
    open_and_connect();
    write_bytes(&server, 200000);
    pump();
    serve = serve_body;
    pfl_buf_init(&other.got, 100);
    static const struct pfl_h2_stream_ops no_pull = {
        .on_response = on_response, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    request.ops = &no_pull;
    request.user = &other;
    assert_int_equal(pfl_h2_request(asker, &request, &stream), 0);
    pump();
    assert_int_equal(other.got.len, 7);
    assert_int_equal(other.closes, 1);
    pfl_buf_fini(&other.got);
}

static void a_reset_tells_its_code_and_nothing_after_it(void **state)
{
    (void)state;
    open_and_connect();
    write_bytes(&server, 1000);
    pfl_h2_stream_reset(client.stream, PFL_H2_CANCEL);
    pump();
    assert_int_equal(client.got.len, 0);
    assert_int_equal(server.code, PFL_H2_CANCEL);
    assert_int_equal(client.closes + server.closes, 2);
}

static void a_lost_connection_detaches_every_stream(void **state)
{
    (void)state;
    open_and_connect();
    pfl_h2_free(asker);
    asker = NULL;
    assert_int_equal(client.code, PFL_H2_DETACH);
    assert_int_equal(client.closes, 1);
}

static void after_goaway_streams_go_on_and_requests_do_not(void **state)
{
    (void)state;
    open_and_connect();
    assert_int_equal(pfl_h2_goaway(asker), 0);
    pump();
    assert_int_equal(goaways, 1);
    assert_true(pfl_h2_is_going(asker) && pfl_h2_is_going(answerer));
    assert_int_equal(try_connect(), PFL_ESTATE);
    client.stream = NULL;
    write_bytes(&server, 500);
    pump();
    assert_int_equal(client.got.len, 500);
    assert_false(pfl_h2_is_over(asker));
    pfl_h2_stream_reset(server.stream, PFL_H2_CANCEL);
    pump();
    assert_true(pfl_h2_is_over(asker));
}

static void a_request_that_goaway_overtakes_is_told_its_end(void **state)
{
    (void)state;
    assert_int_equal(try_open(), 0);
    pump();
    assert_int_equal(pfl_h2_goaway(answerer), 0);
    assert_int_equal(try_connect(), 0);
    pfl_h2_stream_reset(client.stream, PFL_H2_CANCEL);
    pump();
    assert_int_equal(client.closes, 1);
    assert_int_equal(pfl_h2_count_streams(asker), 0);
}

static void requests_nobody_takes_are_404(void **state)
{
    (void)state;
    serve = serve_nothing;
    assert_int_equal(try_open(), 0);
    pump();
    assert_int_equal(try_connect(), 0);
    pump();
    assert_int_equal(client.status, 404);
    assert_int_equal(client.closes, 1); /* whose own direction was still open */
    assert_int_equal(pfl_h2_count_streams(answerer), 0);
}

static void too_large_a_head_is_431(void **state)
{
    char value[PFL_H2_HEAD_BYTES];
    struct pfl_h2_field field = {"x-large", value};
    struct pfl_h2_request request = {.method = "GET",
                                     .path = "/",
                                     .fields = &field,
                                     .fields_len = 1,
                                     .ops = &ops,
                                     .user = &client};

    (void)state;
    memset(value, 'a', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    assert_int_equal(try_open(), 0);
    pump();
    assert_int_equal(pfl_h2_request(asker, &request, &client.stream), 0);
    pump();
    assert_int_equal(client.status, 431);
    assert_int_equal(server.closes, 0);
}

static void more_streams_than_allowed_are_refused_here_already(void **state)
{
    struct pfl_h2_stream *first = NULL;

    (void)state;
    assert_int_equal(try_open(), 0);
    pump();
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(try_connect(), 0);
        first = client.stream;
    }
    assert_int_equal(try_connect(), PFL_ELIMIT);
    pump();
    assert_int_equal(try_connect(), PFL_ELIMIT);
    pfl_h2_stream_reset(first, PFL_H2_CANCEL);
    pump();
    assert_int_equal(try_connect(), 0);
}

static void every_cut_of_the_bytes_gives_the_same(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 20; piece += 3) {
        assert_int_equal(try_open(), 0);
        assert_int_equal(try_pump(piece), 0);
        assert_int_equal(try_connect(), 0);
        assert_int_equal(try_pump(piece), 0);
        write_bytes(&server, 3000);
        assert_int_equal(try_pump(piece), 0);
        assert_int_equal(client.got.len, 3000);
        pfl_h2_free(asker);
        pfl_h2_free(answerer);
        pfl_buf_clear(&client.got);
    }
    asker = answerer = NULL;
}

static void garbage_ends_the_connection(void **state)
{
    (void)state;
    assert_int_equal(try_open(), 0);
    assert_int_equal(pfl_h2_feed(answerer, pfl_span_of("GET / HTTP/1.1\r\n\r\n0123456", 25)),
                     PFL_EPROTO);
    assert_int_equal(pfl_h2_feed(answerer, pfl_span_of("x", 1)), PFL_EPROTO);
}

/* A frame by hand, from the asker's side. */
static int send_frame(uint8_t type, uint8_t flags, uint32_t id, struct pfl_span payload)
{
    uint8_t head[9] = {(uint8_t)(payload.len >> 16),
                       (uint8_t)(payload.len >> 8),
                       (uint8_t)payload.len,
                       type,
                       flags,
                       (uint8_t)(id >> 24),
                       (uint8_t)(id >> 16),
                       (uint8_t)(id >> 8),
                       (uint8_t)id};
    int rc = pfl_h2_feed(answerer, pfl_span_of(head, sizeof(head)));

    return rc == 0 ? pfl_h2_feed(answerer, payload) : rc;
}

static void padding_on_a_stream_resets_it(void **state)
{
    (void)state;
    open_and_connect();
    assert_int_equal(send_frame(0, 0x8, 1, pfl_span_of("\x02xyzab", 6)), 0);
    pump();
    assert_int_equal(client.code, PFL_H2_PROTOCOL_ERROR);
}

static void a_flood_of_empty_frames_ends_the_connection(void **state)
{
    int rc = 0;
    unsigned sent = 0;

    (void)state;
    open_and_connect();
    while (rc == 0 && sent++ < 1000)
        rc = send_frame(0, 0, 1, pfl_span_of(NULL, 0));
    assert_int_equal(rc, PFL_ELIMIT);
    assert_int_equal(sent, PFL_H2_MAX_EMPTY_DATA + 1);
}

static void a_flood_of_pings_ends_the_connection(void **state)
{
    int rc = 0;
    unsigned sent = 0;

    (void)state;
    open_and_connect();
    while (rc == 0 && sent++ < 5000)
        rc = send_frame(6, 0, 0, pfl_span_of("01234567", 8));
    assert_true(rc == PFL_ELIMIT || rc == PFL_EPROTO);
}

static void rapid_reset_ends_the_connection(void **state)
{
    unsigned sent = 0;

    (void)state;
    assert_int_equal(try_open(), 0);
    pump();
    while (sent++ < 3 * PFL_H2_RESET_BURST && try_connect() == 0) {
        pfl_h2_stream_reset(client.stream, PFL_H2_CANCEL);
        if (try_pump(SIZE_MAX) != 0)
            break;
        /* Cancelled before it was sent: nothing to count. Send it first from now on. */
        if (try_connect() != 0 || try_pump(SIZE_MAX) != 0)
            break;
        pfl_h2_stream_reset(client.stream, PFL_H2_CANCEL);
        if (try_pump(SIZE_MAX) != 0 || pfl_h2_is_going(asker))
            break;
    }
    assert_true(sent <= PFL_H2_RESET_BURST + PFL_H2_RESET_PER_SEC + 2);
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

    return pfl_h2_call_start(asker, &conf, NULL);
}

static void a_call_brings_status_and_body(void **state)
{
    struct answer a = {0};

    (void)state;
    serve = serve_body;
    assert_int_equal(try_open(), 0);
    pump();
    assert_int_equal(try_call(&a, 7), 0);
    pump();
    assert_int_equal(a.count, 1);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, 7);
    assert_int_equal(try_call(&a, 6), 0);
    pump();
    assert_int_equal(a.err, PFL_ELIMIT);
    assert_int_equal(try_call(&a, 7), 0);
    pfl_h2_free(asker);
    asker = NULL;
    assert_int_equal(a.err, PFL_ECLOSED);
    assert_int_equal(a.count, 3);
}

static int run_all(void *arg)
{
    struct answer a = {0};
    int rc = try_open();

    (void)arg;
    serve = serve_stream;
    if (rc == 0)
        rc = try_pump(SIZE_MAX);
    if (rc == 0)
        rc = try_connect();
    if (rc == 0)
        rc = try_pump(SIZE_MAX);
    serve = serve_body;
    if (rc == 0)
        rc = try_call(&a, 100);
    if (rc == 0)
        rc = try_pump(SIZE_MAX);
    pfl_h2_free(asker);
    pfl_h2_free(answerer);
    asker = answerer = NULL;
    pfl_buf_fini(&client.got);
    pfl_buf_fini(&server.got);
    return rc;
}

static void running_out_of_memory_anywhere_ends_in_order(void **state)
{
    (void)state;
    pfl_sweep(run_all, NULL, true);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_connect_waits_for_the_peers_settings),
        T(bytes_go_both_ways_and_each_end_is_told_once),
        T(nothing_passes_the_window_and_credit_is_told_to_the_byte),
        T(a_stream_that_nobody_reads_does_not_hold_back_a_call),
        T(a_reset_tells_its_code_and_nothing_after_it),
        T(a_lost_connection_detaches_every_stream),
        T(after_goaway_streams_go_on_and_requests_do_not),
        T(a_request_that_goaway_overtakes_is_told_its_end),
        T(requests_nobody_takes_are_404),
        T(too_large_a_head_is_431),
        T(more_streams_than_allowed_are_refused_here_already),
        T(every_cut_of_the_bytes_gives_the_same),
        T(garbage_ends_the_connection),
        T(padding_on_a_stream_resets_it),
        T(a_flood_of_empty_frames_ends_the_connection),
        T(a_flood_of_pings_ends_the_connection),
        T(rapid_reset_ends_the_connection),
        T(a_call_brings_status_and_body),
        T(running_out_of_memory_anywhere_ends_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
