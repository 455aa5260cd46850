/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library against a service that the test plays: sessions, flushes, deaths, forks. */
#include "producer/client.h"

#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/heap.h"
#include "tests/unit/producer/fake_service.h"

/* DataSourceConfig {name: "com.test", target_buffer: 3, and a field nobody knows} */
static const uint8_t config[] = {0x0a, 8,    'c', 'o',  'm',  '.', 't',  'e', 's',
                                 't',  0x10, 3,   0xfa, 0x7f, 2,   0xff, 0x00};

static uint32_t batch_ms = 1;

struct seen {
    _Atomic(uint32_t) setups, starts, stops, flushes, clears;
    _Atomic(uint64_t) flush_flags;
    uint8_t config[sizeof(config)];
    struct perfleet_source *source;
    bool writes_in_callbacks;
    bool forks_in_start;
    pid_t child;
    struct perfleet *triggers_in_clear;
};

struct fixture {
    struct fake_service service;
    struct perfleet *tracing;
    struct perfleet_source *source;
    struct seen seen;
};

static void write_in_callback(struct seen *seen)
{
    struct perfleet_writer *w;

    if (!seen->writes_in_callbacks)
        return;
    PERFLEET_TRACE(seen->source, w)
    {
        perfleet_packet_begin(w);
        perfleet_uint(w, 8, 1);
        perfleet_packet_end(w);
    }
}

static void on_setup(void *user, uint32_t instance, const void *bytes, size_t len)
{
    struct seen *seen = user;

    (void)instance;
    if (len == sizeof(seen->config))
        memcpy(seen->config, bytes, len);
    atomic_fetch_add(&seen->setups, 1);
}

static void on_start(void *user, uint32_t instance)
{
    struct seen *seen = user;

    (void)instance;
    if (seen->forks_in_start)
        seen->child = fork(); /* and returns in both */
    atomic_fetch_add(&((struct seen *)user)->starts, 1);
}

static void on_stop(void *user, uint32_t instance)
{
    (void)instance;
    atomic_fetch_add(&((struct seen *)user)->stops, 1);
}

static void on_flush(void *user, uint32_t instance, uint64_t flags)
{
    struct seen *seen = user;

    (void)instance;
    atomic_store(&seen->flush_flags, flags);
    atomic_fetch_add(&seen->flushes, 1);
    write_in_callback(seen);
}

static void on_clear(void *user, uint32_t instance)
{
    struct perfleet *tracing = ((struct seen *)user)->triggers_in_clear;

    (void)instance;
    if (tracing != NULL) {
        assert_int_equal(perfleet_trigger(tracing, "first"), 0);
        assert_int_equal(perfleet_trigger(tracing, "second"), 0);
    }
    atomic_fetch_add(&((struct seen *)user)->clears, 1);
}

static void open_fixture(struct fixture *f, uint32_t source_flags)
{
    struct perfleet_conf conf = {.producer_name = "tester", .batch_ms = batch_ms};
    struct perfleet_source_conf source = {.name = "com.test",
                                          .user = &f->seen,
                                          .flags = source_flags,
                                          .policy = PERFLEET_STALL,
                                          .on_setup = on_setup,
                                          .on_start = on_start,
                                          .on_stop = on_stop,
                                          .on_flush = on_flush,
                                          .on_clear_incremental_state = on_clear};

    memset(&f->seen, 0, sizeof(f->seen));
    conf.socket = f->service.name;
    assert_int_equal(perfleet_open(&conf, &f->tracing), 0);
    assert_int_equal(perfleet_register(f->tracing, &source, &f->source), 0);
    f->seen.source = f->source;
}

/* Up to a started instance 11. */
static void start_session(struct fixture *f)
{
    struct pfl_span args;

    fake_greet(&f->service);
    args = fake_expect(&f->service, FAKE_REGISTER_DATA_SOURCE);
    assert_memory_equal(args.data + 2, config, 10);
    if ((f->service.lacks & 1u << FAKE_SYNC) == 0) {
        fake_expect(&f->service, FAKE_SYNC);
        fake_reply(&f->service, pfl_span_of(NULL, 0));
    }
    assert_int_equal(perfleet_wait_connected(f->tracing, 10000), 0);
    fake_setup_tracing(&f->service, 8);
    fake_instance_command(&f->service, 6, 11, pfl_span_of(config, sizeof(config)));
    fake_instance_command(&f->service, 1, 11, pfl_span_of(config, sizeof(config)));
    if ((f->service.lacks & 1u << FAKE_NOTIFY_STARTED) == 0) {
        args = fake_expect(&f->service, FAKE_NOTIFY_STARTED);
        assert_int_equal(args.data[1], 11);
    }
}

static void close_fixture(struct fixture *f)
{
    perfleet_close(f->tracing);
    fake_fini(&f->service);
    pfl_source_drop_thread();
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

static uint32_t write_packets(struct fixture *f, uint32_t n)
{
    struct perfleet_writer *w;
    uint32_t written = 0;

    for (uint32_t i = 0; i < n; i++) {
        PERFLEET_TRACE(f->source, w)
        {
            perfleet_packet_begin(w);
            perfleet_uint(w, 8, i);
            perfleet_packet_end(w);
            written++;
        }
    }
    return written;
}

static void a_session_is_set_up_started_flushed_and_stopped(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x08, 99, 0x10, 7, 0x18, 0x22};
    static const uint8_t clear[] = {0x0a, 1, 11}; /* packed */
    static const uint8_t stop[] = {0x08, 11};
    struct fixture f;
    struct pfl_span args;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    assert_int_equal(perfleet_active(f.source), 1);
    assert_memory_equal(f.seen.config, config, sizeof(config));
    assert_int_equal(f.seen.setups, 1);
    assert_int_equal(f.seen.starts, 1);

    f.seen.writes_in_callbacks = true;
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    assert_int_equal(f.service.chunks, 1); /* what the callback wrote came before the answer */
    assert_int_equal(f.seen.flush_flags, 0x22);

    assert_int_equal(write_packets(&f, 10), 10);
    fake_command(&f.service, 7, pfl_span_of(clear, sizeof(clear)));
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    args = fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    assert_int_equal(args.data[1], 11);
    assert_int_equal(f.seen.clears, 1);
    assert_int_equal(f.seen.stops, 1);
    assert_int_equal(perfleet_active(f.source), 0);
    assert_int_equal(write_packets(&f, 10), 0);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop))); /* again: still answered */
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    close_fixture(&f);
}

static void an_asynchronous_stop_waits_for_the_program(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, PERFLEET_ASYNC_STOP);
    start_session(&f);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS); /* and no NotifyDataSourceStopped */
    perfleet_stop_done(f.source, 0);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    assert_int_equal(f.seen.stops, 1);
    close_fixture(&f);
}

static void triggers_arrive_in_their_order(void **state)
{
    static const uint8_t clear[] = {0x08, 11};
    struct fixture f;
    struct pfl_span args;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    f.seen.triggers_in_clear = f.tracing;
    start_session(&f);
    fake_command(&f.service, 7, pfl_span_of(clear, sizeof(clear)));
    args = fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
    assert_memory_equal(args.data + 2, "first", 5);
    args = fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
    assert_memory_equal(args.data + 2, "second", 6);
    close_fixture(&f);
}

static void a_stop_done_that_nothing_waits_for_ends_no_later_stop(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, PERFLEET_ASYNC_STOP);
    start_session(&f);
    perfleet_stop_done(f.source, 0);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    while (f.seen.stops == 0)
        usleep(100);
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS); /* and no NotifyDataSourceStopped */
    perfleet_stop_done(f.source, 0);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    close_fixture(&f);
}

/* One session ends while another is flushed: the stop's answer must not use up the wake-up. */
static void a_flush_that_comes_together_with_a_stop_is_answered(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    static const uint8_t flush[] = {0x08, 12, 0x10, 7};
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    fake_instance_command(&f.service, 1, 12, pfl_span_of(config, sizeof(config)));
    fake_expect(&f.service, FAKE_NOTIFY_STARTED);
    fake_hold(&f.service);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_release(&f.service);
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    close_fixture(&f);
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
    struct fixture f;
    char name[201];
    uint64_t before;

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    fake_listen(&f.service);
    batch_ms = WATCHED_MS / 3;
    open_fixture(&f, 0);
    batch_ms = 1;
    start_session(&f);
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
    close_fixture(&f);
}

static void a_service_that_dies_and_comes_back_gets_everything_anew(void **state)
{
    struct perfleet_writer *old = NULL;
    struct perfleet_writer_stats stats;
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    assert_int_equal(write_packets(&f, 100), 100);
    assert_int_equal(perfleet_writer_open(f.source, 0, &old), 0);
    fake_hang_up(&f.service);
    while (perfleet_active(f.source) != 0)
        usleep(100); /* not a guess at a duration: waits for the state */
    assert_int_equal(write_packets(&f, 100), 0);
    for (int i = 0; i < 100; i++) { /* into the void, not into a fault */
        perfleet_packet_begin(old);
        perfleet_bytes(old, 1, config, sizeof(config));
        perfleet_packet_end(old);
    }
    perfleet_writer_stats_get(old, &stats);
    assert_int_equal(stats.dropped, 100);
    assert_int_equal(perfleet_sync(f.tracing, 1), PERFLEET_EGONE);
    start_session(&f);
    assert_int_equal(f.seen.stops, 1);
    assert_int_equal(f.seen.starts, 2);
    assert_int_equal(write_packets(&f, 100), 100);
    perfleet_writer_close(old);
    close_fixture(&f);
}

static void a_service_that_lacks_methods_is_served_without_them(void **state)
{
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    f.service.lacks = 1u << FAKE_SYNC | 1u << FAKE_NOTIFY_STARTED |
                      1u << FAKE_REGISTER_TRACE_WRITER | 1u << FAKE_UNREGISTER_TRACE_WRITER |
                      1u << FAKE_ACTIVATE_TRIGGERS;
    open_fixture(&f, 0);
    start_session(&f);
    while (perfleet_active(f.source) == 0)
        usleep(100);
    assert_int_equal(write_packets(&f, 3), 3);
    assert_int_equal(perfleet_trigger(f.tracing, "a-trigger"), 0);
    assert_int_equal(perfleet_sync(f.tracing, 10000), 0);
    close_fixture(&f);
}

static void malformed_commands_cost_the_connection_and_nothing_else(void **state)
{
    static const uint8_t broken[] = {0x08};
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    fake_command(&f.service, 5, pfl_span_of(broken, sizeof(broken)));
    while (perfleet_is_connected(f.tracing))
        usleep(100);
    fake_hang_up(&f.service);
    start_session(&f);
    assert_int_equal(write_packets(&f, 1), 1);
    close_fixture(&f);
}

static void more_sessions_than_instances_are_answered_too(void **state)
{
    struct fixture f;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    for (uint64_t id = 12; id < 30; id++) {
        uint8_t stop[] = {0x08, (uint8_t)id};

        fake_instance_command(&f.service, 1, id, pfl_span_of(config, sizeof(config)));
        fake_expect(&f.service, FAKE_NOTIFY_STARTED);
        if (id >= 20) {
            fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
            fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
        }
    }
    assert_int_equal(f.seen.starts, PERFLEET_MAX_INSTANCES);
    assert_int_equal(perfleet_active(f.source), 0xff);
    assert_int_equal(write_packets(&f, 1), PERFLEET_MAX_INSTANCES);
    assert_int_equal(perfleet_unregister(f.tracing, f.source), 0);
    fake_expect(&f.service, FAKE_UNREGISTER_DATA_SOURCE);
    assert_int_equal(f.seen.stops, PERFLEET_MAX_INSTANCES);
    close_fixture(&f);
}

/* Has this process a descriptor of the connection to the service? */
static bool has_connection(const struct fake_service *s)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_un un = {0};
        socklen_t len = sizeof(un);

        if (fd != s->fd && getpeername(fd, (struct sockaddr *)&un, &len) == 0 && len > 10 &&
            memcmp(un.sun_path + 1, s->name + 1, strlen(s->name) - 1) == 0)
            return true;
    }
    return false;
}

static void the_child_of_a_fork_does_not_keep_the_connection_open(void **state)
{
    struct fixture f;
    int status = 0;
    pid_t pid;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    assert_true(has_connection(&f.service));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(has_connection(&f.service));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(perfleet_is_connected(f.tracing));
    close_fixture(&f);
}

static void a_fork_inside_a_callback_leaves_one_library_thread(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x10, 7};
    struct fixture f;
    pid_t child;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    f.seen.forks_in_start = true;
    start_session(&f);
    child = f.seen.child;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child); /* the child's only thread ends */
    assert_int_equal(write_packets(&f, 5), 5);
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    close_fixture(&f);
}

static void the_child_of_a_fork_is_cut_off(void **state)
{
    struct perfleet_writer *w = NULL;
    struct fixture f;
    int status = 0;
    pid_t pid;

    (void)state;
    fake_listen(&f.service);
    open_fixture(&f, 0);
    start_session(&f);
    assert_int_equal(perfleet_writer_open(f.source, 0, &w), 0);
    perfleet_packet_begin(w);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct perfleet_writer *mine = NULL;
        int wrong = perfleet_active(f.source) != 0;

        wrong |= (perfleet_writer_open(f.source, 0, &mine) != PERFLEET_EFORK) << 1;
        wrong |= (perfleet_sync(f.tracing, 1) != PERFLEET_EFORK) << 2;
        memset(w->pos, 0xee, 100); /* must not be seen by the parent */
        perfleet_packet_end(w);
        perfleet_close(f.tracing);
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint8_t *p = w->pos; p < w->end; p++)
        assert_int_equal(*p, 0);
    perfleet_uint(w, 1, 5);
    perfleet_packet_end(w);
    perfleet_writer_close(w);
    assert_int_equal(write_packets(&f, 5), 5);
    close_fixture(&f);
}

static void wrong_arguments_are_refused(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester"};
    struct perfleet_source_conf source = {.name = "com.test"};
    struct perfleet *tracing = NULL;
    struct perfleet_source *s = NULL;
    static const char *const sockets[] = {"", "localhost:80", "vsock://1:2", "[::1]:9"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_set_up_started_flushed_and_stopped),
        cmocka_unit_test(an_asynchronous_stop_waits_for_the_program),
        cmocka_unit_test(triggers_arrive_in_their_order),
        cmocka_unit_test(a_stop_done_that_nothing_waits_for_ends_no_later_stop),
        cmocka_unit_test(a_flush_that_comes_together_with_a_stop_is_answered),
        cmocka_unit_test(a_service_that_does_not_read_costs_no_cpu),
        cmocka_unit_test(a_service_that_dies_and_comes_back_gets_everything_anew),
        cmocka_unit_test(a_service_that_lacks_methods_is_served_without_them),
        cmocka_unit_test(malformed_commands_cost_the_connection_and_nothing_else),
        cmocka_unit_test(more_sessions_than_instances_are_answered_too),
        cmocka_unit_test(a_fork_inside_a_callback_leaves_one_library_thread),
        cmocka_unit_test(the_child_of_a_fork_is_cut_off),
        cmocka_unit_test(the_child_of_a_fork_does_not_keep_the_connection_open),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(every_failed_allocation_of_an_open_is_reported),
    };

    pfl_client_retry_step_ms = 10;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
