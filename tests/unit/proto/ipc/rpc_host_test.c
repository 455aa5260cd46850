/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side: every answer of docs/abi/wire.md section 2, byte for byte. */
#include "proto/ipc/rpc_host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

#define SENT_MAX (2 * PFL_FRAME_MAX_BYTES)

struct world {
    struct pfl_rpc_host host;
    uint8_t sent[SENT_MAX];
    size_t sent_len;
    int sent_fd;
    int send_answer;
    unsigned calls;
    struct pfl_rpc_request request;
    const uint8_t *args_at; /* where the handler saw its arguments */
    size_t args_len;
    int handler_answer;
    unsigned identities;
    struct pfl_rpc_peer_identity identity;
};

static struct world w;

static int on_send(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct world *self = user;

    for (int i = 0; i < iov_len; i++) {
        assert_true(iov[i].iov_len <= SENT_MAX - self->sent_len);
        memcpy(self->sent + self->sent_len, iov[i].iov_base, iov[i].iov_len);
        self->sent_len += iov[i].iov_len;
    }
    self->sent_fd = fd;
    return self->send_answer;
}

static int handle(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct world *self = user;

    self->calls++;
    self->request = request;
    self->args_at = args.data;
    self->args_len = args.len;
    return self->handler_answer;
}

static int handle_other(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    (void)args;
    return pfl_rpc_host_reply_empty(&((struct world *)user)->host, request);
}

static void on_peer_identity(void *user, const struct pfl_rpc_peer_identity *identity)
{
    struct world *self = user;

    self->identities++;
    self->identity = *identity;
}

static const struct pfl_rpc_method methods[] = {{"Take", handle}, {"Answer", handle_other}};
static const struct pfl_rpc_service services[] = {{"ProducerPort", methods, 2},
                                                  {"RelayPort", methods, 1}};

static int setup(void **state)
{
    const struct pfl_rpc_host_conf conf = {.services = services,
                                           .services_len = 2,
                                           .user = &w,
                                           .send = on_send,
                                           .on_peer_identity = on_peer_identity};
    (void)state;

    memset(&w, 0, sizeof(w));
    pfl_rpc_host_init(&w.host, &conf);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_rpc_host_fini(&w.host);
    pfl_sweep_assert_no_leak();
    return 0;
}

static int feed(const char *bytes, size_t len)
{
    return pfl_rpc_host_feed(&w.host, pfl_span_of(bytes, len));
}

#define FEED(literal) feed(literal, sizeof(literal) - 1)
#define ASSERT_SENT(literal)                                                                       \
    do {                                                                                           \
        assert_int_equal(w.sent_len, sizeof(literal) - 1);                                         \
        assert_memory_equal(w.sent, literal, sizeof(literal) - 1);                                 \
        w.sent_len = 0;                                                                            \
    } while (0)

/* Frames; request ids are 7. */
#define BIND_PRODUCER                                                                              \
    "\x12\0\0\0\x10\x07\x1a\x0e\x0a\x0c"                                                           \
    "ProducerPort"
#define BIND_UNKNOWN                                                                               \
    "\x0a\0\0\0\x10\x07\x1a\x06\x0a\x04"                                                           \
    "Nope"
#define INVOKE(service, method, drop)                                                              \
    "\x0d\0\0\0\x10\x07\x2a\x09\x08" service "\x10" method "\x20" drop "\x1a\x01\x55"
#define REFUSED "\x06\0\0\0\x10\x07\x32\x02\x08\x00"

static void bind_names_the_methods_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(FEED(BIND_PRODUCER), 0);
    ASSERT_SENT("\x1e\0\0\0\x10\x07\x22\x1a\x08\x01\x10\x01"
                "\x1a\x08\x08\x01\x12\x04"
                "Take"
                "\x1a\x0a\x08\x02\x12\x06"
                "Answer");
}

static void second_service_has_the_second_id(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x0f\0\0\0\x10\x07\x1a\x0b\x0a\x09"
                          "RelayPort"),
                     0);
    ASSERT_SENT("\x12\0\0\0\x10\x07\x22\x0e\x08\x01\x10\x02\x1a\x08\x08\x01\x12\x04"
                "Take");
}

static void unknown_name_gets_an_empty_bind_reply(void **state)
{
    (void)state;
    assert_int_equal(FEED(BIND_UNKNOWN), 0);
    ASSERT_SENT("\x04\0\0\0\x10\x07\x22\x00");
    assert_int_equal(FEED("\x04\0\0\0\x10\x07\x1a\x00"), 0);
    ASSERT_SENT("\x04\0\0\0\x10\x07\x22\x00");
}

static void arguments_reach_the_handler_where_they_lie(void **state)
{
    static const char frame[] = INVOKE("\x01", "\x01", "\x00");
    (void)state;

    assert_int_equal(feed(frame, sizeof(frame) - 1), 0);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.request.id, 7);
    assert_false(w.request.drop_reply);
    assert_ptr_equal(w.args_at, frame + sizeof(frame) - 2);
    assert_int_equal(w.args_len, 1);
    assert_int_equal(w.sent_len, 0); /* the handler will answer */
}

static void unknown_services_and_methods_are_refused_even_without_reply(void **state)
{
    (void)state;
    assert_int_equal(FEED(INVOKE("\x00", "\x01", "\x00")), 0);
    ASSERT_SENT(REFUSED);
    assert_int_equal(FEED(INVOKE("\x03", "\x01", "\x01")), 0);
    ASSERT_SENT(REFUSED);
    assert_int_equal(FEED(INVOKE("\x01", "\x00", "\x01")), 0);
    ASSERT_SENT(REFUSED);
    assert_int_equal(FEED(INVOKE("\x02", "\x02", "\x00")), 0);
    ASSERT_SENT(REFUSED);
    assert_int_equal(w.calls, 0);
}

static void arguments_that_the_handler_cannot_read_are_refused_even_without_reply(void **state)
{
    (void)state;
    w.handler_answer = PFL_EPARSE;
    assert_int_equal(FEED(INVOKE("\x01", "\x01", "\x01")), 0);
    assert_int_equal(w.calls, 1);
    ASSERT_SENT(REFUSED);
}

static void invocation_that_is_malformed_inside_is_refused(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x08\0\0\0\x10\x07\x2a\x04\x08\x01\x10\xff"), 0);
    ASSERT_SENT(REFUSED);
    assert_int_equal(w.calls, 0);
}

static void other_failures_of_a_handler_break_the_connection(void **state)
{
    (void)state;
    w.handler_answer = PFL_EPROTO;
    assert_int_equal(FEED(INVOKE("\x01", "\x01", "\x00")), PFL_EPROTO);
    assert_int_equal(w.sent_len, 0);
}

static void failure_to_send_is_passed_on(void **state)
{
    (void)state;
    w.send_answer = PFL_ELIMIT;
    assert_int_equal(FEED(BIND_PRODUCER), PFL_ELIMIT);
}

static void unknown_frames_get_a_request_error(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x02\0\0\0\x10\x07"), 0);
    ASSERT_SENT("\x18\0\0\0\x10\x07\x3a\x14\x0a\x12"
                "unknown frame type");
    /* A reply is no request, and an empty frame is skipped. */
    assert_int_equal(FEED("\x04\0\0\0\x10\x07\x32\x00\0\0\0\0"), 0);
    ASSERT_SENT("\x18\0\0\0\x10\x07\x3a\x14\x0a\x12"
                "unknown frame type");
}

static void payload_that_is_no_frame_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x02\0\0\0\x10\xff"), 0);
    assert_int_equal(FEED("\x05\0\0\0\x10\x07\x1a\x0e\x0a"), 0);
    assert_int_equal(FEED("\x04\0\0\0\x0b\x0c\x0b\x0c"), 0);
    assert_int_equal(w.sent_len, 0);
    assert_int_equal(FEED(BIND_UNKNOWN), 0); /* and the connection lives */
    ASSERT_SENT("\x04\0\0\0\x10\x07\x22\x00");
}

static void peer_identity_is_reported_without_a_reply(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x14\0\0\0\x10\x00\x42\x10\x08\x07\x10\xe8\x07\x1a\x04"
                          "hint\x22\x03"
                          "box"),
                     0);
    assert_int_equal(w.identities, 1);
    assert_int_equal(w.identity.pid, 7);
    assert_int_equal(w.identity.uid, 1000);
    assert_int_equal(w.identity.machine_id_hint.len, 4);
    assert_memory_equal(w.identity.machine_id_hint.data, "hint", 4);
    assert_memory_equal(w.identity.machine_name.data, "box", 3);
    assert_int_equal(w.sent_len, 0);
}

static void bind_comes_before_invoke_in_one_frame(void **state)
{
    (void)state;
    assert_int_equal(FEED("\x10\0\0\0\x10\x07\x2a\x04\x08\x01\x10\x01\x1a\x06\x0a\x04"
                          "Nope"),
                     0);
    ASSERT_SENT("\x04\0\0\0\x10\x07\x22\x00");
    assert_int_equal(w.calls, 0);
}

static void replies_have_the_forms_of_the_protocol(void **state)
{
    struct pfl_rpc_request request = {.id = 300};
    const struct iovec body[] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "c", 1}};
    (void)state;

    assert_int_equal(pfl_rpc_host_reply_empty(&w.host, request), 0);
    ASSERT_SENT("\x0b\0\0\0\x10\xac\x02\x32\x06\x08\x01\x10\x00\x1a\x00");
    assert_int_equal(pfl_rpc_host_reply_failure(&w.host, request), 0);
    ASSERT_SENT("\x07\0\0\0\x10\xac\x02\x32\x02\x10\x00");
    assert_int_equal(
        pfl_rpc_host_reply(&w.host, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, body, 2, 5), 0);
    assert_int_equal(w.sent_fd, 5);
    ASSERT_SENT("\x0e\0\0\0\x10\xac\x02\x32\x09\x08\x01\x10\x01\x1a\x03"
                "abc");
    /* A failure has no body. */
    assert_int_equal(pfl_rpc_host_reply(&w.host, request, 0, body, 2, -1), 0);
    ASSERT_SENT("\x07\0\0\0\x10\xac\x02\x32\x02\x10\x00");
}

static void unwanted_replies_are_dropped(void **state)
{
    struct pfl_rpc_request request = {.id = 3, .drop_reply = true};
    (void)state;

    assert_int_equal(pfl_rpc_host_reply_empty(&w.host, request), 0);
    assert_int_equal(pfl_rpc_host_reply_failure(&w.host, request), 0);
    assert_int_equal(w.sent_len, 0);
}

static void largest_reply_fits_a_frame_and_a_larger_one_is_refused(void **state)
{
    static uint8_t bytes[PFL_FRAME_PAYLOAD_MAX];
    struct pfl_rpc_request request = {.id = UINT64_MAX};
    struct iovec body = {bytes, PFL_RPC_REPLY_BODY_MAX};
    (void)state;

    assert_int_equal(pfl_rpc_host_reply(&w.host, request, PFL_RPC_SUCCESS, &body, 1, -1), 0);
    assert_int_equal(w.sent_len, PFL_FRAME_MAX_BYTES);
    w.sent_len = 0;
    body.iov_len++;
    assert_int_equal(pfl_rpc_host_reply(&w.host, request, PFL_RPC_SUCCESS, &body, 1, -1),
                     PFL_ELIMIT);
    assert_int_equal(w.sent_len, 0);
    request.id = 1; /* takes less: what another service sent with it can be passed on */
    body.iov_len = PFL_RPC_REPLY_BODY_MAX + 9;
    assert_int_equal(pfl_rpc_host_reply(&w.host, request, PFL_RPC_SUCCESS, &body, 1, -1), 0);
    assert_int_equal(w.sent_len, PFL_FRAME_MAX_BYTES);
}

static void encoded_header_ends_where_the_body_begins(void **state)
{
    static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, PFL_RPC_REPLY_BODY_MAX};
    static const uint64_t ids[] = {0, 1, 127, 128, UINT32_MAX, UINT64_MAX};
    (void)state;

    for (size_t i = 0; i < 7 * 6; i++) {
        uint8_t room[PFL_RPC_REPLY_HEADER_MAX];
        size_t body = sizes[i % 7];
        size_t len = pfl_rpc_encode_reply_header(room + sizeof(room), ids[i / 7],
                                                 PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, body);
        struct pfl_reader r;
        uint64_t announced;

        assert_true(len <= sizeof(room));
        r = pfl_reader_of(pfl_span_of(room + sizeof(room) - len, len));
        assert_int_equal(pfl_reader_u32(&r), len - 4 + body);
        assert_int_equal(pfl_reader_varint(&r), 2 << 3);
        assert_int_equal(pfl_reader_varint(&r), ids[i / 7]);
        assert_int_equal(pfl_reader_varint(&r), 6 << 3 | 2);
        announced = pfl_reader_varint(&r);
        assert_int_equal(announced, r.left + body);
        assert_int_equal(pfl_reader_u32(&r), 0x01100108);
        assert_int_equal(pfl_reader_varint(&r), 3 << 3 | 2);
        assert_int_equal(pfl_reader_varint(&r), body);
        assert_int_equal(r.left, 0);
        assert_false(r.failed);
    }
}

static void conversation_cut_at_every_length_goes_on(void **state)
{
    static const char talk[] =
        BIND_PRODUCER INVOKE("\x01", "\x01", "\x00") BIND_UNKNOWN INVOKE("\x01", "\x02", "\x00");
    size_t whole;
    (void)state;

    assert_int_equal(feed(talk, sizeof(talk) - 1), 0);
    whole = w.sent_len;
    for (size_t cut = 0; cut < sizeof(talk); cut++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        assert_int_equal(feed(talk, cut), 0);
        assert_int_equal(feed(talk + cut, sizeof(talk) - 1 - cut), 0);
        assert_int_equal(w.sent_len, whole);
        assert_int_equal(w.calls, 1);
    }
}

static int talk_by_bytes(void *arg)
{
    static const char talk[] = BIND_PRODUCER INVOKE("\x01", "\x01", "\x00");
    int rc = 0;
    (void)arg;

    (void)setup(NULL);
    for (size_t i = 0; i < sizeof(talk) - 1 && rc == 0; i++)
        rc = feed(talk + i, 1);
    pfl_rpc_host_fini(&w.host);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    pfl_sweep(talk_by_bytes, NULL, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bind_names_the_methods_in_their_order),
        TEST(second_service_has_the_second_id),
        TEST(unknown_name_gets_an_empty_bind_reply),
        TEST(arguments_reach_the_handler_where_they_lie),
        TEST(unknown_services_and_methods_are_refused_even_without_reply),
        TEST(arguments_that_the_handler_cannot_read_are_refused_even_without_reply),
        TEST(invocation_that_is_malformed_inside_is_refused),
        TEST(other_failures_of_a_handler_break_the_connection),
        TEST(failure_to_send_is_passed_on),
        TEST(unknown_frames_get_a_request_error),
        TEST(payload_that_is_no_frame_is_ignored),
        TEST(peer_identity_is_reported_without_a_reply),
        TEST(bind_comes_before_invoke_in_one_frame),
        TEST(replies_have_the_forms_of_the_protocol),
        TEST(unwanted_replies_are_dropped),
        TEST(largest_reply_fits_a_frame_and_a_larger_one_is_refused),
        TEST(encoded_header_ends_where_the_body_begins),
        TEST(conversation_cut_at_every_length_goes_on),
        TEST(out_of_memory_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("rpc_host", tests, NULL, NULL);
}
