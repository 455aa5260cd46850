/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarding over socket pairs: operator -- forward -- service, bytes, bounds and ends. */
#include "relay/direct/direct_proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/endpoint.h"

#define TOTAL_BYTES (16u * 1024 * 1024)

static uv_loop_t loop;
static struct endpoint operator_end;
static struct endpoint service_end;
static struct endpoint remote; /* the forward's own stream, before it is taken */
static struct pfl_direct_proxy *forward;
static struct pfl_direct_proxy_stats last;
static unsigned ends;
static uint8_t pattern[TOTAL_BYTES];

static void on_ended(void *user, const struct pfl_direct_proxy_stats *stats)
{
    assert_ptr_equal(user, &loop);
    last = *stats;
    ends++;
    forward = NULL;
}

static int try_open(uint64_t half_closed_timeout_ms, int service_fd)
{
    struct pfl_direct_proxy_conf conf = {
        .loop = &loop,
        .remote = remote.stream,
        .half_closed_timeout_ms = half_closed_timeout_ms,
        .on_ended = on_ended,
        .user = &loop,
    };

    return pfl_direct_proxy_new(&conf, service_fd, &forward);
}

static void open_forward(uint64_t half_closed_timeout_ms)
{
    int a[2];
    int b[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    endpoint_open(&operator_end, a[0], TOTAL_BYTES, 1000);
    endpoint_open(&remote, a[1], PFL_DIRECT_PROXY_QUEUE_BYTES, PFL_DIRECT_PROXY_LOW_BYTES);
    endpoint_open(&service_end, b[0], TOTAL_BYTES, 1000);
    assert_int_equal(try_open(half_closed_timeout_ms, b[1]), 0);
    remote.stream = NULL; /* taken */
}

static int setup(void **state)
{
    (void)state;
    ends = 0;
    forward = NULL;
    assert_int_equal(pfl_loop_init(&loop), 0);
    endpoint_init(&operator_end, &loop);
    endpoint_init(&service_end, &loop);
    endpoint_init(&remote, &loop);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (forward != NULL) {
        pfl_direct_proxy_close(forward);
        endpoint_run_until(&loop, &ends, 1);
    }
    endpoint_close(&operator_end);
    endpoint_close(&service_end);
    endpoint_close(&remote);
    endpoint_fini(&operator_end);
    endpoint_fini(&service_end);
    endpoint_fini(&remote);
    endpoint_end_loop(&loop);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void assert_received(struct endpoint *e, size_t len)
{
    struct pfl_span got = pfl_buf_get(&e->received);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, pattern, len);
}

static void bytes_go_both_ways_unchanged(void **state)
{
    (void)state;
    open_forward(60000);
    assert_int_equal(endpoint_write(&operator_end, pattern, 3, -1), 0);
    assert_int_equal(endpoint_write(&operator_end, pattern + 3, 4000000, -1), 0);
    assert_int_equal(endpoint_write(&service_end, pattern, TOTAL_BYTES, -1), 0);
    endpoint_run_until_bytes(&service_end, 4000003);
    endpoint_run_until_bytes(&operator_end, TOTAL_BYTES);
    assert_received(&service_end, 4000003);
    assert_received(&operator_end, TOTAL_BYTES);
}

static uint64_t live_bytes(void)
{
    struct pfl_mem_stats stats;

    pfl_mem_stats_get(&stats);
    return stats.live_bytes;
}

static void check_slow_reader(struct endpoint *sender, struct endpoint *reader)
{
    uint64_t before;

    open_forward(60000);
    pfl_stream_read_stop(reader->stream);
    reader->drops_data = true;
    assert_int_equal(endpoint_write(sender, pattern, TOTAL_BYTES, -1), 0);
    before = live_bytes(); /* the sender's own queue is one block and stays until all is sent */
    endpoint_run_ready(&loop);
    endpoint_run_ready(&loop);
    assert_true(pfl_stream_queued_bytes(sender->stream) > TOTAL_BYTES / 2);
    assert_in_range(live_bytes() - before, PFL_DIRECT_PROXY_HIGH_BYTES,
                    PFL_DIRECT_PROXY_QUEUE_BYTES);
    pfl_stream_read_start(reader->stream);
    endpoint_run_until_bytes(reader, TOTAL_BYTES);
}

static void slow_operator_holds_the_service_back(void **state)
{
    (void)state;
    check_slow_reader(&service_end, &operator_end);
}

static void slow_service_holds_the_operator_back(void **state)
{
    (void)state;
    check_slow_reader(&operator_end, &service_end);
}

static void slow_direction_does_not_slow_the_other(void **state)
{
    (void)state;
    open_forward(60000);
    pfl_stream_read_stop(operator_end.stream);
    assert_int_equal(endpoint_write(&service_end, pattern, TOTAL_BYTES, -1), 0);
    endpoint_run_ready(&loop);
    assert_int_equal(endpoint_write(&operator_end, pattern, TOTAL_BYTES, -1), 0);
    endpoint_run_until_bytes(&service_end, TOTAL_BYTES);
    assert_received(&service_end, TOTAL_BYTES);
    assert_int_equal(operator_end.data_calls, 0);
}

static void half_close_of_the_operator_reaches_the_service_and_the_answer_returns(void **state)
{
    (void)state;
    open_forward(60000);
    assert_int_equal(endpoint_write(&operator_end, pattern, 1000, -1), 0);
    pfl_stream_shutdown(operator_end.stream);
    endpoint_run_until(&loop, &service_end.eofs, 1);
    assert_received(&service_end, 1000);
    assert_int_equal(endpoint_write(&service_end, pattern, TOTAL_BYTES, -1), 0);
    pfl_stream_shutdown(service_end.stream);
    endpoint_run_until(&loop, &operator_end.eofs, 1);
    assert_received(&operator_end, TOTAL_BYTES);
    endpoint_run_until(&loop, &ends, 1);
    assert_int_equal(last.bytes_to_local, 1000);
    assert_int_equal(last.bytes_to_remote, TOTAL_BYTES);
    assert_int_equal(last.remote_err, 0);
    assert_int_equal(last.local_err, 0);
    assert_false(last.is_idle_end);
}

static void half_close_of_the_service_reaches_the_operator(void **state)
{
    (void)state;
    open_forward(60000);
    assert_int_equal(endpoint_write(&service_end, pattern, 5000, -1), 0);
    pfl_stream_shutdown(service_end.stream);
    endpoint_run_until(&loop, &operator_end.eofs, 1);
    assert_received(&operator_end, 5000);
    assert_int_equal(ends, 0);
    assert_int_equal(endpoint_write(&operator_end, pattern, 7000, -1), 0);
    endpoint_run_until_bytes(&service_end, 7000);
    assert_received(&service_end, 7000);
}

static void vanished_operator_ends_the_service_side(void **state)
{
    (void)state;
    open_forward(1);
    assert_int_equal(endpoint_write(&operator_end, pattern, 1000, -1), 0);
    endpoint_run_until_bytes(&service_end, 1000);
    endpoint_close(&operator_end);
    endpoint_run_until(&loop, &service_end.eofs, 1);
    endpoint_run_until(&loop, &ends, 1);
}

static void vanished_service_delivers_what_it_had_sent(void **state)
{
    (void)state;
    open_forward(60000);
    pfl_stream_read_stop(operator_end.stream);
    assert_int_equal(endpoint_write(&service_end, pattern, 700000, -1), 0);
    pfl_stream_close_after_flush(service_end.stream, 60000);
    endpoint_run_ready(&loop);
    pfl_stream_read_start(operator_end.stream);
    endpoint_run_until(&loop, &operator_end.eofs, 1);
    assert_received(&operator_end, 700000);
}

static void half_closed_and_quiet_is_ended(void **state)
{
    (void)state;
    open_forward(5);
    pfl_stream_shutdown(operator_end.stream);
    endpoint_run_until(&loop, &ends, 1);
    assert_true(last.is_idle_end);
    endpoint_run_until(&loop, &operator_end.eofs, 1);
}

static void quiet_connection_that_nobody_ended_stays(void **state)
{
    (void)state;
    open_forward(1);
    endpoint_run_ready(&loop);
    assert_int_equal(ends, 0);
    assert_int_equal(uv_backend_timeout(&loop), -1); /* no timer runs */
}

static void close_ends_both_sides_in_every_state(void **state)
{
    (void)state;
    open_forward(60000);
    pfl_stream_read_stop(operator_end.stream);
    assert_int_equal(endpoint_write(&service_end, pattern, TOTAL_BYTES, -1), 0);
    endpoint_run_ready(&loop);
    pfl_stream_shutdown(operator_end.stream);
    endpoint_run_ready(&loop);
    pfl_direct_proxy_close(forward);
    pfl_direct_proxy_close(forward);
    assert_int_equal(ends, 0);
    endpoint_run_until(&loop, &ends, 1);
}

static int sweep_body(void *arg)
{
    int a[2];
    int b[2];
    int rc;

    (void)arg;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    {
        struct pfl_stream_conf conf =
            endpoint_conf(&remote, PFL_DIRECT_PROXY_QUEUE_BYTES, PFL_DIRECT_PROXY_LOW_BYTES);

        remote.closes = 0;
        rc = pfl_fdsock_open(&conf, a[0], &remote.stream);
    }
    if (rc != 0)
        close(a[0]);
    else
        rc = try_open(60000, b[0]);
    if (rc != 0) {
        close(b[0]);
        endpoint_close(&remote); /* still ours */
    } else {
        remote.stream = NULL;
        ends = 0;
        pfl_direct_proxy_close(forward);
        endpoint_run_until(&loop, &ends, 1);
    }
    close(a[1]);
    close(b[1]);
    return rc;
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(bytes_go_both_ways_unchanged),
        T(slow_operator_holds_the_service_back),
        T(slow_service_holds_the_operator_back),
        T(slow_direction_does_not_slow_the_other),
        T(half_close_of_the_operator_reaches_the_service_and_the_answer_returns),
        T(half_close_of_the_service_reaches_the_operator),
        T(vanished_operator_ends_the_service_side),
        T(vanished_service_delivers_what_it_had_sent),
        T(half_closed_and_quiet_is_ended),
        T(quiet_connection_that_nobody_ended_stays),
        T(close_ends_both_sides_in_every_state),
        T(opening_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
