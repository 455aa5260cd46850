/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams with descriptors: what arrives, and what is refused without a descriptor left open. */
#include "service/copy/copy_socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 8u

static int ends[2];

static unsigned count_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int setup(void **state)
{
    static unsigned before;

    before = count_descriptors();
    *state = &before;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

static int teardown(void **state)
{
    const unsigned *before = *state;

    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(count_descriptors(), *before);
    return 0;
}

static void a_message_brings_its_descriptors(void **state)
{
    const struct pfl_copy_fds sent = {.list = {ends[0], ends[1]}, .len = 2};
    struct pfl_copy_fds fds;
    char bytes[BYTES];

    (void)state;
    assert_int_equal(pfl_copy_socket_send(ends[0], "1234567", BYTES, &sent), 0);
    assert_int_equal(pfl_copy_socket_send(ends[0], "abcdefg", BYTES, NULL), 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), 0);
    assert_string_equal(bytes, "1234567");
    assert_int_equal(fds.len, 2);
    assert_int_equal(fcntl(fds.list[1], F_GETFD), FD_CLOEXEC);
    pfl_copy_socket_close_fds(&fds);
    assert_int_equal(fds.len, 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), 0);
    assert_string_equal(bytes, "abcdefg");
    assert_int_equal(fds.len, 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), PFL_EAGAIN);
    assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), PFL_EEOF);
}

static void another_size_is_refused_and_its_descriptors_are_closed(void **state)
{
    const struct pfl_copy_fds sent = {.list = {ends[0]}, .len = 1};
    const unsigned before = count_descriptors();
    struct pfl_copy_fds fds;
    char bytes[BYTES];

    (void)state;
    assert_int_equal(pfl_copy_socket_send(ends[0], "12345678", BYTES + 1, &sent), 0);
    assert_int_equal(pfl_copy_socket_send(ends[0], "12345678", BYTES - 1, &sent), 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), PFL_EPROTO);
    assert_int_equal(fds.len, 0);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), PFL_EPROTO);
    assert_int_equal(fds.len, 0);
    assert_int_equal(count_descriptors(), before);
}

static void descriptors_that_do_not_fit_are_none(void **state)
{
    const struct pfl_copy_fds sent = {.list = {ends[0], ends[1]}, .len = 2};
    const unsigned before = count_descriptors();
    struct pfl_copy_fds fds;
    struct rlimit limit;
    struct rlimit none;
    char bytes[BYTES];

    (void)state;
    assert_int_equal(pfl_copy_socket_send(ends[0], "1234567", BYTES, &sent), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)ends[1] + 2, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0); /* one, or none if it has a lower one */
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(fds.len, 0);
    assert_int_equal(count_descriptors(), before);
}

/* An emulator may leave those open that have no room, and not say so. */
static void need_a_kernel(const struct msghdr *three)
{
    const unsigned before = count_descriptors();
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    char bytes[BYTES];
    struct iovec iov = {.iov_base = bytes, .iov_len = BYTES};
    struct msghdr for_two = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_LEN(2 * sizeof(int))};
    unsigned received;
    unsigned listed = 0;

    assert_int_equal(sendmsg(ends[0], three, 0), BYTES);
    assert_int_equal(recvmsg(ends[1], &for_two, MSG_CMSG_CLOEXEC), BYTES);
    received = count_descriptors() - before;
    if (CMSG_FIRSTHDR(&for_two) != NULL)
        listed = (unsigned)((control.align.cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int fd = ends[1] + 1; fd < ends[1] + 1 + (int)received; fd++)
        (void)close(fd);
    if ((for_two.msg_flags & MSG_CTRUNC) == 0 || listed < received)
        skip();
}

static void many_descriptors_are_none(void **state)
{
    const unsigned before = count_descriptors();
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (char[]){"1234567"}, .iov_len = BYTES};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct pfl_copy_fds fds;
    char bytes[BYTES];

    (void)state;
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(&control.align), (int[]){0, 0, 0}, 3 * sizeof(int));
    need_a_kernel(&msg);
    assert_int_equal(sendmsg(ends[0], &msg, 0), BYTES);
    assert_int_equal(pfl_copy_socket_receive(ends[1], bytes, BYTES, &fds), 0);
    assert_int_equal(fds.len, 0);
    assert_int_equal(count_descriptors(), before);
}

static void a_full_socket_is_tried_again_and_one_that_ended_is_not(void **state)
{
    char bytes[BYTES] = {0};
    int rc;

    (void)state;
    do {
        rc = pfl_copy_socket_send(ends[0], bytes, BYTES, NULL);
    } while (rc == 0);
    assert_int_equal(rc, PFL_EAGAIN);
    assert_int_equal(shutdown(ends[1], SHUT_RD), 0);
    assert_int_equal(pfl_copy_socket_send(ends[0], bytes, BYTES, NULL), PFL_EIO);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(a_message_brings_its_descriptors),
        ROW(another_size_is_refused_and_its_descriptors_are_closed),
        ROW(descriptors_that_do_not_fit_are_none),
        ROW(many_descriptors_are_none),
        ROW(a_full_socket_is_tried_again_and_one_that_ended_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
