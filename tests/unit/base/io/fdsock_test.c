/* SPDX-License-Identifier: Apache-2.0 */
/* Plain streams over socket pairs: bytes, descriptors, limits. */
#include "base/io/fdsock.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "tests/support/emulator.h"
#include "tests/unit/base/io/fdsock_fixture.h"

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

    pfl_closer_wait();
    for (int fd = 0; fd < 200; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void several_descriptors_in_one_message_break_the_stream(void **state)
{
    static const size_t counts[] = {2, 4, 8};

    (void)state;
    if (pfl_is_emulated())
        skip(); /* qemu-user leaves descriptors open that it cuts off */
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

#define T(f) cmocka_unit_test_setup_teardown(f, fdsock_setup, fdsock_teardown)

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
