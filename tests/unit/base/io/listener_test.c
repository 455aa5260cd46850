/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners: addresses, files and permissions, limits, running out of descriptors. */
#include "base/io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/endpoint.h"

#define MAX_FDS 64

static uv_loop_t loop;
static struct pfl_listener *listener;
static int accepted[MAX_FDS];
static unsigned accepts;
static unsigned closes;
static int clients[MAX_FDS];
static unsigned client_count;
static bool closes_in_accept;
static char folder[] = "/tmp/perfleet-listener-XXXXXX";
static char path[64];

static void on_accept(void *user, int fd)
{
    assert_ptr_equal(user, &loop);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    accepted[accepts++] = fd;
    if (closes_in_accept)
        pfl_listener_close(listener);
}

static void on_closed(void *user)
{
    assert_ptr_equal(user, &loop);
    closes++;
}

static int setup(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    accepts = 0;
    closes = 0;
    client_count = 0;
    closes_in_accept = false;
    listener = NULL;
    memcpy(strchr(folder, '\0') - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/sock", folder);
    assert_int_equal(pfl_loop_init(&loop), 0);
    return 0;
}

static void release_one(void)
{
    close(accepted[--accepts]);
    pfl_listener_release(listener);
}

static int teardown(void **state)
{
    (void)state;
    if (listener != NULL && closes == 0) {
        pfl_listener_close(listener);
        endpoint_run_until(&loop, &closes, 1);
    }
    while (accepts > 0)
        release_one();
    while (client_count > 0)
        close(clients[--client_count]);
    endpoint_end_loop(&loop);
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_listener_conf conf_of(const char *address, bool is_tcp, unsigned max)
{
    return (struct pfl_listener_conf){.loop = &loop,
                                      .address = address,
                                      .is_tcp = is_tcp,
                                      .max_connections = max,
                                      .mode = -1,
                                      .on_accept = on_accept,
                                      .on_closed = on_closed,
                                      .user = &loop};
}

static void open_listener(const char *address, bool is_tcp, unsigned max)
{
    struct pfl_listener_conf conf = conf_of(address, is_tcp, max);

    assert_int_equal(pfl_listener_open(&conf, &listener), 0);
}

static void connect_unix(const char *name)
{
    assert_int_equal(pfl_fdsock_connect_unix(name, &clients[client_count]), 0);
    client_count++;
}

static void unix_connection_is_accepted(void **state)
{
    (void)state;
    open_listener(path, false, 10);
    connect_unix(path);
    endpoint_run_until(&loop, &accepts, 1);
    assert_int_equal(write(clients[0], "x", 1), 1);
    assert_int_equal(pfl_listener_get_port(listener), 0);
}

static void abstract_name_is_accepted(void **state)
{
    char name[64];

    (void)state;
    (void)snprintf(name, sizeof(name), "@perfleet-test-%d", getpid());
    open_listener(name, false, 10);
    connect_unix(name);
    endpoint_run_until(&loop, &accepts, 1);
}

static void connect_port(uint16_t port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};

    assert_int_equal(
        pfl_fdsock_connect_addr((struct sockaddr *)&in, sizeof(in), &clients[client_count]), 0);
    client_count++;
}

static void tcp_connection_is_accepted_on_the_port_that_the_kernel_chose(void **state)
{
    (void)state;
    open_listener("127.0.0.1:0", true, 10);
    assert_int_not_equal(pfl_listener_get_port(listener), 0);
    connect_port(pfl_listener_get_port(listener));
    endpoint_run_until(&loop, &accepts, 1);
}

static void host_may_be_a_name_or_left_out(void **state)
{
    (void)state;
    open_listener("localhost:0", true, 10);
    pfl_listener_close(listener);
    endpoint_run_until(&loop, &closes, 1);
    closes = 0;
    open_listener(":0", true, 10);
    connect_port(pfl_listener_get_port(listener));
    endpoint_run_until(&loop, &accepts, 1);
}

static void addresses_that_make_no_sense_are_refused(void **state)
{
    static const char *const tcp[] = {"",     "9910",       "host:",       "::1:9910",
                                      "[::1", "[::1]",      "1.2.3.4:x y", "a:99999999",
                                      ":",    "no host:10", "[::1]9910"};
    struct pfl_listener_conf conf;
    char name[200];

    (void)state;
    for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]); i++) {
        conf = conf_of(tcp[i], true, 1);
        assert_int_not_equal(pfl_listener_open(&conf, &listener), 0);
        assert_null(listener);
    }
    memset(name, 'x', sizeof(name));
    name[150] = '\0';
    conf = conf_of(name, false, 1);
    assert_int_equal(pfl_listener_open(&conf, &listener), PFL_EINVAL);
    conf = conf_of("", false, 1);
    assert_int_equal(pfl_listener_open(&conf, &listener), PFL_EINVAL);
    conf = conf_of("/no/such/folder/sock", false, 1);
    assert_int_equal(pfl_listener_open(&conf, &listener), PFL_EIO);
    conf = conf_of(path, false, 1);
    conf.group = "no-such-group-here";
    assert_int_equal(pfl_listener_open(&conf, &listener), PFL_EINVAL);
    assert_int_not_equal(access(path, F_OK), 0); /* the socket file went with the failure */
}

static void stale_socket_file_is_replaced_and_a_live_one_is_not(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);
    struct pfl_listener *second = NULL;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    memcpy(addr.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    close(fd); /* the file stays: nobody listens */
    open_listener(path, false, 1);
    assert_int_equal(pfl_listener_open(&conf, &second), PFL_EIO);
    assert_null(second);
    connect_unix(path);
    endpoint_run_until(&loop, &accepts, 1);
}

static void file_that_is_no_socket_is_left_alone(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    (void)state;
    close(fd);
    assert_int_equal(pfl_listener_open(&conf, &listener), PFL_EIO);
    assert_int_equal(access(path, F_OK), 0);
}

static void mode_and_group_are_set(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);
    struct stat st;
    char group[16];

    (void)state;
    (void)snprintf(group, sizeof(group), "%u", (unsigned)getgid());
    conf.mode = 0620;
    conf.group = group;
    assert_int_equal(pfl_listener_open(&conf, &listener), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0620);
    assert_int_equal(st.st_gid, getgid());
}

static void close_removes_the_file_unless_it_was_replaced(void **state)
{
    int fd;

    (void)state;
    open_listener(path, false, 1);
    pfl_listener_close(listener);
    pfl_listener_close(listener);
    endpoint_run_until(&loop, &closes, 1);
    assert_int_not_equal(access(path, F_OK), 0);
    closes = 0;
    open_listener(path, false, 1);
    assert_int_equal(unlink(path), 0);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    pfl_listener_close(listener);
    endpoint_run_until(&loop, &closes, 1);
    assert_int_equal(access(path, F_OK), 0);
}

static void full_listener_waits_for_a_release(void **state)
{
    (void)state;
    open_listener(path, false, 2);
    for (int i = 0; i < 4; i++)
        connect_unix(path);
    endpoint_run_ready(&loop);
    assert_int_equal(accepts, 2);
    release_one();
    endpoint_run_ready(&loop);
    assert_int_equal(accepts, 2);
    release_one();
    release_one();
    endpoint_run_ready(&loop);
    assert_int_equal(accepts, 1); /* the fourth */
}

static unsigned refused;

static bool refuse_the_first_forty(void *user, int *fd)
{
    assert_ptr_equal(user, &loop);
    if (refused == 40)
        return true;
    refused++;
    close(*fd);
    *fd = -1;
    return false;
}

static void refused_connections_take_no_turns_of_others(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);

    (void)state;
    refused = 0;
    conf.may_accept = refuse_the_first_forty;
    assert_int_equal(pfl_listener_open(&conf, &listener), 0);
    for (int i = 0; i < 41; i++)
        connect_unix(path);
    endpoint_run_until(&loop, &accepts, 1);
    assert_int_equal(refused, 40);
    assert_int_equal(accepts, 1);
}

static bool refuse_slowly(void *user, int *fd)
{
    uint64_t end_ns = uv_hrtime() + 60000;

    while (uv_hrtime() < end_ns)
        ;
    return refuse_the_first_forty(user, fd);
}

static void refusing_takes_a_part_of_a_turn_and_no_more(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);

    (void)state;
    refused = 0;
    conf.may_accept = refuse_slowly;
    assert_int_equal(pfl_listener_open(&conf, &listener), 0);
    for (int i = 0; i < 40; i++)
        connect_unix(path);
    (void)uv_run(&loop, UV_RUN_NOWAIT); /* one turn: 0.1 ms */
    assert_in_range(refused, 1, 2);
    while (refused != 40)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void past_the_backlog_nobody_waits(void **state)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);
    char byte;

    (void)state;
    refused = 0;
    conf.may_accept = refuse_the_first_forty;
    conf.backlog = 10;
    assert_int_equal(pfl_listener_open(&conf, &listener), 0);
    for (int i = 0; i < 11; i++)
        connect_unix(path);
    assert_int_equal(pfl_fdsock_connect_unix(path, &clients[client_count]), PFL_EAGAIN);
    endpoint_run_ready(&loop);
    assert_int_equal(refused, 11);
    assert_int_equal(read(clients[0], &byte, 1), 0); /* the peer sees its end at once */
}

static void release_is_legal_after_close(void **state)
{
    (void)state;
    open_listener(path, false, 2);
    connect_unix(path);
    endpoint_run_until(&loop, &accepts, 1);
    pfl_listener_close(listener);
    endpoint_run_until(&loop, &closes, 1);
    assert_int_equal(write(clients[0], "x", 1), 1); /* the connection lives on */
}

static void close_inside_accept_is_legal(void **state)
{
    (void)state;
    closes_in_accept = true;
    open_listener(path, false, 10);
    connect_unix(path);
    connect_unix(path);
    endpoint_run_until(&loop, &closes, 1);
    assert_int_equal(accepts, 1);
}

static void running_out_of_descriptors_pauses_without_spinning(void **state)
{
    struct rlimit old;
    struct rlimit lim;
    int probe;

    (void)state;
    open_listener(path, false, 10);
    connect_unix(path);
    connect_unix(path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    probe = dup(0);
    lim = old;
    lim.rlim_cur = (rlim_t)probe + 1; /* one descriptor is left once the probe is closed */
    close(probe);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
    endpoint_run_ready(&loop);
    assert_int_equal(accepts, 1);
    assert_true(uv_backend_timeout(&loop) > 0); /* sleeps until the retry */
    release_one();
    endpoint_run_ready(&loop);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(accepts, 1); /* the release brought the second */
    endpoint_run_ready(&loop);
}

static void descriptors_that_come_back_are_noticed_by_the_timer(void **state)
{
    struct rlimit old;
    struct rlimit lim;
    int probe;

    (void)state;
    open_listener(path, false, 10);
    connect_unix(path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    probe = dup(0);
    lim = old;
    lim.rlim_cur = (rlim_t)probe;
    close(probe);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
    endpoint_run_ready(&loop);
    assert_int_equal(accepts, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    endpoint_run_until(&loop, &accepts, 1);
}

static int open_body(void *arg)
{
    struct pfl_listener_conf conf = conf_of(path, false, 1);
    struct pfl_listener *l = NULL;
    int rc = pfl_listener_open(&conf, &l);

    (void)arg;
    closes = 0;
    if (l != NULL) {
        pfl_listener_close(l);
        endpoint_run_until(&loop, &closes, 1);
    }
    return rc;
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(open_body, NULL, false);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(unix_connection_is_accepted),
        T(abstract_name_is_accepted),
        T(tcp_connection_is_accepted_on_the_port_that_the_kernel_chose),
        T(host_may_be_a_name_or_left_out),
        T(addresses_that_make_no_sense_are_refused),
        T(stale_socket_file_is_replaced_and_a_live_one_is_not),
        T(file_that_is_no_socket_is_left_alone),
        T(mode_and_group_are_set),
        T(close_removes_the_file_unless_it_was_replaced),
        T(full_listener_waits_for_a_release),
        T(refused_connections_take_no_turns_of_others),
        T(refusing_takes_a_part_of_a_turn_and_no_more),
        T(past_the_backlog_nobody_waits),
        T(release_is_legal_after_close),
        T(close_inside_accept_is_legal),
        T(running_out_of_descriptors_pauses_without_spinning),
        T(descriptors_that_come_back_are_noticed_by_the_timer),
        T(opening_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
