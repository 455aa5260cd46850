/* SPDX-License-Identifier: Apache-2.0 */
/* Whole recordings of two played hosts, one of which misbehaves at every step in every way. */
#include "consumer/recording/recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <zstd.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/recording/recording_world.h"

static void assert_complete(const struct recording_world *w, size_t host)
{
    struct pfl_recording_host h = recording_world_result(w, host);

    assert_string_equal(h.report->why, "");
    assert_int_equal(h.state, PFL_HOST_DONE);
    assert_int_equal(h.merged.packets, PACKETS);
    assert_int_equal(h.merged.refused_packets, 0);
}

static void two_hosts_become_one_file_with_their_clocks_known(void **state)
{
    struct recording_world w;
    struct pfl_recording_host h;

    (void)state;
    recording_world_prepare(&w);
    recording_world_run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_int_equal(recording_world_count_packets(&w), 2 * PACKETS + PREAMBLE);
    h = recording_world_result(&w, 0);
    assert_true(h.is_reference);
    h = recording_world_result(&w, 1);
    assert_true(h.has_offset);
    assert_true(h.offset_ns > OFFSET_NS - CLOCK_SLOP && h.offset_ns < OFFSET_NS + CLOCK_SLOP);
    assert_true(h.offset_ns >= OFFSET_NS - h.error_ns && h.offset_ns <= OFFSET_NS + h.error_ns);
    recording_world_fini(&w);
}

struct misdeed {
    const char *method;
    enum fake_trick trick;
    enum pfl_host_recording_state fails_in; /* PFL_HOST_DONE: it is survived */
};

static const struct misdeed misdeeds[] = {
    {"EnableTracing", FAKE_SILENT, PFL_HOST_SETUP},
    {"EnableTracing", FAKE_DIES, PFL_HOST_SETUP},
    {"EnableTracing", FAKE_GARBAGE, PFL_HOST_SETUP},
    {"EnableTracing", FAKE_FAILS, PFL_HOST_SETUP},
    {"GetTraceStats", FAKE_SILENT, PFL_HOST_SETUP},
    {"GetTraceStats", FAKE_DIES, PFL_HOST_SETUP},
    {"GetTraceStats", FAKE_FAILS, PFL_HOST_SETUP},
    {"StartTracing", FAKE_SILENT, PFL_HOST_STARTING},
    {"StartTracing", FAKE_DIES, PFL_HOST_STARTING},
    {"StartTracing", FAKE_GARBAGE, PFL_HOST_STARTING},
    {"StartTracing", FAKE_FAILS, PFL_HOST_STARTING},
    {"Flush", FAKE_SILENT, PFL_HOST_FLUSHING},
    {"Flush", FAKE_DIES, PFL_HOST_FLUSHING},
    {"Flush", FAKE_GARBAGE, PFL_HOST_FLUSHING},
    {"Flush", FAKE_FAILS, PFL_HOST_DONE},
    {"DisableTracing", FAKE_SILENT, PFL_HOST_DISABLING},
    {"DisableTracing", FAKE_DIES, PFL_HOST_DISABLING},
    {"ReadBuffers", FAKE_SILENT, PFL_HOST_READING},
    {"ReadBuffers", FAKE_DIES, PFL_HOST_READING},
    {"ReadBuffers", FAKE_GARBAGE, PFL_HOST_READING},
    {"ReadBuffers", FAKE_FAILS, PFL_HOST_READING},
    {"FreeBuffers", FAKE_SILENT, PFL_HOST_DONE},
    {"FreeBuffers", FAKE_DIES, PFL_HOST_DONE},
    {"FreeBuffers", FAKE_FAILS, PFL_HOST_DONE},
};

/* The other, too, has no more time than a step: on a slow machine all is tried again with more. */
static void run_misdeed(struct recording_world *w, const struct misdeed *m, size_t culprit)
{
    uint32_t step_ms = m->trick == FAKE_SILENT ? SILENCE_MS : STEP_MS;
    struct pfl_recording_host h;

    for (;; step_ms *= 8, recording_world_fini(w)) {
        recording_world_prepare(w);
        w->step_ms = step_ms;
        w->fakes[culprit].trick = m->trick;
        w->fakes[culprit].method = m->method;
        recording_world_run(w);
        h = recording_world_result(w, culprit);
        if (step_ms >= STEP_MS ||
            (recording_world_result(w, 1 - culprit).state == PFL_HOST_DONE &&
             (m->fails_in == PFL_HOST_DONE || h.report->failed_in == m->fails_in)))
            return;
    }
}

static void commit_misdeed(const struct misdeed *m, size_t culprit)
{
    struct recording_world w;
    struct pfl_recording_host h;

    run_misdeed(&w, m, culprit);
    assert_complete(&w, 1 - culprit);
    assert_true(recording_world_count_packets(&w) >= PACKETS + 2);
    h = recording_world_result(&w, culprit);
    if (m->fails_in == PFL_HOST_DONE) {
        assert_complete(&w, culprit);
    } else {
        assert_int_equal(h.state, PFL_HOST_FAILED);
        assert_int_equal(h.report->failed_in, m->fails_in);
        assert_true(strlen(h.report->why) > strlen(pfl_host_recording_state_str(m->fails_in)) + 2);
    }
    recording_world_fini(&w);
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
    struct recording_world w;
    struct pfl_recording_host h;

    (void)state;
    recording_world_prepare(&w);
    w.fakes[1].trick = FAKE_HALF;
    recording_world_run(&w);
    assert_complete(&w, 0);
    h = recording_world_result(&w, 1);
    assert_true(h.report->is_cut_short);
    assert_int_equal(h.merged.packets, PACKETS / 2 + 1);
    assert_int_equal(recording_world_count_packets(&w), PACKETS + PACKETS / 2 + 1 + PREAMBLE);
    recording_world_fini(&w);
}

static void operators_limit_cuts_a_host_short(void **state)
{
    struct recording_world w;
    struct pfl_recording_host h;

    (void)state;
    recording_world_prepare(&w);
    w.read_limit = 20000;
    w.fakes[0].packets = 10;
    w.fakes[1].packets = 100;
    w.fakes[1].packet_bytes = 400;
    recording_world_run(&w);
    assert_int_equal(recording_world_result(&w, 0).state, PFL_HOST_DONE);
    h = recording_world_result(&w, 1);
    assert_true(h.report->is_cut_short);
    assert_non_null(strstr(h.report->why, "more than --max-host-mib"));
    assert_true(h.report->bytes_read <= 20000 && h.report->bytes_read > 19000);
    recording_world_fini(&w);
}

/* A packet that holds `len` zeros in another one, compressed; in `out`. */
static struct pfl_span make_compressed(size_t len, uint8_t *out, size_t room)
{
    struct pfl_writer packed = pfl_writer_of(out, room);
    uint8_t *plain = pfl_mem_zalloc(3 * len + 32);
    uint8_t *inner = plain + len + 8;
    uint8_t *trace = inner + len + 8;
    struct pfl_writer w = pfl_writer_of(inner, len + 8);
    uint8_t frame[512];
    size_t size;

    pfl_writer_field_bytes(&w, 900, plain, len);
    size = len + 8 - w.left;
    w = pfl_writer_of(trace, len + 16);
    pfl_writer_field_bytes(&w, 1, inner, size);
    size = ZSTD_compress(frame, sizeof(frame), trace, len + 16 - w.left, 1);
    assert_false(ZSTD_isError(size) || w.failed);
    pfl_writer_field_bytes(&packed, 133, frame, size);
    pfl_mem_free(plain);
    assert_false(packed.failed);
    return pfl_span_of(out, room - packed.left);
}

static void what_a_host_compressed_is_in_the_file(void **state)
{
    struct recording_world w;
    uint8_t packet[512];

    (void)state;
    recording_world_prepare(&w);
    w.fakes[1].last = make_compressed(1000, packet, sizeof(packet));
    recording_world_run(&w);
    assert_complete(&w, 0);
    assert_int_equal(recording_world_result(&w, 1).merged.decoded_packets, 1);
    assert_int_equal(recording_world_result(&w, 1).merged.refused_packets, 0);
    assert_int_equal(recording_world_count_packets(&w), 2 * PACKETS + 1 + PREAMBLE);
    recording_world_fini(&w);
}

static void what_a_host_compressed_counts_as_if_it_were_plain(void **state)
{
    struct recording_world w;
    struct pfl_recording_host h;
    uint8_t packet[512];

    (void)state;
    recording_world_prepare(&w);
    w.read_limit = 20000;
    w.fakes[0].packets = w.fakes[1].packets = 10;
    w.fakes[1].last = make_compressed(20000, packet, sizeof(packet));
    assert_true(w.fakes[1].last.len < 200);
    recording_world_run(&w);
    assert_int_equal(recording_world_result(&w, 0).state, PFL_HOST_DONE);
    h = recording_world_result(&w, 1);
    assert_int_equal(h.state, PFL_HOST_FAILED);
    assert_true(h.report->is_cut_short);
    assert_non_null(strstr(h.report->why, "more than --max-host-mib"));
    recording_world_fini(&w);
}

static void host_without_a_measurable_clock_is_recorded_all_the_same(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.fakes[0].trick = FAKE_NO_NOTES;
    recording_world_run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_false(recording_world_result(&w, 0).has_offset);
    assert_false(recording_world_result(&w, 0).is_reference);
    assert_true(recording_world_result(&w, 1).is_reference);
    recording_world_fini(&w);
}

static void session_that_ends_by_itself_ends_the_others(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.is_left_running = true;
    w.fakes[1].trick = FAKE_ENDS;
    recording_world_run(&w);
    assert_complete(&w, 0);
    assert_complete(&w, 1);
    assert_true(recording_world_result(&w, 1).report->has_ended_itself);
    assert_false(recording_world_result(&w, 0).report->has_ended_itself);
    recording_world_fini(&w);
}

static void too_few_hosts_start_nothing(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.quorum = 2;
    w.fakes[1].trick = FAKE_FAILS;
    w.fakes[1].method = "EnableTracing";
    recording_world_run(&w);
    assert_false(w.has_run);
    assert_int_equal(w.fakes[0].started_order, -1);
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "1 of 2"));
    recording_world_fini(&w);
}

static void full_disk_ends_the_recording_with_the_reason(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/dev/full");
    recording_world_run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "No space"));
    w.path[0] = '\0';
    recording_world_fini(&w);
}

static void aborted_recording_leaves_the_old_file(void **state)
{
    struct recording_world w;
    struct stat st;
    FILE *f;

    (void)state;
    recording_world_prepare(&w);
    f = fopen(w.path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("old", 1, 3, f), 3);
    fclose(f);
    w.fakes[0].trick = w.fakes[1].trick = FAKE_FAILS;
    w.fakes[0].method = w.fakes[1].method = "StartTracing";
    recording_world_run(&w);
    assert_int_equal(stat(w.path, &st), 0);
    assert_int_equal(st.st_size, 3);
    recording_world_fini(&w);
}

static void what_a_full_disk_leaves_on_the_hosts_is_kept_there(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/dev/full");
    w.fakes[0].packets = w.fakes[1].packets = 40000; /* more than is on the way at once */
    w.fakes[0].packet_bytes = w.fakes[1].packet_bytes = 400;
    recording_world_run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    w.path[0] = '\0';
    recording_world_fini(&w);
}

static void file_that_was_removed_leaves_the_data_on_the_hosts(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.loses_file = true;
    recording_world_run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "was removed or moved"));
    assert_null(pfl_recording_get_partial(w.recording));
    for (size_t i = 0; i < HOSTS; i++) {
        struct pfl_recording_host h = recording_world_result(&w, i);

        assert_true(h.report->is_given_up);
        assert_int_equal(h.report->failed_in, PFL_HOST_STOPPED);
        assert_int_equal(h.report->bytes_read, 0);
    }
    recording_world_fini(&w);
}

static void path_that_cannot_be_written_costs_no_recording(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/does/not/exist");
    recording_world_run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_false(w.has_run);
    assert_int_equal(w.fakes[0].started_order, -1);
    recording_world_fini(&w);
}

static int record_once(void *arg)
{
    struct recording_world *w = arg;

    recording_world_prepare(w);
    (void)recording_world_start(w);
    recording_world_finish(w);
    pfl_recording_free(w->recording);
    if (uv_loop_close(&w->loop) != 0)
        return PFL_ESTATE;
    unlink(w->path);
    return 0;
}

static void every_failed_allocation_is_survived(void **state)
{
    static struct recording_world w;

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
        cmocka_unit_test(what_a_host_compressed_is_in_the_file),
        cmocka_unit_test(what_a_host_compressed_counts_as_if_it_were_plain),
        cmocka_unit_test(host_without_a_measurable_clock_is_recorded_all_the_same),
        cmocka_unit_test(session_that_ends_by_itself_ends_the_others),
        cmocka_unit_test(too_few_hosts_start_nothing),
        cmocka_unit_test(full_disk_ends_the_recording_with_the_reason),
        cmocka_unit_test(aborted_recording_leaves_the_old_file),
        cmocka_unit_test(what_a_full_disk_leaves_on_the_hosts_is_kept_there),
        cmocka_unit_test(file_that_was_removed_leaves_the_data_on_the_hosts),
        cmocka_unit_test(path_that_cannot_be_written_costs_no_recording),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
