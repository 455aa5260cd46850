/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes of many clients on one loop take turns, wait, and are closed. */
#include "base/io/handshake_queue.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/io/tls_stream.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/endpoint.h"
#include "tests/unit/base/io/pki.h"

#define PAIRS   12
#define LONG_MS 60000u

static uv_loop_t loop;
static struct endpoint clients[PAIRS];
static struct endpoint servers[PAIRS];
static struct pfl_handshake_queue *queue;
static struct pfl_tls_conf *client_conf;
static struct pfl_tls_conf *server_conf;
static uint8_t noise[40000];

static int setup(void **state)
{
    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    for (int i = 0; i < PAIRS; i++) {
        endpoint_init(&clients[i], &loop);
        endpoint_init(&servers[i], &loop);
    }
    client_conf = pki_conf("operator-eve", "ca.pem", NULL, false);
    server_conf = pki_conf("host-a", "ca.pem", NULL, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_handshake_queue_close(queue); /* before its streams end */
    queue = NULL;
    for (int i = 0; i < PAIRS; i++) {
        endpoint_close(&clients[i]);
        endpoint_close(&servers[i]);
        endpoint_fini(&clients[i]);
        endpoint_fini(&servers[i]);
    }
    pfl_tls_conf_unref(client_conf);
    pfl_tls_conf_unref(server_conf);
    endpoint_end_loop(&loop);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void make_tcp_pair(int fds[2])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(listen(listener, 1), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&in, sizeof(in)), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    close(listener);
}

static int open_server(struct endpoint *e, int fd)
{
    struct pfl_tls_handshake handshake = {
        .conf = server_conf, .timeout_ms = LONG_MS, .queue = queue};
    struct pfl_stream_conf conf = endpoint_conf(e, 100000, 1000);

    return pfl_tls_stream_open(&conf, &handshake, fd, &e->stream);
}

static void open_client(struct endpoint *e, int fd)
{
    struct pfl_tls_handshake handshake = {.conf = client_conf, .timeout_ms = LONG_MS};
    struct pfl_stream_conf conf = endpoint_conf(e, 100000, 1000);

    assert_int_equal(pfl_tls_stream_open(&conf, &handshake, fd, &e->stream), 0);
}

static void open_pair(int i)
{
    int fds[2];

    make_tcp_pair(fds);
    assert_int_equal(open_server(&servers[i], fds[1]), 0);
    open_client(&clients[i], fds[0]);
}

static double figure(const char *name)
{
    struct pfl_metrics m;
    struct pfl_span text;
    char line[80];
    double value = -1;

    pfl_metrics_init(&m, 100000);
    pfl_handshake_queue_collect(queue, &m);
    assert_int_equal(pfl_metrics_get(&m, &text), 0);
    (void)snprintf(line, sizeof(line), "\n%s ", name);
    value =
        strtod((const char *)memmem(text.data, text.len, line, strlen(line)) + strlen(line), NULL);
    pfl_metrics_fini(&m);
    return value;
}

static void all_get_in_and_are_served(void **state)
{
    bool has_waited = false;

    (void)state;
    assert_int_equal(pfl_handshake_queue_open(&loop, PAIRS, 0, &queue), 0);
    for (int i = 0; i < PAIRS; i++)
        open_pair(i);
    assert_true(figure("perfleet_handshakes_unfinished") == PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        while (servers[i].readies == 0) {
            (void)uv_run(&loop, UV_RUN_ONCE);
            has_waited |= figure("perfleet_handshakes_waiting") > 0;
        }
        endpoint_run_until(&loop, &clients[i].readies, 1);
        assert_int_equal(endpoint_write(&clients[i], noise, 1000, -1), 0);
        assert_int_equal(endpoint_write(&servers[i], noise, 1000, -1), 0);
        endpoint_run_until_bytes(&servers[i], 1000);
        endpoint_run_until_bytes(&clients[i], 1000);
    }
    assert_true(has_waited);
    assert_true(figure("perfleet_handshakes_unfinished") == 0);
    assert_true(figure("perfleet_handshake_cpu_seconds_total") > 0);
}

static void the_one_that_gives_way_says_why(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pfl_handshake_queue_open(&loop, 1, 0, &queue), 0);
    make_tcp_pair(fds);
    assert_int_equal(open_server(&servers[0], fds[1]), 0);
    open_pair(1);
    assert_string_equal(pfl_tls_stream_get_error(servers[0].stream),
                        "the TLS handshake gave way to a newer one: too many are unfinished");
    endpoint_run_until(&loop, &servers[0].closes, 1);
    assert_int_equal(servers[0].close_err, PFL_ELIMIT);
    endpoint_run_until(&loop, &servers[1].readies, 1);
    close(fds[0]);
}

static void an_address_that_begins_too_often_is_refused(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pfl_handshake_queue_open(&loop, 10, 1, &queue), 0);
    open_pair(0);
    make_tcp_pair(fds);
    assert_int_equal(open_server(&servers[1], fds[1]), PFL_EAGAIN);
    close(fds[0]);
    close(fds[1]); /* still the caller's */
    assert_true(figure("perfleet_handshakes_refused_total") == 1);
    endpoint_run_until(&loop, &servers[0].readies, 1);
}

/* The first two compute in the first turns; the others wait with what they have. */
static void who_leaves_while_it_waits_is_gone_at_once(void **state)
{
    (void)state;
    assert_int_equal(pfl_handshake_queue_open(&loop, PAIRS, 0, &queue), 0);
    for (int i = 0; i < PAIRS; i++)
        open_pair(i);
    while (figure("perfleet_handshakes_waiting") == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < PAIRS; i++)
        pfl_stream_close(clients[i].stream);
    for (int i = 0; i < PAIRS; i++)
        endpoint_run_until(&loop, &servers[i].closes, 1);
    assert_true(figure("perfleet_handshakes_unfinished") == 0);
    assert_true(figure("perfleet_handshakes_waiting") == 0);
}

/* A hello is a record; who says more, and waits, holds no memory. */
static void a_hello_without_end_is_cut(void **state)
{
    static const uint8_t head[] = {22, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xff, 3, 3};
    int fds[PAIRS][2];
    unsigned cut = 0;

    (void)state;
    memcpy(noise, head, sizeof(head));
    assert_int_equal(pfl_handshake_queue_open(&loop, PAIRS, 0, &queue), 0);
    open_pair(0); /* whose step takes the turn's time */
    for (int i = 1; i < PAIRS; i++) {
        make_tcp_pair(fds[i]);
        assert_int_equal(open_server(&servers[i], fds[i][1]), 0);
        assert_true(write(fds[i][0], noise, sizeof(noise)) > 0);
    }
    for (int i = 1; i < PAIRS; i++) {
        endpoint_run_until(&loop, &servers[i].closes, 1);
        cut += servers[i].close_err == PFL_EPROTO || servers[i].close_err == PFL_ETLS;
        close(fds[i][0]);
    }
    assert_int_equal(cut, PAIRS - 1);
    endpoint_run_until(&loop, &servers[0].readies, 1);
}

static void open_and_greet(int i)
{
    open_pair(i);
    endpoint_run_until(&loop, &servers[i].readies, 1);
    endpoint_run_until(&loop, &clients[i].readies, 1);
}

static void end_pair(int i)
{
    struct endpoint *both[] = {&clients[i], &servers[i]};

    for (int n = 0; n < 2; n++) {
        endpoint_close(both[n]);
        endpoint_fini(both[n]);
        endpoint_init(both[n], &loop);
    }
}

/* As often as one certificate may connect at once, and once more. */
static void who_connects_too_often_is_served_and_counted(void **state)
{
    (void)state;
    assert_int_equal(pfl_handshake_queue_open(&loop, PAIRS, 0, &queue), 0);
    for (unsigned n = 0; n < PFL_PENDING_HANDSHAKES_OF_ONE; n++) {
        open_and_greet(0);
        end_pair(0);
    }
    while (figure("perfleet_handshakes_unrefunded_total") == 0) { /* one is filled in a second */
        end_pair(0);
        open_and_greet(0);
    }
    assert_int_equal(endpoint_write(&clients[0], noise, 1000, -1), 0);
    endpoint_run_until_bytes(&servers[0], 1000);
    assert_true(figure("perfleet_handshakes_unfinished") == 0);
    /* Nor does it need the queue any longer. */
    pfl_handshake_queue_close(queue);
    queue = NULL;
    endpoint_run_ready(&loop);
    assert_int_equal(endpoint_write(&servers[0], noise, 1000, -1), 0);
    endpoint_run_until_bytes(&clients[0], 1000);
}

static void memory_that_runs_out_leaves_nothing_behind(void **state)
{
    (void)state;
    for (unsigned n = 1; queue == NULL; n++) {
        pfl_mem_fail_at(n);
        if (pfl_handshake_queue_open(&loop, 1, 0, &queue) != 0)
            queue = NULL;
        pfl_mem_fail_at(0);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(all_get_in_and_are_served),
        T(the_one_that_gives_way_says_why),
        T(an_address_that_begins_too_often_is_refused),
        T(who_leaves_while_it_waits_is_gone_at_once),
        T(a_hello_without_end_is_cut),
        T(who_connects_too_often_is_served_and_counted),
        T(memory_that_runs_out_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
