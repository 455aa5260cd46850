/* SPDX-License-Identifier: Apache-2.0 */
/* Plain streams over socket pairs: half-close, ends, failures, connecting. */
#include "base/io/fdsock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/fdsock_fixture.h"

static int make_memfd(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static void send_fds(int sock, const int *fds, size_t n)
{
    char control[CMSG_SPACE(sizeof(int) * 8)] = {0};
    struct iovec iov = {.iov_base = "x", .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
    assert_int_equal(sendmsg(sock, &msg, 0), 1);
}

static void half_close_sends_the_queue_first_and_the_answer_still_comes(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 1000);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    pfl_stream_shutdown(fx.a.stream);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1, -1), PFL_ESTATE);
    endpoint_run_until(&fx.loop, &fx.b.eofs, 1);
    assert_received(&fx.b, sizeof(pattern));
    assert_int_equal(fx.b.closes, 0);
    assert_int_equal(endpoint_write(&fx.b, pattern, 2000000, -1), 0);
    endpoint_run_until_bytes(&fx.a, 2000000);
    assert_received(&fx.a, 2000000);
    assert_int_equal(fx.b.eofs, 1);
    assert_int_equal(fx.a.eofs, 0);
}

static void close_reports_zero_once_and_the_peer_sees_the_end(void **state)
{
    (void)state;
    open_both(1024, 10);
    pfl_stream_close(fx.a.stream);
    pfl_stream_close(fx.a.stream);
    assert_int_equal(endpoint_write(&fx.a, "x", 1, -1), PFL_ESTATE);
    pfl_stream_shutdown(fx.a.stream);
    pfl_stream_read_stop(fx.a.stream);
    pfl_stream_read_start(fx.a.stream);
    pfl_stream_close_after_flush(fx.a.stream, 10);
    assert_int_equal(fx.a.closes, 0);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    endpoint_run_until(&fx.loop, &fx.b.eofs, 1);
    assert_int_equal(fx.a.closes, 1);
    assert_int_equal(fx.a.close_err, 0);
}

static void close_inside_a_callback_ends_delivery(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 10);
    fx.b.closes_in_data = true;
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    endpoint_run_until(&fx.loop, &fx.b.closes, 1);
    assert_int_equal(fx.b.data_calls, 1);
    assert_int_equal(fx.b.close_err, 0);
}

static void close_when_a_descriptor_arrives_delivers_no_data(void **state)
{
    int fd = 0;

    (void)state;
    open_one(1024, 10);
    fx.a.closes_in_fd = true;
    send_fds(fx.raw, &fd, 1);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_int_equal(fx.a.fd_count, 1);
    assert_int_equal(fx.a.data_calls, 0);
}

static void close_after_flush_sends_everything(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 10);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    pfl_stream_close_after_flush(fx.a.stream, 60000);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1, -1), PFL_ESTATE);
    endpoint_run_until(&fx.loop, &fx.b.eofs, 1);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_received(&fx.b, sizeof(pattern));
    assert_int_equal(fx.a.close_err, 0);
}

static void close_after_flush_gives_up_on_a_peer_that_does_not_read(void **state)
{
    (void)state;
    open_one(sizeof(pattern), 10);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    pfl_stream_close_after_flush(fx.a.stream, 1);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_int_equal(fx.a.close_err, PFL_ETIMEOUT);
}

static void what_a_vanished_peer_had_sent_is_delivered_before_the_end(void **state)
{
    (void)state;
    open_one(sizeof(pattern), 1000);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    assert_int_equal(write(fx.raw, pattern, 100000), 100000);
    close(fx.raw);
    fx.raw = -1;
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_received(&fx.a, 100000);
    assert_int_equal(fx.a.close_err, PFL_ECLOSED);
    assert_int_not_equal(fx.a.close_errno, 0);
    assert_int_equal(fx.a.eofs, 0);
}

static void vanished_peer_frees_the_queue_of_a_stopped_reader(void **state)
{
    (void)state;
    open_one(sizeof(pattern), 1000);
    pfl_stream_read_stop(fx.a.stream);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    close(fx.raw);
    fx.raw = -1;
    endpoint_run_until(&fx.loop, &fx.a.writables, 1);
    assert_int_equal(pfl_stream_queued_bytes(fx.a.stream), 0);
    assert_int_equal(fx.a.closes, 0);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000, -1), 0);
    pfl_stream_read_start(fx.a.stream);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_int_equal(fx.a.close_err, PFL_ECLOSED);
}

static void orderly_end_is_reported_once(void **state)
{
    (void)state;
    open_one(1024, 10);
    assert_int_equal(write(fx.raw, pattern, 3), 3);
    assert_int_equal(shutdown(fx.raw, SHUT_WR), 0);
    endpoint_run_until(&fx.loop, &fx.a.eofs, 1);
    endpoint_run_ready(&fx.loop);
    assert_received(&fx.a, 3);
    assert_int_equal(fx.a.eofs, 1);
    assert_int_equal(fx.a.closes, 0);
}

static int open_body(void *arg)
{
    struct pfl_stream_conf conf = endpoint_conf(&fx.a, 1024, 10);
    int sv[2];
    int rc;

    (void)arg;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    rc = pfl_fdsock_open(&conf, sv[0], &fx.a.stream);
    if (rc != 0)
        close(sv[0]);
    else
        rc = endpoint_write(&fx.a, "x", 1, -1);
    fx.a.closes = 0;
    if (fx.a.stream != NULL)
        endpoint_close(&fx.a);
    close(sv[1]);
    return rc;
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(open_body, NULL, false);
}

static int queue_body(void *arg)
{
    int rc;

    (void)arg;
    fx.a.closes = 0;
    open_one(sizeof(pattern), 10);
    rc = endpoint_write(&fx.a, pattern, 1000000, -1);
    if (rc == 0)
        rc = endpoint_write(&fx.a, pattern, 1000000, -1);
    endpoint_close(&fx.a);
    close(fx.raw);
    fx.raw = -1;
    return rc;
}

static void failed_allocation_for_the_queue_is_reported(void **state)
{
    (void)state;
    pfl_mem_fail_at(2);
    assert_int_equal(queue_body(NULL), PFL_ENOMEM);
    assert_int_equal(fx.a.close_err, PFL_ENOMEM); /* half of the write was out */
    pfl_mem_fail_at(3);
    assert_int_equal(queue_body(NULL), PFL_ENOMEM);
    assert_int_equal(fx.a.close_err, 0);
    pfl_mem_fail_at(0);
}

static void descriptor_that_is_no_socket_is_refused(void **state)
{
    struct pfl_stream_conf conf = endpoint_conf(&fx.a, 1024, 10);
    struct pfl_stream *s = NULL;
    int fd = make_memfd("file");

    (void)state;
    assert_int_equal(pfl_fdsock_open(&conf, fd, &s), PFL_EIO);
    assert_null(s);
    close(fd);
}

static void credentials_of_a_unix_peer_are_known(void **state)
{
    struct pfl_peer_cred cred;
    int sv[2];
    int fd = make_memfd("file");

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    assert_int_equal(pfl_fdsock_get_cred(sv[0], &cred), 0);
    assert_int_equal(cred.pid, getpid());
    assert_int_equal(cred.uid, getuid());
    assert_int_equal(cred.gid, getgid());
    assert_int_equal(pfl_fdsock_get_cred(fd, &cred), PFL_EIO);
    close(fd);
    close(sv[0]);
    close(sv[1]);
}

static void names_that_cannot_be_sockets_are_refused(void **state)
{
    char name[109];
    int fd;

    (void)state;
    memset(name, 'x', sizeof(name));
    name[108] = '\0';
    assert_int_equal(pfl_fdsock_connect_unix(name, &fd), PFL_EINVAL);
    assert_int_equal(pfl_fdsock_connect_unix("", &fd), PFL_EINVAL);
    assert_int_equal(pfl_fdsock_connect_unix("@", &fd), PFL_EINVAL);
    name[107] = '\0';
    assert_int_equal(pfl_fdsock_connect_unix(name, &fd), PFL_ENOENT);
    assert_int_equal(pfl_fdsock_connect_unix("@nobody-listens-on-this-name", &fd), PFL_ECLOSED);
}

/* A bound TCP port on which nobody listens. */
static struct sockaddr_in dead_port(int *ret_fd)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);

    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&in, &len), 0);
    return in;
}

static void refused_tcp_connect_is_reported_by_on_closed(void **state)
{
    int holder;
    struct sockaddr_in in = dead_port(&holder);
    int fd;

    (void)state;
    assert_int_equal(pfl_fdsock_connect_addr((struct sockaddr *)&in, sizeof(in), &fd), 0);
    endpoint_open(&fx.a, fd, 1024, 10);
    assert_int_equal(endpoint_write(&fx.a, "hello", 5, -1), 0);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    assert_int_equal(fx.a.close_err, PFL_ECLOSED);
    assert_int_equal(fx.a.close_errno, ECONNREFUSED);
    close(holder);
}

static void write_before_a_tcp_connect_is_done_arrives(void **state)
{
    int holder;
    struct sockaddr_in in = dead_port(&holder);
    int fd;

    (void)state;
    assert_int_equal(listen(holder, 1), 0);
    assert_int_equal(pfl_fdsock_connect_addr((struct sockaddr *)&in, sizeof(in), &fd), 0);
    endpoint_open(&fx.a, fd, sizeof(pattern), 10);
    assert_int_equal(endpoint_write(&fx.a, pattern, 2000000, -1), 0);
    pfl_stream_shutdown(fx.a.stream);
    endpoint_open(&fx.b, accept(holder, NULL, NULL), 1024, 10);
    endpoint_run_until(&fx.loop, &fx.b.eofs, 1);
    assert_received(&fx.b, 2000000);
    assert_int_equal(endpoint_write(&fx.b, "x", 1, 0), PFL_EINVAL); /* no descriptors over TCP */
    close(holder);
}

static void tcp_close_after_flush_does_not_destroy_unread_bytes(void **state)
{
    int holder;
    struct sockaddr_in in = dead_port(&holder);
    int fd;

    (void)state;
    assert_int_equal(listen(holder, 1), 0);
    assert_int_equal(pfl_fdsock_connect_addr((struct sockaddr *)&in, sizeof(in), &fd), 0);
    endpoint_open(&fx.a, fd, sizeof(pattern), 10);
    endpoint_open(&fx.b, accept(holder, NULL, NULL), 1024, 10);
    fx.b.shuts_on_eof = true;
    assert_int_equal(endpoint_write(&fx.b, pattern, 1000, -1), 0); /* stays unread */
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    pfl_stream_close_after_flush(fx.a.stream, 60000);
    endpoint_run_until(&fx.loop, &fx.a.closes, 1);
    endpoint_run_until(&fx.loop, &fx.b.eofs, 1);
    assert_received(&fx.b, sizeof(pattern));
    assert_int_equal(fx.a.close_err, 0);
    close(holder);
}

static void silent_connection_costs_less_than_a_kilobyte(void **state)
{
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;

    (void)state;
    pfl_mem_stats_get(&before);
    open_one(1 << 20, 10);
    pfl_mem_stats_get(&after);
    assert_true(after.live_bytes - before.live_bytes < 1024);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fdsock_setup, fdsock_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(half_close_sends_the_queue_first_and_the_answer_still_comes),
        T(close_reports_zero_once_and_the_peer_sees_the_end),
        T(close_inside_a_callback_ends_delivery),
        T(close_when_a_descriptor_arrives_delivers_no_data),
        T(close_after_flush_sends_everything),
        T(close_after_flush_gives_up_on_a_peer_that_does_not_read),
        T(what_a_vanished_peer_had_sent_is_delivered_before_the_end),
        T(vanished_peer_frees_the_queue_of_a_stopped_reader),
        T(orderly_end_is_reported_once),
        T(opening_survives_every_failed_allocation),
        T(failed_allocation_for_the_queue_is_reported),
        T(descriptor_that_is_no_socket_is_refused),
        T(credentials_of_a_unix_peer_are_known),
        T(names_that_cannot_be_sockets_are_refused),
        T(refused_tcp_connect_is_reported_by_on_closed),
        T(write_before_a_tcp_connect_is_done_arrives),
        T(tcp_close_after_flush_does_not_destroy_unread_bytes),
        T(silent_connection_costs_less_than_a_kilobyte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
