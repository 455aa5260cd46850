/* SPDX-License-Identifier: Apache-2.0 */
/* The service tells apart for whom a user connects. */
#include "base/io/subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/shares.h"

#define CLIENTS 64

static struct sockaddr_un addr;
static socklen_t addr_len;
static int listener;

static int set_up(void **state)
{
    (void)state;
    addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "pfl-subject-test-%ld",
                   (long)getpid());
    addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(addr.sun_path + 1));
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&addr, addr_len) != 0 ||
           listen(listener, CLIENTS) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    return close(listener);
}

static uint64_t connect_for(const char *subject, uint32_t who, int *ret_fd)
{
    uint64_t got;
    int peer;

    *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*ret_fd >= 0);
    if (subject != NULL)
        pfl_subject_bind(*ret_fd, subject);
    assert_int_equal(connect(*ret_fd, (struct sockaddr *)&addr, addr_len), 0);
    peer = accept(listener, NULL, NULL);
    assert_true(peer >= 0);
    got = pfl_subject_get(peer, who);
    (void)close(peer);
    return got;
}

static void connections_for_one_subject_have_its_number(void **state)
{
    int fds[CLIENTS];
    uint64_t first;
    int other;

    (void)state;
    first = connect_for("ann", 7, &fds[0]);
    assert_true(first >= PFL_SHARES_UIDS);
    for (int i = 1; i < CLIENTS; i++)
        assert_true(connect_for("ann", 7, &fds[i]) == first);
    assert_false(connect_for("bob", 7, &other) == first);
    (void)close(other);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
}

static void subject_is_one_of_its_users_alone(void **state)
{
    int fds[2];

    (void)state;
    assert_false(connect_for("ann", 7, &fds[0]) == connect_for("ann", 8, &fds[1]));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void peer_without_a_subject_is_its_user(void **state)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int fd;

    (void)state;
    assert_true(connect_for(NULL, 7, &fd) == 7);
    (void)close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own.sun_family)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, addr_len), 0);
    (void)close(fd);
    fd = accept(listener, NULL, NULL);
    assert_true(pfl_subject_get(fd, 7) == 7); /* a name of the kernel's choice is none */
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_for_one_subject_have_its_number),
        cmocka_unit_test(subject_is_one_of_its_users_alone),
        cmocka_unit_test(peer_without_a_subject_is_its_user),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
