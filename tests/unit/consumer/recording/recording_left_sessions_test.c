/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions left running on two played hosts: started, read, copied, watched; and what is left of
 * them when one host misbehaves at every step in every way.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/recording/recording.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS      2u
#define PACKETS    20u
#define STEP_MS    60000u
#define SILENCE_MS 150u /* waiting for a silent host, on a machine that is not slow */

struct world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_host_spec specs[HOSTS];
    struct pfl_recording *recording;
    enum pfl_host_task task;
    const char *output;
    char path[64];
    size_t quorum;
    uint32_t step_ms;
    bool is_to_keep;
    bool is_over;
};

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    (void)user;
    (void)recording;
    (void)host_recording;
}

static void on_over(void *user)
{
    struct world *w = user;

    w->is_over = true;
    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

static void prepare(struct world *w, enum pfl_host_task task)
{
    *w = (struct world){.task = task, .quorum = 1, .step_ms = STEP_MS};
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].packets = PACKETS;
        w->fakes[i].packet_bytes = 100;
        w->fakes[i].has_flight = task != PFL_HOST_TASK_START;
    }
    memcpy(w->path, "/tmp/perfleet-test-XXXXXX", 26);
    close(mkstemp(w->path));
    w->output = task == PFL_HOST_TASK_START ? NULL : w->path;
}

static int start(struct world *w)
{
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x40};
    struct pfl_recording_conf conf = {
        .each_host = {.conn = {.loop = &w->loop},
                      .task = w->task,
                      .session = "flight",
                      .keeps_session = w->is_to_keep,
                      .trace_config = pfl_span_of(config, sizeof(config)),
                      .flush_timeout_ms = 1,
                      .stop_timeout_ms = 1,
                      .step_timeout_ms = w->step_ms},
        .specs = w->specs,
        .specs_len = HOSTS,
        .output_path = w->output,
        .quorum = w->quorum,
        .on_progress = on_progress,
        .on_over = on_over,
        .user = w,
    };
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++) {
        rc = fake_host_open(&w->fakes[i], &w->loop);
        w->specs[i] = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true};
        snprintf(w->specs[i].name, sizeof(w->specs[i].name), "h%zu", i);
        snprintf(w->specs[i].address, sizeof(w->specs[i].address), "%s", w->fakes[i].address);
        snprintf(w->specs[i].text, sizeof(w->specs[i].text), "fake");
    }
    return rc != 0 ? rc : pfl_recording_new(&conf, &w->recording);
}

static void finish(struct world *w)
{
    if (w->recording == NULL)
        on_over(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
}

static void fini(struct world *w)
{
    pfl_recording_free(w->recording);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    unlink(w->path);
    pfl_sweep_assert_no_leak();
}

static void run(struct world *w)
{
    assert_int_equal(start(w), 0);
    finish(w);
    assert_true(w->is_over);
}

static struct pfl_recording_host result(const struct world *w, size_t host)
{
    struct pfl_recording_host h;

    pfl_recording_get_host(w->recording, host, &h);
    return h;
}

/* It was done, and read where something is read. */
static void assert_whole(const struct world *w, size_t host)
{
    struct pfl_recording_host h = result(w, host);

    assert_string_equal(h.report->why, "");
    assert_int_equal(h.state, PFL_HOST_DONE);
    assert_int_equal(h.merged.packets, w->task == PFL_HOST_TASK_START ? 0 : PACKETS);
}

static bool is_kept(const struct fake_host *h)
{
    return h->has_flight && !h->is_flight_held && !h->was_flight_freed;
}

/* The world of a test that needs one alone: prepared for a task, which is the test's state. */
static int set_up(void **state)
{
    static struct world w;

    prepare(&w, *(const enum pfl_host_task *)*state);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    fini(*state);
    return 0;
}

#define WITH_WORLD(test, task)                                                                     \
    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down,                              \
                                             (void *)&(enum pfl_host_task){task})

static void a_session_is_started_and_stays(void **state)
{
    struct world *w = *state;
    int64_t skew_ns;

    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_true(is_kept(&w->fakes[i]));
        assert_true(w->fakes[i].started_order >= 0);
    }
    assert_true(pfl_recording_get_skew_bound(w->recording, &skew_ns) && skew_ns >= 0);
}

static void a_session_left_running_is_read_and_freed(void **state)
{
    struct world *w = *state;

    w->fakes[1].is_flight_over = true;
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_true(w->fakes[i].was_flight_freed);
    }
}

static void a_session_stays_when_it_is_to_be_kept(void **state)
{
    struct world *w = *state;

    w->is_to_keep = true;
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_int_equal(w->fakes[i].clones, 1);
        assert_true(is_kept(&w->fakes[i]));
    }
}

static void a_session_stays_when_its_file_cannot_be_written(void **state)
{
    struct world *w = *state;

    w->output = "/dev/full";
    run(w);
    assert_true(pfl_recording_has_file_failed(w->recording));
    for (size_t i = 0; i < HOSTS; i++)
        assert_true(is_kept(&w->fakes[i]));
}

static void a_session_that_cannot_be_copied_is_read_itself(void **state)
{
    struct world *w = *state;

    w->fakes[1].refuses_clones = true;
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_true(w->fakes[i].was_flight_freed);
    }
    assert_int_equal(w->fakes[1].clones, 0);
}

static void a_copy_leaves_the_session_alone(void **state)
{
    struct world *w = *state;

    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_int_equal(w->fakes[i].clones, 1);
        assert_true(is_kept(&w->fakes[i]));
    }
}

static void a_trigger_on_one_host_copies_all(void **state)
{
    struct world w;

    (void)state;
    for (size_t culprit = 0; culprit < HOSTS; culprit++) {
        prepare(&w, PFL_HOST_TASK_WATCH);
        w.fakes[culprit].raises_trigger = true;
        run(&w);
        for (size_t i = 0; i < HOSTS; i++) {
            assert_whole(&w, i);
            assert_int_equal(w.fakes[i].clones, 1);
            assert_true(is_kept(&w.fakes[i]));
        }
        assert_string_equal(result(&w, culprit).report->trigger, "\"boom\"");
        assert_string_equal(result(&w, 1 - culprit).report->trigger, "");
        fini(&w);
    }
}

static void whoever_waits_for_a_trigger_does_not_hold_the_session(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HOSTS; i++)
        w->fakes[i].tells_triggers = true;
    w->fakes[0].raises_trigger = true;
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_int_equal(w->fakes[i].clones, 1);
        assert_true(is_kept(&w->fakes[i]));
    }
}

static void a_session_that_is_killed_while_its_trigger_is_waited_for_is_missed(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].tells_triggers = true;
        w->fakes[i].kills_flight = true;
    }
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(result(w, i).report->failed_in, PFL_HOST_RECORDING);
        assert_non_null(strstr(result(w, i).report->why, "the session is gone"));
    }
}

static void a_session_that_is_stopped_while_its_trigger_is_waited_for_is_copied(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HOSTS; i++)
        w->fakes[i].tells_triggers = true;
    w->fakes[0].stops_flight = true;
    run(w);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_whole(w, i);
        assert_true(is_kept(&w->fakes[i]));
    }
}

static void what_cannot_be_written_is_not_taken(void **state)
{
    struct world *w = *state;

    w->output = "/no/such/place.pftrace";
    run(w);
    assert_true(pfl_recording_has_file_failed(w->recording));
    for (size_t i = 0; i < HOSTS; i++)
        assert_true(is_kept(&w->fakes[i]));
}

static void too_few_hosts_leave_the_session_with_those_there_are(void **state)
{
    struct world *w = *state;

    w->quorum = 2;
    w->fakes[1].has_flight = false;
    run(w);
    assert_true(is_kept(&w->fakes[0]));
    assert_non_null(strstr(result(w, 1).report->why, "there is no session \"flight\""));
}

struct misdeed {
    enum pfl_host_task task;
    const char *method;
    enum pfl_host_recording_state fails_in;
    bool tells_triggers;
};

static const struct misdeed misdeeds[] = {
    {PFL_HOST_TASK_START, "Detach", PFL_HOST_DETACHING, false},
    {PFL_HOST_TASK_READ, "QueryServiceState", PFL_HOST_SETUP, false},
    {PFL_HOST_TASK_READ, "Attach", PFL_HOST_SETUP, false},
    {PFL_HOST_TASK_SNAPSHOT, "QueryServiceState", PFL_HOST_SETUP, false},
    {PFL_HOST_TASK_SNAPSHOT, "CloneSession", PFL_HOST_CLONING, false},
    {PFL_HOST_TASK_WATCH, "Attach", PFL_HOST_SETUP, false},
    {PFL_HOST_TASK_WATCH, "Detach", PFL_HOST_DETACHING, false},
    {PFL_HOST_TASK_WATCH, "CloneSession", PFL_HOST_CLONING, false},
    {PFL_HOST_TASK_WATCH, "Attach", PFL_HOST_SETUP, true},
    {PFL_HOST_TASK_WATCH, "GetTraceStats", PFL_HOST_SETUP, true},
    {PFL_HOST_TASK_WATCH, "FreeBuffers", PFL_HOST_DETACHING, true},
    {PFL_HOST_TASK_WATCH, "CloneSession", PFL_HOST_CLONING, true},
};

/* The other, too, has no more time than a step: on a slow machine all is tried again with more. */
static void run_misdeed(struct world *w, const struct misdeed *m, enum fake_trick trick)
{
    for (uint32_t step_ms = trick == FAKE_SILENT ? SILENCE_MS : STEP_MS;; step_ms *= 8, fini(w)) {
        prepare(w, m->task);
        w->step_ms = step_ms;
        w->fakes[0].raises_trigger = true;
        w->fakes[1].tells_triggers = m->tells_triggers;
        w->fakes[1].trick = trick;
        w->fakes[1].method = m->method;
        run(w);
        if (step_ms >= STEP_MS ||
            (result(w, 0).state == PFL_HOST_DONE && result(w, 1).report->failed_in == m->fails_in))
            return;
    }
}

static void commit_misdeed(const struct misdeed *m, enum fake_trick trick)
{
    struct world w;
    struct pfl_recording_host h;

    run_misdeed(&w, m, trick);
    assert_whole(&w, 0);
    h = result(&w, 1);
    assert_int_equal(h.state, PFL_HOST_FAILED);
    assert_int_equal(h.report->failed_in, m->fails_in);
    assert_true(strlen(h.report->why) > strlen(pfl_host_recording_state_str(m->fails_in)) + 2);
    fini(&w);
}

static void a_session_that_was_not_read_is_said_to_be_there(void **state)
{
    static const struct misdeed left = {PFL_HOST_TASK_READ, "CloneSession", PFL_HOST_CLONING,
                                        false};
    struct world w;

    (void)state;
    run_misdeed(&w, &left, FAKE_DIES);
    assert_int_equal(result(&w, 1).report->fate, PFL_SESSION_LEFT);
    assert_int_not_equal(result(&w, 0).report->fate, PFL_SESSION_LEFT);
    fini(&w);
}

static void of_a_host_that_did_not_answer_it_is_unknown_whether_the_session_is_there(void **state)
{
    static const struct misdeed unknown = {PFL_HOST_TASK_READ, "QueryServiceState", PFL_HOST_SETUP,
                                           false};
    static const struct misdeed left = {PFL_HOST_TASK_READ, "CloneSession", PFL_HOST_CLONING,
                                        false};
    struct world w;

    (void)state;
    run_misdeed(&w, &unknown, FAKE_DIES);
    assert_int_equal(result(&w, 1).report->fate, PFL_SESSION_UNKNOWN);
    assert_int_not_equal(result(&w, 1).report->fate, PFL_SESSION_LEFT);
    assert_int_not_equal(result(&w, 0).report->fate, PFL_SESSION_UNKNOWN);
    fini(&w);
    run_misdeed(&w, &left, FAKE_DIES);
    assert_int_not_equal(result(&w, 1).report->fate, PFL_SESSION_UNKNOWN);
    fini(&w);
}

/* The service continues; it frees what the connection is attached to. */
static void a_session_outlives_the_connection_that_ends_at_any_request(void **state)
{
    static const struct misdeed ends[] = {
        {PFL_HOST_TASK_READ, "Attach", PFL_HOST_SETUP, false},
        {PFL_HOST_TASK_READ, "Flush", PFL_HOST_FLUSHING, false},
        {PFL_HOST_TASK_READ, "DisableTracing", PFL_HOST_DISABLING, false},
        {PFL_HOST_TASK_READ, "CloneSession", PFL_HOST_CLONING, false},
        {PFL_HOST_TASK_READ, "GetTraceStats", PFL_HOST_STATS, false},
        {PFL_HOST_TASK_READ, "ReadBuffers", PFL_HOST_READING, false},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        run_misdeed(&w, &ends[i], FAKE_DIES);
        assert_whole(&w, 0);
        assert_int_equal(result(&w, 1).report->failed_in, ends[i].fails_in);
        assert_int_equal(result(&w, 1).report->fate, PFL_SESSION_LEFT);
        assert_int_not_equal(result(&w, 1).report->fate, PFL_SESSION_UNKNOWN);
        assert_true(is_kept(&w.fakes[1]));
        fini(&w);
    }
}

static void a_session_outlives_who_waits_for_its_trigger_at_any_request(void **state)
{
    static const struct misdeed ends[] = {
        {PFL_HOST_TASK_WATCH, "EnableTracing", PFL_HOST_SETUP, true},
        {PFL_HOST_TASK_WATCH, "ObserveEvents", PFL_HOST_SETUP, true},
        {PFL_HOST_TASK_WATCH, "GetTraceStats", PFL_HOST_SETUP, true},
        {PFL_HOST_TASK_WATCH, "FreeBuffers", PFL_HOST_DETACHING, true},
        {PFL_HOST_TASK_WATCH, "CloneSession", PFL_HOST_CLONING, true},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        run_misdeed(&w, &ends[i], FAKE_DIES);
        assert_whole(&w, 0);
        assert_int_equal(result(&w, 1).report->failed_in, ends[i].fails_in);
        assert_true(is_kept(&w.fakes[1]));
        fini(&w);
    }
}

static void a_session_outlives_a_flush_that_is_not_answered(void **state)
{
    static const struct misdeed silence = {PFL_HOST_TASK_READ, "Flush", PFL_HOST_FLUSHING, false};
    struct world w;

    (void)state;
    run_misdeed(&w, &silence, FAKE_SILENT);
    assert_int_equal(result(&w, 1).report->fate, PFL_SESSION_LEFT);
    assert_true(is_kept(&w.fakes[1]));
    fini(&w);
}

static void a_session_that_somebody_holds_is_left_to_him(void **state)
{
    struct world *w = *state;

    w->fakes[1].is_flight_held = true;
    run(w);
    assert_whole(w, 0);
    assert_int_equal(result(w, 1).report->failed_in, PFL_HOST_SETUP);
    assert_non_null(strstr(result(w, 1).report->why, "another consumer holds"));
    assert_int_not_equal(result(w, 1).report->fate, PFL_SESSION_LEFT);
    assert_false(w->fakes[1].was_flight_freed);
}

static void a_session_that_takes_its_time_to_stop_is_waited_for(void **state)
{
    struct world *w = *state;

    w->fakes[1].looks_until_over = 3;
    run(w);
    assert_whole(w, 1);
    assert_int_equal(w->fakes[1].looks_until_over, 0);
    assert_true(w->fakes[1].was_flight_freed);
}

static void a_session_that_does_not_stop_stays(void **state)
{
    struct world *w = *state;

    w->step_ms = SILENCE_MS;
    w->fakes[1].looks_until_over = UINT_MAX;
    run(w);
    assert_int_equal(result(w, 1).report->failed_in, PFL_HOST_DISABLING);
    assert_int_equal(result(w, 1).report->fate, PFL_SESSION_LEFT);
    assert_true(is_kept(&w->fakes[1]));
}

static void a_host_that_misbehaves_at_any_step_leaves_the_other_whole(void **state)
{
    static const enum fake_trick tricks[] = {FAKE_SILENT, FAKE_DIES, FAKE_GARBAGE, FAKE_FAILS};

    (void)state;
    for (size_t i = 0; i < sizeof(misdeeds) / sizeof(misdeeds[0]); i++)
        for (size_t t = 0; t < sizeof(tricks) / sizeof(tricks[0]); t++)
            commit_misdeed(&misdeeds[i], tricks[t]);
}

static int run_once(void *arg)
{
    const struct misdeed *m = arg;
    struct world w;
    int rc;

    prepare(&w, m->task);
    for (size_t i = 0; i < HOSTS; i++) {
        w.fakes[i].raises_trigger = true;
        w.fakes[i].tells_triggers = m->tells_triggers;
    }
    rc = start(&w);
    finish(&w);
    pfl_recording_free(w.recording);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    unlink(w.path);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    struct misdeed tasks[] = {
        {.task = PFL_HOST_TASK_WATCH},
        {.task = PFL_HOST_TASK_WATCH, .tells_triggers = true},
        {.task = PFL_HOST_TASK_READ},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        pfl_sweep(run_once, &tasks[i], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(a_session_is_started_and_stays, PFL_HOST_TASK_START),
        WITH_WORLD(a_session_left_running_is_read_and_freed, PFL_HOST_TASK_READ),
        WITH_WORLD(a_session_stays_when_it_is_to_be_kept, PFL_HOST_TASK_READ),
        WITH_WORLD(a_session_stays_when_its_file_cannot_be_written, PFL_HOST_TASK_READ),
        WITH_WORLD(a_session_that_cannot_be_copied_is_read_itself, PFL_HOST_TASK_READ),
        WITH_WORLD(a_copy_leaves_the_session_alone, PFL_HOST_TASK_SNAPSHOT),
        cmocka_unit_test(a_trigger_on_one_host_copies_all),
        WITH_WORLD(whoever_waits_for_a_trigger_does_not_hold_the_session, PFL_HOST_TASK_WATCH),
        WITH_WORLD(a_session_that_is_killed_while_its_trigger_is_waited_for_is_missed,
                   PFL_HOST_TASK_WATCH),
        WITH_WORLD(a_session_that_is_stopped_while_its_trigger_is_waited_for_is_copied,
                   PFL_HOST_TASK_WATCH),
        WITH_WORLD(what_cannot_be_written_is_not_taken, PFL_HOST_TASK_READ),
        WITH_WORLD(too_few_hosts_leave_the_session_with_those_there_are, PFL_HOST_TASK_READ),
        cmocka_unit_test(a_session_that_was_not_read_is_said_to_be_there),
        cmocka_unit_test(of_a_host_that_did_not_answer_it_is_unknown_whether_the_session_is_there),
        cmocka_unit_test(a_session_outlives_the_connection_that_ends_at_any_request),
        cmocka_unit_test(a_session_outlives_who_waits_for_its_trigger_at_any_request),
        cmocka_unit_test(a_session_outlives_a_flush_that_is_not_answered),
        WITH_WORLD(a_session_that_somebody_holds_is_left_to_him, PFL_HOST_TASK_READ),
        WITH_WORLD(a_session_that_takes_its_time_to_stop_is_waited_for, PFL_HOST_TASK_READ),
        WITH_WORLD(a_session_that_does_not_stop_stays, PFL_HOST_TASK_READ),
        cmocka_unit_test(a_host_that_misbehaves_at_any_step_leaves_the_other_whole),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
