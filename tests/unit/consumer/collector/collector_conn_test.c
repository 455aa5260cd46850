/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies of a collector, over a socket in place of the relay's stream. */
#include "consumer/collector/collector_conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "proto/ipc/frame.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

static int far_end; /* the collector's */
static char path[160];

int pfl_tunnel_client_dial(struct pfl_tunnel_client *self, const struct pfl_tunnel_place *place,
                           const struct pfl_stream_conf *conf, struct pfl_stream **ret_stream)
{
    int fds[2];

    (void)self;
    (void)snprintf(path, sizeof(path), "%s %s", place->path, place->protocol);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    far_end = fds[1];
    return pfl_fdsock_open(conf, fds[0], ret_stream);
}

const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream)
{
    (void)stream;
    return "";
}

static struct {
    uv_loop_t loop;
    struct pfl_collector_conn *conn;
    unsigned replies;
    uint32_t last_id;
    size_t data;
    bool is_closed;
    bool closes; /* at the next reply */
    char why[256];
} owner;

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    (void)user;
    owner.replies++;
    owner.last_id = reply->id;
    owner.data += reply->data.len;
    if (owner.closes) {
        Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;

        pfl_collector_conn_close(owner.conn);
        assert_int_equal(pfl_collector_conn_send(owner.conn, &request), PFL_ESTATE);
    }
}

static void on_closed(void *user, const char *why)
{
    (void)user;
    owner.is_closed = true;
    (void)snprintf(owner.why, sizeof(owner.why), "%s", why);
}

static int open_conn(const char *name)
{
    const struct pfl_collector_conn_conf conf = {
        .loop = &owner.loop, .name = name, .on_reply = on_reply, .on_closed = on_closed};

    memset(&owner, 0, sizeof(owner));
    assert_int_equal(pfl_loop_init(&owner.loop), 0);
    return pfl_collector_conn_open(&conf, &owner.conn);
}

static void close_conn(void)
{
    if (!owner.is_closed)
        pfl_collector_conn_close(owner.conn);
    while (!owner.is_closed)
        (void)uv_run(&owner.loop, UV_RUN_ONCE);
    (void)close(far_end);
    (void)uv_run(&owner.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&owner.loop), 0);
    pfl_sweep_assert_no_leak();
}

static void reply(uint32_t id, size_t data_len)
{
    static uint8_t data[1000];
    Perfleet__CollectorReply r = PERFLEET__COLLECTOR_REPLY__INIT;
    struct pfl_buf out;

    r.has_id = 1;
    r.id = id;
    r.has_data = 1;
    r.data.data = data;
    r.data.len = data_len;
    pfl_buf_init(&out, PFL_FRAME_LARGE_MAX_BYTES);
    assert_int_equal(pfl_frame_write(&r.base, &out), 0);
    assert_int_equal(write(far_end, pfl_buf_get(&out).data, out.len), out.len);
    pfl_buf_fini(&out);
}

static void run_until(const bool *is_over, unsigned replies)
{
    while (!*is_over && owner.replies < replies)
        (void)uv_run(&owner.loop, UV_RUN_ONCE);
}

static void requests_are_numbered_and_replies_come_back(void **state)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get get = PERFLEET__COLLECTOR_REQUEST__GET__INIT;
    uint8_t frame[200];
    ProtobufCMessage *message;
    ssize_t len;

    (void)state;
    assert_int_equal(open_conn("keep-1"), 0);
    assert_string_equal(path, "/v1/collectors/keep-1 perfleet-collector");
    get.trace = (char *)"01J";
    request.get = &get;
    assert_int_equal(pfl_collector_conn_send(owner.conn, &request), 0);
    assert_int_equal(request.id, 1);
    len = read(far_end, frame, sizeof(frame));
    assert_true(len > 4 && frame[0] == len - 4);
    assert_int_equal(pfl_proto_unpack(&perfleet__collector_request__descriptor,
                                      pfl_span_of(frame + 4, (size_t)len - 4), &message),
                     0);
    assert_string_equal(((Perfleet__CollectorRequest *)message)->get->trace, "01J");
    pfl_proto_free(message);
    assert_int_equal(pfl_collector_conn_send(owner.conn, &request), 0);
    assert_int_equal(request.id, 2);
    reply(1, 600);
    reply(2, 1000);
    run_until(&owner.is_closed, 2);
    assert_int_equal(owner.last_id, 2);
    assert_int_equal(owner.data, 1600);
    close_conn();
    assert_string_equal(owner.why, "");
}

static void a_stream_that_ends_is_reported_with_the_reason(void **state)
{
    (void)state;
    assert_int_equal(open_conn("keep"), 0);
    assert_int_equal(shutdown(far_end, SHUT_WR), 0);
    run_until(&owner.is_closed, 1);
    assert_string_equal(owner.why, "the collector ended the stream");
    close_conn();
}

static void a_malformed_reply_ends_the_stream(void **state)
{
    static const char *const bad[] = {"\x01\x00\x00\x00\x08", "\x05\x00\x10\x00"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_conn("keep"), 0);
        assert_int_equal(write(far_end, bad[i], i == 0 ? 5 : 4), i == 0 ? 5 : 4);
        run_until(&owner.is_closed, 1);
        assert_string_equal(owner.why, "the collector's reply is malformed");
        close_conn();
    }
}

static void a_reply_may_close_it_and_no_other_comes_then(void **state)
{
    (void)state;
    assert_int_equal(open_conn("keep"), 0);
    owner.closes = true;
    reply(1, 10);
    reply(2, 10);
    run_until(&owner.is_closed, 3);
    close_conn();
    assert_int_equal(owner.replies, 1);
}

static void a_paused_stream_delivers_nothing(void **state)
{
    (void)state;
    assert_int_equal(open_conn("keep"), 0);
    pfl_collector_conn_pause(owner.conn, true);
    reply(1, 10);
    for (int i = 0; i < 10; i++)
        (void)uv_run(&owner.loop, UV_RUN_NOWAIT);
    assert_int_equal(owner.replies, 0);
    pfl_collector_conn_pause(owner.conn, false);
    run_until(&owner.is_closed, 1);
    assert_int_equal(owner.replies, 1);
    close_conn();
}

static void what_is_no_name_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_conn("a/b"), PFL_EINVAL);
    assert_int_equal(uv_loop_close(&owner.loop), 0);
}

static size_t read_names(const char *answer, char *name, size_t name_len)
{
    return pfl_collector_conn_read_names(pfl_span_of(answer, strlen(answer)), name, name_len);
}

static void collectors_of_the_relays_answer_are_counted(void **state)
{
    char name[16] = "";

    (void)state;
    assert_int_equal(read_names("{\"collectors\":[{\"name\":\"one\"}]}", name, sizeof(name)), 1);
    assert_string_equal(name, "one");
    assert_int_equal(read_names("{\"collectors\":[{\"name\":\"two\"},{\"name\":\"a/b\"},{},3]}",
                                name, sizeof(name)),
                     1);
    assert_string_equal(name, "two");
    assert_int_equal(read_names("{\"collectors\":7}", name, sizeof(name)), 0);
    assert_int_equal(read_names("", name, sizeof(name)), 0);
    assert_string_equal(name, "two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_numbered_and_replies_come_back),
        cmocka_unit_test(a_stream_that_ends_is_reported_with_the_reason),
        cmocka_unit_test(a_malformed_reply_ends_the_stream),
        cmocka_unit_test(a_reply_may_close_it_and_no_other_comes_then),
        cmocka_unit_test(a_paused_stream_delivers_nothing),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(collectors_of_the_relays_answer_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
