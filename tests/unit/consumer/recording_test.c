/* SPDX-License-Identifier: Apache-2.0 */
/* Whole recordings of two played hosts, one of which misbehaves at every step in every way. */
#include "consumer/recording/recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS      2u
#define PACKETS    100u
#define PREAMBLE   5u /* clock, two names, one clock point, one clock quality */
#define STEP_MS    60000u
#define SILENCE_MS 150u /* waiting for a silent host, on a machine that is not slow */
#define OFFSET_NS  7000000000000ll
#define CLOCK_SLOP 50000000ll /* a machine under load */

struct world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_host_spec specs[HOSTS];
    struct pfl_recording *recording;
    char path[64];
    size_t quorum;
    uint32_t step_ms;
    uint64_t read_limit;  /* 0: none was given */
    bool is_left_running; /* the test does not stop it */
    bool is_over;
    bool has_run;
};

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_link *link)
{
    struct world *w = user;

    if (link == NULL && pfl_recording_get_phase(recording) == PFL_RECORDING_RUN)
        w->has_run = true;
}

static void on_over(void *user)
{
    struct world *w = user;

    w->is_over = true;
    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

static void prepare(struct world *w)
{
    *w = (struct world){.quorum = 1, .step_ms = STEP_MS};
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].packets = PACKETS;
        w->fakes[i].packet_bytes = 100;
        w->fakes[i].offset_ns = (int64_t)i * OFFSET_NS;
    }
    memcpy(w->path, "/tmp/perfleet-test-XXXXXX", 26);
    close(mkstemp(w->path));
}

static int start(struct world *w)
{
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x40};
    struct pfl_recording_conf conf = {
        .link = {.conn = {.loop = &w->loop},
                 .trace_config = pfl_span_of(config, sizeof(config)),
                 .flush_timeout_ms = 1,
                 .stop_timeout_ms = 1,
                 .step_timeout_ms = w->step_ms,
                 .has_read_limit = w->read_limit != 0,
                 .read_limit_bytes = w->read_limit},
        .specs = w->specs,
        .specs_len = HOSTS,
        .output_path = w->path,
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
    while (uv_run(&w->loop, UV_RUN_ONCE) != 0)
        if (w->has_run && !w->is_left_running && w->recording != NULL && !w->is_over)
            pfl_recording_stop(w->recording);
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

static void assert_complete(const struct world *w, size_t host)
{
    struct pfl_recording_host h = result(w, host);

    assert_string_equal(h.report->why, "");
    assert_int_equal(h.state, PFL_LINK_DONE);
    assert_int_equal(h.merged.packets, PACKETS);
    assert_int_equal(h.merged.refused_packets, 0);
}

/* The file is packets from end to end; returns how many. */
static size_t count_packets(const struct world *w)
{
    static uint8_t bytes[1u << 20];
    FILE *f = fopen(w->path, "rb");
    struct pfl_reader r;
    struct pfl_field field;
    size_t n = 0;

    assert_non_null(f);
    r = pfl_reader_of(pfl_span_of(bytes, fread(bytes, 1, sizeof(bytes), f)));
    fclose(f);
    while (pfl_reader_field(&r, &field))
        n++;
    assert_false(r.failed);
    return n;
}

static void two_hosts_become_one_file_with_their_clocks_known(void **state)
{
    struct world w;
    struct pfl_recording_host h;

    (void)state;
    prepare(&w);
    run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_int_equal(count_packets(&w), 2 * PACKETS + PREAMBLE);
    h = result(&w, 0);
    assert_true(h.is_reference);
    h = result(&w, 1);
    assert_true(h.has_offset);
    assert_true(h.offset_ns > OFFSET_NS - CLOCK_SLOP && h.offset_ns < OFFSET_NS + CLOCK_SLOP);
    assert_true(h.offset_ns >= OFFSET_NS - h.error_ns && h.offset_ns <= OFFSET_NS + h.error_ns);
    fini(&w);
}

struct misdeed {
    const char *method;
    enum fake_trick trick;
    enum pfl_link_state fails_in; /* PFL_LINK_DONE: it is survived */
};

static const struct misdeed misdeeds[] = {
    {"EnableTracing", FAKE_SILENT, PFL_LINK_SETUP},
    {"EnableTracing", FAKE_DIES, PFL_LINK_SETUP},
    {"EnableTracing", FAKE_GARBAGE, PFL_LINK_SETUP},
    {"EnableTracing", FAKE_FAILS, PFL_LINK_SETUP},
    {"GetTraceStats", FAKE_SILENT, PFL_LINK_SETUP},
    {"GetTraceStats", FAKE_DIES, PFL_LINK_SETUP},
    {"GetTraceStats", FAKE_FAILS, PFL_LINK_SETUP},
    {"StartTracing", FAKE_SILENT, PFL_LINK_STARTING},
    {"StartTracing", FAKE_DIES, PFL_LINK_STARTING},
    {"StartTracing", FAKE_GARBAGE, PFL_LINK_STARTING},
    {"StartTracing", FAKE_FAILS, PFL_LINK_STARTING},
    {"Flush", FAKE_SILENT, PFL_LINK_FLUSHING},
    {"Flush", FAKE_DIES, PFL_LINK_FLUSHING},
    {"Flush", FAKE_GARBAGE, PFL_LINK_FLUSHING},
    {"Flush", FAKE_FAILS, PFL_LINK_DONE},
    {"DisableTracing", FAKE_SILENT, PFL_LINK_DISABLING},
    {"DisableTracing", FAKE_DIES, PFL_LINK_DISABLING},
    {"ReadBuffers", FAKE_SILENT, PFL_LINK_READING},
    {"ReadBuffers", FAKE_DIES, PFL_LINK_READING},
    {"ReadBuffers", FAKE_GARBAGE, PFL_LINK_READING},
    {"ReadBuffers", FAKE_FAILS, PFL_LINK_READING},
    {"FreeBuffers", FAKE_SILENT, PFL_LINK_DONE},
    {"FreeBuffers", FAKE_DIES, PFL_LINK_DONE},
    {"FreeBuffers", FAKE_FAILS, PFL_LINK_DONE},
};

/* The other, too, has no more time than a step: on a slow machine all is tried again with more. */
static void run_misdeed(struct world *w, const struct misdeed *m, size_t culprit)
{
    uint32_t step_ms = m->trick == FAKE_SILENT ? SILENCE_MS : STEP_MS;
    struct pfl_recording_host h;

    for (;; step_ms *= 8, fini(w)) {
        prepare(w);
        w->step_ms = step_ms;
        w->fakes[culprit].trick = m->trick;
        w->fakes[culprit].method = m->method;
        run(w);
        h = result(w, culprit);
        if (step_ms >= STEP_MS ||
            (result(w, 1 - culprit).state == PFL_LINK_DONE &&
             (m->fails_in == PFL_LINK_DONE || h.report->failed_in == m->fails_in)))
            return;
    }
}

static void commit_misdeed(const struct misdeed *m, size_t culprit)
{
    struct world w;
    struct pfl_recording_host h;

    run_misdeed(&w, m, culprit);
    assert_complete(&w, 1 - culprit);
    assert_true(count_packets(&w) >= PACKETS + 2);
    h = result(&w, culprit);
    if (m->fails_in == PFL_LINK_DONE) {
        assert_complete(&w, culprit);
    } else {
        assert_int_equal(h.state, PFL_LINK_FAILED);
        assert_int_equal(h.report->failed_in, m->fails_in);
        assert_true(strlen(h.report->why) > strlen(pfl_link_state_str(m->fails_in)) + 2);
    }
    fini(&w);
}

static void a_host_that_misbehaves_at_any_step_leaves_the_other_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(misdeeds) / sizeof(misdeeds[0]); i++) {
        commit_misdeed(&misdeeds[i], 1);
        commit_misdeed(&misdeeds[i], 0);
    }
}

static void host_that_dies_while_read_leaves_what_it_had_sent(void **state)
{
    struct world w;
    struct pfl_recording_host h;

    (void)state;
    prepare(&w);
    w.fakes[1].trick = FAKE_HALF;
    run(&w);
    assert_complete(&w, 0);
    h = result(&w, 1);
    assert_true(h.report->is_cut_short);
    assert_int_equal(h.merged.packets, PACKETS / 2 + 1);
    assert_int_equal(count_packets(&w), PACKETS + PACKETS / 2 + 1 + PREAMBLE);
    fini(&w);
}

static void operators_limit_cuts_a_host_short(void **state)
{
    struct world w;
    struct pfl_recording_host h;

    (void)state;
    prepare(&w);
    w.read_limit = 20000;
    w.fakes[0].packets = 10;
    w.fakes[1].packets = 100;
    w.fakes[1].packet_bytes = 400;
    run(&w);
    assert_int_equal(result(&w, 0).state, PFL_LINK_DONE);
    h = result(&w, 1);
    assert_true(h.report->is_cut_short);
    assert_non_null(strstr(h.report->why, "more than --max-host-mib"));
    assert_true(h.report->bytes_read <= 20000 && h.report->bytes_read > 19000);
    fini(&w);
}

static void host_without_a_measurable_clock_is_recorded_all_the_same(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.fakes[0].trick = FAKE_NO_NOTES;
    run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_false(result(&w, 0).has_offset);
    assert_false(result(&w, 0).is_reference);
    assert_true(result(&w, 1).is_reference);
    fini(&w);
}

static void session_that_ends_by_itself_ends_the_others(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.is_left_running = true;
    w.fakes[1].trick = FAKE_ENDS;
    run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_true(result(&w, 1).report->has_ended_itself);
    assert_false(result(&w, 0).report->has_ended_itself);
    fini(&w);
}

static void too_few_hosts_start_nothing(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.quorum = 2;
    w.fakes[1].trick = FAKE_FAILS;
    w.fakes[1].method = "EnableTracing";
    run(&w);
    assert_false(w.has_run);
    assert_int_equal(w.fakes[0].started_order, -1);
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "1 of 2"));
    fini(&w);
}

static void full_disk_ends_the_recording_with_the_reason(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/dev/full");
    run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "No space"));
    w.path[0] = '\0';
    fini(&w);
}

static void path_that_cannot_be_written_costs_no_recording(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/does/not/exist");
    run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_false(w.has_run);
    assert_int_equal(w.fakes[0].started_order, -1);
    fini(&w);
}

static int record_once(void *arg)
{
    struct world *w = arg;

    prepare(w);
    (void)start(w);
    finish(w);
    pfl_recording_free(w->recording);
    if (uv_loop_close(&w->loop) != 0)
        return PFL_ESTATE;
    unlink(w->path);
    return 0;
}

static void every_failed_allocation_is_survived(void **state)
{
    static struct world w;

    (void)state;
    pfl_sweep(record_once, &w, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hosts_become_one_file_with_their_clocks_known),
        cmocka_unit_test(a_host_that_misbehaves_at_any_step_leaves_the_other_whole),
        cmocka_unit_test(host_that_dies_while_read_leaves_what_it_had_sent),
        cmocka_unit_test(operators_limit_cuts_a_host_short),
        cmocka_unit_test(host_without_a_measurable_clock_is_recorded_all_the_same),
        cmocka_unit_test(session_that_ends_by_itself_ends_the_others),
        cmocka_unit_test(too_few_hosts_start_nothing),
        cmocka_unit_test(full_disk_ends_the_recording_with_the_reason),
        cmocka_unit_test(path_that_cannot_be_written_costs_no_recording),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
