/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent, the relay and perfleet connect to: a stranger in a folder like /tmp is not even
 * connected to. Root plays that user. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"

#define STRANGER 61991u

static char folder[32];
static char path[64];
static int listener;

static int set_up(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl.XXXXXX");
    if (geteuid() != 0 || mkdtemp(folder) == NULL || chmod(folder, 01777) != 0)
        return geteuid() == 0;
    (void)snprintf(path, sizeof(path), "%s/s", folder);
    memcpy(addr.sun_path, path, strlen(path));
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 || seteuid(STRANGER) != 0 ||
        listen(listener, 8) != 0 || seteuid(0) != 0)
        return 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return 0;
    (void)close(listener);
    (void)unlink(path);
    return rmdir(folder);
}

static bool is_somebody_there(void)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void needs_root(void)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(pfl_fdsock_trust(""), 0);
}

static void strangers_socket_is_not_connected_to(void **state)
{
    int fd = -1;

    (void)state;
    needs_root();
    assert_int_equal(chown(path, STRANGER, STRANGER), 0);
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), PFL_ESTRANGER);
    assert_non_null(strstr(pfl_fdsock_get_service_why(), "is a socket of user 61991"));
    assert_false(is_somebody_there());
}

/* Root's file, which is a stranger's to serve. */
static void who_listens_counts_and_not_the_file(void **state)
{
    int fd = -1;

    (void)state;
    needs_root();
    assert_int_equal(seteuid(STRANGER + 1), 0); /* to whom root's file vouches for nobody */
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), PFL_EPERM);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), 0); /* root gave it to that user */
    (void)close(fd);
}

static void named_user_is_connected_to(void **state)
{
    int fd = -1;

    (void)state;
    needs_root();
    assert_int_equal(chown(path, STRANGER, STRANGER), 0);
    assert_int_equal(pfl_fdsock_trust("no such user"), PFL_EINVAL);
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), PFL_ESTRANGER);
    assert_int_equal(pfl_fdsock_trust("61991"), 0);
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), 0);
    (void)close(fd);
    assert_int_equal(setenv(PFL_SERVICE_USER_VARIABLE, "61990,61991", 1), 0);
    assert_int_equal(pfl_fdsock_trust(NULL), 0);
    assert_int_equal(unsetenv(PFL_SERVICE_USER_VARIABLE), 0);
    assert_int_equal(pfl_fdsock_connect_service(path, &fd), 0);
    (void)close(fd);
}

static void what_is_not_there_is_said_as_ever(void **state)
{
    int fd = -1;

    (void)state;
    needs_root();
    assert_int_equal(pfl_fdsock_connect_service("/tmp/no/such/socket", &fd), PFL_ENOENT);
    assert_string_equal(pfl_fdsock_get_service_why(), "No such file or directory");
    assert_int_equal(pfl_fdsock_connect_service("", &fd), PFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(strangers_socket_is_not_connected_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_listens_counts_and_not_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(named_user_is_connected_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_said_as_ever, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
