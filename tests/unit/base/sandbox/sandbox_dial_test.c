/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox of a program that dials: TCP out and look-ups work, and nothing else of the network.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/base/sandbox/sandbox_kit.h"

static int errno_of(bool has_worked)
{
    return has_worked ? KIT_WORKED : errno;
}

/* Nobody listens at port 1 of loopback: refused by the peer, not by the sandbox. */
static int dial(const struct kit *kit)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)kit;
    if (fd < 0)
        return errno;
    return errno_of(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
}

static int listen_tcp(const struct kit *kit)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)kit;
    if (fd < 0)
        return errno;
    return errno_of(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(fd, 1) == 0);
}

/* A name for subjects, as base/io/subject.c gives; and the lengths of other addresses. */
static int bind_unix(socklen_t len)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    (void)snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "%012lx", (unsigned long)getpid());
    return errno_of(bind(fd, (struct sockaddr *)&addr, len) == 0);
}

static int bind_subject(const struct kit *kit)
{
    (void)kit;
    return bind_unix(15);
}

static int bind_longer(const struct kit *kit)
{
    (void)kit;
    return bind_unix(16);
}

static int bind_short_tcp(const struct kit *kit)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)kit;
    if (fd < 0)
        return errno;
    return errno_of(bind(fd, (struct sockaddr *)&addr, 15) == 0);
}

static int make_packets(const struct kit *kit)
{
    (void)kit;
    return errno_of(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0);
}

static int look_up(const struct kit *kit)
{
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};

    (void)kit;
    return getaddrinfo("localhost", "9910", &hints, &found) == 0 ? KIT_WORKED : EBADMSG;
}

static void dialling_is_the_need_of_a_program_and_listening_is_not(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_try(kit, dial), EPERM);
    kit->conf.needs = PFL_SANDBOX_DIALS;
    assert_int_equal(kit_try(kit, dial), ECONNREFUSED);
    assert_int_equal(kit_try(kit, listen_tcp), EPERM);
    assert_int_equal(kit_try(kit, make_packets), EPERM);
}

static void who_connects_for_subjects_binds_their_names_and_nothing_else(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(kit_try(kit, bind_subject), EPERM);
    kit->conf.needs = PFL_SANDBOX_DIALS | PFL_SANDBOX_CONNECTS_UNIX;
    assert_int_equal(kit_try(kit, bind_subject), KIT_WORKED);
    assert_int_equal(kit_try(kit, bind_longer), EPERM);
    assert_int_equal(kit_try(kit, listen_tcp), EPERM);
    assert_int_equal(kit_try(kit, bind_short_tcp), EINVAL);
}

static void with_ports_no_others_are_dialled(void **state)
{
    static const uint16_t one[] = {1};
    static const uint16_t other[] = {2};
    struct kit *kit = *state;

    if (syscall(444, NULL, 0, 1u) < 4)
        skip();
    kit->conf.needs = PFL_SANDBOX_DIALS;
    kit->conf.dial_ports = one;
    kit->conf.dial_ports_len = 1;
    assert_int_equal(kit_try(kit, dial), ECONNREFUSED);
    kit->conf.dial_ports = other;
    assert_int_equal(kit_try(kit, dial), EACCES);
}

static void names_are_looked_up_with_the_folder_of_their_files(void **state)
{
    struct kit *kit = *state;

    kit->conf.needs = PFL_SANDBOX_DIALS;
    kit->folder = (struct pfl_sandbox_folder){.path = "/etc", .rights = PFL_SANDBOX_READ};
    assert_int_equal(kit_try(kit, look_up), KIT_WORKED);
}

static int setup(void **state)
{
    static struct kit kit;

    kit_init(&kit);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_fini(*state);
    return 0;
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(dialling_is_the_need_of_a_program_and_listening_is_not),
        CLAIM(who_connects_for_subjects_binds_their_names_and_nothing_else),
        CLAIM(with_ports_no_others_are_dialled),
        CLAIM(names_are_looked_up_with_the_folder_of_their_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
