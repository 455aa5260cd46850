/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close takes long hold neither the caller nor other users' descriptors up. */
#include "base/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LINGER_S   60
#define OPEN_FILES 8192u
#define ALICE      1000u
#define BOB        1001u

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A TCP socket with unsent data, whose close waits for LINGER_S; `ret_peer` is its other end. */
static int make_lingering(int *ret_peer)
{
    static const char data[65536];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    *ret_peer = accept(listener, NULL, NULL);
    (void)close(listener);
    while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}

static void send_fd(int sock, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = "x", .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &msg, 0), 1);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void lingering_socket_is_closed_without_its_linger(void **state)
{
    double begin = now_s();
    int peer;
    int fd = make_lingering(&peer);

    (void)state;
    pfl_closer_close(fd, ALICE);
    assert_true(now_s() - begin < LINGER_S / 2.0);
    pfl_closer_wait();
    assert_true(now_s() - begin < LINGER_S / 2.0);
    assert_false(is_open(fd));
    (void)close(peer);
}

static void socket_with_unread_descriptors_is_closed_without_their_linger(void **state)
{
    double begin = now_s();
    int ends[2];
    int peers[20];
    int fd;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (size_t i = 0; i < 20; i++) {
        fd = make_lingering(&peers[i]);
        send_fd(ends[1], fd);
        /* Ours is not the last: the close does not linger. */
        assert_int_equal(close(fd), 0);
    }
    fd = ends[0];
    pfl_closer_close_socket(&ends[0], ALICE);
    assert_int_equal(ends[0], -1);
    assert_true(now_s() - begin < LINGER_S / 2.0);
    pfl_closer_wait();
    assert_true(now_s() - begin < LINGER_S / 2.0);
    assert_false(is_open(fd));
    (void)close(ends[1]);
    for (size_t i = 0; i < 20; i++)
        (void)close(peers[i]);
}

static void socket_without_unread_bytes_is_closed_at_once(void **state)
{
    int ends[2];
    int fd;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fd = ends[0];
    pfl_closer_close_socket(&ends[0], ALICE);
    assert_false(is_open(fd));
    assert_int_equal(send(ends[1], "x", 1, MSG_NOSIGNAL), -1);
    pfl_closer_close_socket(&ends[0], ALICE);
    pfl_closer_close(-1, ALICE);
    (void)close(ends[1]);
}

static void descriptors_that_may_not_come_are_closed(void **state)
{
    int ends[2];
    int pipe_ends[2];
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(pipe(pipe_ends), 0);
    send_fd(ends[1], pipe_ends[1]);
    (void)close(pipe_ends[1]);
    assert_int_equal(pfl_closer_recv(ends[0], &byte, 1, ALICE), 1);
    pfl_closer_wait();
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0); /* nobody has the other end */
    assert_int_equal(pfl_closer_recv(ends[0], &byte, 1, ALICE), -1);
    assert_int_equal(errno, EAGAIN);
    (void)close(pipe_ends[0]);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* As a FUSE server that does not answer: nothing interrupts these closes. */
static void one_users_closes_that_do_not_end_leave_room_for_others(void **state)
{
    const uint32_t alices =
        PFL_CLOSER_USER_THREADS + PFL_CLOSER_USER_FDS - PFL_CLOSER_MESSAGE_FDS + 1;
    const uint32_t bobs = (OPEN_FILES / 4 - alices - 2 * PFL_CLOSER_MESSAGE_FDS) / 2;
    int bobs_peers[PFL_CLOSER_USER_THREADS];
    int peers[PFL_CLOSER_USER_THREADS];
    int pipe_ends[2];
    char byte;

    (void)state;
    if (pfl_closer_get_max() != OPEN_FILES / 4)
        skip();
    pfl_closer_close(open("/dev/null", O_RDONLY), ALICE);
    pfl_closer_wait();
    (void)signal(SIGURG, SIG_IGN);
    for (size_t i = 0; i < PFL_CLOSER_USER_THREADS; i++)
        pfl_closer_close(make_lingering(&peers[i]), ALICE);
    assert_true(pfl_closer_has_room(ALICE));
    for (uint32_t i = 0; i + PFL_CLOSER_MESSAGE_FDS <= PFL_CLOSER_USER_FDS; i++)
        pfl_closer_close(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), ALICE);
    assert_false(pfl_closer_has_room(ALICE));
    assert_int_equal(pfl_closer_recv(STDIN_FILENO, &byte, 1, ALICE), -1);
    assert_int_equal(errno, EDQUOT);

    assert_true(pfl_closer_has_room(BOB));
    assert_int_equal(pipe(pipe_ends), 0);
    pfl_closer_close(pipe_ends[1], BOB);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
    (void)close(pipe_ends[0]);

    /* What is left of a quarter of all files there may be, Bob shares with those who come later. */
    for (size_t i = 0; i < PFL_CLOSER_USER_THREADS; i++)
        pfl_closer_close(make_lingering(&bobs_peers[i]), BOB);
    for (uint32_t i = PFL_CLOSER_USER_THREADS; i < bobs; i++)
        pfl_closer_close(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), BOB);
    assert_true(pfl_closer_has_room(BOB));
    pfl_closer_close(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), BOB);
    assert_false(pfl_closer_has_room(BOB));
    assert_true(pfl_closer_has_room(BOB + 1));

    for (size_t i = 0; i < PFL_CLOSER_USER_THREADS; i++) {
        (void)close(bobs_peers[i]);
        (void)close(peers[i]); /* with unread bytes: reset, which ends the lingering */
    }
    pfl_closer_wait();
    assert_true(pfl_closer_has_room(ALICE));
    assert_false(pfl_closer_is_full());
}

static void memory_waits_behind_no_descriptor_of_its_user(void **state)
{
    int peers[PFL_CLOSER_USER_THREADS];
    int pipe_ends[2];
    char byte;

    (void)state;
    pfl_closer_close(open("/dev/null", O_RDONLY), ALICE);
    pfl_closer_wait();
    (void)signal(SIGURG, SIG_IGN); /* nothing interrupts these closes */
    for (size_t i = 0; i < PFL_CLOSER_USER_THREADS; i++)
        pfl_closer_close(make_lingering(&peers[i]), ALICE);
    assert_int_equal(pipe(pipe_ends), 0);
    pfl_closer_close_memory(pipe_ends[1], ALICE);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
    (void)close(pipe_ends[0]);
    for (size_t i = 0; i < PFL_CLOSER_USER_THREADS; i++)
        (void)close(peers[i]);
    pfl_closer_wait();
}

static void memory_waits_behind_no_descriptor_of_others(void **state)
{
    int peers[PFL_CLOSER_THREADS];
    int pipe_ends[2];
    char byte;

    (void)state;
    pfl_closer_close(open("/dev/null", O_RDONLY), ALICE);
    pfl_closer_wait();
    (void)signal(SIGURG, SIG_IGN); /* nothing interrupts these closes */
    for (uint32_t i = 0; i < PFL_CLOSER_THREADS; i++)
        pfl_closer_close(make_lingering(&peers[i]), BOB + i / PFL_CLOSER_USER_THREADS);
    assert_int_equal(pipe(pipe_ends), 0);
    pfl_closer_close_memory(pipe_ends[1], ALICE);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
    (void)close(pipe_ends[0]);
    for (size_t i = 0; i < PFL_CLOSER_THREADS; i++)
        (void)close(peers[i]);
    pfl_closer_wait();
}

int main(void)
{
    const struct rlimit limit = {OPEN_FILES, OPEN_FILES};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lingering_socket_is_closed_without_its_linger),
        cmocka_unit_test(socket_with_unread_descriptors_is_closed_without_their_linger),
        cmocka_unit_test(socket_without_unread_bytes_is_closed_at_once),
        cmocka_unit_test(descriptors_that_may_not_come_are_closed),
        cmocka_unit_test(one_users_closes_that_do_not_end_leave_room_for_others),
        cmocka_unit_test(memory_waits_behind_no_descriptor_of_its_user),
        cmocka_unit_test(memory_waits_behind_no_descriptor_of_others),
#ifndef PFL_SANITIZED
#endif
    };

    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
