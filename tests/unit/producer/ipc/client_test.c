/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library against a service that the test plays: sessions, flushes, deaths. */
#include "tests/unit/producer/client_fixture.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/platform/heap.h"

#define LINGER_S 20

static void a_session_is_set_up_started_flushed_and_stopped(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x08, 99, 0x10, 7, 0x18, 0x22};
    static const uint8_t clear[] = {0x0a, 1, 11}; /* packed */
    static const uint8_t stop[] = {0x08, 11};
    struct client_fixture f;
    struct pfl_span args;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_int_equal(perfleet_active(f.source), 1);
    assert_memory_equal(f.seen.config, client_config, sizeof(client_config));
    assert_int_equal(f.seen.setups, 1);
    assert_int_equal(f.seen.starts, 1);

    f.seen.writes_in_callbacks = true;
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    assert_int_equal(f.service.chunks, 1); /* what the callback wrote came before the answer */
    assert_int_equal(f.seen.flush_flags, 0x22);

    assert_int_equal(client_write_packets(&f, 10), 10);
    fake_command(&f.service, 7, pfl_span_of(clear, sizeof(clear)));
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    args = fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    assert_int_equal(args.data[1], 11);
    assert_int_equal(f.seen.clears, 1);
    assert_int_equal(f.seen.stops, 1);
    assert_int_equal(perfleet_active(f.source), 0);
    assert_int_equal(client_write_packets(&f, 10), 0);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop))); /* again: still answered */
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    client_close_fixture(&f);
}

static void an_asynchronous_stop_waits_for_the_program(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, PERFLEET_ASYNC_STOP);
    client_start_session(&f);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS); /* and no NotifyDataSourceStopped */
    perfleet_stop_done(f.source, 0);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    assert_int_equal(f.seen.stops, 1);
    client_close_fixture(&f);
}

static void triggers_arrive_in_their_order(void **state)
{
    static const uint8_t clear[] = {0x08, 11};
    struct client_fixture f;
    struct pfl_span args;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    f.seen.triggers_in_clear = f.tracing;
    client_start_session(&f);
    fake_command(&f.service, 7, pfl_span_of(clear, sizeof(clear)));
    args = fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
    assert_memory_equal(args.data + 2, "first", 5);
    args = fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
    assert_memory_equal(args.data + 2, "second", 6);
    client_close_fixture(&f);
}

static void a_callback_that_waits_may_hand_over_what_is_finished(void **state)
{
    static const uint8_t clear[] = {0x08, 11};
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    f.seen.commits_in_clear = f.tracing;
    fake_command(&f.service, 7, pfl_span_of(clear, sizeof(clear)));
    fake_take_packets(&f.service, 1);
    assert_int_equal(f.seen.clears, 0); /* it is still waiting */
    atomic_store(&f.seen.is_released, true);
    client_close_fixture(&f);
    assert_int_equal(f.seen.clears, 1);
}

static void a_stop_done_that_nothing_waits_for_ends_no_later_stop(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, PERFLEET_ASYNC_STOP);
    client_start_session(&f);
    perfleet_stop_done(f.source, 0);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    while (f.seen.stops == 0)
        usleep(100);
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS); /* and no NotifyDataSourceStopped */
    perfleet_stop_done(f.source, 0);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    client_close_fixture(&f);
}

/* One session ends while another is flushed: the stop's answer must not use up the wake-up. */
static void a_flush_that_comes_together_with_a_stop_is_answered(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    static const uint8_t flush[] = {0x08, 12, 0x10, 7};
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    fake_instance_command(&f.service, 1, 12, pfl_span_of(client_config, sizeof(client_config)));
    fake_expect(&f.service, FAKE_NOTIFY_STARTED);
    fake_hold(&f.service);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_release(&f.service);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    client_close_fixture(&f);
}

static uint64_t cpu_us(void)
{
    struct rusage u;

    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void a_service_that_does_not_read_costs_no_cpu(void **state)
{
    enum { WATCHED_MS = 300, TRIGGERS = 3000 };
    struct perfleet_writer *w = NULL;
    struct client_fixture f;
    char name[201];
    uint64_t before;

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    fake_listen(&f.service);
    client_batch_ms = WATCHED_MS / 3;
    client_open_fixture(&f, 0);
    client_batch_ms = 1;
    client_start_session(&f);
    assert_int_equal(perfleet_writer_open(f.source, 0, &w), 0);
    perfleet_packet_begin(w);
    perfleet_uint(w, 8, 1);
    perfleet_packet_end(w);
    perfleet_writer_flush(w);                 /* the timer of a batch runs */
    for (uint32_t sent = 0; sent < TRIGGERS;) /* far more than the socket holds */
        sent += perfleet_trigger(f.tracing, name) == 0;
    before = cpu_us();
    poll(NULL, 0, WATCHED_MS);
    assert_true(cpu_us() - before < WATCHED_MS * 1000 / 4);
    for (uint32_t got = 0; got < TRIGGERS; got++) {
        fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
        if (f.service.chunks != 0)
            break;
    }
    perfleet_writer_close(w);
    fake_hang_up(&f.service);
    client_close_fixture(&f);
}

enum { FLOOD_THREADS = 3, FLOOD_PACKETS = 1000 };

static void *write_flood(void *arg)
{
    struct client_fixture *f = arg;
    struct perfleet_writer_stats stats = {0};
    struct perfleet_writer *w;
    uint8_t bytes[1000] = {0};

    for (int i = 0; i < FLOOD_PACKETS; i++) {
        PERFLEET_TRACE(f->source, w)
        {
            perfleet_packet_begin(w);
            perfleet_bytes(w, 900, bytes, sizeof(bytes));
            perfleet_packet_end(w);
        }
    }
    PERFLEET_TRACE(f->source, w)
    {
        perfleet_writer_flush(w);
        perfleet_writer_stats_get(w, &stats);
    }
    assert_int_equal(stats.dropped, 0);
    return (void *)(uintptr_t)stats.chunks;
}

static void *flood_and_sync(void *arg)
{
    struct client_fixture *f = arg;
    pthread_t threads[FLOOD_THREADS];
    uintptr_t chunks = 0;

    for (int i = 0; i < FLOOD_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_flood, f), 0);
    for (int i = 0; i < FLOOD_THREADS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        chunks += (uintptr_t)result;
    }
    assert_int_equal(perfleet_sync(f->tracing, 10000), 0);
    return (void *)chunks;
}

/* Writers and the library's thread commit by turns on one socket. */
static void every_chunk_of_threads_that_commit_themselves_is_reported_once(void **state)
{
    struct client_fixture f;
    pthread_t thread;
    void *chunks;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_int_equal(pthread_create(&thread, NULL, flood_and_sync, &f), 0);
    fake_expect(&f.service, FAKE_SYNC);
    fake_reply(&f.service, pfl_span_of(NULL, 0));
    pthread_join(thread, &chunks);
    assert_in_range((uintptr_t)chunks, FLOOD_THREADS * FLOOD_PACKETS / 5, UINTPTR_MAX);
    assert_int_equal(f.service.chunks, (uintptr_t)chunks);
    client_close_fixture(&f);
}

static void a_service_that_dies_and_comes_back_gets_everything_anew(void **state)
{
    struct perfleet_writer *old = NULL;
    struct perfleet_writer_stats stats;
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_int_equal(client_write_packets(&f, 100), 100);
    assert_int_equal(perfleet_writer_open(f.source, 0, &old), 0);
    fake_hang_up(&f.service);
    while (perfleet_active(f.source) != 0)
        usleep(100); /* not a guess at a duration: waits for the state */
    assert_int_equal(client_write_packets(&f, 100), 0);
    for (int i = 0; i < 100; i++) { /* into the void, not into a fault */
        perfleet_packet_begin(old);
        perfleet_bytes(old, 1, client_config, sizeof(client_config));
        perfleet_packet_end(old);
    }
    perfleet_writer_stats_get(old, &stats);
    assert_int_equal(stats.dropped, 100);
    assert_int_equal(perfleet_sync(f.tracing, 1), PERFLEET_EGONE);
    client_start_session(&f);
    assert_int_equal(f.seen.stops, 1);
    assert_int_equal(f.seen.starts, 2);
    assert_int_equal(client_write_packets(&f, 100), 100);
    perfleet_writer_close(old);
    client_close_fixture(&f);
}

static void a_service_that_lacks_methods_is_served_without_them(void **state)
{
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    f.service.lacks = 1u << FAKE_SYNC | 1u << FAKE_NOTIFY_STARTED |
                      1u << FAKE_REGISTER_TRACE_WRITER | 1u << FAKE_UNREGISTER_TRACE_WRITER |
                      1u << FAKE_ACTIVATE_TRIGGERS;
    client_open_fixture(&f, 0);
    client_start_session(&f);
    while (perfleet_active(f.source) == 0)
        usleep(100);
    assert_int_equal(client_write_packets(&f, 3), 3);
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    assert_int_equal(perfleet_sync(f.tracing, 10000), 0);
    client_close_fixture(&f);
}

static void malformed_commands_cost_the_connection_and_nothing_else(void **state)
{
    static const uint8_t broken[] = {0x08};
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    fake_command(&f.service, 5, pfl_span_of(broken, sizeof(broken)));
    while (perfleet_is_connected(f.tracing))
        usleep(100);
    fake_hang_up(&f.service);
    client_start_session(&f);
    assert_int_equal(client_write_packets(&f, 1), 1);
    client_close_fixture(&f);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A TCP socket with unsent data, whose last close waits for LINGER_S. */
static int make_lingering(int *ret_peer)
{
    static const char data[65536];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    *ret_peer = accept(listener, NULL, NULL);
    (void)close(listener);
    while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}

static void descriptors_whose_close_takes_long_do_not_hold_the_library(void **state)
{
    static const uint8_t nothing[] = {0x08, 0x01};
    struct client_fixture f;
    double begin;
    int peers[3];

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    for (size_t i = 0; i < 3; i++) {
        int fd = make_lingering(&peers[i]);

        fake_send(&f.service, pfl_span_of(nothing, sizeof(nothing)), fd);
        (void)close(fd);
    }
    begin = now_s();
    assert_int_equal(client_write_packets(&f, 1), 1);
    client_close_fixture(&f); /* the last of them is still the connection's */
    assert_true(now_s() - begin < LINGER_S / 2.0);
    for (size_t i = 0; i < 3; i++)
        (void)close(peers[i]);
}

/* A byte that a reader who does not ask for it passes over, with what came with it. */
static void send_out_of_band(struct fake_service *service, uint8_t byte, int fd)
{
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};

    CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
    CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
    CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(int));
    assert_int_equal(sendmsg(service->fd, &msg, MSG_NOSIGNAL | MSG_OOB), 1);
}

/* Frames of no bytes, whose last byte comes with the descriptor. */
static void descriptors_out_of_band_do_not_hold_the_library(void **state)
{
    static const uint8_t first[3];
    struct client_fixture f;
    double begin;
    int peers[3];

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    begin = now_s();
    for (size_t i = 0; i < 3; i++) {
        int fd = make_lingering(&peers[i]);

        assert_int_equal(send(f.service.fd, first, sizeof(first), MSG_NOSIGNAL), sizeof(first));
        send_out_of_band(&f.service, 0, fd);
        (void)close(fd);
        assert_int_equal(client_write_packets(&f, 1), 1);
    }
    client_close_fixture(&f);
    assert_true(now_s() - begin < LINGER_S / 2.0);
    for (size_t i = 0; i < 3; i++)
        (void)close(peers[i]);
}

static void more_sessions_than_instances_are_answered_too(void **state)
{
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    for (uint64_t id = 12; id < 30; id++) {
        uint8_t stop[] = {0x08, (uint8_t)id};

        fake_instance_command(&f.service, 1, id, pfl_span_of(client_config, sizeof(client_config)));
        fake_expect(&f.service, FAKE_NOTIFY_STARTED);
        if (id >= 20) {
            fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
            fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
        }
    }
    assert_int_equal(f.seen.starts, PERFLEET_MAX_INSTANCES);
    assert_int_equal(perfleet_active(f.source), 0xff);
    assert_int_equal(client_write_packets(&f, 1), PERFLEET_MAX_INSTANCES);
    assert_int_equal(perfleet_unregister(f.tracing, f.source), 0);
    fake_expect(&f.service, FAKE_UNREGISTER_DATA_SOURCE);
    assert_int_equal(f.seen.stops, PERFLEET_MAX_INSTANCES);
    client_close_fixture(&f);
}

static void wrong_arguments_are_refused(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester"};
    struct perfleet_source_conf source = {.name = "com.test"};
    struct perfleet *tracing = NULL;
    struct perfleet_source *s = NULL;
    static const char *const sockets[] = {""};
    char name[300];

    (void)state;
    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        conf.socket = sockets[i];
        assert_int_equal(perfleet_open(&conf, &tracing), PERFLEET_EINVAL);
    }
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    conf.socket = name;
    assert_int_equal(perfleet_open(&conf, &tracing), PERFLEET_EINVAL);
    conf.socket = "@perfleet-nobody-listens";
    conf.producer_name = "";
    assert_int_equal(perfleet_open(&conf, &tracing), PERFLEET_EINVAL);
    conf.producer_name = "tester";
    assert_int_equal(perfleet_open(&conf, &tracing), 0);
    assert_int_equal(perfleet_wait_connected(tracing, 1), PERFLEET_ETIMEOUT);
    assert_int_equal(perfleet_register(tracing, &source, &s), 0);
    assert_int_equal(perfleet_register(tracing, &source, &s), PERFLEET_EEXIST);
    source.name = "";
    assert_int_equal(perfleet_register(tracing, &source, &s), PERFLEET_EINVAL);
    source.name = name;
    assert_int_equal(perfleet_register(tracing, &source, &s), PERFLEET_EINVAL);
    for (uint32_t i = 1; i < PERFLEET_MAX_SOURCES; i++) {
        name[1] = (char)('A' + i);
        name[2] = '\0';
        assert_int_equal(perfleet_register(tracing, &source, &s), 0);
    }
    name[1] = '!';
    assert_int_equal(perfleet_register(tracing, &source, &s), PERFLEET_ELIMIT);
    assert_int_equal(perfleet_trigger(tracing, "x"), PERFLEET_EGONE);
    perfleet_close(tracing);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

static void every_failed_allocation_of_an_open_is_reported(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester", .socket = "@perfleet-nobody"};
    struct perfleet_source_conf source = {.name = "com.test"};

    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct perfleet *tracing = NULL;
        struct perfleet_source *s = NULL;
        int rc;

        pfl_heap_fail_at(nth);
        rc = perfleet_open(&conf, &tracing);
        if (rc == 0)
            rc = perfleet_register(tracing, &source, &s);
        pfl_heap_fail_at(0);
        perfleet_close(tracing);
        assert_int_equal(pfl_heap_live_blocks(), 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, PERFLEET_ENOMEM);
        assert_true(nth < 20);
    }
}

static void a_trigger_has_a_name_that_is_not_too_long_and_so_many_wait(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester", .socket = "@perfleet-test-nobody"};
    char name[PFL_CLIENT_TRIGGER_NAME_MAX + 2];
    struct perfleet *tracing;

    (void)state;
    memset(name, 't', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(perfleet_open(&conf, &tracing), 0);
    assert_int_equal(perfleet_trigger_within(tracing, "", 60000), PERFLEET_EINVAL);
    assert_int_equal(perfleet_trigger_within(tracing, name, 60000), PERFLEET_EINVAL);
    name[PFL_CLIENT_TRIGGER_NAME_MAX] = '\0';
    for (unsigned i = 0; i < PFL_CLIENT_TRIGGERS_MAX; i++)
        assert_int_equal(perfleet_trigger_within(tracing, name, 60000), 0);
    assert_int_equal(perfleet_trigger_within(tracing, name, 60000), PERFLEET_ELIMIT);
    perfleet_close(tracing);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_set_up_started_flushed_and_stopped),
        cmocka_unit_test(an_asynchronous_stop_waits_for_the_program),
        cmocka_unit_test(triggers_arrive_in_their_order),
        cmocka_unit_test(a_callback_that_waits_may_hand_over_what_is_finished),
        cmocka_unit_test(a_stop_done_that_nothing_waits_for_ends_no_later_stop),
        cmocka_unit_test(a_flush_that_comes_together_with_a_stop_is_answered),
        cmocka_unit_test(a_service_that_does_not_read_costs_no_cpu),
        cmocka_unit_test(every_chunk_of_threads_that_commit_themselves_is_reported_once),
        cmocka_unit_test(a_service_that_dies_and_comes_back_gets_everything_anew),
        cmocka_unit_test(a_service_that_lacks_methods_is_served_without_them),
        cmocka_unit_test(malformed_commands_cost_the_connection_and_nothing_else),
        cmocka_unit_test(descriptors_whose_close_takes_long_do_not_hold_the_library),
        cmocka_unit_test(descriptors_out_of_band_do_not_hold_the_library),
        cmocka_unit_test(more_sessions_than_instances_are_answered_too),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(every_failed_allocation_of_an_open_is_reported),
        cmocka_unit_test(a_trigger_has_a_name_that_is_not_too_long_and_so_many_wait),
    };

    pfl_client_retry_step_ms = 10;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
