/* SPDX-License-Identifier: Apache-2.0 */
/* Custom data sources: state, asynchronous flushes, updates, triggers that wait, memory elsewhere.
 */
#include "tests/unit/producer/client_fixture.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/platform/heap.h"

struct seen {
    _Atomic(uint32_t) flushes;
    _Atomic(uint32_t) sessions_ended;
    _Atomic(uint32_t) threads_ended;
    struct perfleet_source *source;
};

static void on_setup(void *user, uint32_t instance, const void *config, size_t config_bytes)
{
    struct seen *seen = user;
    uint64_t *state = perfleet_instance_state(seen->source, instance);

    (void)config;
    assert_non_null(state);
    assert_int_equal(*state, 0);
    *state = config_bytes;
}

static void on_flush(void *user, uint32_t instance, uint64_t flags)
{
    (void)instance;
    (void)flags;
    atomic_fetch_add(&((struct seen *)user)->flushes, 1);
}

static void on_session_end(void *user, void *state)
{
    assert_int_equal(*(uint64_t *)state, sizeof(client_config));
    atomic_fetch_add(&((struct seen *)user)->sessions_ended, 1);
}

static void on_thread_end(void *user, void *state)
{
    assert_int_equal(*(uint32_t *)state, 3);
    atomic_fetch_add(&((struct seen *)user)->threads_ended, 1);
}

/* A session of "com.test" with these flags is running afterwards. */
static void start(struct client_fixture *f, struct seen *seen, uint32_t flags)
{
    struct perfleet_conf conf = {.producer_name = "tester", .batch_ms = 1};
    struct perfleet_source_conf source = {.name = "com.test",
                                          .user = seen,
                                          .flags = flags,
                                          .on_setup = on_setup,
                                          .on_flush = on_flush,
                                          .session_state_bytes = sizeof(uint64_t),
                                          .thread_state_bytes = sizeof(uint32_t),
                                          .on_session_state_end = on_session_end,
                                          .on_thread_state_end = on_thread_end};

    memset(seen, 0, sizeof(*seen));
    conf.socket = f->service.name;
    assert_int_equal(perfleet_open(&conf, &f->tracing), 0);
    assert_int_equal(perfleet_register(f->tracing, &source, &f->source), 0);
    seen->source = f->source;
    client_start_session(f);
}

static void *count_up(void *arg)
{
    struct client_fixture *f = arg;
    struct perfleet_writer *w;

    for (uint32_t i = 0; i < 3; i++) {
        PERFLEET_TRACE(f->source, w)
        {
            uint32_t *mine = perfleet_thread_state(w);
            const uint64_t *shared = perfleet_session_state(w);

            assert_int_equal(*shared, sizeof(client_config));
            assert_int_equal((*mine)++, i);
        }
    }
    return NULL;
}

static void sessions_and_threads_have_state_of_their_own(void **state)
{
    static const uint8_t stop[] = {0x08, 11};
    struct client_fixture f;
    struct seen seen;
    pthread_t threads[3];

    (void)state;
    fake_listen(&f.service);
    start(&f, &seen, 0);
    assert_null(perfleet_instance_state(f.source, 0)); /* not a callback */
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &f), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(seen.threads_ended, 3);
    count_up(&f);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    assert_int_equal(seen.threads_ended, 3); /* this thread has not noticed */
    assert_int_equal(seen.sessions_ended, 0);
    perfleet_close(f.tracing);
    pfl_source_drop_thread();
    assert_int_equal(seen.threads_ended, 4);
    assert_int_equal(seen.sessions_ended, 1);
    fake_fini(&f.service);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

static void wait_for(_Atomic(uint32_t) *count, uint32_t wanted)
{
    for (int i = 0; atomic_load(count) < wanted && i < 600000; i++)
        usleep(100);
    assert_int_equal(atomic_load(count), wanted);
}

static void an_asynchronous_flush_waits_for_the_program_and_later_ones_wait_for_it(void **state)
{
    static const uint8_t flush_7[] = {0x08, 11, 0x10, 7};
    static const uint8_t flush_9[] = {0x08, 11, 0x10, 9};
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    start(&f, &seen, PERFLEET_ASYNC_FLUSH);
    perfleet_flush_done(f.source, 0); /* nothing waits for it */
    fake_command(&f.service, 5, pfl_span_of(flush_7, sizeof(flush_7)));
    wait_for(&seen.flushes, 1);
    fake_command(&f.service, 5, pfl_span_of(flush_9, sizeof(flush_9)));
    wait_for(&seen.flushes, 2);
    assert_int_equal(perfleet_trigger(f.tracing, "t"), 0);
    fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS); /* and no answer to the flushes */
    perfleet_flush_done(f.source, 0);
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    perfleet_flush_done(f.source, 0);
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 9);
    client_close_fixture(&f);
}

static void a_stop_ends_the_flushes_that_are_owed(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x10, 7};
    static const uint8_t stop[] = {0x08, 11};
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    start(&f, &seen, PERFLEET_ASYNC_FLUSH);
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    wait_for(&seen.flushes, 1);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    client_close_fixture(&f);
}

static void a_descriptor_can_be_replaced(void **state)
{
    static const uint8_t more[] = {0x52, 0};
    struct client_fixture f;
    struct seen seen;
    struct pfl_span args;

    (void)state;
    pfl_client_retry_step_ms = 1;
    fake_listen(&f.service);
    f.service.has_updates = true;
    start(&f, &seen, 0);
    assert_int_equal(perfleet_update(f.tracing, f.source, more, sizeof(more)), 0);
    args = fake_expect(&f.service, FAKE_UPDATE_DATA_SOURCE);
    assert_memory_equal(args.data + 2, client_config, 10); /* the name */
    assert_memory_equal(args.data + args.len - 2, more, 2);
    assert_int_equal(perfleet_update(f.tracing, f.source, more, PFL_DESCRIPTOR_MAX + 1),
                     PERFLEET_EINVAL);
    /* Another service learns it with the registration. */
    fake_hang_up(&f.service);
    fake_greet(&f.service);
    args = fake_expect(&f.service, FAKE_REGISTER_DATA_SOURCE);
    assert_memory_equal(args.data + args.len - 2, more, 2);
    client_close_fixture(&f);
    pfl_client_retry_step_ms = 1000;
}

static void a_trigger_waits_for_a_connection_as_long_as_it_may(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester"};
    struct client_fixture f;
    struct pfl_span args;

    (void)state;
    pfl_client_retry_step_ms = 1;
    fake_listen(&f.service);
    conf.socket = f.service.name;
    assert_int_equal(perfleet_open(&conf, &f.tracing), 0);
    assert_int_equal(perfleet_trigger(f.tracing, "now"), PERFLEET_EGONE);
    assert_int_equal(perfleet_trigger_within(f.tracing, "soon", 1), 0);
    assert_int_equal(perfleet_trigger_within(f.tracing, "later", 60000), 0);
    usleep(3000);
    fake_greet(&f.service);
    args = fake_expect(&f.service, FAKE_ACTIVATE_TRIGGERS);
    assert_memory_equal(args.data + 2, "later", 5);
    client_close_fixture(&f);
    pfl_client_retry_step_ms = 1000;
}

/* Everything that the library can ask for, at a service of some age. */
static void use_everything(struct client_fixture *f)
{
    static const uint8_t stop[] = {0x08, 11};
    static const uint8_t more[] = {0x52, 0};
    uint32_t lacks = f->service.lacks;

    pfl_client_retry_step_ms = 1;
    client_open_fixture(f, 0);
    client_start_session(f);
    while (perfleet_active(f->source) == 0)
        usleep(100);
    assert_int_equal(client_write_packets(f, 300), 300);
    assert_int_equal(perfleet_update(f->tracing, f->source, more, sizeof(more)), 0);
    assert_int_equal(perfleet_trigger(f->tracing, "t"), 0);
    if ((lacks & 1u << FAKE_ACTIVATE_TRIGGERS) == 0)
        fake_expect(&f->service, FAKE_ACTIVATE_TRIGGERS);
    fake_command(&f->service, 2, pfl_span_of(stop, sizeof(stop)));
    if ((lacks & 1u << FAKE_NOTIFY_STOPPED) == 0)
        fake_expect(&f->service, FAKE_NOTIFY_STOPPED);
    pfl_source_drop_thread();
    fake_take_packets(&f->service, 300);
    assert_int_equal(f->service.last_buffer, 3);
    client_close_fixture(f);
    pfl_client_retry_step_ms = 1000;
}

static void services_that_lack_any_method_are_served(void **state)
{
    static const uint32_t needed = 1u << FAKE_INITIALIZE_CONNECTION | 1u << FAKE_GET_ASYNC_COMMAND |
                                   1u << FAKE_COMMIT_DATA | 1u << FAKE_REGISTER_DATA_SOURCE;
    struct client_fixture f;

    (void)state;
    for (uint32_t m = 0; m <= FAKE_METHODS; m++) {
        uint32_t lacks = m == FAKE_METHODS ? (1u << FAKE_METHODS) - 1 : 1u << m;

        fake_listen(&f.service);
        f.service.lacks = lacks & ~needed;
        use_everything(&f);
    }
}

static void services_that_say_less_or_more_are_understood(void **state)
{
    struct client_fixture f;

    (void)state;
    fake_listen(&f.service);
    f.service.is_old = true;
    use_everything(&f);
    fake_listen(&f.service);
    f.service.is_new = true;
    use_everything(&f);
}

static void without_shared_memory_chunks_are_sent(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x10, 7};
    struct client_fixture f;
    struct perfleet_writer *w = NULL;

    (void)state;
    fake_listen_tcp(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_int_equal(client_write_packets(&f, 5000), 5000);
    PERFLEET_TRACE(f.source, w)
    perfleet_writer_flush(w);
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    assert_int_equal(f.service.packets, 5000);
    assert_int_equal(f.service.last_buffer, 3);
    client_close_fixture(&f);
}

static void more_than_all_of_the_memory_is_sent(void **state)
{
    enum { PACKETS = 40000 }; /* 100 bytes: four times the memory */
    static const uint8_t text[100];
    struct client_fixture f;
    struct perfleet_writer *w;
    pid_t pid;

    (void)state;
    fake_listen_tcp(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    /* The writer stalls while nobody reads: another process is the service from here on. */
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pfl_span args;

        while (fake_get_main(&f.service, &args) != FAKE_COMMIT_DATA)
            ;
        _exit(f.service.packets != PACKETS);
    }
    for (uint32_t i = 0; i < PACKETS; i++) {
        PERFLEET_TRACE(f.source, w)
        {
            perfleet_packet_begin(w);
            perfleet_bytes(w, 1, text, sizeof(text));
            perfleet_packet_end(w);
        }
    }
    PERFLEET_TRACE(f.source, w)
    perfleet_writer_flush(w);
    {
        static const uint8_t flush[] = {0x08, 11, 0x10, 7};
        int status = 0;

        fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    client_close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_and_threads_have_state_of_their_own),
        cmocka_unit_test(an_asynchronous_flush_waits_for_the_program_and_later_ones_wait_for_it),
        cmocka_unit_test(a_stop_ends_the_flushes_that_are_owed),
        cmocka_unit_test(a_descriptor_can_be_replaced),
        cmocka_unit_test(a_trigger_waits_for_a_connection_as_long_as_it_may),
        cmocka_unit_test(services_that_lack_any_method_are_served),
        cmocka_unit_test(services_that_say_less_or_more_are_understood),
        cmocka_unit_test(without_shared_memory_chunks_are_sent),
        cmocka_unit_test(more_than_all_of_the_memory_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
