/* SPDX-License-Identifier: Apache-2.0 */
/* ProducerPort over real sockets: commands, their order, and producers that die or misbehave. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/mem.h"
#include "base/message.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS    ((struct pfl_span){0})
#define ONE_SOURCE "buffers { size_kb: 64 } data_sources { config { name: \"kit.source\" } } "
#define SILENT     3000u
#define BUSY       100u
#define ENDS       200u
#define WAIT_NS    UINT64_C(50000000)
#define ASKED      40u

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;
static struct pfl_kit_client producer;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    return 0;
}

static struct pfl_session *the_session(void)
{
    assert_int_equal(kit.service.sessions_len, 1);
    return PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
}

static uint64_t expect_start(void)
{
    uint64_t instance;

    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    instance = pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    assert_int_equal(pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL), instance);
    return instance;
}

static void methods_before_the_introduction_fail(void **state)
{
    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    for (unsigned method = KIT_REGISTER; method <= KIT_UPDATE; method++) {
        struct pfl_kit_reply reply = pfl_kit_client_expect(
            &producer, pfl_kit_client_invoke(&producer, method, NO_ARGS), false, false);

        assert_false(reply.has_success);
        pfl_kit_reply_free(&reply);
    }
    pfl_kit_client_close(&producer);
}

static void a_second_introduction_fails(void **state)
{
    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, NULL, 0);
    pfl_kit_client_expect_empty(
        &producer, pfl_kit_client_invoke(&producer, KIT_INITIALIZE, NO_ARGS), false, false);
    pfl_kit_client_close(&producer);
}

static void a_name_longer_than_any_path_is_served_and_one_above_8192_bytes_refused(void **state)
{
    static char name[PFL_PRODUCER_NAME_MAX + 2];
    struct pfl_kit_reply reply;

    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    assert_true(PFL_PRODUCER_NAME_MAX > PATH_MAX);
    for (size_t len = PFL_PRODUCER_NAME_MAX + 1; len >= PFL_PRODUCER_NAME_MAX; len--) {
        struct pfl_buf buf;
        struct pfl_message m = pfl_message_of(&buf);

        pfl_buf_init(&buf, 16384);
        memset(name, 'n', len);
        name[len] = 0;
        pfl_message_str(&m, 3, name);
        reply = pfl_kit_client_expect(
            &producer, pfl_kit_client_invoke(&producer, KIT_INITIALIZE, pfl_buf_get(&buf)),
            len <= PFL_PRODUCER_NAME_MAX, false);
        pfl_kit_reply_free(&reply);
        pfl_buf_fini(&buf);
    }
    pfl_kit_client_close(&producer);
}

static void a_late_producer_joins_a_running_session(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)expect_start();
    assert_true(producer.received_fd >= 0);
    assert_int_equal(fcntl(producer.received_fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    pfl_kit_client_close(&producer);
    assert_true(pfl_list_is_empty(&the_session()->instances));
}

static void setup_tracing_comes_once_and_again_to_a_new_command_stream(void **state)
{
    uint64_t first;
    uint64_t second;

    (void)state;
    first = pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    (void)expect_start();
    second = pfl_kit_client_invoke(&producer, KIT_COMMANDS, NO_ARGS);
    pfl_kit_client_expect_empty(&producer, first, false, false);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    pfl_kit_client_expect_nothing(&producer);
    assert_true(second > first);
    pfl_kit_client_close(&producer);
}

static void a_stop_waits_for_those_who_said_they_would_tell(void **state)
{
    uint64_t enable;
    uint64_t instance;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_STOP);
    enable = pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    instance = expect_start();
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_DISABLE, NO_ARGS),
                                true, false);
    assert_int_equal(pfl_kit_producer_expect(&producer, KIT_CMD_STOP, NULL), instance);
    pfl_kit_client_expect_nothing(&consumer);
    (void)pfl_kit_client_call(&producer, KIT_STOPPED, (struct pfl_kit_args){instance, 0, NULL});
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_close(&producer);
}

static void a_stop_that_nobody_acknowledges_ends_by_its_timeout(void **state)
{
    uint64_t enable;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_STOP);
    enable = pfl_kit_consumer_enable(&consumer, ONE_SOURCE "data_source_stop_timeout_ms: 700");
    (void)expect_start();
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_DISABLE, NO_ARGS),
                                true, false);
    pfl_port_kit_pass_ms(&kit, 699);
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 1);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_close(&producer);
}

static void all_started_waits_for_the_slow_one(void **state)
{
    uint64_t observe =
        pfl_kit_client_call(&consumer, KIT_OBSERVE, (struct pfl_kit_args){2, 0, NULL});
    struct pfl_kit_reply reply;
    uint64_t instance;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_START);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    instance = expect_start();
    pfl_kit_client_expect_nothing(&consumer);
    (void)pfl_kit_client_call(&producer, KIT_STARTED, (struct pfl_kit_args){instance, 0, NULL});
    reply = pfl_kit_client_expect(&consumer, observe, true, true);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_close(&producer);
}

/* The one that is waited for leaves, by a call or with its connection. */
static void leave_while_starting(bool is_call)
{
    uint64_t observe =
        pfl_kit_client_call(&consumer, KIT_OBSERVE, (struct pfl_kit_args){2, 0, NULL});
    struct pfl_kit_reply reply;

    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_START);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    (void)expect_start();
    pfl_kit_client_expect_nothing(&consumer);
    if (is_call)
        (void)pfl_kit_client_call(&producer, KIT_UNREGISTER,
                                  (struct pfl_kit_args){0, 0, "kit.source"});
    pfl_kit_client_close(&producer);
    reply = pfl_kit_client_expect(&consumer, observe, true, true);
    assert_int_equal(reply.body_len, 4); /* all_data_sources_started */
    pfl_kit_reply_free(&reply);
    pfl_kit_client_expect_nothing(&consumer);
}

static void all_started_does_not_wait_for_one_that_is_gone(void **state)
{
    (void)state;
    leave_while_starting(false);
}

static void all_started_does_not_wait_for_one_that_is_unregistered(void **state)
{
    (void)state;
    leave_while_starting(true);
}

static void unregistering_stops_and_forgets_the_instances(void **state)
{
    uint64_t instance;

    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_STOP);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    instance = expect_start();
    pfl_kit_client_expect_empty(
        &producer,
        pfl_kit_client_call(&producer, KIT_UNREGISTER, (struct pfl_kit_args){0, 0, "kit.source"}),
        true, false);
    assert_int_equal(pfl_kit_producer_expect(&producer, KIT_CMD_STOP, NULL), instance);
    assert_true(pfl_list_is_empty(&the_session()->instances));
    pfl_kit_client_close(&producer);
}

static void register_named(const char *name, uint64_t id)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    pfl_buf_init(&buf, 4096);
    mark = pfl_message_begin(&m, 1);
    pfl_message_str(&m, 1, name);
    pfl_message_varint(&m, 7, id);
    pfl_message_end(&m, mark);
    pfl_kit_client_expect_empty(
        &producer, pfl_kit_client_invoke(&producer, KIT_REGISTER, pfl_buf_get(&buf)), true, false);
    pfl_buf_fini(&buf);
}

static void registering_succeeds_also_without_a_name_or_again_and_is_ignored_then(void **state)
{
    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, NULL, 0);
    register_named("kit.source", 7);
    assert_int_equal(kit.service.sources_len, 1);
    register_named("", 8);
    register_named("kit.other", 7);
    assert_int_equal(kit.service.sources_len, 1);
    register_named("kit.source", 9);
    assert_int_equal(kit.service.sources_len, 2);
    pfl_kit_client_expect_empty(
        &producer,
        pfl_kit_client_call(&producer, KIT_UNREGISTER, (struct pfl_kit_args){0, 0, "kit.source"}),
        true, false);
    assert_int_equal(kit.service.sources_len, 1); /* one of two */
    pfl_kit_client_close(&producer);
}

static void what_is_commanded_before_the_stream_is_lost_but_for_setup_tracing(void **state)
{
    struct pfl_kit_reply reply;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_buf_init(&buf, 4096);
    pfl_message_str(&m, 3, "kit.producer");
    reply = pfl_kit_client_expect(
        &producer, pfl_kit_client_invoke(&producer, KIT_INITIALIZE, pfl_buf_get(&buf)), true,
        false);
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&buf);
    register_named("kit.source", 7);
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE);
    pfl_kit_client_expect_nothing(&producer);
    (void)pfl_kit_client_invoke(&producer, KIT_COMMANDS, NO_ARGS);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    pfl_kit_client_expect_nothing(&producer);
    pfl_kit_client_close(&producer);
}

static void incremental_state_is_cleared_on_multiples_of_the_period(void **state)
{
    (void)state;
    (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_CLEARS_STATE);
    pfl_port_kit_pass_ms(&kit, 130);
    (void)pfl_kit_consumer_enable(&consumer,
                                  ONE_SOURCE "incremental_state_config { clear_period_ms: 200 }");
    (void)expect_start();
    pfl_port_kit_pass_ms(&kit, 69);
    pfl_kit_client_expect_nothing(&producer);
    pfl_port_kit_pass_ms(&kit, 1);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_CLEAR, NULL);
    pfl_kit_client_close(&producer);
}

/* Lets the producer die when the session is in `state`; the session must live on and end well. */
static void die_in(enum pfl_session_state when)
{
    uint64_t enable;

    (void)pfl_kit_producer_open(&producer, &kit, "kit.source",
                                PFL_DATA_SOURCE_NOTIFIES_STOP | PFL_DATA_SOURCE_NOTIFIES_START);
    enable = pfl_kit_consumer_enable(&consumer, ONE_SOURCE "deferred_start: true");
    if (when >= PFL_SESSION_STARTED)
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_START, NO_ARGS);
    if (when >= PFL_SESSION_STOP_WAIT)
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_DISABLE, NO_ARGS);
    if (when == PFL_SESSION_DISABLED)
        pfl_port_kit_pass_ms(&kit, 5000);
    assert_int_equal(the_session()->state, when);
    pfl_kit_client_close(&producer);
    assert_true(pfl_list_is_empty(&the_session()->instances));
    if (when < PFL_SESSION_STOP_WAIT)
        (void)pfl_kit_client_invoke_drop(&consumer, KIT_DISABLE, NO_ARGS);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_FREE, NO_ARGS),
                                true, false);
}

static void a_producer_may_die_in_any_state_of_the_session(void **state)
{
    (void)state;
    for (int when = 0; when <= PFL_SESSION_DISABLED; when++)
        die_in((enum pfl_session_state)when);
}

/* The consumer dies; the producer must get a stop, the session must be gone. */
static void a_consumer_may_die_in_any_state_of_its_session(void **state)
{
    (void)state;
    for (int when = 0; when <= PFL_SESSION_DISABLED; when++) {
        struct pfl_kit_client dying;

        (void)pfl_kit_producer_open(&producer, &kit, "kit.source", PFL_DATA_SOURCE_NOTIFIES_STOP);
        pfl_kit_consumer_open(&dying, &kit);
        (void)pfl_kit_consumer_enable(&dying, ONE_SOURCE "deferred_start: true");
        if (when >= PFL_SESSION_STARTED)
            (void)pfl_kit_client_invoke_drop(&dying, KIT_START, NO_ARGS);
        if (when >= PFL_SESSION_STOP_WAIT)
            (void)pfl_kit_client_invoke_drop(&dying, KIT_DISABLE, NO_ARGS);
        if (when == PFL_SESSION_DISABLED)
            pfl_port_kit_pass_ms(&kit, 5000);
        assert_int_equal(the_session()->state, when);
        pfl_kit_client_close(&dying);
        assert_int_equal(kit.service.sessions_len, 0);
        assert_int_equal(kit.service.buffers_len, 0);
        pfl_kit_client_close(&producer);
    }
}

static void a_producer_that_does_not_read_is_disconnected_alone(void **state)
{
    struct pfl_kit_client deaf;
    struct pfl_kit_client other;

    (void)state;
    (void)pfl_kit_producer_open(&other, &kit, "other.source", 0);
    (void)pfl_kit_producer_open(&deaf, &kit, "kit.source", 0);
    for (int i = 0; i < 2000000 && kit.service.producers_len == 2; i++) {
        (void)pfl_kit_client_invoke(&deaf, KIT_SYNC, NO_ARGS);
        if (deaf.is_closed)
            break;
    }
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.producers_len, 1);
    pfl_kit_client_expect_empty(&other, pfl_kit_client_invoke(&other, KIT_SYNC, NO_ARGS), true,
                                false);
    pfl_kit_client_close(&deaf);
    pfl_kit_client_close(&other);
}

static void garbage_disconnects_only_its_sender(void **state)
{
    static const uint8_t oversized[] = {0xfd, 0xff, 0x01, 0x00};
    static const uint8_t no_frame[] = {0x03, 0, 0, 0, 0xff, 0xff, 0xff};
    static const uint8_t unknown[] = {0x04, 0, 0, 0, 0x10, 0x09, 0x78, 0x01};
    struct pfl_kit_reply reply;

    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_kit_client_send(&producer, no_frame, sizeof(no_frame), -1);
    pfl_kit_client_send(&producer, unknown, sizeof(unknown), -1);
    assert_true(pfl_kit_client_take(&producer, &reply));
    assert_true(reply.is_error);
    assert_int_equal(reply.request_id, 9);
    pfl_kit_reply_free(&reply);
    pfl_kit_client_send(&producer, oversized, sizeof(oversized), -1);
    pfl_kit_client_expect_nothing(&producer);
    assert_true(producer.is_closed);
    pfl_kit_client_close(&producer);
    pfl_kit_client_expect_nothing(&consumer);
    assert_false(consumer.is_closed);
}

static void what_came_before_garbage_is_answered(void **state)
{
    /* Of one read: two frames of a kind that nobody knows, which get an answer, and garbage. */
    static const uint8_t bytes[] = {0x04, 0, 0,    0,    0x10, 0x07, 0x78, 0x01, 0x04, 0,
                                    0,    0, 0x10, 0x09, 0x78, 0x01, 0xfd, 0xff, 0x01, 0x00};

    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_kit_client_send(&producer, bytes, sizeof(bytes), -1);
    for (uint64_t id = 7; id <= 9; id += 2) {
        struct pfl_kit_reply reply;

        assert_true(pfl_kit_client_take(&producer, &reply));
        assert_true(reply.is_error);
        assert_int_equal(reply.request_id, id);
        pfl_kit_reply_free(&reply);
    }
    pfl_kit_client_expect_nothing(&producer);
    assert_true(producer.is_closed);
    pfl_kit_client_close(&producer);
}

/* So much that a user's part of a turn is soon used up: frames that nobody knows are answered. */
static void ask_often(int fd)
{
    static const uint8_t frame[] = {0x04, 0, 0, 0, 0x10, 0x09, 0x78, 0x01};
    uint8_t bytes[ASKED * sizeof(frame)];

    for (size_t i = 0; i < ASKED; i++)
        memcpy(bytes + i * sizeof(frame), frame, sizeof(frame));
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT), sizeof(bytes));
}

static size_t count_answered(int fd)
{
    static uint8_t bytes[ASKED * 256];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    return n < 0 ? 0 : (size_t)n;
}

/* The loop sleeps if there is nothing to do: a connection that waits has to wake it. */
static void busy_connections_of_a_user_are_all_served_though_some_end_while_they_wait(void **state)
{
    int fds[BUSY];
    size_t wanted;

    (void)state;
    for (size_t i = 0; i < BUSY; i++) {
        assert_int_equal(pfl_fdsock_connect_unix(kit.producer_address, &fds[i]), 0);
        pfl_port_kit_run(&kit);
    }
    ask_often(fds[0]);
    pfl_port_kit_run(&kit);
    wanted = count_answered(fds[0]);
    assert_true(wanted != 0);
    for (size_t i = 1; i < BUSY; i++)
        ask_often(fds[i]);
    (void)uv_run(&kit.loop, UV_RUN_ONCE);
    for (size_t i = 2; i < BUSY; i += 3) {
        (void)close(fds[i]);
        fds[i] = -1;
    }
    for (size_t i = 0; i < BUSY; i++) {
        while (fds[i] >= 0 && count_answered(fds[i]) != wanted)
            (void)uv_run(&kit.loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < BUSY; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
    pfl_port_kit_run(&kit);
}

/* Requests to bind, which cost their answer of some 300 bytes: many parts of a turn in a read. */
static size_t put_binds(struct pfl_buf *out, size_t max_bytes)
{
    size_t count = 0;
    size_t len = 0;

    while (out->len + len <= max_bytes) {
        struct pfl_buf frame;
        struct pfl_message m = pfl_message_of(&frame);
        size_t before = out->len;
        size_t mark;
        uint8_t prefix[4] = {0};

        pfl_buf_init(&frame, 64);
        pfl_message_varint(&m, 2, 1000 + count++);
        mark = pfl_message_begin(&m, 3);
        pfl_message_str(&m, 1, "ProducerPort");
        pfl_message_end(&m, mark);
        prefix[0] = (uint8_t)frame.len;
        assert_int_equal(pfl_buf_append(out, prefix, sizeof(prefix)), 0);
        assert_int_equal(pfl_buf_append(out, frame.data + frame.start, frame.len), 0);
        pfl_buf_fini(&frame);
        len = out->len - before;
    }
    return count;
}

static void send_and_turn_once(const struct pfl_buf *bytes)
{
    assert_int_equal(send(producer.fd, pfl_buf_get(bytes).data, bytes->len, MSG_NOSIGNAL),
                     bytes->len);
    (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

static int count_received(int fd)
{
    int bytes = -1;

    assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

static void one_read_of_costly_requests_takes_turns_and_keeps_their_order(void **state)
{
    struct pfl_kit_reply reply;
    struct pfl_buf bytes;
    size_t count;
    int first;

    (void)state;
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_buf_init(&bytes, PFL_PRODUCER_TURN_BYTES);
    count = put_binds(&bytes, PFL_PRODUCER_TURN_BYTES);
    send_and_turn_once(&bytes);
    first = count_received(producer.fd);
    assert_true(first > 0);
    pfl_port_kit_run(&kit);
    assert_true(count_received(producer.fd) > first);
    for (size_t i = 0; i < count; i++) {
        assert_true(pfl_kit_client_take(&producer, &reply));
        assert_int_equal(reply.request_id, 1000 + i);
        pfl_kit_reply_free(&reply);
    }
    pfl_kit_client_expect_nothing(&producer);
    pfl_buf_fini(&bytes);
    pfl_kit_client_close(&producer);
}

static void requests_that_wait_end_with_their_connection(void **state)
{
    struct pfl_buf bytes;

    (void)state;
    pfl_buf_init(&bytes, PFL_PRODUCER_TURN_BYTES);
    (void)put_binds(&bytes, PFL_PRODUCER_TURN_BYTES);
    for (int i = 0; i < 2; i++) {
        pfl_kit_client_open(&producer, &kit, kit.producer_address);
        send_and_turn_once(&bytes);
        if (i == 0) {
            pfl_kit_client_close(&producer);
        } else { /* and the port closes while they wait */
            (void)close(producer.fd);
            pfl_buf_fini(&producer.in);
        }
    }
    pfl_buf_fini(&bytes);
}

static struct pfl_kit_reply expect_introduced(uint64_t id)
{
    struct pfl_kit_reply reply = {0};

    while (reply.request_id != id) {
        pfl_kit_reply_free(&reply);
        assert_true(pfl_kit_client_take(&producer, &reply));
    }
    assert_true(reply.success);
    return reply;
}

/* Both messages wait in the socket before the first is read. */
static void send_with(int sock, struct pfl_span bytes, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes.data, .iov_len = bytes.len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), bytes.len);
}

/* What an end costs is its user's time, so that many ends at once hold nobody up. */
static void ends_of_many_connections_take_turns(void **state)
{
    static int fds[ENDS];

    (void)state;
    (void)pfl_kit_consumer_enable(&consumer, ONE_SOURCE); /* so each has an instance, and memory */
    for (size_t i = 0; i < ENDS; i++) {
        (void)pfl_kit_producer_open(&producer, &kit, "kit.source", 0);
        fds[i] = producer.fd;
        pfl_buf_fini(&producer.in);
    }
    assert_int_equal(kit.service.producers_len, ENDS);
    for (size_t i = 0; i < ENDS; i++)
        (void)close(fds[i]);
    for (int turn = 0; turn < 2; turn++) /* ends come in, and are handled at the end of it */
        (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
    assert_in_range(kit.service.producers_len, 1, ENDS - 1);
    for (int i = 0; i < 100 && kit.service.producers_len != 0; i++)
        pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.producers_len, 0);
}

static void a_descriptor_stays_with_the_requests_that_wait(void **state)
{
    int sealed = memfd_create("kit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int unsealed = memfd_create("kit", MFD_CLOEXEC);
    static const uint8_t introduction[] = {15,   0, 0,    0, 0x10, 5,    0x2a, 11,   0x08, 1,
                                           0x10, 1, 0x1a, 5, 0x08, 0x80, 0x20, 0x30, 1};
    static const uint8_t empty[] = {0, 0, 0, 0};
    struct pfl_kit_reply reply;
    struct pfl_buf bytes;

    (void)state;
    assert_int_equal(ftruncate(sealed, 262144), 0);
    assert_int_equal(ftruncate(unsealed, 262144), 0);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    pfl_buf_init(&bytes, PFL_PRODUCER_TURN_BYTES);
    (void)put_binds(&bytes, PFL_PRODUCER_TURN_BYTES - sizeof(introduction));
    assert_int_equal(pfl_buf_append(&bytes, introduction, sizeof(introduction)), 0);
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    send_with(producer.fd, pfl_buf_get(&bytes), sealed);
    send_with(producer.fd, pfl_span_of(empty, sizeof(empty)), unsealed);
    reply = expect_introduced(5);
    assert_int_equal(reply.body[1], 1); /* using_shmem_provided_by_producer */
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&bytes);
    (void)close(sealed);
    (void)close(unsealed);
    pfl_kit_client_close(&producer);
}

static void thousands_of_silent_connections_hurt_nobody(void **state)
{
    static int fds[SILENT];
    struct rlimit limit;
    struct pfl_kit_reply reply;
    unsigned count = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (count < SILENT && 2 * count + 200 < limit.rlim_cur) {
        assert_int_equal(
            pfl_fdsock_connect_unix(count % 2 == 0 ? kit.producer_address : kit.consumer_address,
                                    &fds[count]),
            0);
        count++;
        pfl_port_kit_run(&kit);
    }
    reply = pfl_kit_client_expect(&consumer, pfl_kit_client_invoke(&consumer, KIT_QUERY, NO_ARGS),
                                  true, false);
    assert_true(reply.body_len > 0);
    pfl_kit_reply_free(&reply);
    while (count > 0)
        (void)close(fds[--count]);
    pfl_port_kit_run(&kit);
}

static void offered_memory_without_seals_is_refused_and_replaced(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC);
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;

    (void)state;
    assert_int_equal(ftruncate(fd, 262144), 0);
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_buf_init(&buf, 256);
    pfl_message_varint(&m, 1, 4096);
    pfl_message_varint(&m, 6, 1);
    reply = pfl_kit_client_expect(
        &producer, pfl_kit_client_invoke_fd(&producer, KIT_INITIALIZE, pfl_buf_get(&buf), fd), true,
        false);
    assert_int_equal(reply.body[1], 0); /* using_shmem_provided_by_producer */
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&buf);
    (void)close(fd);
    pfl_kit_client_close(&producer);
}

static void offered_memory_with_seals_is_used(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;

    (void)state;
    assert_int_equal(ftruncate(fd, 262144), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_buf_init(&buf, 256);
    pfl_message_varint(&m, 1, 4096);
    pfl_message_varint(&m, 6, 1);
    reply = pfl_kit_client_expect(
        &producer, pfl_kit_client_invoke_fd(&producer, KIT_INITIALIZE, pfl_buf_get(&buf), fd), true,
        false);
    assert_int_equal(reply.body[1], 1);
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&buf);
    (void)close(fd);
    (void)pfl_kit_client_invoke(&producer, KIT_COMMANDS, NO_ARGS);
    assert_int_equal(pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL), 0);
    assert_int_equal(producer.received_fd, -1);
    pfl_kit_client_close(&producer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(methods_before_the_introduction_fail),
        TEST(a_second_introduction_fails),
        TEST(a_late_producer_joins_a_running_session),
        TEST(setup_tracing_comes_once_and_again_to_a_new_command_stream),
        TEST(a_stop_waits_for_those_who_said_they_would_tell),
        TEST(a_stop_that_nobody_acknowledges_ends_by_its_timeout),
        TEST(all_started_waits_for_the_slow_one),
        TEST(all_started_does_not_wait_for_one_that_is_gone),
        TEST(all_started_does_not_wait_for_one_that_is_unregistered),
        TEST(unregistering_stops_and_forgets_the_instances),
        TEST(a_name_longer_than_any_path_is_served_and_one_above_8192_bytes_refused),
        TEST(what_is_commanded_before_the_stream_is_lost_but_for_setup_tracing),
        TEST(registering_succeeds_also_without_a_name_or_again_and_is_ignored_then),
        TEST(incremental_state_is_cleared_on_multiples_of_the_period),
        TEST(a_producer_may_die_in_any_state_of_the_session),
        TEST(a_consumer_may_die_in_any_state_of_its_session),
        TEST(a_producer_that_does_not_read_is_disconnected_alone),
        TEST(garbage_disconnects_only_its_sender),
        TEST(what_came_before_garbage_is_answered),
        TEST(busy_connections_of_a_user_are_all_served_though_some_end_while_they_wait),
        TEST(one_read_of_costly_requests_takes_turns_and_keeps_their_order),
        TEST(requests_that_wait_end_with_their_connection),
        TEST(ends_of_many_connections_take_turns),
        TEST(a_descriptor_stays_with_the_requests_that_wait),
        TEST(thousands_of_silent_connections_hurt_nobody),
        TEST(offered_memory_without_seals_is_refused_and_replaced),
        TEST(offered_memory_with_seals_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
