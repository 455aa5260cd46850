/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of everything that track events can say, for comparison with what readers make of it.
 *
 * Usage: event_scenario [flood]
 *
 * Waits until a session wants category "scenario.a", emits, flushes, and stays until its stdin
 * ends. With "flood" it emits more of one kind than the shared memory takes. Times are given, so
 * that durations can be compared: the n-th step is n microseconds after a start that is rounded to
 * a second. tests/fixtures/track_events says what must come out.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet_track_event.h"

PERFLEET_CATEGORY_DEFINE(cat_a, "scenario.a", "The first category", NULL)
PERFLEET_CATEGORY_DEFINE(cat_b, "scenario.b", "The second category", "tag1,tag2")
PERFLEET_CATEGORY_DEFINE(cat_slow, "scenario.slow", "Off unless asked for", "slow")
PERFLEET_CATEGORY_DEFINE(cat_group, "scenario.a,scenario.b", NULL, NULL)

static uint64_t start_ns;
static uint64_t now_us;

/* The next microsecond. */
static uint64_t next_time(void)
{
    return start_ns + ++now_us * 1000;
}

#define EVENT(category, type, name, track)                                                         \
    PERFLEET_EVENT_AT (ev, category, type, name, track, PERFLEET_BOOTTIME, next_time())
#define BEGIN(category, name) EVENT(category, PERFLEET_SLICE_BEGIN, name, NULL)
#define END(category)         EVENT(category, PERFLEET_SLICE_END, NULL, NULL)
#define INSTANT(name)         EVENT(&cat_a, PERFLEET_INSTANT, name, NULL)

static void emit_slices(void)
{
    BEGIN(&cat_a, "outer")
    {
        perfleet_arg(ev, "depth", 0);
    }
    BEGIN(&cat_b, "inner")
    {
        perfleet_arg(ev, "depth", 1);
    }
    BEGIN(&cat_group, "in two categories")
    {
    }
    END(&cat_group)
    {
    }
    END(&cat_b)
    {
        perfleet_arg(ev, "result", "said at the end");
    }
    END(&cat_a)
    {
    }
    BEGIN(&cat_slow, "never seen")
    {
    }
    END(&cat_slow)
    {
    }
}

static void emit_arguments(void)
{
    char name[] = "a name from a buffer";
    char dynamic[] = "scenario.dynamic";

    INSTANT("arguments")
    {
        perfleet_arg(ev, "bool", (bool)true);
        perfleet_arg(ev, "uint", UINT64_MAX);
        perfleet_arg(ev, "int", INT64_MIN);
        perfleet_arg(ev, "double", 2.5);
        perfleet_arg(ev, "string", "text with \"quotes\" and \xc3\xa4");
        perfleet_arg(ev, "empty", "");
        perfleet_arg_pointer(ev, "pointer", (const void *)0x1234abcdu);
        perfleet_arg_string_len(ev, "part", "partly", 4);
        perfleet_arg_json(ev, "json", "{\"a\":[1,2]}");
    }
    INSTANT("nested arguments")
    {
        perfleet_arg_dict(ev, "dict");
        perfleet_arg(ev, "x", 1);
        perfleet_arg_dict(ev, "in");
        perfleet_arg(ev, "y", "deep");
        perfleet_arg_end(ev);
        perfleet_arg_end(ev);
        perfleet_arg_array(ev, "array");
        perfleet_arg(ev, NULL, 10);
        perfleet_arg(ev, NULL, 20);
        perfleet_arg_dict(ev, NULL);
        perfleet_arg(ev, "z", 30);
        perfleet_arg_end(ev);
        perfleet_arg_array(ev, NULL);
        perfleet_arg(ev, NULL, 1.5);
        perfleet_arg_end(ev);
        perfleet_arg_end(ev);
        perfleet_arg(ev, "after", 3);
    }
    INSTANT(name)
    {
        snprintf(name, sizeof(name), "another");
    }
    EVENT(perfleet_category_get(dynamic), PERFLEET_INSTANT, "dynamic category", NULL)
    {
    }
}

static void emit_links(void)
{
    EVENT(&cat_a, PERFLEET_SLICE_BEGIN, "flow starts", NULL)
    perfleet_event_flow(ev, 77);
    END(&cat_a)
    {
    }
    BEGIN(&cat_a, "flow continues")
    {
        perfleet_event_flow(ev, 77);
        perfleet_event_flow(ev, 78);
    }
    END(&cat_a)
    {
    }
    BEGIN(&cat_a, "flow ends")
    {
        perfleet_event_terminating_flow(ev, 77);
    }
    END(&cat_a)
    {
    }
    INSTANT("correlated")
    perfleet_event_correlation_id(ev, 4711);
    INSTANT("correlated by name")
    perfleet_event_correlation_id_str(ev, "request-1");
}

static void emit_log(void)
{
    static struct perfleet_source_location where = {"scenario.c", "emit_log", 42, 0};

    for (int i = 0; i < 2; i++) {
        INSTANT("located")
        perfleet_event_source_location(ev, &where);
    }
    INSTANT("logged")
    perfleet_event_log(ev, PERFLEET_LOG_WARN, "something to read", &where);
    INSTANT("typed field")
    {
        perfleet_begin(perfleet_event_writer(ev), 25); /* TrackEvent.chrome_user_event */
        perfleet_string(perfleet_event_writer(ev), 1, "clicked");
        perfleet_end(perfleet_event_writer(ev));
    }
}

static void emit_tracks(void)
{
    static struct perfleet_track group = {.name = "group",
                                          .child_ordering = PERFLEET_EXPLICIT,
                                          .description = "Tracks in an order of their own"};
    static struct perfleet_track first = {.name = "first", .parent = &group};
    static struct perfleet_track second = {
        .name = "second", .parent = &group, .sibling_order_rank = -1};
    static struct perfleet_track lone = {.name = "lone", .id = 9, .parent = &perfleet_global_track};
    static struct perfleet_track of_thread = {.name = "of the thread",
                                              .parent = &perfleet_thread_track};
    static struct perfleet_track state = {.kind = PERFLEET_TRACK_STATE, .name = "state"};
    struct perfleet_track *tracks[] = {&first, &second, &lone, &of_thread, &perfleet_process_track};

    for (size_t i = 0; i < sizeof(tracks) / sizeof(tracks[0]); i++) {
        EVENT(&cat_a, PERFLEET_SLICE_BEGIN, "on a track", tracks[i])
        perfleet_arg(ev, "number", i);
        EVENT(&cat_a, PERFLEET_SLICE_END, NULL, tracks[i])
        {
        }
    }
    EVENT(&cat_a, PERFLEET_STATE, "idle", &state)
    {
    }
    EVENT(&cat_a, PERFLEET_STATE, "busy", &state)
    {
    }
}

static void emit_counters(void)
{
    static struct perfleet_track plain = PERFLEET_COUNTER_TRACK("plain", NULL, NULL);
    static struct perfleet_track named = PERFLEET_COUNTER_TRACK("named unit", "apples", NULL);
    static struct perfleet_track bytes = {.kind = PERFLEET_TRACK_COUNTER,
                                          .name = "bytes",
                                          .unit = PERFLEET_UNIT_SIZE_BYTES,
                                          .unit_multiplier = 1024};
    static struct perfleet_track rising = {.kind = PERFLEET_TRACK_COUNTER,
                                           .name = "rising",
                                           .unit = PERFLEET_UNIT_COUNT,
                                           .is_incremental = true,
                                           .parent = &perfleet_thread_track};
    struct perfleet_track *tracks[] = {&plain, &named, &bytes, &rising};

    for (int round = 1; round <= 3; round++) {
        for (size_t i = 0; i < sizeof(tracks) / sizeof(tracks[0]); i++) {
            EVENT(&cat_a, PERFLEET_COUNTER, NULL, tracks[i])
            perfleet_event_counter_int(
                ev, tracks[i]->is_incremental && round > 1 ? 10 : round * 10 - 15);
        }
    }
    EVENT(&cat_a, PERFLEET_COUNTER, NULL, &plain)
    perfleet_event_counter_double(ev, 0.125);
}

static void emit_past(void)
{
    PERFLEET_EVENT_AT (ev, &cat_a, PERFLEET_INSTANT, "in the past", NULL, PERFLEET_BOOTTIME,
                       start_ns + 500) {
    }
    INSTANT("after the past")
    {
    }
}

static void *run_second(void *arg)
{
    prctl(PR_SET_NAME, "second-thread");
    BEGIN(&cat_a, "on the second thread")
    {
        perfleet_event_flow(ev, 78);
    }
    END(&cat_a)
    {
    }
    perfleet_track_event_flush();
    return arg;
}

static void emit_all(void)
{
    pthread_t second;

    emit_slices();
    emit_arguments();
    emit_links();
    emit_log();
    emit_tracks();
    emit_counters();
    emit_past();
    if (pthread_create(&second, NULL, run_second, NULL) == 0)
        pthread_join(second, NULL);
}

static void emit_flood(void)
{
    static struct perfleet_track tracks[8];

    for (uint64_t i = 0; i < 8; i++)
        tracks[i] = (struct perfleet_track)PERFLEET_NAMED_TRACK("flooded", i, NULL);
    for (uint64_t n = 0; n < 150000; n++) {
        PERFLEET_EVENT_ON (ev, &cat_a, PERFLEET_INSTANT, "drop", &tracks[n % 8]) {
            perfleet_arg(ev, "number", n);
            PERFLEET_EVENT_SOURCE_LOCATION(ev);
        }
    }
}

int main(int argc, char **argv)
{
    struct timespec nap = {.tv_nsec = 1000000};
    struct perfleet *tracing;
    char byte;

    prctl(PR_SET_NAME, "scenario-main");
    if (perfleet_track_event_open("scenario", &tracing) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (!perfleet_category_is_enabled(&cat_a))
        nanosleep(&nap, NULL);
    start_ns = perfleet_time_ns() / 1000000000u * 1000000000u;
    if (argc > 1 && strcmp(argv[1], "flood") == 0)
        emit_flood();
    else
        emit_all();
    perfleet_track_event_flush();
    perfleet_sync(tracing, 10000);
    puts("done");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    perfleet_close(tracing);
    return 0;
}
