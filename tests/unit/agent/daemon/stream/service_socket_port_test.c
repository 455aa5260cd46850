/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the service takes what there is room for and sends what is taken; it ends once,
 * with all that was said before; and whatever is called from within its callbacks. */
#include "agent/daemon/stream/service_socket_port.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/pattern.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/daemon/stream/memory_kit.h"

#define MANY_BYTES (300u * 1024)
#define LINGER_S   20

static uv_loop_t loop;
static struct pfl_stream_memory *memory;
static struct pfl_service_socket *service;
static int peer; /* -1: gone */
static struct {
    uint8_t *at;  /* where the next read goes */
    size_t room;  /* of it */
    size_t split; /* the first piece's; 0: one */
    uint64_t got;
    uint64_t reads;
    uint64_t writes;
    size_t longest;
    unsigned eofs;
    unsigned writable;
    bool is_closing_on_room;
    bool is_closing_on_read;
    bool is_closing_on_eof;
    bool is_closing_on_writable;
    bool is_breaking_on_read;
    bool is_stopping_on_read;
} t;

static void close_service(void)
{
    pfl_service_socket_close(service);
    service = NULL;
}

static int get_room(void *user, struct iovec *ret_pieces, uint64_t *ret_reads)
{
    assert_ptr_equal(user, &t);
    *ret_reads = t.reads;
    if (t.is_closing_on_room)
        close_service();
    if (t.room == 0)
        return 0;
    ret_pieces[0] = (struct iovec){t.at, t.split != 0 ? t.split : t.room};
    ret_pieces[1] = (struct iovec){t.at + t.split, t.room - t.split};
    return t.split != 0 ? 2 : 1;
}

static void on_read(void *user, size_t len)
{
    (void)user;
    assert_true(len != 0 && len <= t.room);
    assert_true(pfl_pattern_is(t.got, t.at, len));
    assert_int_equal(pfl_noted_call_get(pfl_stream_memory_get_reading(memory), t.reads), len);
    t.got += len;
    t.reads++;
    t.longest = len > t.longest ? len : t.longest;
    if (t.is_breaking_on_read)
        pfl_service_socket_break(service);
    if (t.is_stopping_on_read)
        pfl_service_socket_read_stop(service);
    if (t.is_closing_on_read)
        close_service();
}

static void on_eof(void *user)
{
    (void)user;
    t.eofs++;
    if (t.is_closing_on_eof)
        close_service();
}

static void on_writable(void *user)
{
    (void)user;
    t.writable++;
    if (t.is_closing_on_writable)
        close_service();
}

static const struct pfl_service_socket_ops ops = {
    .get_room = get_room, .on_read = on_read, .on_eof = on_eof, .on_writable = on_writable};

static int open_service(void)
{
    struct pfl_service_socket_conf conf = {
        .loop = &loop, .ops = &ops, .user = &t, .memory = memory};
    int fds[2];
    int rc;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    peer = fds[1];
    conf.fd = fds[0];
    rc = pfl_service_socket_open(&conf, &service);
    if (rc != 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
        peer = -1;
    }
    return rc;
}

static void close_peer(void)
{
    if (peer >= 0)
        (void)close(peer);
    peer = -1;
}

static int set_up(void **state)
{
    static int count;

    count = memory_kit_count_fds();
    *state = &count;
    memset(&t, 0, sizeof(t));
    assert_int_equal(pfl_loop_init(&loop), 0);
    memory = memory_kit_make();
    t.at = pfl_stream_memory_get_read(memory);
    t.room = PFL_STREAM_READ_BYTES;
    assert_int_equal(open_service(), 0);
    return 0;
}

static int tear_down(void **state)
{
    close_service();
    close_peer();
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_stream_memory_free(memory);
    pfl_closer_wait();
    return memory_kit_assert_nothing_is_left(state);
}

/* What is ready is done, and nothing is waited for. */
static void turn(void)
{
    for (unsigned i = 0; i < 8; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void say(uint64_t at, size_t len)
{
    assert_int_equal(send(peer, pfl_pattern_get(at), len, MSG_NOSIGNAL), len);
}

/* ---- reading ---- */

static void what_is_said_lies_where_there_is_room(void **state)
{
    (void)state;
    say(0, 1000);
    turn();
    assert_int_equal(t.got, 1000);
    t.room = 300;
    t.split = 100;
    say(1000, 1000);
    turn();
    assert_int_equal(t.got, 2000);
    assert_int_equal(t.longest, 1000);
    assert_int_equal(t.reads, 1 + 4);
}

static void one_read_takes_both_pieces(void **state)
{
    (void)state;
    t.room = 700;
    t.split = 1;
    say(0, 700);
    turn();
    assert_int_equal(t.reads, 1);
    assert_int_equal(t.got, 700);
}

static void nothing_is_read_without_room_or_while_it_is_stopped(void **state)
{
    (void)state;
    t.room = 0;
    say(0, 10);
    turn();
    assert_int_equal(t.got, 0);
    t.room = 100;
    pfl_service_socket_read_stop(service);
    turn();
    assert_int_equal(t.got, 0);
    pfl_service_socket_read_start(service);
    t.is_stopping_on_read = true;
    t.room = 5;
    turn();
    assert_int_equal(t.got, 5);
    pfl_service_socket_read_start(service);
    turn();
    assert_int_equal(t.got, 10);
}

static void descriptors_that_a_service_sends_are_not_taken(void **state)
{
    union {
        struct cmsghdr head;
        uint8_t bytes[CMSG_SPACE(100 * sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(100 * sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    int before = memory_kit_count_fds();
    int fds[100];

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        fds[i] = peer;
    memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
    for (unsigned i = 0; i < 20; i++) {
        struct iovec piece = {(void *)(uintptr_t)pfl_pattern_get(t.got), 100};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};

        assert_int_equal(sendmsg(peer, &message, MSG_NOSIGNAL), 100);
        turn();
        pfl_closer_wait(); /* a service whose descriptors pile up has ended */
    }
    assert_int_equal(t.got, 2000);
    assert_int_equal(memory_kit_count_fds(), before);
}

/* ---- the end ---- */

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A TCP socket with unsent data, whose last close waits for LINGER_S; the peer's end is left open.
 */
static int make_lingering(int *ret_other)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    *ret_other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)close(listener);
    while (send(fd, pfl_pattern_get(0), 65536, MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}

/* Says a byte with a lingering socket whose last holder is the connection; the socket's peer. */
static int say_with_lingering(uint64_t at)
{
    union {
        struct cmsghdr head;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {(void *)(uintptr_t)pfl_pattern_get(at), 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    int other;
    int fd = make_lingering(&other);

    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    assert_int_equal(sendmsg(peer, &message, 0), 1);
    (void)close(fd);
    return other;
}

static void descriptors_whose_close_takes_long_hold_nobody_up(void **state)
{
    int read = say_with_lingering(0);
    int unread = say_with_lingering(1);
    double begin = now_s();

    (void)state;
    t.is_stopping_on_read = true;
    t.room = 1;
    turn();
    assert_int_equal(t.got, 1);
    close_service(); /* with the second unread */
    turn();
    assert_true(now_s() - begin < LINGER_S / 2.0);
    (void)close(read);
    (void)close(unread);
}

static void the_end_comes_once_and_after_all_that_was_said(void **state)
{
    (void)state;
    t.room = 1000;
    say(0, 3500);
    close_peer();
    turn();
    assert_int_equal(t.got, 3500);
    assert_int_equal(t.eofs, 1);
    turn();
    assert_int_equal(t.eofs, 1);
}

/* The kernel tells such a service's end before what it said. */
static void a_service_that_goes_without_reading_has_said_what_it_said(void **state)
{
    size_t len;

    (void)state;
    t.room = 1000;
    assert_int_equal(pfl_service_socket_send(service, pfl_span_of(pfl_pattern_get(0), 50), 0, &len),
                     0);
    say(0, 3500);
    close_peer();
    turn();
    assert_int_equal(t.got, 3500);
    assert_int_equal(t.eofs, 1);
}

static void what_it_said_is_read_also_when_reading_was_stopped_at_its_end(void **state)
{
    size_t len;

    (void)state;
    pfl_service_socket_read_stop(service);
    assert_int_equal(
        pfl_service_socket_send(service, pfl_span_of(pfl_pattern_get(0), MANY_BYTES), 0, &len), 0);
    assert_true(len < MANY_BYTES); /* on_writable is due, which the end brings */
    say(0, 3500);
    close_peer();
    turn();
    assert_int_equal(t.writable, 1);
    assert_int_equal(t.eofs, 0);
    pfl_service_socket_read_start(service);
    turn();
    assert_int_equal(t.got, 3500);
    assert_int_equal(t.eofs, 1);
}

static void after_its_end_nothing_is_sent_but_what_it_said_is_read(void **state)
{
    size_t len = 1;

    (void)state;
    say(0, 100);
    close_peer();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            pfl_service_socket_send(service, pfl_span_of(pfl_pattern_get(0), 9), i, &len),
            PFL_ECLOSED);
        assert_int_equal(len, 0);
        assert_int_equal(pfl_noted_call_get(pfl_stream_memory_get_writing(memory), i), 0);
    }
    turn();
    assert_int_equal(t.got, 100);
    assert_int_equal(t.eofs, 1);
}

/* Another process holds the descriptor, too: a manager does. */
static void a_connection_that_is_broken_is_over_for_all(void **state)
{
    int kept = dup(pfl_service_socket_get_fd(service));
    uint8_t byte;

    (void)state;
    pfl_service_socket_break(service);
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    turn();
    assert_int_equal(t.eofs, 1);
    (void)close(kept);
    pfl_service_socket_break(NULL);
    pfl_service_socket_close(NULL);
}

static void one_that_is_closed_goes_on_for_who_holds_it(void **state)
{
    int kept = dup(pfl_service_socket_get_fd(service));
    uint8_t byte;

    (void)state;
    say(0, 10);
    close_service();
    turn();
    assert_int_equal(t.got, 0);
    assert_int_equal(recv(peer, &byte, 1, 0), -1);
    assert_int_equal(recv(kept, &byte, 1, 0), 1);
    (void)close(kept);
}

/* ---- writing ---- */

static uint64_t hear(uint64_t at)
{
    static uint8_t data[MANY_BYTES];
    ssize_t len = recv(peer, data, sizeof(data), 0);

    if (len <= 0)
        return 0;
    assert_true(pfl_pattern_is(at, data, (size_t)len));
    return (uint64_t)len;
}

static void what_is_not_taken_is_sent_when_it_is_writable_again(void **state)
{
    uint64_t sent = 0;
    uint64_t heard = 0;
    size_t len;

    (void)state;
    while (sent < 4 * MANY_BYTES) {
        unsigned before = t.writable;

        assert_int_equal(pfl_service_socket_send(service,
                                                 pfl_span_of(pfl_pattern_get(sent), MANY_BYTES),
                                                 t.writes, &len),
                         0);
        assert_int_equal(pfl_noted_call_get(pfl_stream_memory_get_writing(memory), t.writes), len);
        t.writes += len != 0;
        sent += len;
        if (len == MANY_BYTES)
            continue;
        /* Not asked again before. */
        assert_int_equal(
            pfl_service_socket_send(service, pfl_span_of(pfl_pattern_get(sent), 1), 0, &len), 0);
        assert_int_equal(len, 0);
        turn();
        assert_int_equal(t.writable, before);
        while (heard != sent) {
            uint64_t got = hear(heard);

            assert_true(got != 0);
            heard += got;
        }
        turn();
        assert_int_equal(t.writable, before + 1);
    }
    assert_true(t.writes > 1);
}

static void after_a_shutdown_nothing_is_sent_and_answers_still_come(void **state)
{
    uint8_t byte;
    size_t len;

    (void)state;
    pfl_service_socket_shutdown(service);
    pfl_service_socket_shutdown(service);
    assert_int_equal(pfl_service_socket_send(service, pfl_span_of("x", 1), 0, &len), PFL_ECLOSED);
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    say(0, 500);
    turn();
    assert_int_equal(t.got, 500);
    assert_int_equal(t.eofs, 0);
}

/* ---- from within ---- */

static void it_may_be_closed_from_within_each_callback(void **state)
{
    bool *const moments[] = {&t.is_closing_on_read, &t.is_closing_on_eof,
                             &t.is_closing_on_writable};
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        *moments[i] = true;
        assert_int_equal(
            pfl_service_socket_send(service, pfl_span_of(pfl_pattern_get(0), MANY_BYTES), 0, &len),
            0);
        if (i == 0)
            say(t.got, 10);
        if (i < 2)
            pfl_service_socket_break(service);
        else
            assert_true(hear(0) != 0);
        turn();
        assert_null(service);
        *moments[i] = false;
        close_peer();
        assert_int_equal(open_service(), 0);
    }
    assert_int_equal(t.reads, 1);
    assert_int_equal(t.eofs, 1);
}

static void it_may_be_broken_from_within_a_read(void **state)
{
    (void)state;
    t.is_breaking_on_read = true;
    t.room = 10;
    say(0, 30);
    turn();
    assert_int_equal(t.got, 30); /* it was said before */
    assert_int_equal(t.eofs, 1);
}

static void a_read_that_has_no_room_may_close_it(void **state)
{
    (void)state;
    t.is_closing_on_room = true;
    t.room = 0;
    say(0, 30);
    turn();
    assert_null(service);
    assert_int_equal(t.got, 0);
}

static int body(void *arg)
{
    int rc;

    (void)arg;
    rc = open_service();
    if (rc != 0)
        return rc;
    close_service();
    close_peer();
    turn();
    return 0;
}

/* The memory is none of the sweep's. */
static void each_allocation_may_fail(void **state)
{
    struct pfl_stream_memory *outside = memory;

    (void)state;
    close_service();
    close_peer();
    turn();
    memory = NULL;
    pfl_stream_memory_free(outside);
    pfl_sweep(body, NULL, false);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(what_is_said_lies_where_there_is_room),
        CLAIM(one_read_takes_both_pieces),
        CLAIM(nothing_is_read_without_room_or_while_it_is_stopped),
        CLAIM(descriptors_that_a_service_sends_are_not_taken),
        CLAIM(descriptors_whose_close_takes_long_hold_nobody_up),
        CLAIM(the_end_comes_once_and_after_all_that_was_said),
        CLAIM(a_service_that_goes_without_reading_has_said_what_it_said),
        CLAIM(what_it_said_is_read_also_when_reading_was_stopped_at_its_end),
        CLAIM(after_its_end_nothing_is_sent_but_what_it_said_is_read),
        CLAIM(a_connection_that_is_broken_is_over_for_all),
        CLAIM(one_that_is_closed_goes_on_for_who_holds_it),
        CLAIM(what_is_not_taken_is_sent_when_it_is_writable_again),
        CLAIM(after_a_shutdown_nothing_is_sent_and_answers_still_come),
        CLAIM(it_may_be_closed_from_within_each_callback),
        CLAIM(it_may_be_broken_from_within_a_read),
        CLAIM(a_read_that_has_no_room_may_close_it),
        CLAIM(each_allocation_may_fail),
    };

    (void)pfl_pattern_get(0);
    if (pfl_loop_init(&loop) != 0 || uv_loop_close(&loop) != 0) /* what libuv keeps open for all */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
