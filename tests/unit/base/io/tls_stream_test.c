/* SPDX-License-Identifier: Apache-2.0 */
/* TLS streams over TCP on loopback: bytes both ways, goodbyes, cuts, back-pressure, deadlines. */
#include "base/io/tls_stream.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/handshake_queue.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "base/shares.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/endpoint.h"
#include "tests/unit/base/io/pki.h"

#define LONG_MS 60000u

static uv_loop_t loop;
static struct endpoint client;
static struct endpoint server;
static int raw = -1;
static uint8_t pattern[3 * 1024 * 1024];

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

static int setup(void **state)
{
    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    endpoint_init(&client, &loop);
    endpoint_init(&server, &loop);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    endpoint_close(&client);
    endpoint_close(&server);
    if (raw >= 0)
        close(raw);
    raw = -1;
    endpoint_fini(&client);
    endpoint_fini(&server);
    endpoint_end_loop(&loop);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void open_tls(struct endpoint *e, int fd, const char *who, uint64_t timeout_ms)
{
    struct pfl_tls_conf *tls = pki_conf(who, "ca.pem", NULL, e == &server);
    struct pfl_tls_handshake handshake = {.conf = tls, .timeout_ms = timeout_ms};
    struct pfl_stream_conf conf = endpoint_conf(e, sizeof(pattern) + 65536, 1000);

    e->is_inside_call = true;
    assert_int_equal(pfl_tls_stream_open(&conf, &handshake, fd, &e->stream), 0);
    e->is_inside_call = false;
    pfl_tls_conf_unref(tls);
}

static void open_pair(const char *client_who)
{
    int fds[2];

    make_tcp_pair(fds);
    open_tls(&server, fds[1], "host-a", LONG_MS);
    open_tls(&client, fds[0], client_who, LONG_MS);
}

static void open_ready_pair(void)
{
    open_pair("operator-eve");
    endpoint_run_until(&loop, &client.readies, 1);
    endpoint_run_until(&loop, &server.readies, 1);
}

static void assert_received(struct endpoint *e, size_t len)
{
    struct pfl_span got = pfl_buf_get(&e->received);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, pattern, len);
}

static struct pfl_tls_conf *make_joining_conf(void)
{
    const struct pfl_tls_files files = {.ca_path = pki_path("ca.pem"),
                                        .cert_path = pki_path("host-a.pem"),
                                        .key_path = pki_path("host-a.key"),
                                        .is_server = true,
                                        .is_enrolling = true};
    struct pfl_tls_conf *conf = NULL;
    char why[256];

    assert_int_equal(pfl_tls_conf_new(&files, why, sizeof(why), &conf), 0);
    return conf;
}

/* The server's connection has turns; its peer shows no certificate, or that of eve. */
static struct pfl_handshake_queue *open_pair_with_turns(struct pfl_tls_conf *conf)
{
    struct pfl_stream_conf stream = endpoint_conf(&server, sizeof(pattern) + 65536, 1000);
    struct pfl_tls_handshake handshake = {.conf = conf, .timeout_ms = LONG_MS};
    int fds[2];

    assert_int_equal(pfl_handshake_queue_open(&loop, 10, 0, &handshake.queue), 0);
    make_tcp_pair(fds);
    server.is_inside_call = true;
    assert_int_equal(pfl_tls_stream_open(&stream, &handshake, fds[1], &server.stream), 0);
    server.is_inside_call = false;
    pfl_tls_conf_unref(conf);
    open_tls(&client, fds[0], "operator-eve", LONG_MS);
    endpoint_run_until(&loop, &client.readies, 1);
    endpoint_run_until(&loop, &server.readies, 1);
    return handshake.queue;
}

/* Another connection of this peer took a hundred parts of a turn. */
static void owe_turns(struct pfl_handshake_queue *queue, const char *uri)
{
    struct pfl_input_turn hog = {.who = 0};

    pfl_input_turn_join(&hog, pfl_handshake_queue_get_turns(queue),
                        pfl_shares_hash(uri, strlen(uri)));
    hog.since_ns -= 100 * (uint64_t)PFL_INPUT_TURN_NS; /* it took so long */
    pfl_input_turn_end(&hog);
    pfl_input_turn_leave(&hog);
}

static void assert_waits_for_turns_of(const char *uri, struct pfl_tls_conf *conf)
{
    struct pfl_handshake_queue *queue = open_pair_with_turns(conf);

    owe_turns(queue, uri);
    assert_int_equal(endpoint_write(&client, pattern, 1000, -1), 0);
    for (int i = 0; i < 50; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(server.received_bytes, 0);
    }
    endpoint_run_until_bytes(&server, 1000);
    pfl_handshake_queue_close(queue);
    endpoint_close(&client);
    endpoint_close(&server);
}

static void connections_of_a_certificate_share_a_part(void **state)
{
    (void)state;
    assert_waits_for_turns_of("perfleet://lab/operator/eve",
                              pki_conf("host-a", "ca.pem", NULL, true));
}

static void those_without_a_certificate_share_a_part(void **state)
{
    (void)state;
    assert_waits_for_turns_of("", make_joining_conf());
}

static void who_had_his_part_is_told_when_he_may_go_on(void **state)
{
    struct pfl_handshake_queue *queue =
        open_pair_with_turns(pki_conf("host-a", "ca.pem", NULL, true));

    (void)state;
    assert_true(pfl_stream_may_go_on(server.stream));
    owe_turns(queue, "perfleet://lab/operator/eve");
    assert_false(pfl_stream_may_go_on(server.stream));
    for (int i = 0; i < 50; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(server.writables, 0);
    }
    endpoint_run_until(&loop, &server.writables, 1);
    assert_int_equal(server.writables, 1);
    pfl_handshake_queue_close(queue);
}

static void what_is_sent_is_of_the_part(void **state)
{
    struct pfl_handshake_queue *queue =
        open_pair_with_turns(pki_conf("host-a", "ca.pem", NULL, true));
    unsigned written = 0;

    (void)state;
    /* Where the machine is fast, in several turns; the client reads. */
    client.drops_data = true;
    for (; written < 100000 && pfl_stream_may_go_on(server.stream); written++) {
        if (endpoint_write(&server, pattern, 100000, -1) != 0)
            (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_in_range(written, 1, 99999);
    endpoint_run_until(&loop, &server.writables, 1);
    pfl_handshake_queue_close(queue);
}

static void bytes_arrive_both_ways(void **state)
{
    (void)state;
    open_ready_pair();
    assert_string_equal(pfl_tls_stream_get_identity(server.stream)->uri,
                        "perfleet://lab/operator/eve");
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    assert_int_equal(endpoint_write(&server, pattern, 100000, -1), 0);
    endpoint_run_until_bytes(&server, sizeof(pattern));
    endpoint_run_until_bytes(&client, 100000);
    assert_received(&server, sizeof(pattern));
    assert_received(&client, 100000);
    assert_string_equal(pfl_tls_stream_get_error(client.stream), "");
}

static void many_small_pieces_are_joined(void **state)
{
    static struct iovec iov[5000];
    size_t pos = 0;

    (void)state;
    open_ready_pair();
    for (size_t i = 0; i < 5000; i++) {
        iov[i] = (struct iovec){.iov_base = pattern + pos, .iov_len = i % 100};
        pos += i % 100;
    }
    assert_int_equal(pfl_stream_writev(client.stream, iov, 5000, -1), 0);
    endpoint_run_until_bytes(&server, pos);
    assert_received(&server, pos);
}

static void writing_before_ready_and_descriptors_are_refused(void **state)
{
    (void)state;
    open_pair("operator-eve");
    assert_int_equal(endpoint_write(&client, "x", 1, -1), PFL_ESTATE);
    endpoint_run_until(&loop, &client.readies, 1);
    assert_int_equal(endpoint_write(&client, "x", 1, 0), PFL_EINVAL);
}

static void write_past_the_limit_takes_nothing(void **state)
{
    size_t queued;

    (void)state;
    open_ready_pair();
    pfl_stream_read_stop(server.stream);
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    while (endpoint_write(&client, pattern, 100000, -1) == 0)
        continue;
    queued = pfl_stream_queued_bytes(client.stream);
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), PFL_ELIMIT);
    assert_int_equal(pfl_stream_queued_bytes(client.stream), queued);
    server.drops_data = true;
    pfl_stream_read_start(server.stream);
    endpoint_run_until(&loop, &client.writables, 1);
}

static void stopped_reader_gets_nothing_and_later_everything(void **state)
{
    (void)state;
    open_ready_pair();
    pfl_stream_read_stop(server.stream);
    assert_int_equal(endpoint_write(&client, pattern, 2000000, -1), 0);
    pfl_stream_shutdown(client.stream);
    endpoint_run_ready(&loop);
    assert_int_equal(server.data_calls, 0);
    assert_int_equal(server.eofs, 0);
    pfl_stream_read_start(server.stream);
    endpoint_run_until(&loop, &server.eofs, 1);
    assert_received(&server, 2000000);
}

static void reader_that_stops_in_every_callback_loses_nothing(void **state)
{
    (void)state;
    open_pair("operator-eve");
    server.stops_in_ready = true;
    server.stops_in_data = true;
    endpoint_run_until(&loop, &client.readies, 1);
    assert_int_equal(endpoint_write(&client, pattern, 1000000, -1), 0);
    pfl_stream_shutdown(client.stream);
    endpoint_run_until(&loop, &server.readies, 1);
    endpoint_run_ready(&loop);
    assert_int_equal(server.data_calls, 0);
    while (server.eofs == 0) {
        unsigned calls = server.data_calls;

        pfl_stream_read_start(server.stream);
        (void)uv_run(&loop, UV_RUN_NOWAIT); /* a round may stop all reading: do not wait in it */
        assert_true(server.data_calls <= calls + 1);
    }
    assert_received(&server, 1000000);
}

static void half_close_says_goodbye_and_the_answer_still_comes(void **state)
{
    (void)state;
    open_ready_pair();
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    pfl_stream_shutdown(client.stream);
    assert_int_equal(endpoint_write(&client, "x", 1, -1), PFL_ESTATE);
    endpoint_run_until(&loop, &server.eofs, 1);
    assert_received(&server, sizeof(pattern));
    assert_int_equal(endpoint_write(&server, pattern, 2000000, -1), 0);
    endpoint_run_until_bytes(&client, 2000000);
    assert_received(&client, 2000000);
    assert_int_equal(client.eofs, 0);
    assert_int_equal(server.closes, 0);
}

static void close_after_flush_sends_everything_and_a_goodbye(void **state)
{
    (void)state;
    open_ready_pair();
    server.shuts_on_eof = true;
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    pfl_stream_close_after_flush(client.stream, LONG_MS);
    endpoint_run_until(&loop, &server.eofs, 1);
    endpoint_run_until(&loop, &client.closes, 1);
    assert_received(&server, sizeof(pattern));
    assert_int_equal(client.close_err, 0);
}

static void close_after_flush_tells_when_something_was_left(void **state)
{
    (void)state;
    open_ready_pair();
    pfl_stream_read_stop(server.stream);
    while (pfl_stream_queued_bytes(client.stream) == 0)
        assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    pfl_stream_close_after_flush(client.stream, 1);
    endpoint_run_until(&loop, &client.closes, 1);
    assert_int_equal(client.close_err, PFL_ETIMEOUT);
}

static void connection_cut_without_goodbye_is_an_error(void **state)
{
    (void)state;
    open_ready_pair();
    assert_int_equal(endpoint_write(&client, pattern, 1000, -1), 0);
    pfl_stream_close(client.stream);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.eofs, 0);
    assert_int_equal(server.close_err, PFL_ECLOSED);
}

static void silent_peer_meets_the_handshake_deadline(void **state)
{
    int fds[2];

    (void)state;
    make_tcp_pair(fds);
    raw = fds[0];
    open_tls(&server, fds[1], "host-a", 1);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.close_err, PFL_ETIMEOUT);
    assert_int_equal(server.readies, 0);
}

static void handshake_that_a_busy_loop_has_not_read_yet_is_not_late(void **state)
{
    uint64_t begin_ns;
    int fds[2];

    (void)state;
    make_tcp_pair(fds);
    open_tls(&server, fds[1], "host-a", 300);
    open_tls(&client, fds[0], "operator-eve", LONG_MS);
    begin_ns = uv_hrtime();
    while (uv_hrtime() - begin_ns < 320000000)
        continue; /* the client's first flight is there; the deadline passes unread */
    endpoint_run_until(&loop, &server.readies, 1);
    assert_int_equal(server.closes, 0);
}

static void peer_that_leaves_during_the_handshake_is_reported(void **state)
{
    int fds[2];

    (void)state;
    make_tcp_pair(fds);
    open_tls(&server, fds[1], "host-a", LONG_MS);
    close(fds[0]);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.close_err, PFL_ECLOSED);
}

static void garbage_breaks_the_stream(void **state)
{
    int fds[2];

    (void)state;
    make_tcp_pair(fds);
    raw = fds[0];
    open_tls(&server, fds[1], "host-a", LONG_MS);
    assert_int_equal(write(raw, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    assert_int_equal(shutdown(raw, SHUT_WR), 0);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.close_err, PFL_ETLS);
}

static void refused_client_hears_the_alert(void **state)
{
    (void)state;
    open_pair("operator-old");
    endpoint_run_until(&loop, &server.closes, 1);
    endpoint_run_until(&loop, &client.closes, 1);
    assert_int_equal(server.close_err, PFL_ETLS);
    assert_int_equal(client.close_err, PFL_ETLS);
    assert_int_equal(server.readies, 0);
}

static void close_is_legal_during_the_handshake(void **state)
{
    (void)state;
    open_pair("operator-eve");
    pfl_stream_close(client.stream);
    pfl_stream_shutdown(client.stream);
    pfl_stream_close(client.stream);
    endpoint_run_until(&loop, &client.closes, 1);
    assert_int_equal(client.close_err, 0);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.close_err, PFL_ECLOSED);
}

static void close_inside_data_is_the_last_delivery(void **state)
{
    (void)state;
    open_ready_pair();
    server.closes_in_data = true;
    assert_int_equal(endpoint_write(&client, pattern, sizeof(pattern), -1), 0);
    endpoint_run_until(&loop, &server.closes, 1);
    assert_int_equal(server.data_calls, 1);
    endpoint_run_until(&loop, &client.closes, 1);
    assert_int_not_equal(client.close_err, 0);
}

static void silent_connection_keeps_no_record_buffers(void **state)
{
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;
    int fds[2];

    (void)state;
    make_tcp_pair(fds);
    raw = fds[0];
    pfl_mem_stats_get(&before);
    {
        struct pfl_tls_conf *tls = pki_conf("host-a", "ca.pem", NULL, true);
        struct pfl_tls_handshake handshake = {.conf = tls, .timeout_ms = LONG_MS};
        struct pfl_stream_conf conf = endpoint_conf(&server, 1 << 20, 1000);

        pfl_mem_stats_get(&before);
        assert_int_equal(pfl_tls_stream_open(&conf, &handshake, fds[1], &server.stream), 0);
        pfl_mem_stats_get(&after);
        pfl_tls_conf_unref(tls);
    }
    assert_true(after.live_bytes - before.live_bytes < 4096);
}

static struct pfl_tls_conf *sweep_conf;

static int open_body(void *arg)
{
    struct pfl_tls_handshake handshake = {
        .conf = sweep_conf, .expected_uri = "perfleet://lab/host/a", .timeout_ms = LONG_MS};
    struct pfl_stream_conf conf = endpoint_conf(&client, 1 << 20, 1000);
    int fds[2];
    int rc;

    (void)arg;
    make_tcp_pair(fds);
    rc = pfl_tls_stream_open(&conf, &handshake, fds[0], &client.stream);
    if (rc != 0)
        close(fds[0]);
    client.closes = 0;
    endpoint_close(&client);
    close(fds[1]);
    return rc;
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    sweep_conf = pki_conf("operator-eve", "ca.pem", NULL, false);
    pfl_sweep(open_body, NULL, false);
    pfl_tls_conf_unref(sweep_conf);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(connections_of_a_certificate_share_a_part),
        T(who_had_his_part_is_told_when_he_may_go_on),
        T(what_is_sent_is_of_the_part),
        T(those_without_a_certificate_share_a_part),
        T(bytes_arrive_both_ways),
        T(many_small_pieces_are_joined),
        T(writing_before_ready_and_descriptors_are_refused),
        T(write_past_the_limit_takes_nothing),
        T(stopped_reader_gets_nothing_and_later_everything),
        T(reader_that_stops_in_every_callback_loses_nothing),
        T(half_close_says_goodbye_and_the_answer_still_comes),
        T(close_after_flush_sends_everything_and_a_goodbye),
        T(close_after_flush_tells_when_something_was_left),
        T(connection_cut_without_goodbye_is_an_error),
        T(silent_peer_meets_the_handshake_deadline),
        T(handshake_that_a_busy_loop_has_not_read_yet_is_not_late),
        T(peer_that_leaves_during_the_handshake_is_reported),
        T(garbage_breaks_the_stream),
        T(refused_client_hears_the_alert),
        T(close_is_legal_during_the_handshake),
        T(close_inside_data_is_the_last_delivery),
        T(silent_connection_keeps_no_record_buffers),
        T(opening_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
