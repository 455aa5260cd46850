/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events against a service that the test plays: sessions and categories, what is refused,
 * what is never done. What events say is in tests/integration/track_events_test.sh.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perfetto/data_source_config.fields.h"
#include "perfetto/test_event.fields.h"
#include "perfetto/track_event.fields.h"
#include "producer/data_source/source.h"
#include "producer/platform/heap.h"
#include "producer/track_event/event_source.h"
#include "producer/track_event/intern.h"
#include "tests/unit/producer/fake_service.h"

#define PAGES 64u

PERFLEET_CATEGORY_DEFINE(cat_net, "test.net", "Sockets", "io,remote")
PERFLEET_CATEGORY_DEFINE(cat_disk, "test.disk", NULL, NULL)

enum { CMD_START = 1, CMD_STOP = 2, CMD_SETUP = 6 };
enum { DISABLED = 1, ENABLED = 2 };

struct fixture {
    struct fake_service service;
    struct perfleet *tracing;
};

static void open_fixture(struct fixture *f)
{
    struct perfleet_conf conf = {.producer_name = "tester", .batch_ms = 1};

    fake_listen(&f->service);
    conf.socket = f->service.name;
    assert_int_equal(perfleet_open(&conf, &f->tracing), 0);
    assert_int_equal(perfleet_track_event_register(f->tracing), 0);
    fake_greet(&f->service);
}

static void connect_fixture(struct fixture *f)
{
    fake_expect(&f->service, FAKE_REGISTER_DATA_SOURCE);
    fake_expect(&f->service, FAKE_SYNC);
    fake_reply(&f->service, pfl_span_of(NULL, 0));
    assert_int_equal(perfleet_wait_connected(f->tracing, 10000), 0);
    fake_setup_tracing(&f->service, PAGES);
}

static void close_fixture(struct fixture *f)
{
    perfleet_close(f->tracing);
    fake_fini(&f->service);
    pfl_source_drop_thread();
    assert_int_equal(pfl_heap_live_blocks(), 0);
    assert_false(perfleet_category_is_enabled(&cat_net));
}

/* A session that wants `enabled` and not `disabled` categories; NULL: says nothing about them. */
static void start_session(struct fixture *f, uint64_t id, const char *enabled, const char *disabled)
{
    uint8_t wishes[128];
    uint8_t config[256];
    struct pfl_writer w = pfl_writer_of(wishes, sizeof(wishes));
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));

    if (enabled != NULL)
        pfl_writer_field_bytes(&w, ENABLED, enabled, strlen(enabled));
    if (disabled != NULL)
        pfl_writer_field_bytes(&w, DISABLED, disabled, strlen(disabled));
    pfl_writer_field_bytes(&c, 1, "track_event", 11);
    pfl_writer_field_varint(&c, 2, 3);
    pfl_writer_field_bytes(&c, 113, wishes, sizeof(wishes) - w.left);
    fake_instance_command(&f->service, CMD_SETUP, id, pfl_span_of(config, sizeof(config) - c.left));
    fake_instance_command(&f->service, CMD_START, id, pfl_span_of(config, sizeof(config) - c.left));
    fake_expect(&f->service, FAKE_NOTIFY_STARTED);
}

static void stop_session(struct fixture *f, uint8_t id)
{
    const uint8_t body[] = {0x08, id};

    fake_command(&f->service, CMD_STOP, pfl_span_of(body, sizeof(body)));
    fake_expect(&f->service, FAKE_NOTIFY_STOPPED);
}

/* How often the bytes are in the shared memory. */
static uint32_t count_bytes(const struct fixture *f, const char *bytes)
{
    const uint8_t *at = f->service.smb.base;
    const uint8_t *end = at + (size_t)PAGES * 4096;
    uint32_t count = 0;

    while ((at = memmem(at, (size_t)(end - at), bytes, strlen(bytes))) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* --- sessions and categories ------------------------------------------------------------- */

static void the_data_source_describes_its_categories(void **state)
{
    static const uint8_t net[] = "\x0a\x08test.net\x12\x07Sockets\x1a\x02io\x1a\x06remote";
    struct fixture f = {0};
    struct pfl_span args;

    (void)state;
    open_fixture(&f);
    args = fake_expect(&f.service, FAKE_REGISTER_DATA_SOURCE);
    assert_non_null(memmem(args.data, args.len, net, sizeof(net) - 1));
    assert_non_null(memmem(args.data, args.len, "\x0a\x09test.disk", 11));
    close_fixture(&f);
}

static void each_session_switches_the_categories_it_wants(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_fixture(&f);
    connect_fixture(&f);
    start_session(&f, 11, "test.net", "*");
    assert_int_equal(cat_net.active, 1);
    assert_int_equal(cat_disk.active, 0);
    start_session(&f, 12, NULL, "test.n*");
    assert_int_equal(cat_net.active, 1);
    assert_int_equal(cat_disk.active, 2);
    start_session(&f, 13, NULL, NULL);
    assert_int_equal(cat_net.active, 5);
    assert_int_equal(cat_disk.active, 6);
    stop_session(&f, 11);
    assert_int_equal(cat_net.active, 4);
    stop_session(&f, 13);
    assert_int_equal(cat_net.active, 0);
    assert_int_equal(cat_disk.active, 2);
    close_fixture(&f);
}

static void a_category_that_comes_late_is_switched_too(void **state)
{
    struct perfleet_category late = PERFLEET_CATEGORY_INIT("test.late", NULL, NULL);
    struct fixture f = {0};

    (void)state;
    open_fixture(&f);
    connect_fixture(&f);
    start_session(&f, 11, "test.late", "*");
    perfleet_category_register(&late);
    perfleet_category_register(&late);
    assert_int_equal(late.active, 1);
    perfleet_category_unregister(&late);
    assert_int_equal(late.active, 0);
    stop_session(&f, 11);
    assert_int_equal(late.active, 0);
    close_fixture(&f);
}

static void the_service_learns_of_categories_that_come_late(void **state)
{
    static const char name[] = "test.announced-late";
    struct perfleet_category late = PERFLEET_CATEGORY_INIT(name, NULL, NULL);
    struct fixture f = {0};
    struct pfl_span args;

    (void)state;
    open_fixture(&f);
    connect_fixture(&f);
    f.service.has_updates = true;
    perfleet_category_register(&late);
    args = fake_expect(&f.service, FAKE_UPDATE_DATA_SOURCE);
    assert_non_null(memmem(args.data, args.len, name, sizeof(name) - 1));
    perfleet_category_unregister(&late);
    args = fake_expect(&f.service, FAKE_UPDATE_DATA_SOURCE);
    assert_null(memmem(args.data, args.len, name, sizeof(name) - 1));
    close_fixture(&f);
}

static void a_second_registration_waits_for_the_end_of_the_first(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_fixture(&f);
    assert_int_equal(perfleet_track_event_register(f.tracing), PERFLEET_EEXIST);
    close_fixture(&f);
    open_fixture(&f);
    close_fixture(&f);
}

static void every_failed_allocation_of_a_start_is_reported_or_harmless(void **state)
{
    struct perfleet_conf conf = {.producer_name = "tester", .socket = "/nonexistent"};
    int rc = PERFLEET_ENOMEM;

    (void)state;
    for (uint64_t nth = 1; rc != 0; nth++) {
        struct perfleet *tracing = NULL;

        pfl_heap_fail_at(nth);
        rc = perfleet_open(&conf, &tracing);
        if (rc == 0)
            rc = perfleet_track_event_register(tracing);
        pfl_heap_fail_at(0);
        perfleet_close(tracing);
        assert_int_equal(pfl_heap_live_blocks(), 0);
        assert_true(rc == 0 || rc == PERFLEET_ENOMEM);
        assert_true(nth < 30);
    }
}

static void a_thread_without_memory_is_left_out_until_there_is_some(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_fixture(&f);
    connect_fixture(&f);
    start_session(&f, 11, NULL, NULL);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* the sequence, its writer */
        pfl_heap_fail_at(nth);
        PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "no memory");
        pfl_heap_fail_at(0);
    }
    assert_int_equal(count_bytes(&f, "no memory"), 0);
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "some memory");
    assert_int_equal(count_bytes(&f, "some memory"), 1);
    close_fixture(&f);
}

/* --- events ------------------------------------------------------------------------------ */

static void open_traced_fixture(struct fixture *f)
{
    open_fixture(f);
    connect_fixture(f);
    start_session(f, 11, NULL, NULL);
}

static uint32_t evaluations;

static const char *evaluate(const char *str)
{
    evaluations++;
    return str;
}

static void an_event_that_nobody_wants_evaluates_nothing(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_fixture(&f);
    connect_fixture(&f);
    start_session(&f, 11, NULL, "test.net");
    evaluations = 0;
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, evaluate("off"))
        perfleet_arg(ev, "value", evaluate("off"));
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, evaluate("off"));
    assert_int_equal(evaluations, 0);
    start_session(&f, 12, NULL, NULL);
    start_session(&f, 13, NULL, NULL);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "on")
        perfleet_arg(ev, "value", evaluate("on"));
    assert_int_equal(evaluations, 2); /* once for each session */
    close_fixture(&f);
}

static void leave_block(bool by_return)
{
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "left") {
        perfleet_arg(ev, "how", by_return ? "by return" : "by break");
        if (by_return)
            return;
        break;
    }
}

static void a_block_may_be_left_and_events_go_on(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    leave_block(true);
    leave_block(false);
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "after the block");
    assert_int_equal(count_bytes(&f, "by return"), 1);
    assert_int_equal(count_bytes(&f, "by break"), 1);
    assert_int_equal(count_bytes(&f, "after the block"), 1);
    close_fixture(&f);
}

static void an_event_inside_an_event_is_left_out(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "the outer one") {
        PERFLEET_TRACE_EVENT_INSTANT(&cat_disk, "the inner one");
        perfleet_arg(ev, "whole", "still whole");
    }
    assert_int_equal(count_bytes(&f, "the outer one"), 1);
    assert_int_equal(count_bytes(&f, "the inner one"), 0);
    assert_int_equal(count_bytes(&f, "still whole"), 1);
    close_fixture(&f);
}

static void on_signal(int number)
{
    (void)number;
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "from a signal handler");
}

static void a_signal_handler_that_interrupts_an_event_is_left_out(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    assert_true(signal(SIGUSR1, on_signal) != SIG_ERR);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "interrupted")
        raise(SIGUSR1);
    assert_int_equal(count_bytes(&f, "interrupted"), 1);
    assert_int_equal(count_bytes(&f, "from a signal handler"), 0);
    raise(SIGUSR1);
    assert_int_equal(count_bytes(&f, "from a signal handler"), 1);
    close_fixture(&f);
}

static void strings_are_sent_once_until_they_change(void **state)
{
    static char name[] = "first content";
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    for (int i = 0; i < 5; i++)
        PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "sent once");
    for (int i = 0; i < 5; i++)
        PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT | PERFLEET_STATIC_NAME, name)
            perfleet_arg(ev, "argument sent once", i);
    assert_int_equal(count_bytes(&f, "sent once"), 2);
    assert_int_equal(count_bytes(&f, "first content"), 1);
    memcpy(name, "other", 6);
    for (int i = 0; i < 3; i++)
        PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT | PERFLEET_STATIC_NAME, name)
            perfleet_arg(ev, name, i);
    assert_int_equal(count_bytes(&f, "other"), 6); /* never by the number of what it was */
    for (int i = 0; i < 3; i++) {
        const char *pointer = name;

        PERFLEET_TRACE_EVENT_INSTANT(&cat_net, pointer);
    }
    assert_int_equal(count_bytes(&f, "other"), 9);
    close_fixture(&f);
}

/* A session whose TrackEventConfig has this number in this field. */
static void start_session_with(struct fixture *f, uint32_t field, uint64_t value)
{
    uint8_t wishes[32];
    uint8_t config[64];
    struct pfl_writer w = pfl_writer_of(wishes, sizeof(wishes));
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));

    pfl_writer_field_varint(&w, field, value);
    pfl_writer_field_bytes(&c, 1, "track_event", 11);
    pfl_writer_field_bytes(&c, 113, wishes, sizeof(wishes) - w.left);
    fake_instance_command(&f->service, CMD_SETUP, 11, pfl_span_of(config, sizeof(config) - c.left));
    fake_instance_command(&f->service, CMD_START, 11, pfl_span_of(config, sizeof(config) - c.left));
    fake_expect(&f->service, FAKE_NOTIFY_STARTED);
}

static void a_session_may_hide_arguments_or_names(void **state)
{
    static const struct {
        uint32_t field;
        uint64_t value;
        unsigned arguments;
        unsigned names;
        unsigned counters;
    } cases[] = {
        {TRACK_EVENT_CONFIG__FILTER_DEBUG_ANNOTATIONS, 1, 0, 1, 0},
        {TRACK_EVENT_CONFIG__FILTER_DEBUG_ANNOTATIONS, 0, 1, 1, 0},
        {TRACK_EVENT_CONFIG__FILTER_DYNAMIC_EVENT_NAMES, 1, 1, 0, 0},
        {TRACK_EVENT_CONFIG__FILTER_DYNAMIC_EVENT_NAMES, 0, 1, 1, 0},
        {TRACK_EVENT_CONFIG__ENABLE_THREAD_TIME_SAMPLING, 1, 1, 1, 1},
        {TRACK_EVENT_CONFIG__ENABLE_THREAD_TIME_SAMPLING, 0, 1, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *name = "made at run time";
        struct fixture f = {0};

        open_fixture(&f);
        connect_fixture(&f);
        start_session_with(&f, cases[i].field, cases[i].value);
        PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, name)
            perfleet_arg(ev, "an argument", 1);
        assert_int_equal(count_bytes(&f, "an argument"), cases[i].arguments);
        assert_int_equal(count_bytes(&f, name), cases[i].names);
        assert_int_equal(count_bytes(&f, "FILTERED"), 1 - cases[i].names);
        assert_int_equal(count_bytes(&f, "thread_time"), cases[i].counters);
        close_fixture(&f);
    }
}

static void timestamps_are_relative_unless_the_session_wants_absolute_ones(void **state)
{
    /* timestamp_clock_id: BOOTTIME, and the sequence's own relative and absolute clocks. */
    static const char boottime[] = "\xd0\x03\x06";
    static const char relative[] = "\xd0\x03\x40";
    static const char absolute[] = "\xd0\x03\x41";

    (void)state;
    for (unsigned is_absolute = 0; is_absolute < 2; is_absolute++) {
        struct fixture f = {0};

        open_fixture(&f);
        connect_fixture(&f);
        start_session_with(&f, TRACK_EVENT_CONFIG__DISABLE_INCREMENTAL_TIMESTAMPS, is_absolute);
        PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "timed");
        assert_int_equal(count_bytes(&f, boottime), 1 + is_absolute); /* the first: of the packet */
        assert_int_equal(count_bytes(&f, relative), 1 - is_absolute);
        assert_int_equal(count_bytes(&f, absolute), 0);
        close_fixture(&f);
    }
}

static void values_may_nest_deeper_than_is_written(void **state)
{
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "deep") {
        for (int i = 0; i < 100; i++)
            perfleet_arg_dict(ev, "level");
        perfleet_arg(ev, "bottom", "never seen");
        for (int i = 0; i < 100; i++)
            perfleet_arg_end(ev);
        perfleet_arg_end(ev);
        perfleet_arg(ev, "top", "seen again");
        perfleet_arg_array(ev, "left open");
    }
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "after the deep one");
    assert_int_equal(count_bytes(&f, "never seen"), 0);
    assert_int_equal(count_bytes(&f, "seen again"), 1);
    assert_int_equal(count_bytes(&f, "after the deep one"), 1);
    close_fixture(&f);
}

static void more_new_strings_than_fit_an_event_are_sent_in_full(void **state)
{
    static char names[100][64];
    struct fixture f = {0};
    uint32_t found = 0;

    (void)state;
    open_traced_fixture(&f);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "many names") {
        for (int i = 0; i < 100; i++) {
            snprintf(names[i], sizeof(names[i]), "a name of some length with number %02d", i);
            perfleet_arg(ev, names[i], i);
        }
    }
    perfleet_track_event_flush();
    for (int i = 0; i < 100; i++) {
        uint32_t count = count_bytes(&f, names[i]);

        assert_in_range(count, 0, 1);
        found += count;
    }
    assert_in_range(found, 96, 100); /* but for those that lie across the end of a chunk */
    close_fixture(&f);
}

static void events_allocate_nothing_after_the_first(void **state)
{
    static struct perfleet_track counter = PERFLEET_COUNTER_TRACK("counter", NULL, NULL);
    struct fixture f = {0};
    uint64_t attempts;

    (void)state;
    open_traced_fixture(&f);
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "warm");
    attempts = pfl_heap_attempts();
    for (int i = 0; i < 200; i++) {
        PERFLEET_TRACE_EVENT(&cat_net, "scope");
        PERFLEET_EVENT (ev, &cat_disk, PERFLEET_INSTANT, "event") {
            perfleet_arg(ev, "number", i);
            perfleet_event_log(ev, PERFLEET_LOG_INFO, "a message", NULL);
            PERFLEET_EVENT_SOURCE_LOCATION(ev);
        }
        PERFLEET_TRACE_COUNTER(&cat_net, &counter, i);
    }
    /* The connection's thread lists finished chunks in memory of its own: a few at most. */
    assert_in_range(pfl_heap_attempts() - attempts, 0, 8);
    close_fixture(&f);
}

static void the_child_of_a_fork_traces_nothing(void **state)
{
    struct fixture f = {0};
    int status = 0;
    pid_t pid;

    (void)state;
    open_traced_fixture(&f);
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "parent");
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool is_off = !perfleet_category_is_enabled(&cat_net);

        cat_net.active = 1; /* as if the fork had come between look and event */
        perfleet_event_write_(&cat_net, PERFLEET_INSTANT, "child");
        perfleet_category_get("test.child");
        perfleet_track_event_flush();
        _exit(is_off && perfleet_track_event_register(f.tracing) == PERFLEET_EFORK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_bytes(&f, "child"), 0);
    PERFLEET_TRACE_EVENT_INSTANT(&cat_net, "still here");
    assert_int_equal(count_bytes(&f, "still here"), 1);
    close_fixture(&f);
}

/* --- threads ----------------------------------------------------------------------------- */

static _Atomic(bool) is_ending;

static void *write_events(void *arg)
{
    struct perfleet_track track = PERFLEET_NAMED_TRACK("of a thread", (uintptr_t)arg, NULL);

    for (uint64_t n = 0; !atomic_load(&is_ending); n++) {
        PERFLEET_TRACE_EVENT(&cat_net, "scope");
        PERFLEET_EVENT_ON (ev, &cat_disk, PERFLEET_INSTANT, "event", &track) {
            perfleet_arg(ev, "number", n);
            PERFLEET_EVENT_SOURCE_LOCATION(ev);
        }
        if (n % 64 == 0)
            perfleet_track_event_flush();
    }
    return NULL;
}

static void threads_trace_while_sessions_and_categories_come_and_go(void **state)
{
    static struct perfleet_category late[4] = {
        PERFLEET_CATEGORY_INIT("test.a", NULL, NULL), PERFLEET_CATEGORY_INIT("test.b", NULL, NULL),
        PERFLEET_CATEGORY_INIT("test.c", NULL, NULL), PERFLEET_CATEGORY_INIT("test.d", NULL, NULL)};
    struct fixture f = {0};
    pthread_t threads[3];

    (void)state;
    atomic_store(&is_ending, false);
    open_fixture(&f);
    connect_fixture(&f);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, (void *)(i + 1)), 0);
    for (uint8_t i = 0; i < 20; i++) {
        start_session(&f, 20 + i, i % 2 == 0 ? NULL : "test.net", i % 2 == 0 ? NULL : "*");
        perfleet_category_register(&late[i % 4]);
        if (i > 0)
            stop_session(&f, (uint8_t)(19 + i));
        perfleet_category_unregister(&late[i % 4]);
    }
    /* The connection goes while threads trace: their next events find nothing. */
    perfleet_close(f.tracing);
    assert_false(perfleet_category_is_enabled(&cat_net));
    atomic_store(&is_ending, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&f.service);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

/* --- tracks ------------------------------------------------------------------------------ */

static void tracks_of_one_name_and_parent_are_one(void **state)
{
    struct perfleet_track a = PERFLEET_NAMED_TRACK("a", 0, NULL);
    struct perfleet_track same = PERFLEET_NAMED_TRACK("a", 0, &perfleet_process_track);
    struct perfleet_track other_id = PERFLEET_NAMED_TRACK("a", 1, NULL);
    struct perfleet_track counter = PERFLEET_COUNTER_TRACK("a", NULL, NULL);
    struct perfleet_track child = PERFLEET_NAMED_TRACK("a", 0, &a);
    struct perfleet_track of_thread = PERFLEET_NAMED_TRACK("a", 0, &perfleet_thread_track);
    struct perfleet_track *others[] = {
        &other_id, &counter, &child, &of_thread, &perfleet_process_track, &perfleet_thread_track};
    uint64_t uuid = perfleet_track_uuid(&a);

    (void)state;
    assert_true(uuid != 0);
    assert_true(perfleet_track_uuid(&same) == uuid);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_true(perfleet_track_uuid(others[i]) != uuid);
}

static void a_circle_of_tracks_ends(void **state)
{
    struct perfleet_track a = PERFLEET_NAMED_TRACK("a", 0, NULL);
    struct perfleet_track b = PERFLEET_NAMED_TRACK("b", 0, &a);
    struct fixture f = {0};

    (void)state;
    a.parent = &b;
    open_traced_fixture(&f);
    PERFLEET_EVENT_ON (ev, &cat_net, PERFLEET_INSTANT, "in a circle", &a)
        perfleet_arg(ev, "x", 1);
    assert_int_equal(count_bytes(&f, "in a circle"), 1);
    close_fixture(&f);
}

static void a_category_that_comes_again_has_a_number_that_no_other_ever_had(void **state)
{
    struct perfleet_category one = PERFLEET_CATEGORY_INIT("test.again-one", NULL, NULL);
    struct perfleet_category two = PERFLEET_CATEGORY_INIT("test.again-two", NULL, NULL);
    uint32_t first;

    (void)state;
    perfleet_category_register(&one);
    first = one.number_;
    assert_true(first > cat_net.number_ && first > cat_disk.number_);
    perfleet_category_unregister(&one);
    assert_int_equal(one.number_, 0);
    perfleet_category_register(&two);
    assert_int_equal(two.number_, first + 1);
    perfleet_category_register(&one);
    assert_int_equal(one.number_, first + 2);
    perfleet_category_unregister(&one);
    perfleet_category_unregister(&two);
}

/* How often these bytes, which may be zero, are in the shared memory. */
static uint32_t count_span(const struct fixture *f, const struct pfl_writer *w,
                           const uint8_t *begin)
{
    const uint8_t *at = f->service.smb.base;
    const uint8_t *end = at + (size_t)PAGES * 4096;
    uint32_t count = 0;

    assert_false(w->failed);
    while ((at = memmem(at, (size_t)(end - at), begin, (size_t)(w->pos - begin))) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void flows_counters_and_ids_are_fields_of_the_event(void **state)
{
    struct fixture f = {0};
    uint8_t bytes[128];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    double value = -2.5;
    uint64_t bits;

    (void)state;
    memcpy(&bits, &value, sizeof(bits));
    pfl_writer_field_fixed64(&w, TRACK_EVENT__DOUBLE_COUNTER_VALUE, bits);
    pfl_writer_field_fixed64(&w, TRACK_EVENT__FLOW_IDS, 0x1122334455667788u);
    pfl_writer_field_fixed64(&w, TRACK_EVENT__TERMINATING_FLOW_IDS, 0x8877665544332211u);
    pfl_writer_field_varint(&w, TRACK_EVENT__CORRELATION_ID, 0x123456789);
    pfl_writer_field_bytes(&w, TRACK_EVENT__CORRELATION_ID_STR, "request-7", 9);
    open_traced_fixture(&f);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "fields") {
        perfleet_event_counter_double(ev, value);
        perfleet_event_flow(ev, 0x1122334455667788u);
        perfleet_event_terminating_flow(ev, 0x8877665544332211u);
        perfleet_event_correlation_id(ev, 0x123456789);
        perfleet_event_correlation_id_str(ev, "request-7");
    }
    assert_int_equal(count_span(&f, &w, bytes), 1);
    assert_int_equal(perfleet_process_scoped_id(0), perfleet_track_uuid(&perfleet_process_track));
    assert_int_equal(perfleet_process_scoped_id(perfleet_process_scoped_id(77)), 77);
    close_fixture(&f);
}

/* One argument that is written in the short form: its size has one byte. */
static void put_argument(struct pfl_writer *w, uint32_t field, const char *text, size_t len)
{
    pfl_writer_field_header(w, TRACK_EVENT__DEBUG_ANNOTATIONS, 2 + len);
    pfl_writer_field_bytes(w, field, text, len);
}

static void put_number(struct pfl_writer *w, uint32_t field, uint64_t value)
{
    pfl_writer_field_header(w, TRACK_EVENT__DEBUG_ANNOTATIONS, 1 + pfl_varint_size(value));
    pfl_writer_field_varint(w, field, value);
}

/* Without names, whose numbers others may have taken. */
static void each_kind_of_argument_has_its_field(void **state)
{
    static char longer[201];
    const struct perfleet_proto message = {"a.Type", "\x08\x01", 2};
    struct fixture f = {0};
    uint8_t bytes[512];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    double half = 0.5;
    uint64_t bits;

    (void)state;
    memset(longer, 'l', sizeof(longer) - 1);
    open_traced_fixture(&f);
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "kinds") {
        perfleet_arg_bool(ev, NULL, true);
        perfleet_arg_bool(ev, NULL, false);
        perfleet_arg_uint(ev, NULL, UINT64_MAX);
        perfleet_arg_int(ev, NULL, -5);
        perfleet_arg_pointer(ev, NULL, (const void *)(uintptr_t)0x1000);
        perfleet_arg_string_len(ev, NULL, "cut here", 3);
        perfleet_arg_string_len(ev, NULL, "x", 0);
        perfleet_arg_string(ev, NULL, NULL);
        perfleet_arg_json(ev, NULL, "{}");
        perfleet_arg_double(ev, NULL, half);
        perfleet_arg_proto(ev, NULL, &message);
        perfleet_arg_string(ev, NULL, longer);
    }
    put_number(&w, DEBUG_ANNOTATION__BOOL_VALUE, 1);
    put_number(&w, DEBUG_ANNOTATION__BOOL_VALUE, 0);
    put_number(&w, DEBUG_ANNOTATION__UINT_VALUE, UINT64_MAX);
    put_number(&w, DEBUG_ANNOTATION__INT_VALUE, (uint64_t)-5);
    put_number(&w, DEBUG_ANNOTATION__POINTER_VALUE, 0x1000);
    put_argument(&w, DEBUG_ANNOTATION__STRING_VALUE, "cut", 3);
    put_argument(&w, DEBUG_ANNOTATION__STRING_VALUE, "", 0);
    put_argument(&w, DEBUG_ANNOTATION__STRING_VALUE, "(null)", 6);
    put_argument(&w, DEBUG_ANNOTATION__LEGACY_JSON_VALUE, "{}", 2);
    assert_int_equal(count_span(&f, &w, bytes), 1);
    w = pfl_writer_of(bytes, sizeof(bytes));
    memcpy(&bits, &half, sizeof(bits));
    pfl_writer_field_fixed64(&w, DEBUG_ANNOTATION__DOUBLE_VALUE, bits);
    assert_int_equal(count_span(&f, &w, bytes), 1);
    w = pfl_writer_of(bytes, sizeof(bytes));
    pfl_writer_field_bytes(&w, DEBUG_ANNOTATION__PROTO_TYPE_NAME, "a.Type", 6);
    pfl_writer_field_bytes(&w, DEBUG_ANNOTATION__PROTO_VALUE, "\x08\x01", 2);
    assert_int_equal(count_span(&f, &w, bytes), 1);
    assert_int_equal(count_bytes(&f, longer), 1);
    close_fixture(&f);
}

static void a_location_is_sent_once_and_in_full_without_a_number(void **state)
{
    static struct perfleet_source_location here = {"here.c", "here", 12345, 0};
    struct perfleet_source_location there = {"there.c", "there", 777, 0};
    struct fixture f = {0};

    (void)state;
    open_traced_fixture(&f);
    for (int i = 0; i < 3; i++) {
        PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "located")
            perfleet_event_source_location(ev, &here);
    }
    PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "logged")
        perfleet_event_log(ev, PERFLEET_LOG_VERBOSE, "a log's body", &here);
    assert_int_equal(count_bytes(&f, "here.c"), 1);
    assert_int_equal(count_bytes(&f, "a log's body"), 1);
    assert_int_not_equal(here.number_, 0);
    while (pfl_intern_take_number() != 0)
        continue; /* none is left for others */
    for (int i = 0; i < 3; i++) {
        PERFLEET_EVENT (ev, &cat_net, PERFLEET_INSTANT, "located")
            perfleet_event_source_location(ev, &there);
    }
    assert_int_equal(there.number_, 0);
    assert_int_equal(count_bytes(&f, "there.c"), 3);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_data_source_describes_its_categories),
        cmocka_unit_test(each_session_switches_the_categories_it_wants),
        cmocka_unit_test(a_category_that_comes_late_is_switched_too),
        cmocka_unit_test(the_service_learns_of_categories_that_come_late),
        cmocka_unit_test(a_second_registration_waits_for_the_end_of_the_first),
        cmocka_unit_test(every_failed_allocation_of_a_start_is_reported_or_harmless),
        cmocka_unit_test(a_thread_without_memory_is_left_out_until_there_is_some),
        cmocka_unit_test(an_event_that_nobody_wants_evaluates_nothing),
        cmocka_unit_test(a_block_may_be_left_and_events_go_on),
        cmocka_unit_test(an_event_inside_an_event_is_left_out),
        cmocka_unit_test(a_signal_handler_that_interrupts_an_event_is_left_out),
        cmocka_unit_test(strings_are_sent_once_until_they_change),
        cmocka_unit_test(a_session_may_hide_arguments_or_names),
        cmocka_unit_test(timestamps_are_relative_unless_the_session_wants_absolute_ones),
        cmocka_unit_test(values_may_nest_deeper_than_is_written),
        cmocka_unit_test(more_new_strings_than_fit_an_event_are_sent_in_full),
        cmocka_unit_test(events_allocate_nothing_after_the_first),
        cmocka_unit_test(the_child_of_a_fork_traces_nothing),
        cmocka_unit_test(threads_trace_while_sessions_and_categories_come_and_go),
        cmocka_unit_test(tracks_of_one_name_and_parent_are_one),
        cmocka_unit_test(a_circle_of_tracks_ends),
        cmocka_unit_test(a_category_that_comes_again_has_a_number_that_no_other_ever_had),
        cmocka_unit_test(flows_counters_and_ids_are_fields_of_the_event),
        cmocka_unit_test(each_kind_of_argument_has_its_field),
        cmocka_unit_test(a_location_is_sent_once_and_in_full_without_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
