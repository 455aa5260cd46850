/* SPDX-License-Identifier: Apache-2.0 */
/* Startup tracing: written before there is a session, or a service, and taken over or not. */
#include "tests/unit/producer/client_fixture.h"

#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/platform/heap.h"
#include "producer/shared_memory/reservation.h"

/* DataSourceConfig {name: "com.test", and a field nobody knows}; the service fills in the rest. */
static const uint8_t wish[] = {0xfa, 0x7f, 2,   0xff, 0x00, 0x0a, 8,  'c',
                               'o',  'm',  '.', 't',  'e',  's',  't'};
static const uint8_t other_wish[] = {0x0a, 8, 'c', 'o', 'm', '.', 't', 'e', 's', 't'};
static const uint8_t stop[] = {0x08, 11};

struct seen {
    _Atomic(uint32_t) setups, starts, stops;
};

static void on_setup(void *user, uint32_t instance, const void *config, size_t config_bytes)
{
    (void)instance;
    (void)config;
    (void)config_bytes;
    atomic_fetch_add(&((struct seen *)user)->setups, 1);
}

static void on_start(void *user, uint32_t instance)
{
    (void)instance;
    atomic_fetch_add(&((struct seen *)user)->starts, 1);
}

static void on_stop(void *user, uint32_t instance)
{
    (void)instance;
    atomic_fetch_add(&((struct seen *)user)->stops, 1);
}

static void open_with_memory(struct client_fixture *f, struct seen *seen, uint32_t kb)
{
    struct perfleet_conf conf = {.producer_name = "tester", .batch_ms = 1, .own_smb_kb = kb};
    struct perfleet_source_conf source = {.name = "com.test",
                                          .user = seen,
                                          .policy = PERFLEET_STALL,
                                          .on_setup = on_setup,
                                          .on_start = on_start,
                                          .on_stop = on_stop};

    memset(seen, 0, sizeof(*seen));
    pfl_client_retry_step_ms = 1;
    conf.socket = f->service.name;
    assert_int_equal(perfleet_open(&conf, &f->tracing), 0);
    assert_int_equal(perfleet_register(f->tracing, &source, &f->source), 0);
}

static void close_all(struct client_fixture *f)
{
    client_close_fixture(f);
    pfl_client_retry_step_ms = 1000;
}

/* Nobody accepts the connection yet. */
static void begin(struct client_fixture *f, uint32_t timeout_ms)
{
    assert_int_equal(perfleet_startup(f->tracing, f->source, wish, sizeof(wish), timeout_ms), 0);
    assert_int_equal(perfleet_active(f->source), 1);
}

static void greet(struct client_fixture *f)
{
    fake_greet(&f->service);
    fake_expect(&f->service, FAKE_REGISTER_DATA_SOURCE);
    fake_expect(&f->service, FAKE_SYNC);
    fake_reply(&f->service, pfl_span_of(NULL, 0));
}

static void start_session(struct client_fixture *f)
{
    fake_setup_tracing(&f->service, 8);
    fake_instance_command(&f->service, 6, 11, pfl_span_of(client_config, sizeof(client_config)));
    fake_instance_command(&f->service, 1, 11, pfl_span_of(client_config, sizeof(client_config)));
    fake_expect(&f->service, FAKE_NOTIFY_STARTED);
}

static void what_was_written_before_goes_to_the_session_that_comes(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    f.service.adopts_memory = true;
    open_with_memory(&f, &seen, 256);
    begin(&f, 60000);
    assert_int_equal(client_write_packets(&f, 1000), 1000); /* more than a chunk */
    greet(&f);
    assert_int_equal(f.service.chunks, 0); /* held: nobody knows where it goes */
    start_session(&f);
    assert_int_equal(client_write_packets(&f, 1000), 1000);
    fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
    pfl_source_drop_thread();
    fake_take_packets(&f.service, 2000);
    assert_int_equal(f.service.last_buffer, 3);
    assert_int_equal(seen.setups, 1);
    assert_int_equal(seen.starts, 1);
    close_all(&f);
    assert_int_equal(seen.stops, 1); /* the library's thread may have been at it until it ended */
}

static void a_session_with_other_wishes_does_not_get_it(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    f.service.adopts_memory = true;
    open_with_memory(&f, &seen, 256);
    assert_int_equal(perfleet_startup(f.tracing, f.source, other_wish, sizeof(other_wish), 60000),
                     0);
    assert_int_equal(client_write_packets(&f, 1000), 1000);
    greet(&f);
    start_session(&f);
    assert_int_equal(perfleet_active(f.source), 3);
    assert_int_equal(seen.starts, 2);
    assert_int_equal(f.service.chunks, 0);
    close_all(&f);
}

static void what_nobody_takes_over_in_time_is_given_back(void **state)
{
    struct client_fixture f;
    struct seen seen;
    uint32_t written;

    (void)state;
    fake_listen(&f.service);
    f.service.adopts_memory = true;
    open_with_memory(&f, &seen, 256);
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 100), 0);
    written = client_write_packets(&f, 1000); /* all, unless this machine is very busy */
    while (seen.stops == 0)
        usleep(100);
    assert_int_equal(perfleet_active(f.source), 0);
    pfl_source_drop_thread();
    fake_greet(&f.service);
    f.service.last_buffer = 0;
    fake_take_packets(&f.service, written);
    assert_int_equal(f.service.last_buffer, 0); /* freed, in no buffer */
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 1), 0);
    close_all(&f);
}

static void memory_that_is_full_stalls_nobody(void **state)
{
    struct perfleet_writer_stats stats = {0};
    struct client_fixture f;
    struct perfleet_writer *w;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    f.service.adopts_memory = true;
    open_with_memory(&f, &seen, 8);
    begin(&f, 60000);
    assert_int_equal(client_write_packets(&f, 5000), 5000);
    PERFLEET_TRACE(f.source, w)
    perfleet_writer_stats_get(w, &stats);
    assert_true(stats.packets > 500 && stats.dropped > 500);
    assert_int_equal(stats.packets + stats.dropped, 5000);
    assert_int_equal(stats.stalls, 0);
    greet(&f);
    start_session(&f);
    pfl_source_drop_thread();
    fake_take_packets(&f.service, (uint32_t)stats.packets);
    close_all(&f);
}

static void a_service_that_refuses_the_memory_gets_none(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    open_with_memory(&f, &seen, 256);
    begin(&f, 60000);
    assert_int_equal(client_write_packets(&f, 1000), 1000);
    fake_greet(&f.service); /* refused: the library comes again */
    fake_hang_up(&f.service);
    fake_greet(&f.service);
    assert_int_equal(f.service.own_fd, -1);
    fake_expect(&f.service, FAKE_REGISTER_DATA_SOURCE);
    fake_expect(&f.service, FAKE_SYNC);
    fake_reply(&f.service, pfl_span_of(NULL, 0));
    assert_int_equal(perfleet_active(f.source), 0);
    assert_int_equal(seen.stops, 1);
    start_session(&f);
    assert_int_equal(client_write_packets(&f, 10), 10);
    close_all(&f);
}

static void memory_waits_for_a_service_that_lives(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    f.service.adopts_memory = true;
    open_with_memory(&f, &seen, 256);
    begin(&f, 60000);
    assert_int_equal(client_write_packets(&f, 1000), 1000);
    fake_accept(&f.service); /* and dies */
    fake_hang_up(&f.service);
    greet(&f);
    start_session(&f);
    pfl_source_drop_thread();
    fake_take_packets(&f.service, 1000);
    close_all(&f);
}

static void without_shared_memory_startup_works_too(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen_tcp(&f.service);
    open_with_memory(&f, &seen, 256);
    begin(&f, 60000);
    assert_int_equal(client_write_packets(&f, 1000), 1000);
    greet(&f);
    start_session(&f);
    pfl_source_drop_thread();
    fake_take_packets(&f.service, 1000);
    assert_int_equal(f.service.last_buffer, 3);
    close_all(&f);
}

static void startup_needs_memory_time_and_a_config(void **state)
{
    static const uint8_t no_message[] = {0x0a, 200};
    struct perfleet_conf conf = {.producer_name = "tester", .own_smb_kb = 6};
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    conf.socket = f.service.name;
    assert_int_equal(perfleet_open(&conf, &f.tracing), PERFLEET_EINVAL); /* no whole pages */
    open_with_memory(&f, &seen, 256);
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 0),
                     PERFLEET_ETIMEOUT);
    assert_int_equal(perfleet_startup(f.tracing, f.source, no_message, sizeof(no_message), 9),
                     PERFLEET_EINVAL);
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 60000), 0);
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 60000),
                     PERFLEET_ELIMIT);
    perfleet_close(f.tracing);
    assert_int_equal(seen.stops, PERFLEET_MAX_INSTANCES);
    open_with_memory(&f, &seen, 0);
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 9), PERFLEET_EGONE);
    close_all(&f);
}

static void a_session_that_found_no_room_takes_no_reservation(void **state)
{
    struct client_fixture f;
    struct seen seen;

    (void)state;
    fake_listen(&f.service);
    open_with_memory(&f, &seen, 256);
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 100), 0);
    for (uint32_t i = 0; i < 2 * PFL_RESERVATIONS_MAX; i++)
        (void)perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 100);
    while (perfleet_active(f.source) != 0)
        usleep(100);
    assert_int_equal(perfleet_startup(f.tracing, f.source, wish, sizeof(wish), 60000), 0);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_before_goes_to_the_session_that_comes),
        cmocka_unit_test(a_session_with_other_wishes_does_not_get_it),
        cmocka_unit_test(what_nobody_takes_over_in_time_is_given_back),
        cmocka_unit_test(memory_that_is_full_stalls_nobody),
        cmocka_unit_test(a_service_that_refuses_the_memory_gets_none),
        cmocka_unit_test(memory_waits_for_a_service_that_lives),
        cmocka_unit_test(without_shared_memory_startup_works_too),
        cmocka_unit_test(startup_needs_memory_time_and_a_config),
        cmocka_unit_test(a_session_that_found_no_room_takes_no_reservation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
