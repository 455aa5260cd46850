/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side, against hand-made bytes and against our own host in one process. */
#include "proto/ipc/rpc_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/ipc/rpc_host.h"
#include "tests/support/sweep.h"

#define SENT_MAX 4096u

struct world {
    struct pfl_rpc_client *client;
    uint8_t sent[SENT_MAX];
    size_t sent_len;
    int sent_fd;
    int send_answer;
    unsigned bounds;
    bool is_bound;
    unsigned replies;
    struct pfl_rpc_reply reply;
    char body[16];
    char why[16];
    int reply_answer;
};

static struct world w;

static int on_send(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct world *self = user;

    for (int i = 0; i < iov_len && self->send_answer == 0; i++) {
        assert_true(iov[i].iov_len <= SENT_MAX - self->sent_len);
        memcpy(self->sent + self->sent_len, iov[i].iov_base, iov[i].iov_len);
        self->sent_len += iov[i].iov_len;
    }
    self->sent_fd = fd;
    return self->send_answer;
}

static int on_bound(void *user, bool is_bound)
{
    struct world *self = user;

    self->bounds++;
    self->is_bound = is_bound;
    return 0;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct world *self = user;

    self->replies++;
    self->reply = *reply;
    assert_true(reply->body.len < sizeof(self->body));
    memset(self->body, 0, sizeof(self->body));
    if (reply->body.len != 0)
        memcpy(self->body, reply->body.data, reply->body.len);
    (void)snprintf(self->why, sizeof(self->why), "%.*s", (int)reply->why.len,
                   reply->why.len != 0 ? (const char *)reply->why.data : "");
    return self->reply_answer;
}

static int setup(void **state)
{
    const struct pfl_rpc_client_conf conf = {.user = &w, .send = on_send};
    (void)state;

    memset(&w, 0, sizeof(w));
    return pfl_rpc_client_new(&conf, &w.client);
}

static int teardown(void **state)
{
    (void)state;
    pfl_rpc_client_free(w.client);
    pfl_sweep_assert_no_leak();
    return 0;
}

static int feed(const char *bytes, size_t len)
{
    return pfl_rpc_client_feed(w.client, pfl_span_of(bytes, len));
}

#define FEED(literal) feed(literal, sizeof(literal) - 1)
#define ASSERT_SENT(literal)                                                                       \
    do {                                                                                           \
        assert_int_equal(w.sent_len, sizeof(literal) - 1);                                         \
        assert_memory_equal(w.sent, literal, sizeof(literal) - 1);                                 \
        w.sent_len = 0;                                                                            \
    } while (0)

/* Service 3 with method 9 "Go"; in answer to request 1. */
#define BOUND                                                                                      \
    "\x10\0\0\0\x10\x01\x22\x0c\x08\x01\x10\x03\x1a\x06\x08\x09\x12\x02"                           \
    "Go"
#define ARGS pfl_span_of("xy", 2)

static void bind(void)
{
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    w.sent_len = 0;
    assert_int_equal(FEED(BOUND), 0);
    assert_true(w.is_bound);
}

static void bind_sends_the_name_and_learns_the_methods(void **state)
{
    (void)state;
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    ASSERT_SENT("\x0a\0\0\0\x10\x01\x1a\x06\x0a\x04"
                "Port");
    assert_false(pfl_rpc_client_has_method(w.client, "Go"));
    assert_int_equal(FEED(BOUND), 0);
    assert_int_equal(w.bounds, 1);
    assert_true(w.is_bound);
    assert_true(pfl_rpc_client_has_method(w.client, "Go"));
    assert_false(pfl_rpc_client_has_method(w.client, "Going"));
    assert_int_equal(FEED(BOUND), 0); /* nobody waits for a second answer */
    assert_int_equal(w.bounds, 1);
}

static void unknown_service_is_reported(void **state)
{
    (void)state;
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    assert_int_equal(FEED("\x04\0\0\0\x10\x01\x22\x00"), 0);
    assert_int_equal(w.bounds, 1);
    assert_false(w.is_bound);
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), PFL_ESTATE);
}

static void invoke_uses_the_hosts_ids(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, 4, on_reply, &w), 0);
    ASSERT_SENT("\x0c\0\0\0\x10\x02\x2a\x08\x08\x03\x10\x09\x1a\x02xy");
    assert_int_equal(w.sent_fd, 4);
    assert_int_equal(FEED("\x0d\0\0\0\x10\x02\x32\x09\x08\x01\x10\x00\x1a\x03"
                          "abc"),
                     0);
    assert_int_equal(w.replies, 1);
    assert_true(w.reply.success);
    assert_false(w.reply.has_more);
    assert_string_equal(w.body, "abc");
}

static void method_that_the_host_does_not_name_fails_without_a_frame(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Stop", ARGS, -1, on_reply, &w), PFL_ENOENT);
    assert_int_equal(w.sent_len, 0);
}

static void without_callback_no_reply_is_asked_for(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, NULL, NULL), 0);
    ASSERT_SENT("\x0e\0\0\0\x10\x02\x2a\x0a\x08\x03\x10\x09\x20\x01\x1a\x02xy");
    assert_int_equal(FEED("\x06\0\0\0\x10\x02\x32\x02\x08\x00"), 0); /* still a refusal */
    assert_int_equal(w.replies, 0);
}

/* Service 3 with method 9 "ReadBuffers"; in answer to request 1. */
static void bind_streaming(void)
{
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    assert_int_equal(FEED("\x19\0\0\0\x10\x01\x22\x15\x08\x01\x10\x03\x1a\x0f\x08\x09\x12\x0b"
                          "ReadBuffers"),
                     0);
    assert_true(w.is_bound);
}

static void stream_ends_with_the_reply_that_has_no_more(void **state)
{
    (void)state;
    bind_streaming();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "ReadBuffers", ARGS, -1, on_reply, &w), 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(FEED("\x0b\0\0\0\x10\x02\x32\x07\x08\x01\x10\x01\x1a\x01s"), 0);
        assert_int_equal(w.replies, i);
        assert_true(w.reply.has_more);
    }
    assert_int_equal(FEED("\x08\0\0\0\x10\x02\x32\x04\x08\x01\x10\x00"), 0);
    assert_int_equal(w.replies, 4);
    assert_false(w.reply.has_more);
    assert_int_equal(FEED("\x08\0\0\0\x10\x02\x32\x04\x08\x01\x10\x00"), 0);
    assert_int_equal(w.replies, 4);
}

/* Its caller counts replies: a second one made the clock's measurement write behind its samples. */
static void method_with_one_reply_has_no_more_than_one(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x0b\0\0\0\x10\x02\x32\x07\x08\x01\x10\x01\x1a\x01s"), PFL_EPROTO);
    assert_int_equal(w.replies, 0);
}

static void failure_ends_a_stream(void **state)
{
    (void)state;
    bind_streaming();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "ReadBuffers", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x08\0\0\0\x10\x02\x32\x04\x08\x00\x10\x01"), 0);
    assert_int_equal(w.replies, 1);
    assert_false(w.reply.has_more);
    assert_int_equal(FEED("\x08\0\0\0\x10\x02\x32\x04\x08\x01\x10\x01"), 0);
    assert_int_equal(w.replies, 1);
}

static void both_forms_of_failure_are_failures_without_body(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x09\0\0\0\x10\x02\x32\x05\x08\x00\x1a\x01s"), 0);
    assert_int_equal(FEED("\x06\0\0\0\x10\x03\x32\x02\x10\x00"), 0);
    assert_int_equal(w.replies, 2);
    assert_false(w.reply.success);
    assert_int_equal(w.reply.body.len, 0);
}

/* The reason is field 50001 of the reply. */
static void a_failure_has_the_hosts_reason_and_a_success_has_none(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x0c\0\0\0\x10\x02\x32\x08\x08\x00\x8a\xb5\x18\x02no"), 0);
    assert_int_equal(w.reply.why.len, 2);
    assert_string_equal(w.why, "no");
    assert_int_equal(w.reply.body.len, 0);
    assert_int_equal(FEED("\x0c\0\0\0\x10\x03\x32\x08\x08\x01\x8a\xb5\x18\x02no"), 0);
    assert_true(w.reply.success);
    assert_int_equal(w.reply.why.len, 0);
    assert_int_equal(w.reply.body.len, 0);
}

static void request_error_ends_its_request_as_a_failure(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x04\0\0\0\x10\x02\x3a\x00"), 0);
    assert_int_equal(w.replies, 1);
    assert_false(w.reply.success);
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    assert_int_equal(FEED("\x04\0\0\0\x10\x03\x3a\x00"), 0);
    assert_int_equal(w.bounds, 2);
    assert_false(w.is_bound);
}

static void replies_of_another_kind_or_id_are_dropped(void **state)
{
    (void)state;
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x04\0\0\0\x10\x02\x22\x00"), 0);
    assert_int_equal(FEED("\x06\0\0\0\x10\x09\x32\x02\x10\x00"), 0);
    assert_int_equal(w.replies, 0);
    assert_true(pfl_rpc_client_has_method(w.client, "Go"));
}

static void impossible_frames_end_the_connection(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x02\0\0\0\x10\xff"), PFL_EPROTO);
    (void)teardown(NULL);
    (void)setup(NULL);
    assert_int_equal(FEED("\xff\xff\xff\x7f"), PFL_EPROTO);
    (void)teardown(NULL);
    (void)setup(NULL);
    bind();
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    assert_int_equal(FEED("\x06\0\0\0\x10\x02\x32\x02\x08\xff"), PFL_EPROTO);
    assert_int_equal(w.replies, 0);
}

static void failures_of_callbacks_and_of_sending_are_passed_on(void **state)
{
    (void)state;
    bind();
    w.send_answer = PFL_ECLOSED;
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), PFL_ECLOSED);
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), PFL_ECLOSED);
    w.send_answer = 0;
    assert_int_equal(FEED("\x06\0\0\0\x10\x02\x32\x02\x10\x00"), 0); /* it is not waited for */
    assert_int_equal(w.replies, 0);
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    w.reply_answer = PFL_EPERM;
    assert_int_equal(FEED("\x06\0\0\0\x10\x04\x32\x02\x10\x00"), PFL_EPERM);
}

static void too_many_requests_are_refused(void **state)
{
    (void)state;
    bind();
    for (unsigned i = 0; i < PFL_RPC_CLIENT_MAX_PENDING; i++) {
        w.sent_len = 0;
        assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
    }
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), PFL_ELIMIT);
    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), PFL_ELIMIT);
    assert_int_equal(FEED("\x06\0\0\0\x10\x02\x32\x02\x10\x00"), 0);
    assert_int_equal(pfl_rpc_client_invoke(w.client, "Go", ARGS, -1, on_reply, &w), 0);
}

static void arguments_larger_than_a_frame_are_refused(void **state)
{
    static uint8_t bytes[PFL_FRAME_PAYLOAD_MAX];
    (void)state;

    bind();
    assert_int_equal(
        pfl_rpc_client_invoke(w.client, "Go", pfl_span_of(bytes, sizeof(bytes)), -1, on_reply, &w),
        PFL_ELIMIT);
    assert_int_equal(w.sent_len, 0);
}

static void bind_reply_with_too_many_methods_is_refused(void **state)
{
    static char frame[4 + 2 + 4 + 2 * 257];
    struct pfl_writer out = pfl_writer_of(frame, sizeof(frame));
    (void)state;

    assert_int_equal(pfl_rpc_client_bind(w.client, "Port", on_bound, &w), 0);
    pfl_writer_u32(&out, 2 + 3 + 2 * 257);
    pfl_writer_field_varint(&out, 2, 1);
    pfl_writer_field_header(&out, 4, 2 * 257);
    for (unsigned i = 0; i < 257; i++)
        pfl_writer_field_header(&out, 3, 0);
    assert_false(out.failed);
    assert_int_equal(feed(frame, sizeof(frame) - out.left), PFL_EPROTO);
    assert_int_equal(w.bounds, 0);
}

/* Our own host on the other side, answering within send. */
struct loop {
    struct pfl_rpc_host host;
    struct pfl_rpc_client *client;
    unsigned echoes;
};

static int to_host(void *user, const struct iovec *iov, int iov_len, int fd)
{
    int rc = 0;
    (void)fd;

    for (int i = 0; i < iov_len && rc == 0; i++)
        rc = pfl_rpc_host_feed(&((struct loop *)user)->host,
                               pfl_span_of(iov[i].iov_base, iov[i].iov_len));
    return rc;
}

static int to_client(void *user, const struct iovec *iov, int iov_len, int fd)
{
    int rc = 0;
    (void)fd;

    for (int i = 0; i < iov_len && rc == 0; i++)
        rc = pfl_rpc_client_feed(((struct loop *)user)->client,
                                 pfl_span_of(iov[i].iov_base, iov[i].iov_len));
    return rc;
}

static int echo(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct iovec body = {(void *)(uintptr_t)args.data, args.len};

    return pfl_rpc_host_reply(&((struct loop *)user)->host, request, PFL_RPC_SUCCESS, &body, 1, -1);
}

static int on_echo(void *user, const struct pfl_rpc_reply *reply)
{
    ((struct loop *)user)->echoes += reply->success && reply->body.len == 2;
    return 0;
}

static int on_loop_bound(void *user, bool is_bound)
{
    struct loop *loop = user;

    assert_true(is_bound);
    /* From within a callback, as ports do it. */
    return pfl_rpc_client_invoke(loop->client, "Echo", ARGS, -1, on_echo, loop);
}

static int run_loop(void *arg)
{
    static const struct pfl_rpc_method methods[] = {{"Echo", echo}};
    static const struct pfl_rpc_service services[] = {{"Port", methods, 1}};
    struct loop loop = {.client = NULL};
    const struct pfl_rpc_host_conf host_conf = {
        .services = services, .services_len = 1, .user = &loop, .send = to_client};
    const struct pfl_rpc_client_conf conf = {.user = &loop, .send = to_host};
    int rc;
    (void)arg;

    pfl_rpc_host_init(&loop.host, &host_conf);
    rc = pfl_rpc_client_new(&conf, &loop.client);
    if (rc == 0)
        rc = pfl_rpc_client_bind(loop.client, "Port", on_loop_bound, &loop);
    if (rc == 0)
        assert_int_equal(loop.echoes, 1);
    pfl_rpc_client_free(loop.client);
    pfl_rpc_host_fini(&loop.host);
    return rc;
}

static void client_and_host_understand_each_other_with_any_allocation_failing(void **state)
{
    (void)state;
    pfl_sweep(run_loop, NULL, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bind_sends_the_name_and_learns_the_methods),
        TEST(unknown_service_is_reported),
        TEST(invoke_uses_the_hosts_ids),
        TEST(method_that_the_host_does_not_name_fails_without_a_frame),
        TEST(without_callback_no_reply_is_asked_for),
        TEST(stream_ends_with_the_reply_that_has_no_more),
        TEST(method_with_one_reply_has_no_more_than_one),
        TEST(failure_ends_a_stream),
        TEST(both_forms_of_failure_are_failures_without_body),
        TEST(a_failure_has_the_hosts_reason_and_a_success_has_none),
        TEST(request_error_ends_its_request_as_a_failure),
        TEST(replies_of_another_kind_or_id_are_dropped),
        TEST(impossible_frames_end_the_connection),
        TEST(failures_of_callbacks_and_of_sending_are_passed_on),
        TEST(too_many_requests_are_refused),
        TEST(arguments_larger_than_a_frame_are_refused),
        TEST(bind_reply_with_too_many_methods_is_refused),
        TEST(client_and_host_understand_each_other_with_any_allocation_failing),
    };

    return cmocka_run_group_tests_name("rpc_client", tests, NULL, NULL);
}
