/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connection it is: sockets of loopback. */
#include "consumer/ui/ui_owner.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int listener;
static struct sockaddr_in address;

static int open_listener(void **state)
{
    socklen_t len = sizeof(address);

    (void)state;
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    return 0;
}

static int close_listener(void **state)
{
    (void)state;
    return close(listener);
}

/* From that port; 0: any, which it becomes. */
static int connect_from(uint16_t *port)
{
    struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(*port)};
    const struct linger reset = {1, 0};
    const int one = 1;
    socklen_t len = sizeof(own);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    *port = ntohs(own.sin_port);
    return fd;
}

static void a_connection_of_ours_is_known(void **state)
{
    uint16_t port = 0;
    int client = connect_from(&port);
    int server = accept(listener, NULL, NULL);

    (void)state;
    assert_true(pfl_ui_owner_is_ours(server, ntohs(address.sin_port)));
    close(client);
    assert_false(pfl_ui_owner_is_ours(server, ntohs(address.sin_port)));
    close(server);
}

/* Before it was accepted, it was reset, and its port is another program's. */
static void a_dead_connection_is_not_the_one_that_has_its_addresses(void **state)
{
    uint16_t port = 0;
    int client = connect_from(&port);
    int server[2];

    (void)state;
    close(client);
    client = connect_from(&port);
    for (unsigned i = 0; i < 2; i++)
        server[i] = accept(listener, NULL, NULL);
    assert_false(pfl_ui_owner_is_ours(server[0], ntohs(address.sin_port)));
    assert_true(pfl_ui_owner_is_ours(server[1], ntohs(address.sin_port)));
    close(server[0]);
    close(server[1]);
    close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_of_ours_is_known, open_listener,
                                        close_listener),
        cmocka_unit_test_setup_teardown(a_dead_connection_is_not_the_one_that_has_its_addresses,
                                        open_listener, close_listener),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
