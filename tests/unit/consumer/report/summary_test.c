/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and words of a recording's end. */
#include "consumer/report/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/report/paint.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define OUT_MAX 65536u

static const struct pfl_summary_host good_host = {
    .name = "a",
    .address = "unix:/a",
    .why = "",
    .is_merged = true,
    .is_reference = true,
    .packets = 10,
    .bytes = 1000,
    .has_losses = true,
};

static struct pfl_summary summary_of(const struct pfl_summary_host *hosts, size_t len)
{
    return (struct pfl_summary){.hosts = hosts,
                                .hosts_len = len,
                                .path = "x.pftrace",
                                .file_bytes = 2000,
                                .why = "",
                                .seconds = 1.5};
}

static enum pfl_exit exit_of(struct pfl_summary_host a, struct pfl_summary_host b)
{
    const struct pfl_summary_host hosts[] = {a, b};
    struct pfl_summary s = summary_of(hosts, 2);

    return pfl_summary_exit(&s);
}

static void exit_code_is_the_worst_that_happened(void **state)
{
    struct pfl_summary_host lossy = good_host;
    struct pfl_summary_host marked = good_host;
    struct pfl_summary_host failed = {.name = "", .address = "x", .why = "refused"};
    struct pfl_summary_host cut = good_host;
    struct pfl_summary_host empty = good_host;
    struct pfl_summary_host unreadable = good_host;
    struct pfl_summary_host skipped = good_host;
    struct pfl_summary s = summary_of(&good_host, 1);

    (void)state;
    lossy.losses.writer_losses = 1;
    marked.loss_marks = 1;
    cut.why = "reading: gone";
    empty.is_empty = true;
    unreadable.unreadable.skipped = 1;
    skipped.unreadable.recovered = 1;
    assert_int_equal(exit_of(good_host, empty), PFL_EXIT_EMPTY);
    assert_int_equal(exit_of(lossy, empty), PFL_EXIT_EMPTY);
    assert_int_equal(exit_of(failed, empty), PFL_EXIT_PARTIAL);
    assert_int_equal(exit_of(good_host, unreadable), PFL_EXIT_LOSS);
    assert_int_equal(exit_of(good_host, skipped), PFL_EXIT_OK);
    assert_int_equal(exit_of(good_host, good_host), PFL_EXIT_OK);
    assert_int_equal(exit_of(good_host, lossy), PFL_EXIT_LOSS);
    assert_int_equal(exit_of(marked, good_host), PFL_EXIT_LOSS);
    assert_int_equal(exit_of(lossy, failed), PFL_EXIT_PARTIAL);
    assert_int_equal(exit_of(good_host, cut), PFL_EXIT_PARTIAL);
    assert_int_equal(exit_of(failed, failed), PFL_EXIT_NOTHING);
    s.is_aborted = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_ABORT);
    s.has_file_failed = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_FILE);
}

static void text_tells_hosts_losses_and_clocks(void **state)
{
    struct pfl_summary_host hosts[3] = {
        good_host, good_host, {.name = "", .address = "tls://c:1", .why = "connecting: no"}};
    struct pfl_summary s = summary_of(hosts, 3);
    struct pfl_buf out;
    const char *text;

    (void)state;
    hosts[1].name = "b";
    hosts[1].is_reference = false;
    hosts[1].has_offset = true;
    hosts[1].offset_ns = 1500000000;
    hosts[1].error_ns = 20000;
    hosts[1].losses.chunks_discarded = 3;
    hosts[1].loss_marks = 2;
    s.has_skew = true;
    s.skew_ns = 250000;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"));
    assert_non_null(strstr(text, "losses 3, clock +1.500000 s +- 0.000020 s\n"));
    assert_non_null(strstr(text, "  lost: 3 chunks discarded"));
    assert_non_null(strstr(text, "  lost: 2 gaps"));
    assert_non_null(strstr(text, "host tls://c:1: FAILED: connecting: no\n"));
    assert_non_null(strstr(text, "start skew: 0.250 ms\n"));
    assert_non_null(strstr(text, "trace x.pftrace: 2000 bytes, 2 of 3 hosts, 1.5 s\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void who_lost_packets_is_named_with_the_setting_that_helps(void **state)
{
    struct pfl_summary_host host = good_host;
    struct pfl_registered_sources sources = {.producers = {{12, "app", false},
                                                           {13, "o\"ther", false},
                                                           {14, "/opt/x/browser --type=gpu", false},
                                                           {15, "/opt/long/name", true}}};
    struct pfl_summary s = summary_of(&host, 1);
    struct pfl_buf out;
    const char *text;

    (void)state;
    host.losses.writer_losses = 9;
    host.lossy_processes = (struct pfl_lossy_processes){{{13, 4}, {99, 5}, {14, 1}, {15, 2}}};
    host.sources = &sources;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "    process 13 \"o\\\"ther\" at 4 places; more shared memory: "
                                 "producers { producer_name: \"o\\\"ther\" shm_size_kb: 4096 }\n"
                                 "    process 99 at 5 places\n"
                                 "    process 14 \"browser\" at 1 places; more shared memory: "
                                 "producers { producer_name: \"/opt/x/browser --type=gpu\" "
                                 "shm_size_kb: 4096 }\n"
                                 "    process 15 \"name\" at 2 places\n"));
    assert_non_null(strstr(text, "\"processes\": ["));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_full_ring_is_no_loss_of_a_session_left_running(void **state)
{
    struct pfl_summary_host host = good_host;
    struct pfl_summary s = summary_of(&host, 1);

    (void)state;
    host.losses.chunks_overwritten = 70;
    host.loss_marks = 2;
    assert_int_equal(pfl_summary_losses(&s, &host), 70);
    s.session = "flight";
    s.is_ring = true;
    assert_int_equal(pfl_summary_losses(&s, &host), 0);
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_OK);
    host.losses.writer_losses = 1;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_LOSS);
}

static void sessions_left_running_are_reported_without_a_trace(void **state)
{
    struct pfl_summary_host hosts[2] = {good_host,
                                        {.name = "b", .address = "b", .why = "connecting: no"}};
    struct pfl_summary s = summary_of(hosts, 2);
    struct pfl_buf out;
    const char *text;

    (void)state;
    s.path = NULL;
    s.session = "flight";
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: started\nhost b: FAILED: connecting: no\n"));
    assert_non_null(strstr(text, "session flight runs on 1 of 2 hosts\n"));
    assert_non_null(strstr(text, "\"running\": true"));
    assert_null(strstr(text, "packets"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_reason_that_was_said_is_not_said_again(void **state)
{
    struct pfl_summary_host hosts[3] = {good_host, good_host, good_host};
    struct pfl_summary s = summary_of(hosts, 3);
    struct pfl_buf out;
    const char *text;

    (void)state;
    hosts[0] = (struct pfl_summary_host){
        .name = "a", .address = "a", .why = "connecting: no", .failed_while = "connecting"};
    hosts[1].name = "b";
    hosts[1].why = "reading: gone";
    hosts[1].failed_while = "reading";
    hosts[1].is_empty = true;
    hosts[2].name = "c";
    hosts[2].why = "reading: given up";
    hosts[2].is_given_up = true;
    hosts[2].fate = PFL_SESSION_LEFT;
    s.session = "flight";
    s.why = "interrupted";
    s.is_aborted = true;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: FAILED while connecting\n"));
    assert_non_null(strstr(text, "  CUT SHORT while reading\n"));
    assert_null(strstr(text, "gone"));
    assert_null(strstr(text, "EMPTY"));
    assert_null(strstr(text, "reading: given up"));
    assert_non_null(strstr(text, "given up: interrupted\n"));
    assert_non_null(
        strstr(text, "session flight is on 1 of 3 hosts still: perfleet read flight -o FILE\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void hosts_that_did_not_answer_may_have_the_session(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static const char *const wanted[] = {
        "session flight is on 1 of 8 hosts still: perfleet read flight -o FILE\n",
        "session flight is on 1 of 8 hosts still, b did not answer: perfleet read flight -o FILE\n",
        "session flight is on 1 of 8 hosts still, b and c did not answer: perfleet read",
        "session flight is on 1 of 8 hosts still, b, c and d did not answer: perfleet read",
        "still, b, c, d and e did not answer: ",
        "still, b, c, d, e and f did not answer: ",
        "still, b, c, d, e, f and 1 more did not answer: ",
        "still, b, c, d, e, f and 2 more did not answer: "};

    (void)state;
    for (size_t unknown = 0; unknown < 8; unknown++) {
        struct pfl_summary_host hosts[8];
        struct pfl_summary s = summary_of(hosts, 8);
        struct pfl_buf out;

        for (size_t i = 0; i < 8; i++) {
            hosts[i] = good_host;
            hosts[i].name = names[i];
            hosts[i].fate = i == 0         ? PFL_SESSION_LEFT
                            : i <= unknown ? PFL_SESSION_UNKNOWN
                                           : PFL_SESSION_GONE;
        }
        s.session = "flight";
        pfl_buf_init(&out, OUT_MAX);
        assert_int_equal(pfl_summary_text(&s, &out), 0);
        assert_int_equal(pfl_summary_json(&s, &out), 0);
        assert_int_equal(pfl_buf_append(&out, "", 1), 0);
        assert_non_null(strstr((const char *)out.data, wanted[unknown]));
        assert_int_equal(strstr((const char *)out.data, "\"session_unknown\": true") != NULL,
                         unknown != 0);
        pfl_buf_clear(&out);
        hosts[0].fate = PFL_SESSION_GONE;
        assert_int_equal(pfl_summary_text(&s, &out), 0);
        assert_int_equal(pfl_buf_append(&out, "", 1), 0);
        assert_int_equal(strstr((const char *)out.data, "session flight") != NULL, unknown != 0);
        if (unknown == 1)
            assert_non_null(strstr(
                (const char *)out.data,
                "session flight may still be on b, which did not answer: see perfleet ps\n"));
        pfl_buf_fini(&out);
    }
    pfl_sweep_assert_no_leak();
}

static void what_was_read_and_not_written_is_reported(void **state)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;

    (void)state;
    s.has_file_failed = true;
    s.file_bytes = 400;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)out.data,
                           "  lost: 600 bytes that were read and could not be written\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void json_carries_exit_code_and_hosts(void **state)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)out.data, "\"exit_code\": 0"));
    assert_non_null(strstr((const char *)out.data, "\"packets\": 10"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int json_once(void *arg)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, OUT_MAX);
    rc = pfl_summary_json(&s, &out);
    if (rc == 0)
        rc = pfl_summary_text(&s, &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(json_once, NULL, true);
}

/* 500 hosts, one missing, one cut short, one with losses. */
static void of_many_hosts_those_with_a_remark_are_listed(void **state)
{
    static struct pfl_summary_host hosts[500];
    static char names[500][16];
    struct pfl_summary summary = {
        .hosts = hosts, .hosts_len = 500, .path = "f", .why = "", .file_bytes = 1};
    struct pfl_buf out;
    const char *text;
    size_t lines = 0;

    (void)state;
    pfl_buf_init(&out, 1u << 16);
    for (size_t i = 0; i < 500; i++) {
        snprintf(names[i], sizeof(names[i]), "web%zu", i + 1);
        hosts[i] = (struct pfl_summary_host){.name = names[i],
                                             .address = names[i],
                                             .why = "",
                                             .is_merged = true,
                                             .has_losses = true};
    }
    hosts[6].is_merged = false;
    hosts[6].why = "nobody there";
    hosts[8].why = "the connection was lost";
    hosts[9].losses.writer_losses = 3;
    assert_int_equal(pfl_summary_text(&summary, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_in_range(lines, 7, 8);
    assert_non_null(
        strstr(text, "\nINCOMPLETE: 498 of 500 complete; not web7 (missing), web9 (cut short)\n"));
    assert_non_null(strstr(text, "host web7: FAILED: nobody there\n"));
    assert_null(strstr(text, "web8:"));
    assert_non_null(strstr(text, "host web10: "));
    pfl_buf_fini(&out);
}

static void paint_marks_what_is_bad_and_what_is_lost(void **state)
{
    static const char text[] = "host a: FAILED: x\nhost b: 1 packets\n  lost: 3 chunks\nend";
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 1u << 16);
    assert_int_equal(pfl_paint_lines(pfl_span_of(text, strlen(text)), &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data,
                        "\033[31mhost a: FAILED: x\033[0m\nhost b: 1 packets\n"
                        "\033[33m  lost: 3 chunks\033[0m\nend");
    pfl_buf_fini(&out);
}

static void files_of_a_rotation_are_named(void **state)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;

    (void)state;
    s.first_file = "x-0003.pftrace";
    s.last_file = "x-0004.pftrace";
    s.files = 2;
    s.removed_files = 2;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data,
                           "trace x-0003.pftrace to x-0004.pftrace: 2 files (2 older removed), "
                           "2000 bytes in all, 1 of 1 hosts, 1.5 s\n"));
    pfl_buf_clear(&out);
    s.partial = "x-0005.pftrace.part";
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data,
                           "what came of the last file is in x-0005.pftrace.part, a readable "
                           "trace\n"));
    s.partial = NULL;
    pfl_buf_clear(&out);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data, "\"last\""));
    pfl_buf_fini(&out);
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_OK);
    s.is_disk_low = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_FILE);
    s.is_aborted = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_ABORT);
}

/* All of a summary's text, which fits whole or not at all. */
static void expect_text(const struct pfl_summary *s, const char *text)
{
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, text);
    pfl_buf_fini(&out);
    for (size_t max = 1; max < strlen(text); max++) {
        pfl_buf_init(&out, max);
        assert_int_equal(pfl_summary_text(s, &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
}

static void whatever_there_is_to_say_of_a_host_is_said_once_and_in_this_order(void **state)
{
    struct pfl_summary_host host = good_host;
    struct pfl_summary s = summary_of(&host, 1);

    (void)state;
    host.trigger = "oom";
    host.is_reference = false;
    host.has_offset = true;
    host.offset_ns = -2500000000;
    host.error_ns = 1000;
    host.drift_ns = 1500;
    host.losses.chunks_overwritten = 4;
    host.losses.invalid_packets = 1;
    host.loss_marks = 2;
    host.refused_packets = 3;
    host.unreadable.skipped = 5;
    host.unreadable.recovered = 6;
    host.unrepeated_packets = 8;
    host.resumes = 7;
    host.fate = PFL_SESSION_NOT_REMOVED;
    s.session = "night";
    expect_text(
        &s, "host a raised trigger oom\n"
            "host a: 10 packets, 1000 bytes, losses 13, clock -2.500000 s +- 0.000001 s, "
            "drifting +1.5 us\n"
            "  lost: 4 chunks overwritten (the buffer is too small for a ring)\n"
            "  lost: 1 malformed packets from producers\n"
            "  lost: 2 gaps marked by the packets after them\n"
            "  lost: 3 packets that are malformed, too long or cannot be decoded\n"
            "  lost: 5 packets that refer to interned data (names) which was overwritten: add "
            "incremental_state_config { clear_period_ms: 5000 } to the config\n"
            "  note: 6 packets before the first whole interned data (names) of their sequences "
            "are skipped by readers\n"
            "  note: 8 packets that each file should have (configs, clocks, descriptors) are in "
            "one alone: the hosts share a quarter of --rotate-size, 4 MiB each at most\n"
            "  note: its connection was lost and resumed 7 times\n"
            "  note: session night was read, and still exists: perfleet kill\n"
            "trace x.pftrace: 2000 bytes, 1 of 1 hosts\n");
    s.is_ring = true;
    host = good_host;
    host.losses.chunks_overwritten = 4;
    host.losses.flushes_failed = 1;
    host.loss_marks = 2;
    expect_text(&s, "host a: 10 packets, 1000 bytes, losses 1, clock reference\n"
                    "  note: 4 chunks overwritten, as a full ring does\n"
                    "  lost: 1 flushes not answered in time\n"
                    "trace x.pftrace: 2000 bytes, 1 of 1 hosts\n");
    host.losses.chunks_overwritten = 0;
    expect_text(&s, "host a: 10 packets, 1000 bytes, losses 2, clock reference\n"
                    "  lost: 1 flushes not answered in time\n"
                    "  lost: 2 gaps marked by the packets after them\n"
                    "trace x.pftrace: 2000 bytes, 1 of 1 hosts\n");
    pfl_sweep_assert_no_leak();
}

static void hosts_without_data_counters_or_a_clock_say_so(void **state)
{
    struct pfl_summary_host hosts[] = {good_host, good_host, good_host};
    struct pfl_summary s = summary_of(hosts, 3);

    (void)state;
    hosts[0].is_empty = true;
    hosts[0].has_losses = false;
    hosts[0].loss_marks = 1;
    hosts[1].name = "";
    hosts[1].is_reference = false;
    hosts[1].is_empty = true;
    hosts[1].why = "reading: gone";
    hosts[2].name = "c";
    hosts[2].why = "aborted";
    hosts[2].is_given_up = true;
    s.why = "aborted";
    s.is_aborted = true;
    s.partial = "x.part";
    expect_text(&s,
                "host a: 10 packets, 1000 bytes, losses 1, clock reference\n"
                "  EMPTY: no data source wrote anything there: are their programs running, and the "
                "names right? See perfleet doctor\n"
                "  lost: 1 gaps marked by the packets after them\n"
                "  the service did not report its counters\n"
                "host unix:/a: 10 packets, 1000 bytes, losses 0, clock not measured: placed by its "
                "wall clock\n"
                "  CUT SHORT: reading: gone\n"
                "host c: 10 packets, 1000 bytes, losses 0, clock reference\n"
                "given up: aborted\n"
                "what came is in x.part: 2000 bytes, a readable trace\n"
                "INCOMPLETE: 1 of 3 complete; not unix:/a (cut short), c (cut short)\n"
                "trace x.pftrace: 2000 bytes, 3 of 3 hosts, 1.5 s\n");
    s.is_aborted = false;
    s.files = 1;
    s.first_file = "x-1";
    s.why = "";
    hosts[0] = hosts[2] = good_host;
    hosts[1] = (struct pfl_summary_host){.name = "b", .address = "x", .why = "refused"};
    expect_text(&s, "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"
                    "host b: FAILED: refused\n"
                    "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"
                    "what came of the last file is in x.part, a readable trace\n"
                    "INCOMPLETE: 2 of 3 complete; not b (missing)\n"
                    "trace x-1: 1 file, 2000 bytes in all, 2 of 3 hosts, 1.5 s\n");
    pfl_sweep_assert_no_leak();
}

static void what_hosts_keep_and_what_did_not_start_is_said(void **state)
{
    struct pfl_summary_host hosts[] = {good_host, good_host};
    struct pfl_summary s = summary_of(hosts, 2);

    (void)state;
    hosts[0].fate = hosts[1].fate = PFL_SESSION_KEPT;
    s.kept_session = "s1";
    expect_text(&s, "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"
                    "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"
                    "2 of 2 hosts keep what was not read: perfleet read s1 -o FILE gets it, "
                    "perfleet kill s1 throws it away\n"
                    "trace x.pftrace: 2000 bytes, 2 of 2 hosts, 1.5 s\n");
    s.has_no_source = true;
    s.why = "no host offers x";
    expect_text(&s, "not started: no host offers x\n");
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_EMPTY);
    s.is_disk_low = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_FILE);
    s.is_aborted = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_EMPTY);
    s.has_no_source = false;
    hosts[0].is_merged = hosts[1].is_merged = false;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_NOTHING);
}

static void json_has_what_a_host_and_the_whole_have_beyond_numbers(void **state)
{
    static const char *const parts[] = {
        "\"trigger\": \"oom\"",       "\"kept_session\": \"s1\"", "\"empty\": true",
        "\"clock_reference\": false", "\"clock_offset_ns\": -5",  "\"clock_error_ns\": 6",
        "\"clock_drift_ns\": 7",      "\"partial\": \"x.part\"",  "\"start_skew_ns\": 8",
        "\"error\": \"the whole\"",
    };
    struct pfl_summary_host host = good_host;
    struct pfl_summary s = summary_of(&host, 1);
    struct pfl_buf out;

    (void)state;
    host.trigger = "oom";
    host.fate = PFL_SESSION_KEPT;
    host.is_empty = true;
    host.is_reference = false;
    host.has_offset = true;
    host.offset_ns = -5;
    host.error_ns = 6;
    host.drift_ns = 7;
    s.kept_session = "s1";
    s.partial = "x.part";
    s.has_skew = true;
    s.skew_ns = 8;
    s.why = "the whole";
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr((const char *)pfl_buf_get(&out).data, parts[i]) == NULL)
            fail_msg("%s is not in %s", parts[i], (const char *)pfl_buf_get(&out).data);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static const char *pick_text(const char *a, const char *b)
{
    uint64_t which = pfl_pick(3);

    return which == 0 ? a : which == 1 ? b : "";
}

/* Most numbers are 0, so that lines are missing. */
static uint64_t pick_number(uint64_t below)
{
    return pfl_pick(3) == 0 ? pfl_pick(below) : 0;
}

static void pick_losses(struct pfl_losses *l)
{
    l->chunks_overwritten = pick_number(1000);
    l->chunks_discarded = pick_number(1000);
    l->writer_losses = pick_number(1000);
    l->patches_failed = pick_number(1000);
    l->abi_violations = pick_number(1000);
    l->invalid_packets = pick_number(1000);
    l->flushes_failed = pick_number(1000);
    l->service_chunks_discarded = pick_number(1000);
    l->service_patches_discarded = pick_number(1000);
}

static void pick_host(struct pfl_summary_host *h, const struct pfl_registered_sources *sources)
{
    bool is_bad = pfl_pick(4) == 0;

    *h = (struct pfl_summary_host){.name = pick_text("a", "host-b"), .address = "tls://c:1"};
    h->why = is_bad ? "gone" : "";
    h->failed_while = pfl_pick(2) == 0 ? "reading" : NULL;
    h->is_given_up = is_bad && pfl_pick(3) == 0;
    h->trigger = pfl_pick(4) != 0 ? NULL : pick_text("oom", "x\xff");
    h->is_merged = pfl_pick(5) != 0;
    h->is_reference = pfl_pick(3) == 0;
    h->packets = pfl_pick(100000);
    h->bytes = pfl_pick(100000);
    h->sequences = (uint32_t)pfl_pick(20);
    h->fate = pfl_pick(2) == 0 ? (enum pfl_session_fate)pfl_pick(PFL_SESSION_UNKNOWN + 1) : 0;
    h->resumes = (unsigned)pick_number(4);
    h->read_seconds = (double)pick_number(40) / 8;
    h->loss_marks = pick_number(500);
    h->refused_packets = pick_number(10);
    h->unreadable.skipped = pick_number(10);
    h->unreadable.recovered = pick_number(10);
    for (unsigned i = (unsigned)pfl_pick(PFL_LOSSY_PROCESSES_MAX + 1); i-- > 0;)
        h->lossy_processes.list[i] =
            (struct pfl_lossy_process){.pid = 1 + i, .marks = 1 + pfl_pick(9)};
    h->sources = pfl_pick(4) != 0 ? sources : NULL;
    h->is_empty = pfl_pick(6) == 0;
    h->has_losses = pfl_pick(6) != 0;
    pick_losses(&h->losses);
    h->has_offset = pfl_pick(4) != 0;
    h->offset_ns = (int64_t)pfl_pick(2000000000) - 1000000000;
    h->drift_ns = (int64_t)pick_number(200000) - 1000;
    h->error_ns = (int64_t)pfl_pick(1000000);
}

static void pick_summary(struct pfl_summary *s)
{
    s->path = pfl_pick(5) != 0 ? "x.pftrace" : NULL;
    s->session = pfl_pick(3) == 0 || s->path == NULL ? "night" : NULL;
    s->is_ring = pfl_pick(3) == 0;
    s->partial = pfl_pick(4) == 0 ? "x.part" : NULL;
    s->kept_session = "kept";
    s->file_bytes = pfl_pick(200000);
    s->files = (uint32_t)pick_number(4);
    s->first_file = "x-1";
    s->last_file = "x-3";
    s->removed_files = (uint32_t)pick_number(4);
    s->why = pfl_pick(4) == 0 ? "no room" : "";
    s->is_aborted = pfl_pick(5) == 0;
    s->has_file_failed = pfl_pick(5) == 0;
    s->is_disk_low = pfl_pick(5) == 0;
    s->has_no_source = pfl_pick(30) == 0;
    s->has_skew = pfl_pick(2) == 0;
    s->skew_ns = (int64_t)pfl_pick(1000000000);
    s->seconds = (double)pfl_pick(1000) / 8;
}

static void summaries_of_random_recordings_are_those_that_were_recorded(void **state)
{
    static struct pfl_registered_sources sources = {
        .producers = {{1, "app", false}, {2, "/opt/x --y", false}, {4, "/opt/long", true}}};
    static struct pfl_summary_host hosts[23];

    (void)state;
    pfl_record_begin();
    for (unsigned i = 0; i < 3000; i++) {
        struct pfl_summary s = {.hosts = hosts,
                                .hosts_len = pfl_pick(10) != 0 ? pfl_pick(4) : 18 + pfl_pick(6)};
        struct pfl_buf out;

        for (size_t k = 0; k < s.hosts_len; k++)
            pick_host(&hosts[k], &sources);
        pick_summary(&s);
        pfl_buf_init(&out, OUT_MAX);
        assert_int_equal(pfl_summary_text(&s, &out), 0);
        assert_int_equal(pfl_summary_json(&s, &out), 0);
        pfl_record_bytes("summary", pfl_buf_get(&out));
        pfl_record("exit %d", (int)pfl_summary_exit(&s));
        pfl_buf_fini(&out);
    }
    pfl_assert_recorded(0xb92d30692b9aa333);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_rotation_are_named),
        cmocka_unit_test(of_many_hosts_those_with_a_remark_are_listed),
        cmocka_unit_test(paint_marks_what_is_bad_and_what_is_lost),
        cmocka_unit_test(exit_code_is_the_worst_that_happened),
        cmocka_unit_test(text_tells_hosts_losses_and_clocks),
        cmocka_unit_test(who_lost_packets_is_named_with_the_setting_that_helps),
        cmocka_unit_test(a_full_ring_is_no_loss_of_a_session_left_running),
        cmocka_unit_test(sessions_left_running_are_reported_without_a_trace),
        cmocka_unit_test(a_reason_that_was_said_is_not_said_again),
        cmocka_unit_test(hosts_that_did_not_answer_may_have_the_session),
        cmocka_unit_test(what_was_read_and_not_written_is_reported),
        cmocka_unit_test(json_carries_exit_code_and_hosts),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(whatever_there_is_to_say_of_a_host_is_said_once_and_in_this_order),
        cmocka_unit_test(hosts_without_data_counters_or_a_clock_say_so),
        cmocka_unit_test(what_hosts_keep_and_what_did_not_start_is_said),
        cmocka_unit_test(json_has_what_a_host_and_the_whole_have_beyond_numbers),
        cmocka_unit_test(summaries_of_random_recordings_are_those_that_were_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
