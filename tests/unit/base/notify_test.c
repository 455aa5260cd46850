/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a service manager, whose socket is the test's own. */
#include "base/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int manager_fd;

/* A name that the kernel makes up, in NOTIFY_SOCKET. */
static int open_manager(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(addr.sun_family);
    char name[64];

    (void)state;
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager_fd >= 0);
    assert_int_equal(bind(manager_fd, (struct sockaddr *)&addr, len), 0);
    len = sizeof(addr);
    assert_int_equal(getsockname(manager_fd, (struct sockaddr *)&addr, &len), 0);
    (void)snprintf(name, sizeof(name), "@%.*s",
                   (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), addr.sun_path + 1);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return 0;
}

static int close_manager(void **state)
{
    (void)state;
    (void)close(manager_fd);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("FDSTORE");
    return 0;
}

/* The descriptor that came along, or -1. */
static int receive(char *text, size_t size)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {.iov_base = text, .iov_len = size - 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t len = recvmsg(manager_fd, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd;

    assert_true(len >= 0);
    text[len] = '\0';
    if (header == NULL)
        return -1;
    assert_int_equal(header->cmsg_type, SCM_RIGHTS);
    assert_int_equal(header->cmsg_len, CMSG_LEN(sizeof(int)));
    memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

static void a_descriptor_is_given_by_name_and_dropped_by_name(void **state)
{
    char text[256];
    struct stat mine;
    struct stat theirs;
    int fd = memfd_create("stored", MFD_CLOEXEC);
    int received;

    (void)state;
    assert_int_equal(pfl_notify_store("memory-0123.a_B", fd), 0);
    received = receive(text, sizeof(text));
    assert_string_equal(text, "FDSTORE=1\nFDNAME=memory-0123.a_B\nFDPOLL=0");
    assert_int_equal(fstat(fd, &mine), 0);
    assert_int_equal(fstat(received, &theirs), 0);
    assert_true(mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev);
    (void)close(received);
    (void)close(fd);
    pfl_notify_unstore("memory-0123.a_B");
    assert_int_equal(receive(text, sizeof(text)), -1);
    assert_string_equal(text, "FDSTOREREMOVE=1\nFDNAME=memory-0123.a_B");
}

static void a_full_manager_is_not_waited_for_long(void **state)
{
    char text[256];
    unsigned sent = 0;
    int rc;

    (void)state;
    while ((rc = pfl_notify_store("x", STDERR_FILENO)) == 0)
        sent++;
    assert_int_equal(rc, PFL_EAGAIN);
    assert_true(sent > 0);
    pfl_notify_unstore("x");
    (void)close(receive(text, sizeof(text)));
    assert_int_equal(pfl_notify_store("x", STDERR_FILENO), 0);
}

static void without_a_manager_nothing_is_stored(void **state)
{
    (void)state;
    (void)close(manager_fd);
    manager_fd = -1;
    assert_int_equal(pfl_notify_store("x", STDERR_FILENO), PFL_ESTATE);
    (void)unsetenv("NOTIFY_SOCKET");
    assert_int_equal(pfl_notify_store("x", STDERR_FILENO), PFL_ESTATE);
    pfl_notify_unstore("x");
}

static void a_descriptor_that_is_none_is_not_taken(void **state)
{
    (void)state;
    assert_int_equal(pfl_notify_store("x", 1 << 20), PFL_EIO);
}

static void a_manager_has_a_store_when_it_says_how_much(void **state)
{
    (void)state;
    (void)unsetenv("FDSTORE");
    assert_false(pfl_notify_has_store());
    (void)setenv("FDSTORE", "0", 1);
    assert_false(pfl_notify_has_store());
    (void)setenv("FDSTORE", "many", 1);
    assert_false(pfl_notify_has_store());
    (void)setenv("FDSTORE", "768", 1);
    assert_true(pfl_notify_has_store());
    (void)unsetenv("NOTIFY_SOCKET");
    assert_false(pfl_notify_has_store());
}

/* The last one: the socket stays open until the process ends. */
static void a_socket_of_before_serves_when_no_other_can_be_made(void **state)
{
    char text[256];

    (void)state;
    pfl_notify_open();
    (void)unsetenv("NOTIFY_SOCKET");
    assert_int_equal(pfl_notify_store("x", STDERR_FILENO), 0);
    (void)close(receive(text, sizeof(text)));
    (void)close(manager_fd);
    manager_fd = -1;
    assert_int_equal(pfl_notify_store("x", STDERR_FILENO), PFL_EIO);
    pfl_notify_unstore("x");
}

int main(void)
{
#define WITH_MANAGER(test) cmocka_unit_test_setup_teardown(test, open_manager, close_manager)
    const struct CMUnitTest tests[] = {
        WITH_MANAGER(a_descriptor_is_given_by_name_and_dropped_by_name),
        WITH_MANAGER(a_full_manager_is_not_waited_for_long),
        WITH_MANAGER(without_a_manager_nothing_is_stored),
        WITH_MANAGER(a_descriptor_that_is_none_is_not_taken),
        WITH_MANAGER(a_manager_has_a_store_when_it_says_how_much),
        WITH_MANAGER(a_socket_of_before_serves_when_no_other_can_be_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
