/* SPDX-License-Identifier: Apache-2.0 */
/* What a link does of a turn of the loop: requests and sending stop when the peer had its part. */
#include "tunnel/link.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/io/stream_impl.h"

#define REQUESTS 80u
#define LONG_MS  60000u
#define PINGS    980u
/* Of answers, before the time is looked at. */
#define ANSWERS_PIECE_BYTES (16u * 1024)
/* Of the answers, which are sent in one piece. */
#define PIECE_BYTES (8u * PFL_H2_DRAIN_BYTES)

static uv_loop_t loop;
static struct pfl_tunnel_link *link_;
static struct pfl_h2 *far; /* the operator's end */
static struct pfl_buf sent;
static bool is_over;

/* In the place of TLS. */
static struct {
    struct pfl_stream base;
    size_t written;
    unsigned answers; /* what is left of its part, in questions */
    unsigned asked;
    unsigned stops;
    unsigned starts;
    bool is_closed;
} stream;

static unsigned requests;
static size_t body_bytes;

static int fake_writev(struct pfl_stream *self, const struct iovec *iov, int iov_len, int fd)
{
    (void)self;
    (void)fd;
    for (int i = 0; i < iov_len; i++)
        stream.written += iov[i].iov_len;
    return 0;
}

static size_t fake_queued_bytes(const struct pfl_stream *self)
{
    (void)self;
    return 0; /* the kernel takes everything */
}

static void fake_read_stop(struct pfl_stream *self)
{
    (void)self;
    stream.stops++;
}

static void fake_read_start(struct pfl_stream *self)
{
    (void)self;
    stream.starts++;
}

static void fake_close(struct pfl_stream *self)
{
    (void)self;
    stream.is_closed = true;
}

static void fake_close_after_flush(struct pfl_stream *self, uint64_t timeout_ms)
{
    (void)timeout_ms;
    fake_close(self);
}

static bool fake_may_go_on(struct pfl_stream *self)
{
    (void)self;
    stream.asked++;
    if (stream.answers == 0)
        return false;
    stream.answers--;
    return true;
}

static const struct pfl_stream_vtable vtable = {
    .writev = fake_writev,
    .queued_bytes = fake_queued_bytes,
    .read_stop = fake_read_stop,
    .read_start = fake_read_start,
    .close = fake_close,
    .close_after_flush = fake_close_after_flush,
    .may_go_on = fake_may_go_on,
};

/* ---- the operator ---- */

static void on_response(void *user, const struct pfl_h2_head *head)
{
    (void)user;
    (void)head;
}

static void on_bytes(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
}

static void on_end(void *user)
{
    (void)user;
}

static void on_stream_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
}

static const struct pfl_h2_stream_ops asking = {.on_response = on_response,
                                                .on_data = on_bytes,
                                                .on_end = on_end,
                                                .on_closed = on_stream_closed};

static void ask(void)
{
    const struct pfl_h2_request request = {.method = "GET", .path = "/", .ops = &asking};
    struct pfl_h2_stream *h2_stream;

    assert_int_equal(pfl_h2_request(far, &request, &h2_stream), 0);
}

/* What the operator has to send, and does not send yet. */
static void collect(void)
{
    static uint8_t room[8 * PFL_H2_DRAIN_BYTES];
    struct pfl_writer out = pfl_writer_of(room, sizeof(room));

    assert_int_equal(pfl_h2_drain(far, &out), 0);
    assert_int_equal(pfl_buf_append(&sent, room, (size_t)(out.pos - room)), 0);
}

/* ---- the relay ---- */

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    static uint8_t body[60000];

    (void)user;
    (void)head;
    requests++;
    assert_int_equal(
        pfl_h2_stream_respond_body(h2_stream, 200, NULL, pfl_span_of(body, body_bytes)), 0);
}

static void on_closed(void *user, int err, const char *why)
{
    (void)user;
    (void)err;
    (void)why;
    is_over = true;
}

static void open_ends(const struct pfl_h2_conf *near, const struct pfl_h2_conf *of_far)
{
    const struct pfl_tunnel_link_conf conf = {
        .loop = &loop,
        .stream = &stream.base,
        .h2 = *near,
        .quiet_ms = LONG_MS,
        .on_closed = on_closed,
    };

    memset(&stream, 0, sizeof(stream));
    stream.base.vtable = &vtable;
    stream.answers = 1000;
    requests = 0;
    body_bytes = 2;
    is_over = false;
    pfl_buf_init(&sent, 1u << 20);
    assert_int_equal(pfl_loop_init(&loop), 0);
    assert_int_equal(pfl_tunnel_link_open(&conf, &link_), 0);
    assert_int_equal(pfl_h2_new(of_far, &far), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static int setup(void **state)
{
    const struct pfl_h2_conf relay = {
        .is_answering = true, .window_bytes = 65536, .on_request = on_request};
    const struct pfl_h2_conf operator= {.window_bytes = 1u << 20};

    (void)state;
    open_ends(&relay, &operator);
    for (unsigned i = 0; i < REQUESTS; i++)
        ask();
    collect();
    return 0;
}

/* The other way round, as with an agent. */
static int setup_asking(void **state)
{
    const struct pfl_h2_conf relay = {.window_bytes = 65536};
    const struct pfl_h2_conf agent = {
        .is_answering = true, .window_bytes = 1u << 20, .on_request = on_request};

    (void)state;
    open_ends(&relay, &agent);
    for (unsigned i = 0; i < PINGS; i++)
        assert_int_equal(pfl_h2_ping(far), 0);
    collect();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_tunnel_link_close(link_);
    for (int i = 0; i < 100 && !stream.is_closed; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    stream.base.ops->on_closed(stream.base.user, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(is_over);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_h2_free(far);
    pfl_buf_fini(&sent);
    return 0;
}

static void give_all(void)
{
    stream.base.ops->on_data(stream.base.user, pfl_buf_get(&sent));
}

static void go_on(void)
{
    stream.base.ops->on_writable(stream.base.user);
}

static void requests_are_taken_while_the_peer_has_time(void **state)
{
    (void)state;
    give_all();
    assert_int_equal(requests, REQUESTS);
    assert_int_equal(stream.stops, 0);
}

static void the_rest_of_them_is_taken_in_later_turns(void **state)
{
    unsigned turns = 0;

    (void)state;
    stream.answers = 1;
    give_all();
    assert_in_range(requests, 1, REQUESTS / 2);
    assert_int_equal(stream.stops, 1);
    assert_int_equal(stream.starts, 0);
    for (; stream.starts == 0 && turns < 100; turns++) {
        unsigned before = requests;

        go_on(); /* as if it had no time even then */
        assert_in_range(requests - before, 0, REQUESTS / 2);
    }
    assert_int_equal(requests, REQUESTS);
    assert_in_range(turns, 2, 99);
}

static void what_an_agent_sends_is_taken_in_turns_too(void **state)
{
    unsigned turns = 0;

    (void)state;
    stream.answers = 0;
    assert_in_range(sent.len, ANSWERS_PIECE_BYTES + 1, UINT_MAX);
    give_all();
    assert_int_equal(stream.stops, 1);
    assert_int_equal(stream.starts, 0);
    for (; stream.starts == 0 && turns < 100; turns++)
        go_on();
    assert_in_range(turns, 1, 99);
    stream.answers = 1000;
    stream.written = 0;
    go_on();
    assert_in_range(stream.written, PINGS * 17, UINT_MAX); /* each was answered */
}

static void what_is_sent_waits_for_later_turns(void **state)
{
    unsigned turns = 0;

    (void)state;
    body_bytes = 60000;
    stream.answers = 8; /* most of them for the requests */
    give_all();
    assert_int_equal(requests, REQUESTS);
    for (; stream.written < REQUESTS * body_bytes && turns < 1000; turns++) {
        size_t before = stream.written;

        stream.answers = 1;
        go_on();
        assert_in_range(stream.written - before, 1, PIECE_BYTES);
    }
    assert_in_range(turns, 10, 999);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_are_taken_while_the_peer_has_time),
        T(the_rest_of_them_is_taken_in_later_turns),
        T(what_is_sent_waits_for_later_turns),
        cmocka_unit_test_setup_teardown(what_an_agent_sends_is_taken_in_turns_too, setup_asking,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
