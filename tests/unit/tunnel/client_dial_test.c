/* SPDX-License-Identifier: Apache-2.0 */
/* A stream with one life: what it asks for, that it carries bytes, and how it ends. No socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tunnel/client_stream_impl.h"

#define QUEUE_BYTES 4096u

/* In place of the client's: its connection is here. */
static struct pfl_tunnel_client client;
static struct pfl_h2 *asking;
static struct pfl_h2 *answering;

struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self)
{
    (void)self;
    return asking;
}

struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self)
{
    return &self->ways[0];
}

void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way)
{
    (void)way;
}

/* ---- the other end ---- */

static struct {
    struct pfl_h2_stream *h2_stream;
    unsigned status; /* of the answer; 0: none */
    unsigned asked;
    char head[256];
    size_t got;
    size_t to_send;
    uint64_t credited;
    bool is_ending;
} host;

static void on_host_data(void *user, struct pfl_span data)
{
    (void)user;
    host.got += data.len;
    pfl_h2_stream_credit(host.h2_stream, (uint32_t)data.len);
}

static void on_host_end(void *user)
{
    (void)user;
    host.is_ending = true;
    pfl_h2_stream_wake(host.h2_stream);
}

static size_t on_host_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    size_t len = host.to_send < room ? host.to_send : room;

    (void)user;
    memset(dst, 'h', len);
    host.to_send -= len;
    *ret_is_end = host.is_ending && host.to_send == 0;
    return len;
}

static void on_host_credit(void *user, uint32_t bytes)
{
    (void)user;
    host.credited += bytes;
}

static void on_host_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
    host.h2_stream = NULL;
}

static const struct pfl_h2_stream_ops host_ops = {.on_data = on_host_data,
                                                  .on_end = on_host_end,
                                                  .on_pull = on_host_pull,
                                                  .on_credit = on_host_credit,
                                                  .on_closed = on_host_closed};

static const char *or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    static const struct pfl_h2_field problem = {PFL_TUNNEL_H_PROBLEM, "not\233you"};

    (void)user;
    host.asked++;
    (void)snprintf(host.head, sizeof(host.head), "%s %s %s for=%s stream=%s",
                   or_dash(pfl_h2_head_get(head, ":method")),
                   or_dash(pfl_h2_head_get(head, ":path")),
                   or_dash(pfl_h2_head_get(head, ":protocol")),
                   or_dash(pfl_h2_head_get(head, PFL_TUNNEL_H_FOR)),
                   or_dash(pfl_h2_head_get(head, PFL_TUNNEL_H_STREAM)));
    host.h2_stream = h2_stream;
    pfl_h2_stream_set_user(h2_stream, &host_ops, NULL);
    if (host.status == 200)
        assert_int_equal(pfl_h2_stream_respond(h2_stream, 200, NULL, 0), 0);
    else if (host.status != 0)
        assert_int_equal(
            pfl_h2_stream_respond_whole(h2_stream, host.status, &problem, 1, pfl_span_of(NULL, 0)),
            0);
}

static void connect_ends(void)
{
    struct pfl_h2_conf near = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};
    struct pfl_h2_conf far = {.is_answering = true,
                              .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                              .on_request = on_request};

    assert_int_equal(pfl_h2_new(&near, &asking), 0);
    assert_int_equal(pfl_h2_new(&far, &answering), 0);
}

static void cut(void)
{
    pfl_h2_free(asking);
    pfl_h2_free(answering);
    asking = answering = NULL;
}

static bool move(struct pfl_h2 *from, struct pfl_h2 *to)
{
    static uint8_t wire[1u << 16];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));

    assert_int_equal(pfl_h2_drain(from, &out), 0);
    assert_int_equal(pfl_h2_feed(to, pfl_span_of(wire, (size_t)(out.pos - wire))), 0);
    return out.pos != wire;
}

/* ---- the owner ---- */

static struct {
    uv_loop_t loop;
    struct pfl_stream *stream;
    size_t got;
    unsigned readies;
    bool has_ended;
    bool is_closed;
    int err;
    char why[256];
} owner;

static void on_ready(void *user)
{
    (void)user;
    owner.readies++;
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    owner.got += data.len;
}

static void on_eof(void *user)
{
    (void)user;
    owner.has_ended = true;
}

static void on_closed(void *user, int err)
{
    (void)user;
    owner.is_closed = true;
    owner.err = err;
    (void)snprintf(owner.why, sizeof(owner.why), "%s", pfl_tunnel_stream_get_error(owner.stream));
}

static const struct pfl_stream_ops ops = {
    .on_ready = on_ready, .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void pump(void)
{
    bool has_moved = true;

    while (has_moved && asking != NULL) {
        (void)uv_run(&owner.loop, UV_RUN_NOWAIT);
        has_moved = move(asking, answering);
        has_moved |= move(answering, asking);
    }
    (void)uv_run(&owner.loop, UV_RUN_NOWAIT);
}

static void run_until_asked(unsigned count)
{
    while (host.asked < count) {
        (void)uv_run(&owner.loop, UV_RUN_ONCE);
        pump();
    }
}

static int dial(const char *path, size_t fields_len, const char *value)
{
    const struct pfl_h2_field fields[PFL_TUNNEL_PLACE_FIELDS + 1] = {{PFL_TUNNEL_H_FOR, value}};
    const struct pfl_tunnel_place place = {.path = path,
                                           .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
                                           .fields = fields,
                                           .fields_len = fields_len};
    const struct pfl_stream_conf conf = {
        .loop = &owner.loop, .ops = &ops, .queue_max_bytes = QUEUE_BYTES};

    return pfl_tunnel_client_dial(&client, &place, &conf, &owner.stream);
}

static int set_up(void **state)
{
    (void)state;
    memset(&host, 0, sizeof(host));
    memset(&owner, 0, sizeof(owner));
    memset(&client, 0, sizeof(client));
    host.status = 200;
    pfl_list_init(&client.streams);
    client.conf.give_up_ms = UINT64_MAX;
    connect_ends();
    return pfl_loop_init(&owner.loop);
}

static int tear_down(void **state)
{
    (void)state;
    if (!owner.is_closed && owner.stream != NULL)
        pfl_stream_close(owner.stream);
    cut();
    (void)uv_run(&owner.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&owner.loop), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- tests ---- */

static void it_asks_for_its_place_and_carries_bytes_both_ways(void **state)
{
    static uint8_t bytes[QUEUE_BYTES];
    struct iovec iov = {.iov_base = bytes, .iov_len = 3000};

    (void)state;
    assert_int_equal(dial("/v1/hosts/a/spool", 1, "ann"), 0);
    pump();
    run_until_asked(1);
    assert_string_equal(host.head, "CONNECT /v1/hosts/a/spool perfleet-spool for=ann stream=-");
    assert_int_equal(owner.readies, 1);
    assert_int_equal(pfl_stream_writev(owner.stream, &iov, 1, -1), 0);
    pump();
    assert_int_equal(host.got, 3000);
    host.to_send = 3u << 20; /* more than a window */
    pfl_h2_stream_wake(host.h2_stream);
    pump();
    assert_int_equal(owner.got, 3u << 20);
    assert_true(host.credited >= 2u << 20);
    pfl_stream_shutdown(owner.stream);
    pump();
    assert_true(owner.has_ended);
    assert_null(host.h2_stream);
    assert_false(owner.is_closed);
}

static void a_lost_connection_is_its_end(void **state)
{
    (void)state;
    assert_int_equal(dial("/v1/collectors/c", 0, NULL), 0);
    run_until_asked(1);
    assert_int_equal(owner.readies, 1);
    cut();
    connect_ends();
    while (!owner.is_closed)
        (void)uv_run(&owner.loop, UV_RUN_ONCE);
    assert_int_equal(owner.err, PFL_ECLOSED);
    assert_string_equal(owner.why, "the connection that carried the stream was lost");
    assert_int_equal(host.asked, 1);
}

static void before_the_answer_it_is_asked_for_again(void **state)
{
    (void)state;
    host.status = 0;
    assert_int_equal(dial("/v1/collectors/c", 0, NULL), 0);
    run_until_asked(1);
    cut();
    connect_ends();
    host.status = 200;
    run_until_asked(2);
    assert_int_equal(owner.readies, 1);
}

static void a_refusal_is_reported_in_words(void **state)
{
    (void)state;
    host.status = 403;
    assert_int_equal(dial("/v1/collectors/c", 0, NULL), 0);
    run_until_asked(1);
    while (!owner.is_closed)
        (void)uv_run(&owner.loop, UV_RUN_ONCE);
    assert_int_equal(owner.err, PFL_EPERM);
    assert_string_equal(owner.why, "not?you");
}

static void it_cannot_be_left_at_its_place(void **state)
{
    struct pfl_tunnel_ticket ticket;

    (void)state;
    assert_int_equal(dial("/v1/collectors/c", 0, NULL), 0);
    run_until_asked(1);
    assert_int_equal(pfl_tunnel_stream_leave(owner.stream, &ticket), PFL_ESTATE);
}

static void what_is_no_place_is_refused_at_once(void **state)
{
    char path[PFL_CLIENT_PATH_BYTES + 1];
    char name[PFL_IDENTITY_NAME_BYTES + 1];

    (void)state;
    memset(path, 'x', sizeof(path));
    path[PFL_CLIENT_PATH_BYTES] = '\0';
    memset(name, 'x', sizeof(name));
    name[PFL_IDENTITY_NAME_BYTES] = '\0';
    assert_int_equal(dial(path, 0, NULL), PFL_EINVAL);
    assert_int_equal(dial("/x", 1, name), PFL_EINVAL);
    assert_int_equal(dial("/x", PFL_TUNNEL_PLACE_FIELDS + 1, "a"), PFL_EINVAL);
    client.is_closing = true;
    assert_int_equal(dial("/x", 0, NULL), PFL_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_asks_for_its_place_and_carries_bytes_both_ways),
        TEST(a_lost_connection_is_its_end),
        TEST(before_the_answer_it_is_asked_for_again),
        TEST(a_refusal_is_reported_in_words),
        TEST(it_cannot_be_left_at_its_place),
        TEST(what_is_no_place_is_refused_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
