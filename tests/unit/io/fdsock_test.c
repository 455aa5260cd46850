/* SPDX-License-Identifier: Apache-2.0 */
/* Plain streams over socket pairs: bytes, descriptors, limits, half-close, ends. */
#include "base/io/fdsock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/io/endpoint.h"

struct fixture {
    uv_loop_t loop;
    struct endpoint a;
    struct endpoint b;
    int raw; /* the peer of `a` when there is no `b`; -1 when closed */
};

static struct fixture fx;
static uint8_t pattern[3 * 1024 * 1024];

static int setup(void **state)
{
    *state = &fx;
    memset(&fx, 0, sizeof(fx));
    fx.raw = -1;
    assert_int_equal(uv_loop_init(&fx.loop), 0);
    endpoint_init(&fx.a, &fx.loop);
    endpoint_init(&fx.b, &fx.loop);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    endpoint_close(&fx.a);
    endpoint_close(&fx.b);
    if (fx.raw >= 0)
        close(fx.raw);
    endpoint_fini(&fx.a);
    endpoint_fini(&fx.b);
    endpoint_end_loop(&fx.loop);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void open_both(size_t max, size_t low)
{
    int sv[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    endpoint_open(&fx.a, sv[0], max, low);
    endpoint_open(&fx.b, sv[1], max, low);
}

/* `a` on a stream, its peer a plain blocking descriptor. */
static void open_one(size_t max, size_t low)
{
    int sv[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    endpoint_open(&fx.a, sv[0], max, low);
    fx.raw = sv[1];
}

static void assert_received(struct endpoint *e, size_t len)
{
    struct pfl_span got = pfl_buf_get(&e->received);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, pattern, len);
}

static void bytes_arrive_in_order(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 1024);
    assert_int_equal(endpoint_write(&fx.a, pattern, 5, -1), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern + 5, 1000000, -1), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern + 1000005, 7, -1), 0);
    endpoint_run_until_bytes(&fx.b, 1000012);
    assert_received(&fx.b, 1000012);
    endpoint_run_ready(&fx.loop);
    assert_int_equal(pfl_stream_queued_bytes(fx.a.stream), 0);
}

static void single_bytes_arrive_in_order(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 1024);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(endpoint_write(&fx.a, pattern + i, 1, -1), 0);
    endpoint_run_until_bytes(&fx.b, 5000);
    assert_received(&fx.b, 5000);
}

static void more_pieces_than_one_sendmsg_takes_arrive(void **state)
{
    static struct iovec iov[3 * IOV_MAX + 17];
    size_t n = sizeof(iov) / sizeof(iov[0]);
    size_t pos = 0;

    (void)state;
    open_both(sizeof(pattern), 1024);
    for (size_t i = 0; i < n; i++) {
        iov[i] = (struct iovec){.iov_base = pattern + pos, .iov_len = i % 300};
        pos += i % 300;
    }
    assert_int_equal(pfl_stream_writev(fx.a.stream, iov, (int)n, -1), 0);
    endpoint_run_until_bytes(&fx.b, pos);
    assert_received(&fx.b, pos);
}

static int make_memfd(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static void assert_memfd(int fd, const char *text)
{
    char got[64] = {0};

    assert_true(pread(fd, got, sizeof(got) - 1, 0) >= 0);
    assert_string_equal(got, text);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

static void descriptor_arrives_with_its_bytes(void **state)
{
    int fd = make_memfd("shared");

    (void)state;
    open_both(1 << 20, 1024);
    assert_int_equal(endpoint_write(&fx.a, pattern, 10, fd), 0);
    assert_true(fcntl(fd, F_GETFD) >= 0); /* still ours */
    close(fd);
    endpoint_run_until_bytes(&fx.b, 10);
    assert_int_equal(fx.b.fd_count, 1);
    assert_memfd(fx.b.fds[0], "shared");
}

static void queued_descriptor_keeps_its_place(void **state)
{
    int fd = make_memfd("queued");
    struct stat before;
    struct stat after;

    (void)state;
    open_both(sizeof(pattern), 1024);
    pfl_stream_read_stop(fx.b.stream);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000000, -1), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern + 1000000, 100, fd), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern + 1000100, 500000, -1), 0);
    assert_int_equal(fstat(fd, &before), 0);
    close(fd); /* the queue has its own */
    pfl_stream_read_start(fx.b.stream);
    endpoint_run_until_bytes(&fx.b, 1500100);
    assert_received(&fx.b, 1500100);
    assert_int_equal(fx.b.fd_count, 1);
    assert_int_equal(fstat(fx.b.fds[0], &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_true(fx.b.fd_positions[0] <= 1000000);
    assert_true(fx.b.fd_positions[0] + 128 * 1024 > 1000000);
}

static void dropped_queue_closes_its_descriptors(void **state)
{
    int pipe_fds[2];
    char byte;

    (void)state;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    open_one(sizeof(pattern), 1024);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000000, -1), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1, pipe_fds[1]), 0);
    close(pipe_fds[1]);
    endpoint_close(&fx.a);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* no writer is left */
    close(pipe_fds[0]);
}

static void too_many_queued_descriptors_are_refused(void **state)
{
    int fd = make_memfd("x");

    (void)state;
    open_one(sizeof(pattern), 1024);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000000, -1), 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(endpoint_write(&fx.a, pattern, 1, fd), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1, fd), PFL_ELIMIT);
    close(fd);
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

static int count_open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 200; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void several_descriptors_in_one_message_break_the_stream(void **state)
{
    static const size_t counts[] = {2, 4, 8};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int fds[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        int before = count_open_fds();

        open_one(1024, 10);
        send_fds(fx.raw, fds, counts[i]);
        endpoint_run_until(&fx.loop, &fx.a.closes, 1);
        assert_int_equal(fx.a.close_err, PFL_EPROTO);
        assert_int_equal(fx.a.fd_count, 0);
        assert_int_equal(fx.a.data_calls, 0);
        close(fx.raw);
        fx.raw = -1;
        assert_int_equal(count_open_fds(), before);
        fx.a.closes = 0;
    }
}

static void descriptor_without_bytes_is_refused(void **state)
{
    (void)state;
    open_one(1024, 10);
    assert_int_equal(endpoint_write(&fx.a, pattern, 0, 0), PFL_EINVAL);
}

static void write_past_the_limit_takes_nothing(void **state)
{
    size_t queued;

    (void)state;
    open_both(1000000, 1000);
    pfl_stream_read_stop(fx.b.stream);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000001, -1), PFL_ELIMIT);
    assert_int_equal(pfl_stream_queued_bytes(fx.a.stream), 0);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000000, -1), 0);
    queued = pfl_stream_queued_bytes(fx.a.stream);
    assert_true(queued > 0);
    assert_int_equal(endpoint_write(&fx.a, pattern, 1000001 - queued, -1), PFL_ELIMIT);
    assert_int_equal(pfl_stream_queued_bytes(fx.a.stream), queued);
    pfl_stream_read_start(fx.b.stream);
    endpoint_run_until_bytes(&fx.b, 1000000);
    endpoint_run_until(&fx.loop, &fx.a.writables, 1);
    endpoint_run_ready(&fx.loop);
    assert_received(&fx.b, 1000000);
    assert_int_equal(fx.a.writables, 1);
}

static void stopped_reader_holds_the_writer_back(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 1000);
    pfl_stream_read_stop(fx.b.stream);
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    endpoint_run_ready(&fx.loop);
    assert_int_equal(fx.b.data_calls, 0);
    assert_true(pfl_stream_queued_bytes(fx.a.stream) > sizeof(pattern) / 2);
    assert_int_equal(fx.a.writables, 0);
}

static void reader_that_stops_inside_data_gets_no_more(void **state)
{
    (void)state;
    open_both(sizeof(pattern), 1000);
    fx.b.stops_in_data = true;
    assert_int_equal(endpoint_write(&fx.a, pattern, sizeof(pattern), -1), 0);
    endpoint_run_ready(&fx.loop);
    assert_int_equal(fx.b.data_calls, 1);
    pfl_stream_read_start(fx.b.stream);
    endpoint_run_ready(&fx.loop);
    assert_int_equal(fx.b.data_calls, 2);
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

static void orderly_end_is_told_once(void **state)
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

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(bytes_arrive_in_order),
        T(single_bytes_arrive_in_order),
        T(more_pieces_than_one_sendmsg_takes_arrive),
        T(descriptor_arrives_with_its_bytes),
        T(queued_descriptor_keeps_its_place),
        T(dropped_queue_closes_its_descriptors),
        T(too_many_queued_descriptors_are_refused),
        T(several_descriptors_in_one_message_break_the_stream),
        T(descriptor_without_bytes_is_refused),
        T(write_past_the_limit_takes_nothing),
        T(stopped_reader_holds_the_writer_back),
        T(reader_that_stops_inside_data_gets_no_more),
        T(half_close_sends_the_queue_first_and_the_answer_still_comes),
        T(close_reports_zero_once_and_the_peer_sees_the_end),
        T(close_inside_a_callback_ends_delivery),
        T(close_when_a_descriptor_arrives_delivers_no_data),
        T(close_after_flush_sends_everything),
        T(close_after_flush_gives_up_on_a_peer_that_does_not_read),
        T(what_a_vanished_peer_had_sent_is_delivered_before_the_end),
        T(vanished_peer_frees_the_queue_of_a_stopped_reader),
        T(orderly_end_is_told_once),
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
